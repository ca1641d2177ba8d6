//! What happens when the model that runs cannot answer and others are configured.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::Value;
use support::{Home, Provider, Reply};

const BUSY: &str = r#"{"error":{"message":"busy","type":"server_error"}}"#;

fn failing(status: u16) -> Provider {
    Provider::answering(move |_| Reply::Status(status, BUSY.to_owned()))
}

fn saying(text: &'static str) -> Provider {
    Provider::answering(move |_| Reply::Text(text.to_owned()))
}

/// Makes a home whose model is of `first`, and which falls back to `second`.
fn home(first: &Provider, second: &Provider) -> Home {
    let url = second.base_url();
    let price = "models.spare = { price = { input = 1000.0, output = 0.0 } }";
    let config = format!(
        "fallback = [\"second/spare:low\"]\n[providers.second]\nbase_url = \"{url}\"\n{price}\n"
    );
    Home::with(first, &config)
}

#[test]
fn another_model_answers_is_named_and_costs_its_own_price() {
    let (first, second) = (failing(503), saying("from the other"));
    let home = home(&first, &second);
    for arguments in [&["exec", "go"][..], &["exec", "--model", "test/explicit", "go"]] {
        let (code, out, err) = home.run(arguments);
        assert_eq!((code, &*out), (0, "from the other\n"), "{err}");
        assert!(!err.contains("no effect"), "{err}");
    }
    let asked = second.requests();
    assert_eq!((asked[0]["model"].as_str(), first.requests().len()), (Some("spare"), 2));
    assert_eq!(asked[0]["reasoning_effort"], "low");
    let entries = home.entries(&home.sessions()[0]);
    let mut said = entries.iter().filter(|entry| entry["kind"] == "assistant");
    let said = &said.next().unwrap()["data"];
    assert_eq!((&said["model"], &said["cost_usd"]), (&"second/spare".into(), &0.1.into()));
}

#[test]
fn the_reason_is_told() {
    let (first, second) = (failing(503), saying("a"));
    let home = home(&first, &second);
    let (_, out, _) = home.run(&["exec", "--json", "go"]);
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let reasons: Vec<_> = events
        .filter(|event| event["type"] == "retry")
        .map(|event| event["data"]["reason"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        reasons,
        ["provider unavailable (503): busy; second/spare is asked instead".to_owned()]
    );
}

#[test]
fn a_request_at_fault_is_not_carried_around() {
    let (first, second) = (failing(400), saying("never"));
    let home = home(&first, &second);
    let (code, out, _) = home.run(&["exec", "go"]);
    assert_eq!((code, &*out, second.requests().len()), (1, "", 0));
}

#[test]
fn what_cannot_stand_in_is_told_before_anything_is_asked() {
    let first = saying("never");
    let home = Home::with(&first, "fallback = [\"nobody/m\"]\n");
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!((code, first.requests().len()), (2, 0), "{err}");
    assert!(err.contains("unknown provider \"nobody\""), "{err}");
}
