//! Models in the process, through the door: files in, replies out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod files;
#[path = "../support/gguf.rs"]
mod gguf;
mod lines;
mod template;

use std::path::PathBuf;

use bowline_llm::{
    Message, Model, ModelError, ModelInfo, RawJson, Request, Response, StreamEvent, ToolBlock,
    ToolSpec,
};
use bowline_local::{Config, LocalModel};
use futures::StreamExt as _;
use futures::executor::block_on;
use tempfile::TempDir;

/// A folder with a made-up model in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(model: &gguf::Model<'_>) -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        model.write(&place.path());
        place
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("made-up.gguf")
    }

    fn open(&self) -> LocalModel {
        self.open_with(None).unwrap()
    }

    fn open_with(&self, context_window: Option<u64>) -> Result<LocalModel, ModelError> {
        let info = ModelInfo { context_window, ..ModelInfo::default() };
        LocalModel::open(&self.path(), Config { info, threads: Some(1) })
    }
}

/// What came of a request.
#[derive(Debug)]
struct Reply {
    events: Vec<StreamEvent>,
    end: Result<Response, ModelError>,
}

impl Reply {
    fn response(self) -> Response {
        self.end.unwrap()
    }

    fn error(self) -> ModelError {
        self.end.unwrap_err()
    }

    /// Joins the text that was told bit by bit.
    fn told(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            StreamEvent::TextDelta(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Asks a model and waits for the end of its reply.
fn ask(model: &LocalModel, request: Request) -> Reply {
    block_on(async {
        let mut events = Vec::new();
        let mut stream = model.stream(request);
        while let Some(event) = stream.next().await {
            match event {
                Ok(StreamEvent::Done(response)) => {
                    assert!(stream.next().await.is_none(), "nothing follows the end");
                    return Reply { events, end: Ok(*response) };
                }
                Ok(event) => events.push(event),
                Err(error) => return Reply { events, end: Err(error) },
            }
        }
        panic!("the stream ended with neither an answer nor an error");
    })
}

fn request(messages: Vec<Message>, tools: &[(&str, &str)]) -> Request {
    let specs = tools.iter().map(|(name, schema)| ToolSpec {
        name: (*name).to_owned(),
        description: format!("Does {name}."),
        schema: RawJson::parse(*schema).unwrap(),
    });
    Request {
        tools: ToolBlock::new(specs.collect()),
        messages: messages.into_iter().map(Into::into).collect(),
        ..Request::default()
    }
}
