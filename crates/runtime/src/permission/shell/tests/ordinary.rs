//! Lines of daily work, which are read without a doubt.

use pretty_assertions::assert_eq;

use super::shown;
use crate::permission::shell::read;

/// Lines, and what they run.
const LINES: &[(&str, &[&str])] = &[
    ("", &[]),
    ("# only a comment", &[]),
    ("ls", &["ls"]),
    ("ls -la src", &["ls -la src"]),
    ("pwd && ls", &["pwd", "ls"]),
    ("cd src && cargo check", &["cd src", "cargo check"]),
    ("cargo test -p bowline-runtime --locked", &["cargo test -p bowline-runtime --locked"]),
    ("cargo build 2>&1 | tail -n 20", &["cargo build", "tail -n 20"]),
    ("cargo clippy --all-targets -- -D warnings", &["cargo clippy --all-targets -- -D warnings"]),
    ("RUST_BACKTRACE=1 cargo test", &["RUST_BACKTRACE=1 cargo test"]),
    ("CARGO_TARGET_DIR=/tmp/t cargo check", &["CARGO_TARGET_DIR=/tmp/t cargo check"]),
    ("cargo run --release -- --help", &["cargo run --release -- --help"]),
    (
        "cargo fmt --all --check || echo unformatted",
        &["cargo fmt --all --check", "echo unformatted"],
    ),
    ("git status", &["git status"]),
    ("git status --short && git diff --stat", &["git status --short", "git diff --stat"]),
    ("git log --oneline -5", &["git log --oneline -5"]),
    ("git -C sub log --format='%h %s'", &["git -C sub log --format=%h %s"]),
    (
        "git add -A && git commit -m 'A message; with $(signs)'",
        &["git add -A", "git commit -m A message; with $(signs)"],
    ),
    (
        "git commit -m \"$(cat <<'EOF'\nIt's done: (all) of it; `x`\n\nEOF\n)\"",
        &["cat", "git commit -m ?\"$(cat <<'EOF'\nIt's done: (all) of it; `x`\n\nEOF\n)\""],
    ),
    ("git --no-pager diff main...HEAD -- src", &["git --no-pager diff main...HEAD -- src"]),
    ("git show HEAD~1:src/lib.rs", &["git show HEAD~1:src/lib.rs"]),
    ("git stash show stash@{0}", &["git stash show stash@{0}"]),
    ("git checkout -b topic origin/main", &["git checkout -b topic origin/main"]),
    ("git rev-parse --show-toplevel", &["git rev-parse --show-toplevel"]),
    ("git -c user.name=me -c color.ui=never log", &["git -c user.name=me -c color.ui=never log"]),
    ("git config --get user.email", &["git config --get user.email"]),
    ("GIT_PAGER=cat git log", &["GIT_PAGER=cat git log"]),
    ("npm ci && npm test", &["npm ci", "npm test"]),
    ("npm run build --if-present", &["npm run build --if-present"]),
    ("NODE_ENV=test npx jest src/a.test.ts", &["NODE_ENV=test npx jest src/a.test.ts"]),
    ("node scripts/build.js --watch=false", &["node scripts/build.js --watch=false"]),
    (
        "python -m pytest -q tests/test_a.py::test_b",
        &["python -m pytest -q tests/test_a.py::test_b"],
    ),
    ("python3 scripts/x.py --n 3", &["python3 scripts/x.py --n 3"]),
    ("pip install -r requirements.txt", &["pip install -r requirements.txt"]),
    ("go test ./... -run TestX -v", &["go test ./... -run TestX -v"]),
    ("make -j4 test", &["make -j4 test"]),
    ("make PREFIX=/usr/local install", &["make PREFIX=/usr/local install"]),
    ("docker compose up -d", &["docker compose up -d"]),
    ("find . -name '*.rs'", &["find . -name *.rs"]),
    (
        "find src -type f -name '*.rs' -not -path '*/target/*' | xargs grep -n 'fn main'",
        &[
            "find src -type f -name *.rs -not -path */target/*",
            "xargs: grep -n fn main ?(its input)",
        ],
    ),
    (
        "find . -name '*.rs' -print0 | xargs -0 wc -l",
        &["find . -name *.rs -print0", "xargs: wc -l ?(its input)"],
    ),
    (
        "find . -type f -exec grep -l x {} +",
        &["find . -type f -exec grep -l x {} +", "find: grep -l x ?{}"],
    ),
    (
        "grep -rn \"a|b\" src --include='*.rs' | head -20",
        &["grep -rn a|b src --include=*.rs", "head -20"],
    ),
    ("rg -n 'struct \\w+' crates", &["rg -n struct \\w+ crates"]),
    ("sed -n '10,20p' src/lib.rs", &["sed -n 10,20p src/lib.rs"]),
    ("sed -i 's/foo/bar/g' src/lib.rs", &["sed -i s/foo/bar/g src/lib.rs"]),
    ("sed -E -e 's|a(b)|\\1|' -e '/x/d' file", &["sed -E -e s|a(b)|\\1| -e /x/d file"]),
    (
        "awk '{ print $1 }' file | sort | uniq -c | sort -rn",
        &["awk { print $1 } file", "sort", "uniq -c", "sort -rn"],
    ),
    ("awk -F: '$3 > 1000' /etc/passwd", &["awk -F: $3 > 1000 /etc/passwd"]),
    ("jq '.a[] | {b, c: .d}' x.json", &["jq .a[] | {b, c: .d} x.json"]),
    ("curl -sS http://localhost:8080/health", &["curl -sS http://localhost:8080/health"]),
    ("cat file | tr a-z A-Z", &["cat file", "tr a-z A-Z"]),
    ("echo \"hello $USER\"", &["echo ?\"hello $USER\""]),
    ("echo 'it'\\''s'", &["echo it's"]),
    ("echo $'a\\tb'", &["echo a\tb"]),
    ("echo done > out.txt", &["echo done >out.txt"]),
    ("cmd >> log 2>&1", &["cmd >log"]),
    ("cmd > /dev/null 2> err.txt < in.txt", &["cmd <in.txt >/dev/null >err.txt"]),
    ("cmd &> all.txt", &["cmd >all.txt"]),
    ("> empty.txt", &[">empty.txt"]),
    (
        "cat > src/x.rs <<'EOF'\nfn main() {\n    println!(\"it's $x `y` $(z)\");\n}\nEOF",
        &["cat >src/x.rs"],
    ),
    ("cat <<EOF > note\nHome is $HOME and \\$x.\nEOF", &["cat >note"]),
    ("cat <<-END\n\ttabbed\n\tEND\nls", &["cat", "ls"]),
    ("grep x <<< \"$text\"", &["grep x"]),
    ("for f in a b c; do echo \"$f\"; done", &["echo ?\"$f\""]),
    ("for f in *.txt; do wc -l \"$f\" >> counts; done", &["wc -l ?\"$f\" >counts"]),
    ("for i in 1 2 3; do echo $((i * 2)); done", &["echo ?$((i * 2))"]),
    ("for ((i=0; i<3; i++)); do echo $i; done", &["echo ?$i"]),
    ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done", &["[ ?$i -lt 3 ]"]),
    (
        "while read -r line; do echo \"$line\"; done < file",
        &["read -r line", "echo ?\"$line\"", "<file"],
    ),
    (
        "if [ -f Cargo.toml ]; then cargo check; else echo none; fi",
        &["[ -f Cargo.toml ]", "cargo check", "echo none"],
    ),
    ("if [[ -n $x && $x == a* ]]; then ls; fi", &["ls"]),
    ("[[ $v =~ ^v[0-9]+(\\.[0-9]+)*$ ]] && echo version", &["echo version"]),
    ("case \"$1\" in -h|--help) echo help;; *) ls;; esac", &["echo help", "ls"]),
    ("(cd sub && make) && ls", &["cd sub", "make", "ls"]),
    ("{ echo a; echo b; } > both", &["echo a", "echo b", ">both"]),
    ("diff <(sort a) <(sort b)", &["sort a", "sort b", "diff ?<(sort a) ?<(sort b)"]),
    ("echo $(git rev-parse HEAD)", &["git rev-parse HEAD", "echo ?$(git rev-parse HEAD)"]),
    (
        "version=`cat VERSION`; echo \"${version%%.*}\"",
        &["cat VERSION", "echo ?\"${version%%.*}\""],
    ),
    ("x=${1:-default}; echo \"$x\"", &["echo ?\"$x\""]),
    ("set -euo pipefail; ls", &["set -euo pipefail", "ls"]),
    ("timeout 60 cargo test", &["timeout: cargo test"]),
    ("time cargo build", &["cargo build"]),
    ("nohup npm start > log 2>&1 &", &["nohup: npm start >log"]),
    ("sudo -n apt-cache search x", &["sudo: apt-cache search x"]),
    ("env FOO=bar cargo test", &["env: FOO=bar cargo test"]),
    ("bash -c 'ls && pwd'", &["bash: ls", "bash: pwd"]),
    ("bash -lc \"cargo check\"", &["bash: cargo check"]),
    ("bash scripts/test --fast", &["bash: scripts/test --fast"]),
    ("ls | xargs -I{} cp {} /tmp/{}", &["ls", "xargs: cp ?{} ?/tmp/{}"]),
    ("tar -czf a.tar.gz src && tar -tzf a.tar.gz", &["tar -czf a.tar.gz src", "tar -tzf a.tar.gz"]),
    ("rsync -av --delete a/ b/", &["rsync -av --delete a/ b/"]),
    ("mkdir -p a/{b,c} && touch a/b/x", &["mkdir -p ?a/{b,c}", "touch a/b/x"]),
    ("cp src/*.rs /tmp/", &["cp ?src/*.rs /tmp/"]),
    ("rm -rf target/debug", &["rm -rf target/debug"]),
    ("ls \\\n  -l \\\n  src", &["ls -l src"]),
    (
        "command -v cargo >/dev/null || echo missing",
        &["command -v cargo >/dev/null", "echo missing"],
    ),
    ("type -p node; which npm", &["type -p node", "which npm"]),
    ("trap 'rm -f \"$tmp\"' EXIT", &["trap rm -f \"$tmp\" EXIT", "trap: rm -f ?\"$tmp\""]),
    ("sleep 1 & wait", &["sleep 1", "wait"]),
    ("test -d x || mkdir x", &["test -d x", "mkdir x"]),
    ("export FOO=bar; echo $FOO", &["export FOO=bar", "echo ?$FOO"]),
    ("printf '%s\\n' \"a b\" c", &["printf %s\\n a b c"]),
    (
        "declare -a seen=(a b); local dir=\"$1\"; export OUT=\"$dir/out\"",
        &["declare -a seen=", "local ?dir=\"$1\"", "export ?OUT=\"$dir/out\""],
    ),
    ("files=(a b c); echo \"${files[@]}\"", &["echo ?\"${files[@]}\""]),
    ("echo \"${#files[@]} of ${total}\"", &["echo ?\"${#files[@]} of ${total}\""]),
    (
        "ps aux | grep -v grep | awk '{print $2}' | head -1",
        &["ps aux", "grep -v grep", "awk {print $2}", "head -1"],
    ),
    ("kill -0 1234 2>/dev/null && echo alive", &["kill -0 1234 >/dev/null", "echo alive"]),
    ("! grep -q TODO src/lib.rs", &["grep -q TODO src/lib.rs"]),
];

#[test]
fn ordinary_lines_are_read_without_a_doubt() {
    assert!(LINES.len() >= 60, "{}", LINES.len());
    let read_lines = |(line, _): &(&'static str, &[&str])| {
        let script = read(line);
        let runs = shown(&script);
        (*line, runs, script.doubts)
    };
    let expected = |(line, runs): &(&'static str, &[&str])| {
        let runs = runs.iter().map(|run| (*run).to_owned()).collect();
        (*line, runs, Vec::new())
    };
    let differs = |line: &&(&'static str, &[&str])| read_lines(line) != expected(line);
    let different: Vec<_> = LINES.iter().filter(differs).collect();
    let ours: Vec<_> = different.iter().map(|line| read_lines(line)).collect();
    let theirs: Vec<_> = different.iter().map(|line| expected(line)).collect();
    assert_eq!(ours, theirs);
}
