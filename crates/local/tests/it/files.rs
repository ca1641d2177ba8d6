//! Files that are models, and files that are none.

use std::fs;

use bowline_llm::{ErrorKind, Message};
use bowline_local::pull::{self, Pull, PullError, Source};
use bowline_local::{Header, Way};
use pretty_assertions::assert_eq;

use crate::{Place, ask, gguf, request};

#[test]
fn a_file_says_what_it_is() {
    let model = gguf::Model {
        template: Some(gguf::PLAIN),
        context_length: Some(640),
        ..gguf::Model::default()
    };
    let place = Place::new(&model);
    let header = Header::read(&place.path()).unwrap();
    let expected = Header {
        architecture: "llama".to_owned(),
        context_length: Some(640),
        chat_template: Some(gguf::PLAIN.to_owned()),
    };
    assert_eq!(header, expected);
    let model = place.open();
    // A template without tools is of no use for calls.
    assert_eq!(model.way(), Way::Lines);
}

#[test]
fn what_is_no_model_is_told_in_one_line() {
    let place = Place::new(&gguf::Model::default());
    fs::write(place.path(), "no model").unwrap();
    let error = place.open_with(None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.ends_with("made-up.gguf: this is no GGUF file"), "{error}");
    fs::remove_file(place.path()).unwrap();
    assert_eq!(place.open_with(None).unwrap_err().kind, ErrorKind::NotFound);
    let bert = gguf::Model { family: Some("nomic-bert-moe"), ..gguf::Model::default() };
    let error = Place::new(&bert).open_with(None).unwrap_err();
    assert!(
        error.message.ends_with("a model of the family nomic-bert-moe cannot converse"),
        "{error}"
    );
    // With a template that cannot be read there are still plain lines.
    let broken = gguf::Model { template: Some("{% if tools %}"), ..gguf::Model::default() };
    assert_eq!(Place::new(&broken).open().way(), Way::Lines);
}

#[test]
fn a_file_that_breaks_off_is_told_when_it_is_loaded() {
    let place = Place::new(&gguf::Model::default());
    let bytes = fs::read(place.path()).unwrap();
    let model = place.open();
    fs::write(place.path(), &bytes[..bytes.len() / 2]).unwrap();
    let error = ask(&model, request(vec![Message::user("Hi")], &[])).error();
    assert!(error.message.contains("made-up.gguf: it is damaged"), "{error}");
    // Once it is whole again the next request is answered.
    fs::write(place.path(), &bytes).unwrap();
    ask(&model, request(vec![Message::user("Hi")], &[])).response();
}

/// Waits for what runs within tokio.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn pull_of(place: &Place, sha256: Option<&str>) -> Pull {
    Pull {
        source: Source::File(place.path()),
        sha256: sha256.map(str::to_owned),
        folder: place.folder.path().join("kept"),
        proxy: bowline_llm::http::Proxy::default(),
    }
}

#[test]
fn a_pulled_file_is_checked_before_it_is_kept() {
    let place = Place::new(&gguf::Model::default());
    let wrong = pull_of(&place, Some(&"0".repeat(64)));
    let error = block_on(pull::pull(&wrong, &mut |_, _| {})).unwrap_err();
    let PullError::Sum { found, .. } = error else { panic!("{error}") };
    assert_eq!(fs::read_dir(&wrong.folder).unwrap().count(), 0);
    let right = pull_of(&place, Some(&found.to_uppercase()));
    let mut told = Vec::new();
    let pulled = block_on(pull::pull(&right, &mut |come, all| told.push((come, all)))).unwrap();
    assert_eq!((pulled.name.as_str(), &pulled.sha256), ("made-up", &found));
    assert_eq!(told.first(), Some(&(0, Some(pulled.bytes))));
    assert_eq!(told.last(), Some(&(pulled.bytes, Some(pulled.bytes))));
    assert_eq!(fs::read(&pulled.path).unwrap(), fs::read(place.path()).unwrap());
    assert_eq!(pull::kept(&right.folder), ["made-up"]);
    assert!(block_on(pull::pull(&right, &mut |_, _| {})).unwrap().was_there);
    fs::write(place.path(), "no model").unwrap();
    let error = block_on(pull::pull(&pull_of(&place, None), &mut |_, _| {})).unwrap_err();
    assert!(error.to_string().contains("this is no GGUF file; nothing was kept"), "{error}");
    assert_eq!(fs::read(&pulled.path).unwrap().len() as u64, pulled.bytes, "the old one stays");
    assert_eq!(fs::read_dir(&right.folder).unwrap().count(), 1);
}
