//! What is a secret and what is not.

use std::borrow::Cow;

use pretty_assertions::assert_eq;

use bowline_llm::RawJson;

use super::*;
use crate::id::SystemSource;

const HEX32: &str = "3f9a1c07d2e84b56a1b0c9d8e7f60512";
const BASE62: &str = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA";

/// Makes a token of a beginning and so many bytes. None stands in this file as a whole: scanners of
/// repositories would find it.
fn token(begins: &str, length: usize) -> String {
    let rest: String = BASE62.chars().cycle().take(length).collect();
    format!("{begins}{rest}")
}

fn jwt() -> String {
    // {"alg":"HS256","typ":"JWT"}
    let head = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
    format!("{head}.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}", token("dozjg_", 30))
}

fn pem(kind: &str) -> String {
    let line = token("MII", 61);
    format!("-----BEGIN {kind}PRIVATE KEY-----\n{line}\n{line}==\n-----END {kind}PRIVATE KEY-----")
}

/// A text in which `{}` stands for a secret, and the secret.
fn secrets() -> Vec<(&'static str, String)> {
    vec![
        ("{}", token("ghp_", 36)),
        ("token is {}.", token("gho_", 36)),
        ("remote: {} expired", token("ghs_", 36)),
        ("{}\n", token("github_pat_11AB", 67)),
        ("(glpat) {}", token("glpat-", 20)),
        ("OPENAI={}", token("sk-", 48)),
        ("key {}", token("sk-proj-", 48)),
        ("key {}", token("sk-ant-api03-", 80)),
        ("{},", token("sk-or-v1-", 64)),
        ("id = {}", format!("AKIA{}", "IOSFODNN7EXAMPLE")),
        ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz12345678".to_owned()),
        ("AWS_SECRET_ACCESS_KEY={}", "/JalrXUtnFEMI+K7MDENG/bPxRfiCYzz12345678".to_owned()),
        ("slack: {}", token("xoxb-123456789012-", 24)),
        ("slack: {}", token("xoxp-", 40)),
        ("slack: {}", token("xoxa-2-", 40)),
        ("https://maps?key={}&x=1", token("AIza", 35)),
        ("{}", token("ya29.", 60)),
        ("//registry.npmjs.org/:_authToken={}", token("npm_", 36)),
        ("//r.example/:_authToken={}", token("", 32)),
        ("password = {}", token("pypi-AgEI", 120)),
        ("HF_TOKEN={}", token("hf_", 34)),
        ("{}", token("dop_v1_", 64)),
        ("sendgrid {}", format!("{}.{}", token("SG.", 22), token("", 43))),
        ("{}", token("sk_live_", 24)),
        ("{}", token("rk_live_", 24)),
        ("{}", token("gsk_", 52)),
        ("cookie {};", jwt()),
        ("Authorization: Bearer {}", jwt()),
        ("\"-H\" \"Authorization: Bearer {}\"", token("", 24)),
        ("Authorization: Basic {}", "dXNlcjpwYXNzdzByZA==".to_owned()),
        ("proxy-authorization: token {}", token("", 20)),
        ("{}", pem("")),
        ("key:\n{}\n", pem("RSA ")),
        ("x {} y", pem("OPENSSH ")),
        ("{}", pem("EC ")),
        ("DATABASE_URL=postgres://app:{}@db.example:5432/x", "s3cr3t-pw".to_owned()),
        ("git clone https://me:{}@git.example/r.git", token("ghp_", 36)),
        ("redis://:{}@cache:6379/0", "hunter2hunter2".to_owned()),
        ("password = {}", "Tr0ub4dor&3x".to_owned().replace('&', "+")),
        ("password: \"{}\"", "correct-horse-1".to_owned()),
        ("{\"password\": \"{}\"}", "S3cure!pass".to_owned()),
        ("DB_PASSWD='{}'", "n0t.s0.weak".to_owned()),
        ("<password>{}</password>", "S3cure!pass".to_owned()),
        ("--password {} --user x", "S3cure!pass".to_owned()),
        ("--api-key={}", token("", 32)),
        ("API_KEY={}", token("", 24)),
        ("api_key: '{}'", HEX32.to_owned()),
        ("\"client_secret\" : \"{}\"", token("", 28)),
        ("\\\"token\\\": \\\"{}\\\"", token("", 28)),
        ("STRIPE_PRIVATE={}", token("", 28)),
        ("x-api-key: {}", token("", 40)),
        ("credentials={}", token("", 40)),
        ("secret_key_base: {}", HEX32.repeat(4)),
        ("\u{1b}[01;31m\u{1b}[K{}\u{1b}[m\u{1b}[K", token("ghp_", 36)),
        ("\"line\\n{}\\n\"", token("ghp_", 36)),
        ("a%3D{}", token("ghp_", 36)),
        ("https://hooks.slack.com/services/{}", format!("T0000/B0000/{}", token("", 24))),
    ]
}

const HARMLESS: &[&str] = &[
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "token: 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "secret_sha = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "checksum = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "token: 550e8400-e29b-41d4-a716-446655440000",
    "\"integrity\": \"sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==\"",
    "key: sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
    "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "API_KEY=changeme",
    "API_KEY=<token>",
    "API_KEY=${MY_API_KEY_FROM_THE_ENVIRONMENT_1}",
    "API_KEY=$MY_API_KEY",
    "API_KEY: {{ .Values.apiKey1234567890 }}",
    "password: changeme",
    "password = \"password\"",
    "password: <your password>",
    "password=$PASSWORD",
    "password = get_password()",
    "password: String,",
    "let password = read_line(&mut input)?;",
    "self.password = password1.clone()",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_short",
    "sk-learn-something-else-with-many-words",
    "task-management-and-risk-assessment-2024",
    "AKIA is the prefix of AWS key ids",
    "SKIAKIAABCDEFGHIJKLMNOP",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4mPq3x1x9s0Zk3b7Q3W8p7Q2 me@host",
    "host_key: AAAAC3NzaC1lZDI1NTE5AAAAIJ4mPq3x1x9s0Zk3b7Q3W8p7Q2",
    "https://example.com/path?page=2",
    "https://user@example.com/repo.git",
    "postgres://postgres:postgres@localhost/test",
    "postgres://user:$PASSWORD@localhost/test",
    "http://localhost:8080/@scope/package",
    "PRIVATE_KEY_PATH=/etc/ssl/private/server-2024.key",
    "TOKEN_URL=https://auth.example.com/oauth2/v1/token",
    "public_key = MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
    "keyboard: QWERTYuiop1234567890asdf",
    "max_tokens: 12345678901234567890",
    "cache-key: linux-cargo-4f9a1c07d2e84b56a1b0c9d8e7f605128888",
    "if token == expected_token_from_server_1 {",
    "token: crate::lexer::Token1Kind::Identifier,",
    "access_key = config.get_secret_key_v2",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Bearer authentication is required",
    "eyJust a word.and.another one",
    "the key: it is under the mat",
    "primary_key: users_table_id_2024_01_01_index",
    "[secret github-token-1a2b3c]",
    "API_KEY=[secret github-token-1a2b3c]",
    "fn secret(key: &str) -> Token { Token::new(key) }",
    "author: Somebody1234567890abcdefgh",
    "10:21:33 INFO pass: 120, fail: 0",
];

#[test]
fn a_secret_is_replaced_wherever_it_stands() {
    let redaction = Redaction::default();
    for (text, secret) in secrets() {
        let text = text.replacen("{}", &secret, 1);
        let clean = redaction.apply(&text);
        assert!(!clean.contains(&secret), "{text}");
        let (before, behind) = text.split_once(&secret).unwrap();
        assert!(clean.starts_with(&format!("{before}[secret ")), "{clean} of {text}");
        assert!(clean.ends_with(&format!("]{behind}")), "{clean} of {text}");
        assert_eq!(redaction.apply(&clean), clean, "it stays");
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in HARMLESS {
        assert_eq!(Redaction::default().apply(text), Cow::Borrowed(*text));
    }
}

#[test]
fn a_key_of_aws_is_found_beside_its_id() {
    let id = format!("AKIA{}", "IOSFODNN7EXAMPLE");
    let text = format!("name,{id},wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz12345678,x");
    let clean = Redaction::default().apply(&text).into_owned();
    assert!(clean.starts_with("name,[secret aws-key-id-") && clean.ends_with("],x"), "{clean}");
    assert!(!clean.contains("wJalr"), "{clean}");
}

#[test]
fn one_value_has_one_placeholder_in_a_session() {
    let (one, other) = (SessionId::new(&SystemSource), SessionId::new(&SystemSource));
    let secret = token("ghp_", 36);
    let seen = |id, text: &str| Redaction::default().of_session(id).apply(text).into_owned();
    let clean = seen(one, &secret);
    assert_eq!(seen(one, &secret), clean, "also after a restart");
    assert_ne!(seen(other, &secret), clean);
    assert_eq!(seen(one, &format!("TOKEN={secret}")), format!("TOKEN={clean}"));
    assert_eq!(clean.len(), "[secret github-token-1a2b3c]".len());
}

#[test]
fn a_known_value_is_replaced_exactly() {
    let own = [
        ("KEY".to_owned(), "not so random".into()),
        ("LONG".to_owned(), "not so random as".into()),
    ];
    let redaction = Redaction::new(own)
        .with_secrets_of_work([("PIN".to_owned(), "hello-there".into())])
        .of_session(SessionId::new(&SystemSource));
    let clean = redaction.apply("a not so random b, not so random as c, hello-there!").into_owned();
    assert!(clean.starts_with("a [secret KEY] b, [secret LONG] c, [secret PIN-"), "{clean}");
    assert_eq!(clean.len(), "a [secret KEY] b, [secret LONG] c, [secret PIN-1a2b3c]!".len());
}

#[test]
fn json_stays_json() {
    let own = [("KEY".to_owned(), "with \"quotes\" in it".into())];
    let redaction = Redaction::new(own);
    let secret = token("ghp_", 36);
    let json = serde_json::json!({ "a": "x with \"quotes\" in it", "list": [secret], "n": 1 });
    let clean = redaction.apply_to_json(RawJson::of(&json).unwrap());
    let clean: Value = clean.read().unwrap();
    assert_eq!(clean["a"], "x [secret KEY]");
    assert!(clean["list"][0].as_str().unwrap().starts_with("[secret github-token-"), "{clean}");
    assert_eq!(clean["n"], 1);
}

#[test]
fn a_placeholder_is_put_back_only_for_what_was_found() {
    let redaction = Redaction::new([("KEY".to_owned(), "own-own-own".into())]);
    let secret = token("ghp_", 36);
    let placeholder = redaction.apply(&secret).into_owned();
    let arguments = |text: &str| serde_json::json!({ "content": text }).to_string();
    let put = |text: &str| redaction.put_back(&arguments(text));
    assert_eq!(put("nothing"), Ok(None));
    assert_eq!(put("[secret"), Ok(None));
    assert_eq!(put(&format!("A={placeholder}\n")), Ok(Some(arguments(&format!("A={secret}\n")))));
    let escaped = arguments(&placeholder).replace('[', "\\u005b");
    assert_eq!(redaction.put_back(&escaped), Ok(Some(arguments(&secret))));
    for text in [
        "[secret KEY]",
        "[secret github-token-ffffff]",
        "[secret made-up-0a1b2c]",
        "[secret OTHER_API_KEY]",
    ] {
        assert!(put(&format!("{placeholder} {text}")).unwrap_err().contains(text), "{text}");
    }
}

#[test]
fn prose_about_placeholders_is_prose() {
    let redaction = Redaction::new([("KEY".to_owned(), "known-to-be-secret".into())]);
    let redaction = redaction.of_session(SessionId::new(&SystemSource));
    let secret = token("ghp_", 36);
    let clean = redaction.apply(&secret).into_owned();
    for prose in [
        "[secret name]",
        "[secret \u{2026}]",
        "[secret made-up]",
        "[secret sauce-recipe]",
        "[secret ",
        "[secret]",
    ] {
        let arguments = |text: &str| serde_json::json!({ "content": text }).to_string();
        assert_eq!(redaction.put_back(&arguments(prose)), Ok(None), "{prose}");
        let mixed = arguments(&format!("{prose} {clean} {prose}"));
        let whole = arguments(&format!("{prose} {secret} {prose}"));
        assert_eq!(redaction.put_back(&mixed), Ok(Some(whole)), "{prose}");
    }
}

#[test]
fn a_secret_in_the_brackets_of_a_placeholder_is_one() {
    let redaction = Redaction::default();
    let secret = token("ghp_", 36);
    for text in [
        format!("[secret {secret}]"),
        format!("TOKEN=[secret-{secret}"),
        format!("PASSWORD=\"[secret{secret}\""),
        "[secret password=\"Tr0ub4dor&3x9\"]".to_owned(),
    ] {
        let clean = redaction.apply(&text);
        assert!(!clean.contains(&secret) && !clean.contains("Tr0ub4dor"), "{clean}");
    }
}

/// Returns what is shown of a text that comes in pieces.
fn shown(redaction: &Redaction, pieces: &[&str]) -> String {
    let mut veil = Veil::default();
    let mut all: String = pieces.iter().map(|piece| veil.pass(piece, redaction)).collect();
    all.push_str(&veil.rest(redaction));
    all
}

#[test]
fn a_secret_in_two_pieces_is_not_shown() {
    let redaction = Redaction::new([("KEY".to_owned(), "known-to-be-secret".into())]);
    let mut texts: Vec<String> =
        secrets().into_iter().map(|(text, secret)| text.replacen("{}", &secret, 1)).collect();
    texts.push("é known-to-be-secret é".to_owned());
    for text in texts {
        let whole = redaction.apply(&text).into_owned();
        for (at, _) in text.char_indices() {
            let (one, other) = text.split_at(at);
            assert_eq!(shown(&redaction, &[one, other]), whole, "{one:?} {other:?}");
        }
        let pieces: Vec<&str> = text.split_inclusive(|_| true).collect();
        assert_eq!(shown(&redaction, &pieces), whole, "{text}");
    }
}

#[test]
fn what_is_no_secret_is_shown_as_it_comes() {
    let redaction = Redaction::default();
    let mut veil = Veil::default();
    for piece in ["working", "still", "...", " 10%", " done\n", "é"] {
        assert_eq!(veil.pass(piece, &redaction), piece);
    }
    assert_eq!(veil.rest(&redaction), "");
}

/// Each beginning of something must not look at all that comes behind it.
#[test]
fn a_text_that_is_nothing_but_beginnings_is_searched_in_time() {
    let beginnings = [
        "TOKEN=",
        "TOKEN='",
        "TOKEN=\"x\\",
        "TOKEN: ",
        "token=>",
        "--token ",
        "a://",
        "a://b:",
        "a://b:c@",
        "a://@",
        "eyJhbGciOiJI.",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "ghp_",
        "AKIA",
        "[secret ",
        "\u{1b}[",
        "\u{1b}[1;",
        "%41",
        "\\u0041",
        "<token>",
        "sk-ant-api03-",
        "xoxb-1-",
        "Bearer ",
        "Authorization: Bearer ",
        "password = \"",
        "PASSWORD=[",
        "-",
        "_",
        ":",
        "=",
        "hooks.slack.com/services/",
        "https://hooks.slack.com/services/T",
        "known-to-be-secre",
        "SG.",
        "ya29.",
        "a.hvs.",
        "AKIAIOSFODNN7EXAMPLE/",
    ];
    let redaction = Redaction::new([("KEY".to_owned(), "known-to-be-secret".into())]);
    let started = std::time::Instant::now();
    for beginning in beginnings {
        let text = beginning.repeat((1 << 18) / beginning.len());
        redaction.apply(&text);
    }
    // Each value goes on to the end, and none is a secret.
    let references = "TOKEN=${".repeat(1 << 15);
    redaction.apply(&format!("{references}{}", ")".repeat(1 << 18)));
    // Whoever writes a `.env` may have it hold values that are hardly told apart.
    let value = |n: usize| (format!("N{n}"), Secret::from(format!("{:a<128}{n:04}", "secret")));
    let nested = |n: usize| (format!("P{n}"), Secret::from(format!("secret-{}", "b".repeat(n))));
    let values = (0..5_000).map(value).chain((1..1_000).map(nested));
    let redaction = Redaction::default().with_secrets_of_work(values);
    for beginning in [format!("{:a<128}", "secret"), format!("secret-{}", "b".repeat(2_000))] {
        redaction.apply(&beginning.repeat((1 << 18) / beginning.len()));
    }
    // What grows with the square of the length takes minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
}
