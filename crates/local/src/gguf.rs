//! What a GGUF file says of itself, without its weights.

use std::path::Path;
use std::sync::OnceLock;

use bowline_llm::{ErrorKind, ModelError};
use llama_cpp_2::gguf::GgufContext;
use llama_cpp_2::llama_backend::LlamaBackend;

/// What a file says of the model in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The family, such as `llama` or `qwen3`.
    pub architecture: String,
    /// How many tokens it was trained to see at once.
    pub context_length: Option<u32>,
    /// How a conversation is written for it, as a Jinja template.
    pub chat_template: Option<String>,
}

impl Header {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// If the file is not there, or is no GGUF.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        backend()?;
        let wrong =
            |kind, what: String| ModelError::new(kind, format!("{}: {what}", path.display()));
        let metadata = std::fs::metadata(path)
            .map_err(|error| wrong(ErrorKind::NotFound, error.to_string()))?;
        let file = Some(path)
            .filter(|_| metadata.is_file())
            .and_then(GgufContext::from_file)
            .ok_or_else(|| wrong(ErrorKind::InvalidRequest, "this is no GGUF file".to_owned()))?;
        let string = |key: &str| {
            let index = file.find_key(key);
            let is_string = index >= 0 && file.kv_type(index) == STRING;
            is_string.then(|| file.val_str(index).map(str::to_owned)).flatten()
        };
        let architecture = string("general.architecture").ok_or_else(|| {
            wrong(ErrorKind::InvalidRequest, "it does not say which model it is".to_owned())
        })?;
        if NO_CONVERSATION.iter().any(|family| architecture.starts_with(family)) {
            let what = format!("a model of the family {architecture} cannot converse");
            return Err(wrong(ErrorKind::InvalidRequest, what));
        }
        let length = file.find_key(&format!("{architecture}.context_length"));
        let has_length = length >= 0 && file.kv_type(length) == U32;
        Ok(Self {
            context_length: has_length.then(|| file.val_u32(length)),
            chat_template: string("tokenizer.chat_template"),
            architecture,
        })
    }
}

/// Families that embed, encode, see or hear; llama.cpp ends the process when they are asked to write.
const NO_CONVERSATION: [&str; 11] = [
    "bert",
    "clip",
    "eurobert",
    "gemma-embedding",
    "jina-bert",
    "llama-embed",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "t5",
    "wavtokenizer",
];

/// The types of values, as the format numbers them.
const U32: u32 = 4;
const STRING: u32 = 8;

/// Returns llama.cpp, started once for the process and told to keep quiet.
pub(crate) fn backend() -> Result<&'static LlamaBackend, ModelError> {
    static BACKEND: OnceLock<Result<LlamaBackend, String>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        check_processor()?;
        let mut backend = LlamaBackend::init().map_err(|error| error.to_string())?;
        backend.void_logs();
        Ok(backend)
    });
    backend.as_ref().map_err(|error| ModelError::new(ErrorKind::InvalidRequest, error))
}

/// llama.cpp is built for processors of the last ten years and dies on others without a word.
#[cfg(target_arch = "x86_64")]
fn check_processor() -> Result<(), String> {
    let has_all = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2");
    has_all.then_some(()).ok_or_else(|| {
        "models in the process need a processor with AVX2, FMA, F16C and BMI2; use a model behind \
         an address instead"
            .to_owned()
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn check_processor() -> Result<(), String> {
    Ok(())
}
