//! Our reading beside that of bash.

use std::process::Command;

use pretty_assertions::assert_eq;

use crate::permission::shell::{Word, read};

/// Words in all ways of quoting. Those that we call known must be what bash makes of them.
const WORDS: &[&str] = &[
    "plain",
    "'single'",
    "\"double\"",
    "a'b'\"c\"d",
    "''",
    "\"\"",
    "a''b",
    "\\a\\ \\'\\\"",
    "'a\\'",
    "\"a\\b\"",
    "\"a\\\\b\"",
    "\"a\\$b\"",
    "\"a\\`b\"",
    "\"a\\\"b\"",
    "\"it's\"",
    "'say \"x\"'",
    "$'a\\tb'",
    "$'\\x41\\x4a2'",
    "$'\\101\\60'",
    "$'\\u0041\\U00000042'",
    "$'it\\'s'",
    "$'a\\\\b'",
    "$'\\q'",
    "$'\\e[0m'",
    "$'\\\"'",
    "\"$'x'\"",
    "a$",
    "\"a$\"",
    "$",
    "\"$\"",
    "a#b",
    "#'x'b",
    "a=b",
    "--x=y",
    "{}",
    "{a}",
    "a{b}c",
    "{a,b}",
    "{1..3}",
    "{a,\"b c\"}",
    "'{a,b}'",
    "\\{a,b}",
    "{a\\,b}",
    "{a'..'b}",
    "x{",
    "x}",
    "},{",
    "{,",
    "{a..",
    "@{0}",
    "stash@{0}",
    "[",
    "]",
    "[]",
    "\"*\"",
    "\\*",
    "a\\\nb",
    "\"a\\\nb\"",
    "'a\\\nb'",
    "\u{a0}x",
    "é",
    "a\\é",
    "\"é\\é\"",
    "!x",
    "\"!x\"",
    "a!b",
    "^x",
    "%1",
    "a:b",
    "a~b",
    "\\~",
    "'~'",
    "~root",
    "a=~",
    "a:~",
    "\"~\"",
    "1",
    "12",
    "-",
    "--",
    "a,b",
    "a..b",
    "x@(",
    "\r",
    "$'\\r'",
    "a\rb",
    "$'\\cA'",
    "$'\\x'",
    "$'\\400'",
    "\"\\a\"",
    "\"\\\t\"",
    "\u{b}",
    "a\u{2028}b",
    "time",
    "if",
    "then",
    "$''",
    "$\"x\"",
    "\"a\"'b'$'c'd",
    "\"'\"'\"'",
    "\\\\",
    "'\\\\'",
    "\"\\\\\"",
    "\"#\"",
    "\\#",
    "a\\#",
    "a;b",
    "%s",
    "=",
    "+=",
    "x+=y",
    "x=(",
    "0x1f",
    "$$'a'",
    "\\$'a'",
    "\"\\$\"'a'",
    "{\"a,b\"}",
    "{a,b",
    "a,b}",
    "{{a}}",
    "{{a,b}}",
];

#[test]
fn known_words_are_what_bash_makes_of_them() {
    let mut known_words = 0;
    for source in WORDS {
        let line = format!("printf '%s\\0' {source}");
        let script = read(&line);
        let run = script.runs.first();
        let words: Option<Vec<_>> =
            run.and_then(|run| run.words.get(2..)?.iter().map(Word::known).collect());
        let Some(words) = words.filter(|_| script.doubts.is_empty() && script.runs.len() == 1)
        else {
            continue;
        };
        let output =
            Command::new("bash").args(["--norc", "--noprofile", "-c", &line]).output().unwrap();
        let expected = String::from_utf8(output.stdout).unwrap();
        let expected: Vec<_> = expected.split_terminator('\0').collect();
        // printf prints an empty text for no words at all.
        let words = if words.is_empty() { vec![""] } else { words };
        assert_eq!(words, expected, "{source:?}: {:?}", output.stderr);
        known_words += 1;
    }
    assert!(known_words > 90, "{known_words}");
}

/// Lines that run `evil` in bash, in places where shells differ.
const HIDDEN: &[&str] = &[
    "echo \\$'a\\'; evil #'",
    "echo $$'a\\'; evil #'",
    "echo \"$'\"; evil; \"'\"",
    "cat <<E\nE\\\n\n$(evil)\nE",
    "echo a#b; evil",
    "echo a\u{a0}#b\nevil",
    "cat <<''\n\nevil",
    "echo ${x:-'}'}; evil",
    "echo \"${x:-\"}\"}\"; evil",
    "echo `echo \\`evil\\``",
    "ls &\\\n& evil",
    "echo $\\\n(evil)",
    "e\\\nvil",
    "!(evil)",
    "((evil);(evil))",
    "x='a[$(evil)]'; echo $((x))",
    "x='$(evil)'; echo \"${x@P}\"",
    "[[ -v 'a[$(evil)]' ]]",
    "a=(1); unset 'a[$(evil)]'",
    "printf -v 'a[$(evil)]' x",
    "read 'a[$(evil)]' <<< x",
    "set -- 'a[$(evil)]'; echo $(($1))",
    "declare -i x='a[$(evil)]'",
    "x=y; y='a[$(evil)]'; ((x))",
    "echo $((evil); (evil))",
    "case x in x) evil;; esac",
    "echo $(case x in x) evil;; esac)",
    "cat <<A <<B\n$(evil)\nA\nB",
    "trap evil EXIT",
    "coproc evil; wait",
    "[[ x =~ (a|$(evil)) ]]",
    ": ${x:=$(evil)}",
    "cat <<-E\n\tx\n\tE\nevil",
    "PS4='$(evil)'; set -x; :",
    "x='-v a[$(evil)]'; [ $x ]",
    "a=([$(evil)]=1)",
];

#[test]
fn what_bash_runs_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    for line in HIDDEN {
        let mark = folder.path().join("ran");
        let _ = std::fs::remove_file(&mark);
        let script = format!("evil() {{ : > '{}'; }}\n{line}", mark.display());
        let output = Command::new("bash")
            .args(["--norc", "--noprofile", "-c", &script])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(mark.exists(), "bash does not run it: {line:?}: {output:?}");
        let read = read(line);
        let is_seen = read.runs.iter().any(|run| run.name() == Some("evil"));
        assert!(is_seen || !read.doubts.is_empty(), "{line:?}");
    }
}
