//! What a server is, by what it answers.

use std::fmt;

use serde_json::Value;

/// What is asked of every server, in this order.
pub(super) const PATHS: [&str; 6] =
    ["/props", "/v1/models", "/api/v0/models", "/api/version", "/api/tags", "/version"];

/// What a server is. Its name is that of the provider by which its models are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// llama.cpp's llama-server.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
    /// Ollama.
    Ollama,
    /// vLLM.
    Vllm,
}

impl Kind {
    /// Returns the name of its provider.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlamaCpp => "llamacpp",
            Self::LmStudio => "lmstudio",
            Self::Ollama => "ollama",
            Self::Vllm => "vllm",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LlamaCpp => "llama-server",
            Self::LmStudio => "LM Studio",
            Self::Ollama => "Ollama",
            Self::Vllm => "vLLM",
        })
    }
}

/// A model that a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// How many tokens a request and its answer may have together, if the server says so.
    pub context_window: Option<u64>,
}

/// Recognises a server by its answers to [`PATHS`], null where there was none. The models are those
/// that can hold a conversation, best first.
pub(super) fn recognise(answers: &[Value]) -> Option<(Kind, Vec<Offer>)> {
    let [props, models, lm_studio, ollama, tags, version] = answers else { return None };
    llama_cpp(props, models)
        .map(|offers| (Kind::LlamaCpp, offers))
        .or_else(|| Some((Kind::LmStudio, lm_studio_models(lm_studio)?)))
        .or_else(|| Some((Kind::Ollama, ollama_models(ollama, tags)?)))
        .or_else(|| Some((Kind::Vllm, vllm(version, models)?)))
}

/// llama-server has `/props` with the settings of generation, and owns its models. Without its
/// settings it wants a key, so that it cannot be used just like that.
fn llama_cpp(props: &Value, models: &Value) -> Option<Vec<Offer>> {
    let settings = props.get("default_generation_settings")?;
    let context_window = settings.get("n_ctx").and_then(Value::as_u64).filter(|n_ctx| *n_ctx > 0);
    let owned = data(models)?.iter().filter(|model| text(model, "owned_by") == Some("llamacpp"));
    Some(chatting(owned.filter_map(|model| text(model, "id")), context_window))
}

/// LM Studio has an interface of its own, which tells what each model is and whether it is loaded.
fn lm_studio_models(models: &Value) -> Option<Vec<Offer>> {
    let models = data(models)?;
    let is_its_own =
        |model: &Value| text(model, "type").is_some() && text(model, "state").is_some();
    if !models.iter().all(is_its_own) {
        return None;
    }
    let talks = |model: &&Value| matches!(text(model, "type"), Some("llm" | "vlm"));
    let is_loaded = |model: &&Value| text(model, "state") == Some("loaded");
    let mut talking: Vec<_> = models.iter().filter(talks).collect();
    // Loading one takes long, or is not allowed.
    talking.sort_by_key(|model| !is_loaded(model));
    let offers = talking.into_iter().filter_map(|model| {
        let name = text(model, "id")?.to_owned();
        let context_window = model.get("loaded_context_length").and_then(Value::as_u64);
        Some(Offer { name, context_window })
    });
    Some(offers.filter(|offer| !is_embedding(&offer.name)).collect())
}

/// Ollama tells its version at an address of its own, and has tags.
fn ollama_models(version: &Value, tags: &Value) -> Option<Vec<Offer>> {
    text(version, "version")?;
    let models = tags.get("models")?.as_array()?;
    let embeds = |model: &Value| {
        let family = model.get("details").and_then(|details| text(details, "family"));
        family.is_some_and(|family| family.contains("bert"))
    };
    let talking = models.iter().filter(|model| !embeds(model));
    Some(chatting(talking.filter_map(|model| text(model, "name")), None))
}

/// vLLM tells its version, and owns its models.
fn vllm(version: &Value, models: &Value) -> Option<Vec<Offer>> {
    text(version, "version")?;
    let models = data(models)?;
    let own = models.iter().filter(|model| text(model, "owned_by") == Some("vllm"));
    let offers: Vec<_> = own
        .filter_map(|model| {
            let context_window = model.get("max_model_len").and_then(Value::as_u64);
            Some(Offer { name: text(model, "id")?.to_owned(), context_window })
        })
        .collect();
    (!offers.is_empty())
        .then(|| offers.into_iter().filter(|offer| !is_embedding(&offer.name)).collect())
}

/// Returns the window with which Ollama runs a model, or to which the model is set.
pub(super) fn ollama_window(model: &str, running: &Value, settings: &Value) -> Option<u64> {
    let running = running.get("models").and_then(Value::as_array);
    let running =
        running.into_iter().flatten().find(|running| text(running, "name") == Some(model));
    let window = running.and_then(|running| running.get("context_length")?.as_u64());
    window.or_else(|| {
        let mut lines = text(settings, "parameters")?.lines();
        lines.find_map(|line| {
            let value = line.trim().strip_prefix("num_ctx")?;
            value.trim().parse().ok()
        })
    })
}

fn chatting<'a>(names: impl Iterator<Item = &'a str>, context_window: Option<u64>) -> Vec<Offer> {
    let names = names.filter(|name| !is_embedding(name));
    names.map(|name| Offer { name: name.to_owned(), context_window }).collect()
}

/// Tells whether a model's name is that of one that makes vectors or ranks, and cannot talk.
fn is_embedding(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let inside = ["embed", "minilm", "rerank"];
    let first = ["bge-", "e5-", "gte-", "paraphrase-", "whisper", "clip-"];
    inside.iter().any(|part| name.contains(part)) || first.iter().any(|part| name.starts_with(part))
}

fn data(models: &Value) -> Option<&Vec<Value>> {
    models.get("data")?.as_array()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn offer(name: &str, context_window: Option<u64>) -> Offer {
        Offer { name: name.to_owned(), context_window }
    }

    fn answers(given: &[(&str, Value)]) -> Vec<Value> {
        let answer = |path: &str| given.iter().find(|(given, _)| *given == path);
        PATHS.map(|path| answer(path).map(|(_, value)| value.clone()).unwrap_or_default()).to_vec()
    }

    #[test]
    fn llama_server_is_known_by_its_settings() {
        let models = json!({ "object": "list", "data": [
            { "id": "bge-m3.gguf", "owned_by": "llamacpp" },
            { "id": "qwen3-8b.gguf", "owned_by": "llamacpp", "meta": { "n_ctx_train": 40960 } },
        ] });
        let given = [
            ("/props", json!({ "default_generation_settings": { "n_ctx": 8192 } })),
            ("/v1/models", models.clone()),
            // It answers this one too, for clients of Ollama.
            ("/api/tags", json!({ "models": [{ "name": "qwen3-8b.gguf" }] })),
        ];
        let found = recognise(&answers(&given));
        assert_eq!(found, Some((Kind::LlamaCpp, vec![offer("qwen3-8b.gguf", Some(8192))])));
        // With a key it keeps its settings to itself.
        assert_eq!(recognise(&answers(&[("/v1/models", models)])), None);
    }

    #[test]
    fn lm_studio_is_known_by_its_own_list_and_a_loaded_model_comes_first() {
        let own = json!({ "data": [
            { "id": "text-embedding-nomic", "type": "embeddings", "state": "loaded" },
            { "id": "gemma-3", "type": "vlm", "state": "not-loaded", "max_context_length": 131072 },
            { "id": "qwen3", "type": "llm", "state": "loaded", "loaded_context_length": 16384 },
        ] });
        let open_ai = json!({ "data": [{ "id": "gemma-3", "owned_by": "organization_owner" }] });
        let found = recognise(&answers(&[("/api/v0/models", own), ("/v1/models", open_ai)]));
        let models = vec![offer("qwen3", Some(16384)), offer("gemma-3", None)];
        assert_eq!(found, Some((Kind::LmStudio, models)));
    }

    #[test]
    fn ollama_is_known_by_its_version_and_tags() {
        let tags = json!({ "models": [
            { "name": "all-minilm:latest", "details": { "family": "bert" } },
            { "name": "mxbai:latest", "details": { "family": "bert" } },
            { "name": "qwen2.5:7b", "details": { "family": "qwen2" } },
        ] });
        let version = ("/api/version", json!({ "version": "0.12.3" }));
        let found = recognise(&answers(&[version.clone(), ("/api/tags", tags)]));
        assert_eq!(found, Some((Kind::Ollama, vec![offer("qwen2.5:7b", None)])));
        assert_eq!(recognise(&answers(&[version])), None);
    }

    #[test]
    fn vllm_is_known_by_its_version_and_what_it_owns() {
        let version = ("/version", json!({ "version": "0.10.0" }));
        let of = |owner: &str| {
            let model = json!({ "id": "Qwen/Qwen3", "owned_by": owner, "max_model_len": 32768 });
            ("/v1/models", json!({ "data": [model] }))
        };
        let found = recognise(&answers(&[version.clone(), of("vllm")]));
        assert_eq!(found, Some((Kind::Vllm, vec![offer("Qwen/Qwen3", Some(32768))])));
        assert_eq!(recognise(&answers(&[version, of("somebody")])), None);
        assert_eq!(recognise(&answers(&[of("vllm")])), None);
    }

    #[test]
    fn the_window_of_ollama_is_what_runs_else_what_is_set_never_what_could_be() {
        let running = json!({ "models": [{ "name": "q:7b", "context_length": 4096 }] });
        let settings = json!({
            "parameters": "stop \"x\"\nnum_ctx                        16384",
            "model_info": { "qwen2.context_length": 131072 }
        });
        assert_eq!(ollama_window("q:7b", &running, &settings), Some(4096));
        assert_eq!(ollama_window("q:7b", &Value::Null, &settings), Some(16384));
        let info = json!({ "model_info": { "qwen2.context_length": 131072 } });
        assert_eq!(ollama_window("q:7b", &Value::Null, &info), None);
    }
}
