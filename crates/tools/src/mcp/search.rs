//! Tools of which the model is not told until it looks for them.
//!
//! The schemas of many tools would be paid for with every request, and take room that work needs. They
//! cannot be added to the tool block when they are found either: the block stands at the very beginning
//! of a request, so each addition would make the provider read the whole conversation anew. So the block
//! holds `tool_search`, whose results stand where they were asked for, and `tool_call`, which calls what
//! was found; both stay the same whatever the servers offer.

use std::cmp::Reverse;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::OutputSchema;
use bowline_agent::tool::{
    Access, DynTool, PassedOn, Prepared, Recovery, Tool, ToolContext, ToolError, ToolOutput,
    input_schema, parse_arguments,
};
use bowline_llm::ToolSpec;

use super::content::first_line;
use super::tool::ServerTool;

/// How many tools are shown with their schemas, and how many more by name.
const SHOWN: usize = 5;
const NAMED: usize = 15;

/// The tools that were left out of the block.
pub(super) type Hidden = Arc<Vec<Arc<ServerTool>>>;

/// The tool `tool_search`.
pub(super) struct Search {
    pub(super) hidden: Hidden,
    /// The names of their servers.
    pub(super) servers: Vec<String>,
}

/// Finds tools by what they do; call them with tool_call.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub(super) struct SearchInput {
    /// Words, or the name of a tool or server.
    query: String,
}

impl Tool for Search {
    const NAME: &'static str = "tool_search";
    type Input = SearchInput;

    fn description(&self) -> Option<String> {
        Some(format!(
            "Finds more tools, of MCP servers ({}), by what they do: names, descriptions and schemas \
             of the best matches. Call what you find with tool_call.",
            self.servers.join(", ")
        ))
    }

    fn access(&self, _: &SearchInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &SearchInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: SearchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let may_find = |tool: &&Arc<ServerTool>| !cx.is_hidden(&tool.told().name);
        let tools = || self.hidden.iter().filter(may_find);
        let (found, count) = (best(tools(), &input.query), tools().count());
        if found.is_empty() {
            return Ok(format!("none of {count} tools matches; try other words").into());
        }
        let mut text = String::new();
        for tool in found.iter().take(SHOWN) {
            let ToolSpec { name, description, schema } = tool.told();
            text.push_str(&format!("{name}: {description}\n{}\n\n", schema.as_str()));
        }
        for tool in found.iter().skip(SHOWN).take(NAMED) {
            let ToolSpec { name, description, .. } = tool.told();
            text.push_str(&format!("{name}: {}\n", first_line(description)));
        }
        let unnamed = found.len().saturating_sub(SHOWN + NAMED);
        if unnamed > 0 {
            text.push_str(&format!("[… {unnamed} more match, of {count} tools]\n"));
        }
        Ok(text.trim_end().into())
    }
}

/// Returns the tools that match a query at all, the best first.
fn best<'a>(
    tools: impl Iterator<Item = &'a Arc<ServerTool>>,
    query: &str,
) -> Vec<&'a Arc<ServerTool>> {
    let wanted = words(query);
    let mut scored: Vec<_> = tools
        .map(|tool| (score(tool.told(), query, &wanted), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by_key(|(score, tool)| (Reverse(*score), tool.told().name.clone()));
    scored.into_iter().map(|(_, tool)| tool).collect()
}

/// A word of the name counts for more than one of the description, and the beginning of a word for
/// less than the whole.
fn score(spec: &ToolSpec, query: &str, wanted: &[String]) -> usize {
    let (name, description) = (words(&spec.name), words(&spec.description));
    let of_word = |wanted: &String| {
        let within = |words: &[String], whole: usize| {
            if words.contains(wanted) {
                return whole;
            }
            let begins = |word: &String| {
                word.starts_with(wanted.as_str())
                    || (word.len() > 3 && wanted.starts_with(word.as_str()))
            };
            if words.iter().any(begins) { whole / 2 } else { 0 }
        };
        within(&name, 8) + within(&description, 2)
    };
    let is_named = spec.name.eq_ignore_ascii_case(query.trim());
    wanted.iter().map(of_word).sum::<usize>() + if is_named { 1000 } else { 0 }
}

/// Returns the words of a text in lower case; `readFile` and `read_file` have two.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in text.chars() {
        let begins = !c.is_alphanumeric() || (was_lower && c.is_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| word.len() > 1 && word != "mcp");
    words
}

/// The tool `tool_call`.
pub(super) struct Call {
    pub(super) hidden: Hidden,
}

/// Calls a tool that tool_search has found: what is told of [`PassedOn`].
#[derive(JsonSchema)]
#[schemars(description = "Calls a tool that tool_search has found.")]
#[expect(dead_code, reason = "it is there for its schema")]
struct CallInput {
    name: String,
    /// An object that fits the schema of the tool.
    #[schemars(default)]
    arguments: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Call {
    pub(super) const NAME: &'static str = "tool_call";
}

impl DynTool for Call {
    fn spec(&self) -> ToolSpec {
        let (described, schema) = input_schema::<CallInput>();
        let description = described.unwrap_or_default();
        ToolSpec { name: Self::NAME.to_owned(), description, schema }
    }

    fn passes_on(&self) -> bool {
        true
    }

    /// The call is what the tool behind it makes of it: what it touches, and how it recovers.
    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let passed: PassedOn = parse_arguments(arguments)?;
        let name = passed.name.as_str();
        let Some(tool) = self.hidden.iter().find(|tool| tool.told().name == name) else {
            let near = best(self.hidden.iter(), name);
            let near: Vec<_> = near.iter().take(3).map(|tool| tool.told().name.as_str()).collect();
            let meant = match near.is_empty() {
                true => "; look for one with tool_search".to_owned(),
                false => format!("; did you mean {}?", near.join(", ")),
            };
            return Err(ToolError::Failed(format!("there is no tool {name:?} to call{meant}")));
        };
        check(tool.told(), passed.arguments())?;
        Arc::clone(tool).prepare(passed.arguments())
    }
}

/// Checks arguments that no provider has held to a schema.
fn check(spec: &ToolSpec, arguments: &str) -> Result<(), ToolError> {
    // A schema that is none is for the server to judge.
    let Ok(schema) = OutputSchema::new(spec.schema.clone()) else { return Ok(()) };
    schema.check(arguments).map(drop).map_err(|complaints| {
        let complaints = complaints.join("; ").replace("the answer", "arguments");
        let schema = spec.schema.as_str();
        ToolError::Failed(format!("the arguments do not fit: {complaints}\nthe schema is {schema}"))
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn words_are_found_however_they_are_joined() {
        assert_eq!(words("mcp__fs__readFile, the_file!"), ["fs", "read", "file", "the", "file"]);
    }
}
