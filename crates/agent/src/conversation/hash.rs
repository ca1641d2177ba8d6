//! Hashes by which a log names what it has written in full before.

use sha2::{Digest as _, Sha256};

use bowline_llm::ToolBlock;

use crate::memory::hex;

pub(crate) fn hash_text(text: &str) -> String {
    hash(text.as_bytes())
}

pub(crate) fn hash_tools(tools: &ToolBlock) -> String {
    let mut bytes = Vec::new();
    for spec in tools.specs() {
        for text in [spec.name.as_str(), spec.description.as_str(), spec.schema.as_str()] {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    hash(&bytes)
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..16])
}
