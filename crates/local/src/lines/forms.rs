//! The tools that a model in plain lines knows, and how they are written.

use serde_json::{Map, Value};

/// A tool as it is written in a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The tool's real name.
    pub(super) tool: &'static str,
    /// What it is called in a line: a name that says more to a small model.
    pub(super) shown: &'static str,
    /// Its arguments, in order.
    pub(super) arguments: &'static [Argument],
    /// What is put between the lines of a result.
    pub(super) between: &'static str,
}

/// One argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument {
    /// Its name in the tool's schema.
    pub(super) name: &'static str,
    /// Where it is copied from.
    pub(super) source: Source,
}

/// Where an argument is copied from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A file that the request names.
    File,
    /// A file that the request names, unless it is a question.
    NewFile,
    /// A folder that the request names, or the one in which work is done.
    Folder,
    /// Words of the request, to be found as they stand.
    Pattern,
    /// Words of the request, to be written down.
    Text,
}

const fn argument(name: &'static str, source: Source) -> Argument {
    Argument { name, source }
}

/// All forms.
pub(super) const FORMS: [Form; 4] = [
    Form {
        tool: "read",
        shown: "read_file",
        arguments: &[argument("path", Source::File)],
        between: " / ",
    },
    Form {
        tool: "list",
        shown: "list_files",
        arguments: &[argument("path", Source::Folder)],
        between: ", ",
    },
    Form {
        tool: "grep",
        shown: "search",
        arguments: &[argument("pattern", Source::Pattern)],
        between: "; ",
    },
    Form {
        tool: "write",
        shown: "write_file",
        arguments: &[argument("path", Source::NewFile), argument("content", Source::Text)],
        between: " / ",
    },
];

impl Form {
    /// Finds the form of a tool.
    pub(super) fn of(tool: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.tool == tool)
    }

    /// Writes a call of the tool.
    pub(super) fn call(&self, arguments: &[String]) -> String {
        let quoted: Vec<String> = arguments.iter().map(|text| format!("\"{text}\"")).collect();
        format!("{}({})", self.shown, quoted.join(", "))
    }

    /// Returns the arguments of a line as the tool takes them.
    pub(super) fn to_json(&self, arguments: &[&str]) -> String {
        let mut object = Map::new();
        for (argument, text) in self.arguments.iter().zip(arguments) {
            let text = match argument.source {
                Source::File | Source::NewFile | Source::Folder => (*text).to_owned(),
                Source::Pattern => escaped(text),
                Source::Text => format!("{text}\n"),
            };
            object.insert(argument.name.to_owned(), Value::String(text));
        }
        if self.tool == "list" {
            // What lies deeper is more than it can keep apart.
            object.insert("depth".to_owned(), 1.into());
        }
        Value::Object(object).to_string()
    }

    /// Returns the arguments of a call as they are written in a line.
    pub(super) fn texts_of(&self, arguments: &Map<String, Value>) -> Vec<String> {
        let of = |argument: &Argument| {
            let text = arguments.get(argument.name).and_then(Value::as_str).unwrap_or(".");
            match argument.source {
                Source::File | Source::NewFile | Source::Folder => text.to_owned(),
                Source::Pattern => text.replace('\\', ""),
                Source::Text => super::dialogue::one_line(text, " "),
            }
        };
        self.arguments.iter().map(of).collect()
    }
}

/// Escapes what means something in a regular expression.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
