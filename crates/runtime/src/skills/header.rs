//! What a skill says about itself, and the rules of the standard for it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::front_matter::{self, Document};

use super::Skill;

/// How many bytes the text of a skill without a description may have: it is part of every request.
pub const INLINE_LIMIT: usize = 16 * 1024;

/// How many letters the standard gives a name, a description and what a skill needs.
const NAME: usize = 64;
const DESCRIPTION: usize = 1024;
const COMPATIBILITY: usize = 500;

/// The keys that the standard knows.
const KEYS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// The key by which a skill is kept from models; other agents know it, the standard does not.
const NOT_FOR_MODELS: &str = "disable-model-invocation";

/// Makes the skill of a text in a folder.
///
/// # Errors
/// What is wrong, and what to do.
pub(super) fn skill(folder: &Path, text: &str) -> Result<Skill, String> {
    let document = front_matter::read(text).map_err(|what| {
        format!("{what}; the front matter is YAML, so a text with `: ` or ` #` in it needs quotes")
    })?;
    let mut remarks = Vec::new();
    let Document { header, body, is_unclosed } = document;
    if is_unclosed {
        remarks.push("the front matter has no closing line ---".to_owned());
    } else if header.is_none() {
        remarks.push("there is no front matter".to_owned());
    }
    let header = Header(header.unwrap_or_default());
    remarks.extend(header.unknown().map(|key| format!("the standard has no key {key:?}")));
    let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = match header.text("name")? {
        Some(name) => name,
        None => {
            remarks.push("there is no name; the folder's is taken".to_owned());
            folder_name.clone()
        }
    };
    check_name(&name, &folder_name)?;
    let description = header.text("description")?;
    if description.is_none() {
        remarks.push("there is no description; all of it goes into the system text".to_owned());
    }
    check_length("description", description.as_deref(), DESCRIPTION)?;
    let compatibility = header.text("compatibility")?;
    check_length("compatibility", compatibility.as_deref(), COMPATIBILITY)?;
    let (metadata, has_more) = header.metadata();
    if has_more {
        remarks.push("metadata must be a table of texts; what is no text is left out".to_owned());
    }
    let text = body.trim().to_owned();
    if description.is_none() {
        check_inline(&text)?;
    }
    Ok(Skill {
        name,
        description,
        license: header.text("license")?,
        compatibility,
        metadata,
        allowed_tools: header.allowed_tools()?,
        is_for_models: header.is_for_models()?,
        folder: folder.to_owned(),
        text,
        remarks,
    })
}

fn check_name(name: &str, folder: &str) -> Result<(), String> {
    let is_letter = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
    let has_rule = name.len() <= NAME && !name.is_empty() && name.chars().all(is_letter);
    if !has_rule || name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(format!(
            "the name {name:?} is none; it has at most {NAME} small letters a to z, digits, and single \
             hyphens between them"
        ));
    }
    if name != folder {
        return Err(format!(
            "the name {name:?} is not that of its folder, {folder:?}; rename one of them"
        ));
    }
    Ok(())
}

fn check_length(key: &str, text: Option<&str>, limit: usize) -> Result<(), String> {
    let length = text.map_or(0, |text| text.chars().count());
    match length > limit {
        true => Err(format!("{key} has {length} letters; shorten it to {limit}")),
        false => Ok(()),
    }
}

fn check_inline(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("says nothing; write a description and a text".to_owned());
    }
    if text.len() > INLINE_LIMIT {
        return Err(format!(
            "has {} bytes without a description, and would be in every request; give it a description, \
             or shorten it to {INLINE_LIMIT} bytes",
            text.len()
        ));
    }
    Ok(())
}

/// The keys of the front matter.
struct Header(BTreeMap<String, Value>);

impl Header {
    fn unknown(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|key| !KEYS.contains(key))
    }

    /// Returns a text; `None` if there is none in it.
    fn text(&self, key: &str) -> Result<Option<String>, String> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let text = plain(value).ok_or_else(|| format!("{key} must be a text"))?;
        Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// Returns the texts of the table, and whether something else is in its place or in it: nobody needs
    /// to do without a skill for that.
    fn metadata(&self) -> (BTreeMap<String, String>, bool) {
        match self.0.get("metadata") {
            None | Some(Value::Null) => (BTreeMap::new(), false),
            Some(Value::Object(table)) => {
                let texts =
                    table.iter().filter_map(|(key, value)| Some((key.clone(), plain(value)?)));
                let texts: BTreeMap<_, _> = texts.collect();
                let has_more = texts.len() < table.len();
                (texts, has_more)
            }
            Some(_) => (BTreeMap::new(), true),
        }
    }

    /// Returns the tools as they are written, or those of a list one after the other.
    fn allowed_tools(&self) -> Result<Option<String>, String> {
        let Some(Value::Array(items)) = self.0.get("allowed-tools") else {
            return self.text("allowed-tools");
        };
        let items: Option<Vec<_>> = items.iter().map(plain).collect();
        let items = items.ok_or_else(|| "allowed-tools must be a text".to_owned())?;
        Ok(Some(items.join(" ")))
    }

    fn is_for_models(&self) -> Result<bool, String> {
        match self.0.get(NOT_FOR_MODELS) {
            None | Some(Value::Null) => Ok(true),
            Some(Value::Bool(is_kept_from_models)) => Ok(!is_kept_from_models),
            Some(_) => Err(format!("{NOT_FOR_MODELS} must be true or false")),
        }
    }
}

/// Returns a single value as it would be written.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}
