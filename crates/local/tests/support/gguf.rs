//! A model that is made up: it says after each token the one that it was told to.
//!
//! Its vocabulary is the 256 bytes and some tokens of its own. Each token is a direction of its own in
//! the space of the model, and nothing but the last layer does anything, so the file is small and the
//! model does what the test wants, where a grammar lets it.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::fs;
use std::path::Path;

/// Tokens that are no bytes, by the number they have.
pub(crate) const END: usize = 256;
pub(crate) const TURN: usize = 257;
pub(crate) const END_OF_TURN: usize = 258;
pub(crate) const CALL: usize = 259;
pub(crate) const END_OF_CALL: usize = 260;
pub(crate) const THINK: usize = 261;
pub(crate) const END_OF_THOUGHT: usize = 262;
pub(crate) const CALLS: usize = 263;

const OWN: [&str; 8] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "[TOOL_CALLS]",
];
const VOCABULARY: usize = 256 + OWN.len();
/// A multiple of 32, and no less than the vocabulary with its pieces.
const WIDTH: usize = 288;

/// A chat template that knows tools and writes calls between tags.
pub(crate) const TAGGED: &str = "\
{%- if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}\\n{% endfor %}\
{{ 'Answer with <tool_call>{\"name\": …, \"arguments\": …}</tool_call><|im_end|>\\n' }}{% endif %}\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content }}\
{%- if message.tool_calls %}{% for call in message.tool_calls %}\
{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{% endfor %}{% endif %}\
{{ '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";

/// A chat template that knows no tools.
pub(crate) const PLAIN: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

/// What a file says of itself, and what the model says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model<'a> {
    pub(crate) template: Option<&'a str>,
    /// After the first token comes the second.
    pub(crate) chain: &'a [(usize, usize)],
    pub(crate) context_length: Option<u32>,
    pub(crate) family: Option<&'a str>,
    /// Pieces of words beside the bytes, in which `▁` is a space. With any, text is split as SentencePiece
    /// does, with a space before the first word.
    pub(crate) pieces: &'a [&'a str],
}

impl Model<'_> {
    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) {
        fs::write(path, self.to_bytes()).unwrap();
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut pairs = Pairs::default();
        let vocabulary = VOCABULARY + self.pieces.len();
        pairs.string("general.architecture", self.family.unwrap_or("llama"));
        pairs.u32("llama.context_length", self.context_length.unwrap_or(4096));
        pairs.u32("llama.embedding_length", WIDTH as u32);
        pairs.u32("llama.block_count", 1);
        pairs.u32("llama.feed_forward_length", 32);
        pairs.u32("llama.attention.head_count", 9);
        pairs.u32("llama.attention.head_count_kv", 9);
        pairs.u32("llama.rope.dimension_count", 32);
        pairs.u32("llama.vocab_size", vocabulary as u32);
        pairs.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        self.vocabulary(&mut pairs);
        pairs.u32("tokenizer.ggml.bos_token_id", END as u32);
        pairs.u32("tokenizer.ggml.eos_token_id", END_OF_TURN as u32);
        pairs.bool("tokenizer.ggml.add_bos_token", false);
        if let Some(template) = self.template {
            pairs.string("tokenizer.chat_template", template);
        }
        let tensors = self.tensors();
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend((tensors.len() as u64).to_le_bytes());
        out.extend(pairs.count.to_le_bytes());
        out.extend(pairs.bytes);
        let mut offset = 0_u64;
        for (name, shape, data) in &tensors {
            out.extend(sized(name));
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|side| out.extend((*side as u64).to_le_bytes()));
            // Numbers of 32 bits.
            out.extend(0_u32.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += (data.len() * 4).next_multiple_of(32) as u64;
        }
        for (_, _, data) in tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            data.iter().for_each(|number| out.extend(number.to_le_bytes()));
        }
        out
    }

    /// Writes the tokens and how text becomes them.
    fn vocabulary(&self, pairs: &mut Pairs) {
        let is_spaced = !self.pieces.is_empty();
        let byte = |byte| if is_spaced { format!("<0x{byte:02X}>") } else { byte_token(byte) };
        let own = OWN.iter().chain(self.pieces).map(|text| (*text).to_owned());
        let tokens: Vec<String> = (0..=255).map(byte).chain(own).collect();
        // 1 is a normal token, 3 one that structures a conversation, 4 one that the user defined, 6 a
        // byte.
        let kinds = (0..tokens.len()).map(|n| match n {
            0..256 if is_spaced => 6,
            END..CALL => 3,
            CALL..VOCABULARY => 4,
            _ => 1,
        });
        pairs.i32s("tokenizer.ggml.token_type", &kinds.collect::<Vec<i32>>());
        if is_spaced {
            pairs.string("tokenizer.ggml.model", "llama");
            // The longest pieces are joined first.
            let scores = tokens.iter().map(|token| token.chars().count() as f32);
            pairs.f32s("tokenizer.ggml.scores", &scores.collect::<Vec<f32>>());
        } else {
            pairs.string("tokenizer.ggml.model", "gpt2");
            pairs.string("tokenizer.ggml.pre", "default");
            pairs.strings("tokenizer.ggml.merges", &["Ġ Ġ".to_owned()]);
        }
        pairs.strings("tokenizer.ggml.tokens", &tokens);
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>, Vec<f32>)> {
        let zeros =
            |name, shape: &[usize]| (name, shape.to_vec(), vec![0.0; shape.iter().product()]);
        let ones = |name| (name, vec![WIDTH], vec![1.0; WIDTH]);
        let vocabulary = VOCABULARY + self.pieces.len();
        let mut embedding = vec![0.0; WIDTH * vocabulary];
        let mut output = vec![0.0; WIDTH * vocabulary];
        for token in 0..vocabulary {
            embedding[token * WIDTH + token] = 1.0;
        }
        for (before, after) in self.chain {
            output[after * WIDTH + before] = 4.0;
        }
        vec![
            ("token_embd.weight", vec![WIDTH, vocabulary], embedding),
            ones("blk.0.attn_norm.weight"),
            zeros("blk.0.attn_q.weight", &[WIDTH, WIDTH]),
            zeros("blk.0.attn_k.weight", &[WIDTH, WIDTH]),
            zeros("blk.0.attn_v.weight", &[WIDTH, WIDTH]),
            zeros("blk.0.attn_output.weight", &[WIDTH, WIDTH]),
            ones("blk.0.ffn_norm.weight"),
            zeros("blk.0.ffn_gate.weight", &[WIDTH, 32]),
            zeros("blk.0.ffn_up.weight", &[WIDTH, 32]),
            zeros("blk.0.ffn_down.weight", &[32, WIDTH]),
            ones("output_norm.weight"),
            ("output.weight", vec![WIDTH, vocabulary], output),
        ]
    }
}

/// Returns a byte as vocabularies of this kind write it: by a character that can be seen.
fn byte_token(byte: u32) -> String {
    let is_seen = |byte| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let code = match is_seen(byte) {
        true => byte,
        false => 256 + (0..byte).filter(|byte| !is_seen(*byte)).count() as u32,
    };
    char::from_u32(code).unwrap().to_string()
}

fn sized(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

/// What the head of a file says, as it is written there.
#[derive(Default)]
struct Pairs {
    count: u64,
    bytes: Vec<u8>,
}

impl Pairs {
    fn put(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.count += 1;
        self.bytes.extend(sized(key));
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(value);
    }

    fn u32(&mut self, key: &str, value: u32) {
        self.put(key, 4, &value.to_le_bytes());
    }

    fn f32(&mut self, key: &str, value: f32) {
        self.put(key, 6, &value.to_le_bytes());
    }

    fn bool(&mut self, key: &str, value: bool) {
        self.put(key, 7, &[u8::from(value)]);
    }

    fn string(&mut self, key: &str, value: &str) {
        self.put(key, 8, &sized(value));
    }

    fn strings(&mut self, key: &str, values: &[String]) {
        let mut out = 8_u32.to_le_bytes().to_vec();
        out.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| out.extend(sized(value)));
        self.put(key, 9, &out);
    }

    fn f32s(&mut self, key: &str, values: &[f32]) {
        let mut out = 6_u32.to_le_bytes().to_vec();
        out.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        self.put(key, 9, &out);
    }

    fn i32s(&mut self, key: &str, values: &[i32]) {
        let mut out = 5_u32.to_le_bytes().to_vec();
        out.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        self.put(key, 9, &out);
    }
}
