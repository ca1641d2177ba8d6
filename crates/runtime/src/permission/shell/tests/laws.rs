//! What holds for every text.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::permission::shell::{Count, Folder, Word, read};

/// Pieces of which commands are made.
const PIECES: &[&str] = &[
    " ",
    "\n",
    ";",
    "&",
    "&&",
    "|",
    "||",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "[[",
    "]]",
    "[",
    "]",
    "$",
    "$(",
    "${",
    "$((",
    "`",
    "'",
    "\"",
    "$'",
    "\\",
    "\\\n",
    "#",
    "~",
    "*",
    "?",
    "!",
    "=",
    "+=",
    "<",
    ">",
    ">>",
    "<<",
    "<<-",
    "<<<",
    "<(",
    ">(",
    ">&",
    "&>",
    "2>&1",
    "if",
    "then",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "case",
    "esac",
    ";;",
    "while",
    "function",
    "coproc",
    "select",
    "time",
    "eval",
    "bash",
    "-c",
    "sudo",
    "env",
    "xargs",
    "find",
    "-exec",
    "git",
    "sed",
    "awk",
    "x",
    "a=1",
    "E\n",
    "{a,b}",
    "é",
    "\u{a0}",
    "\0",
    "@",
    "${x@P}",
    "9999999999999999999999",
    "declare",
    "read",
    "test",
    "-v",
    "trap",
    "cd",
    "s/a/b/",
    "tar",
    "--",
    "-",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        let _ = read(&text);
    }

    #[test]
    fn any_pieces_of_commands_are_read(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        let _ = read(&pieces.concat());
    }

    #[test]
    fn any_change_of_a_script_is_read(at in 0..SCRIPT.len(), cut in 0..40_usize, piece in prop::sample::select(PIECES)) {
        let end = (at + cut).min(SCRIPT.len());
        let text = format!("{}{piece}{}", &SCRIPT[..at], &SCRIPT[end..]);
        let _ = read(&text);
    }
}

const SCRIPT: &str = r#"#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")/.."
step() {
  printf '\n== %s\n' "$*"
  "$@"
}
for file in src/*.rs; do
  if [[ $file == *test* && -n ${SKIP:-} ]]; then continue; fi
  case "$file" in
    *lib.rs) echo "lib: $(wc -l < "$file")" ;;
    *) sed -n '1,5p' "$file" | tee -a "out/${file##*/}" ;;
  esac
done
cat > note <<EOF
All of it: $((1 + 2)) and `date`
EOF
find . -name '*.tmp' -print0 | xargs -0 rm -f
sudo env A=b bash -c 'exec 3<> file; { echo a; } >&2'
"#;

#[test]
fn long_and_deep_texts_are_read_in_a_moment() {
    let pieces = [
        "a ",
        "(",
        "$(",
        "${x:-",
        "`",
        "\\`",
        "{ ",
        "$((",
        "if ",
        "cat <<E\n",
        "{a",
        "[",
        "sudo ",
        "eval ",
        "a&&",
        "a|",
        "! ",
        "cd a && ",
        "f(){ a;};",
        "bash -c ' ",
        "for x in a;do ",
        "\n",
        "\\\n",
        "$x",
        "'a'",
        "\"$(",
        "read x;",
        "[[ ",
        "a[",
        "case x in ",
        "xargs ",
        "\"`",
        "$(\"$(`",
        "while cd a; do ",
    ];
    for piece in pieces {
        let text = piece.repeat(128 * 1024 / piece.len());
        let start = Instant::now();
        let _ = read(&text);
        // Far above what it takes, for machines that are busy and builds that are slow.
        assert!(start.elapsed() < Duration::from_secs(5), "{piece}: {:?}", start.elapsed());
    }
}

#[test]
fn the_folder_of_a_program_is_where_cd_leads_for_certain() {
    let folders = |line: &str| -> Vec<String> {
        let runs = read(line).runs.into_iter().filter(|run| run.name() == Some("x"));
        let shown = |folder: Folder| {
            let ways = folder.ways.iter().map(|way| way.display().to_string());
            let open = folder.is_open.then(|| "?".to_owned());
            ways.chain(open).collect::<Vec<_>>().join("|")
        };
        runs.map(|run| shown(run.folder)).collect()
    };
    assert_eq!(folders("x"), [""]);
    assert_eq!(folders("cd a && x"), ["a"]);
    assert_eq!(folders("cd a && cd ../b && x"), ["b"]);
    assert_eq!(folders("cd ../.. && cd /a/.. && cd ../b; x"), ["/b|"]);
    assert_eq!(folders("cd; x; cd ~/a && x; cd $HOME/b && x"), ["~|", "~/a", "~/b"]);
    assert_eq!(folders("cd a; x"), ["a|"]);
    assert_eq!(folders("cd .; x"), [""]);
    assert_eq!(folders("cd a; cd b; x"), ["a/b|b|a|"]);
    assert_eq!(folders("cd a || x"), ["a|"]);
    assert_eq!(folders("! cd a && x"), ["a|"]);
    assert_eq!(folders("cd $a && x"), ["|?"]);
    assert_eq!(folders("cd $a && cd /b && x"), ["/b"]);
    assert_eq!(folders("cd a; cd -; x; pushd b && x"), ["a||a/b|b|?", "a/b|b||a|?"]);
    assert_eq!(folders("(cd a && x) && x"), ["a", ""]);
    assert_eq!(folders("cd a | x"), [""]);
    assert_eq!(folders("cd a & x"), [""]);
    assert_eq!(folders("if cd a; then x; fi; x"), ["a|", "a|"]);
    assert_eq!(folders("while x; do cd a; done"), ["|a|?"]);
    assert_eq!(folders("f() { x; }; cd a; f"), ["|a|?"]);
    assert_eq!(folders("bash -c 'cd a && x' && x"), ["a", ""]);
    assert_eq!(folders("eval 'cd a' && x"), ["a|"]);
    // Beyond some ways it may be any.
    let many: String = (0..9).map(|at| format!("cd {at}; ")).collect();
    assert!(folders(&format!("{many} x"))[0].ends_with("|?"));
    assert_eq!(folders(&format!("cd {} && x", "a/".repeat(1_000))), ["|?"]);
    // Nor does a way grow without end.
    let deep = folders(&format!("{} x", "cd a && ".repeat(200))).remove(0);
    assert!(deep.ends_with("|?"));
    assert!(deep.split('|').all(|way| way.split('/').count() <= 64), "{deep}");
}

#[test]
fn what_a_word_begins_with_is_known() {
    let unknown = |source: &str, starts: &str, count| Word::Unknown {
        source: source.to_owned(),
        starts: starts.to_owned(),
        count,
    };
    let script = read("x src/*.rs \"a/$b\" a$b {a,b}/c ~/d \"$@\" $# a'[b'*");
    assert_eq!(
        script.runs[0].words[1..],
        [
            unknown("src/*.rs", "src/", Count::Any),
            unknown("\"a/$b\"", "a/", Count::One),
            unknown("a$b", "", Count::Any),
            unknown("{a,b}/c", "", Count::Any),
            unknown("~/d", "", Count::One),
            unknown("\"$@\"", "", Count::Any),
            unknown("$#", "", Count::Any),
            unknown("a'[b'*", "a[b", Count::Any),
        ]
    );
}

#[test]
fn a_program_in_another_language_is_opaque() {
    let is_opaque = |line: &str| read(line).runs.iter().any(|run| run.is_opaque);
    for line in [
        "python -c 'x'",
        "python3 - <<'E'\nx\nE",
        "perl -e x",
        "node -e x",
        "echo x | ruby",
        "psql -c x",
    ] {
        assert!(is_opaque(line), "{line}");
    }
    for line in ["python x.py", "python3.11 -m pytest", "node x.js", "perl x.pl -e"] {
        assert!(!is_opaque(line), "{line}");
    }
}
