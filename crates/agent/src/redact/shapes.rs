//! What tokens of well-known services look like.

use super::value::{LOOKED_AT, is_varied};

/// A beginning by which a token is known, and what follows it.
struct Shape {
    begins: &'static str,
    kind: &'static str,
    rest: Rest,
    /// How many bytes follow at least.
    least: usize,
}

/// What follows the beginning of a token.
#[derive(Clone, Copy)]
enum Rest {
    /// Letters and digits.
    Alnum,
    /// These, `-` and `_`.
    Word,
    /// These with a digit among them: the beginning alone says little.
    Mixed,
    /// These and `.`.
    Dotted,
    /// As many capitals and digits as there must be, and nothing more.
    Capitals,
}

const fn shape(begins: &'static str, kind: &'static str, rest: Rest, least: usize) -> Shape {
    Shape { begins, kind, rest, least }
}

/// Longer beginnings before those that begin like them.
const SHAPES: &[Shape] = &[
    shape("github_pat_", "github-token", Rest::Word, 22),
    shape("ghp_", "github-token", Rest::Alnum, 20),
    shape("gho_", "github-token", Rest::Alnum, 20),
    shape("ghu_", "github-token", Rest::Alnum, 20),
    shape("ghs_", "github-token", Rest::Alnum, 20),
    shape("ghr_", "github-token", Rest::Alnum, 20),
    shape("glpat-", "gitlab-token", Rest::Word, 16),
    shape("gldt-", "gitlab-token", Rest::Word, 16),
    shape("glrt-", "gitlab-token", Rest::Word, 16),
    shape("sk-ant-", "anthropic-key", Rest::Word, 16),
    shape("sk-proj-", "openai-key", Rest::Word, 16),
    shape("sk-svcacct-", "openai-key", Rest::Word, 16),
    shape("sk-or-", "openrouter-key", Rest::Word, 16),
    shape("sk-", "api-key", Rest::Mixed, 20),
    shape("sk_live_", "stripe-key", Rest::Alnum, 16),
    shape("sk_test_", "stripe-key", Rest::Alnum, 16),
    shape("rk_live_", "stripe-key", Rest::Alnum, 16),
    shape("rk_test_", "stripe-key", Rest::Alnum, 16),
    shape("whsec_", "stripe-key", Rest::Alnum, 24),
    shape("AKIA", "aws-key-id", Rest::Capitals, 16),
    shape("ASIA", "aws-key-id", Rest::Capitals, 16),
    shape("xoxa-", "slack-token", Rest::Word, 16),
    shape("xoxb-", "slack-token", Rest::Word, 16),
    shape("xoxp-", "slack-token", Rest::Word, 16),
    shape("xoxr-", "slack-token", Rest::Word, 16),
    shape("xoxs-", "slack-token", Rest::Word, 16),
    shape("xoxe-", "slack-token", Rest::Word, 16),
    shape("xapp-", "slack-token", Rest::Word, 16),
    shape("AIza", "google-key", Rest::Word, 30),
    shape("ya29.", "google-token", Rest::Dotted, 20),
    shape("GOCSPX-", "google-secret", Rest::Word, 20),
    shape("npm_", "npm-token", Rest::Alnum, 30),
    shape("pypi-", "pypi-token", Rest::Mixed, 40),
    shape("hf_", "huggingface-token", Rest::Alnum, 30),
    shape("dop_v1_", "digitalocean-token", Rest::Alnum, 32),
    shape("doo_v1_", "digitalocean-token", Rest::Alnum, 32),
    shape("SG.", "sendgrid-key", Rest::Dotted, 32),
    shape("gsk_", "groq-key", Rest::Alnum, 32),
    shape("xai-", "xai-key", Rest::Alnum, 32),
    shape("pplx-", "perplexity-key", Rest::Alnum, 32),
    shape("nvapi-", "nvidia-key", Rest::Word, 32),
    shape("r8_", "replicate-token", Rest::Alnum, 32),
    shape("hvs.", "vault-token", Rest::Word, 20),
    shape("shpat_", "shopify-token", Rest::Alnum, 32),
    shape("dckr_pat_", "docker-token", Rest::Word, 20),
    shape("lin_api_", "linear-key", Rest::Alnum, 32),
    shape("figd_", "figma-token", Rest::Word, 32),
    shape("glsa_", "grafana-token", Rest::Word, 32),
    shape("tskey-", "tailscale-key", Rest::Mixed, 20),
    shape("sbp_", "supabase-token", Rest::Alnum, 32),
    shape("rubygems_", "rubygems-token", Rest::Alnum, 32),
    shape("AGE-SECRET-KEY-", "age-key", Rest::Word, 40),
    shape("PMAK-", "postman-key", Rest::Word, 32),
];

/// What stands at a place in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A token of so many bytes, which may be longer if the text goes on.
    Whole { kind: &'static str, length: usize },
    /// What may become one when the text goes on.
    Begun,
    /// None.
    None,
}

/// Looks at the beginning of a text, which is no continuation of a word.
pub(super) fn at(text: &[u8]) -> Token {
    let Some(first) = text.first() else { return Token::None };
    let same = SHAPES.iter().filter(|shape| shape.begins.as_bytes()[0] == *first);
    for Shape { begins, kind, rest, least } in same {
        let begins = begins.as_bytes();
        if text.len() < begins.len() && begins.starts_with(text) {
            return Token::Begun;
        }
        let Some(tail) = text.strip_prefix(begins) else { continue };
        let near = &tail[..tail.len().min(LOOKED_AT)];
        let is_long = near.iter().all(|byte| rest.holds(*byte)) && near.len() < tail.len();
        if is_long && !is_varied(near) {
            return Token::None;
        }
        let length = tail.iter().take_while(|byte| rest.holds(**byte)).count();
        // The dot at the end of a sentence is none of it.
        let last = tail[..length].iter().rposition(|byte| *byte != b'.');
        let tail = &tail[..last.map_or(0, |last| last + 1)];
        if rest.fits(tail, *least, text.get(begins.len() + length)) && is_varied(tail) {
            return Token::Whole { kind, length: begins.len() + tail.len() };
        }
        if begins.len() + length == text.len() {
            return Token::Begun;
        }
        return Token::None;
    }
    Token::None
}

/// Tells whether a token may begin with a byte.
pub(super) const fn may_begin(byte: u8) -> bool {
    let mut at = 0;
    while at < SHAPES.len() {
        if SHAPES[at].begins.as_bytes()[0] == byte {
            return true;
        }
        at += 1;
    }
    false
}

impl Rest {
    fn holds(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || match self {
                Self::Alnum | Self::Capitals => false,
                Self::Word | Self::Mixed => matches!(byte, b'-' | b'_'),
                Self::Dotted => matches!(byte, b'-' | b'_' | b'.'),
            }
    }

    fn fits(self, tail: &[u8], least: usize, next: Option<&u8>) -> bool {
        match self {
            Self::Alnum | Self::Word | Self::Dotted => tail.len() >= least,
            Self::Mixed => tail.len() >= least && tail.iter().any(u8::is_ascii_digit),
            Self::Capitals => {
                let is_capital = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
                tail.len() == least
                    && tail.iter().all(is_capital)
                    && next.is_none_or(|byte| !matches!(byte, b'_' | b'+'))
            }
        }
    }
}
