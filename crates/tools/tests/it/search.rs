//! Listing folders and finding files and text.

use std::time::{Duration, SystemTime};

use bowline_agent::tool::ToolError;
use bowline_tools::{Glob, Grep, List};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::desk::{Desk, failure};

fn project() -> Desk {
    let desk = Desk::new();
    desk.put(".gitignore", "target\n*.log\n");
    desk.put(".hidden/x.rs", "needle");
    desk.put("target/out.rs", "needle");
    desk.put("a.log", "needle");
    desk.put("src/main.rs", "fn main() {\n    needle();\n}\n\nfn other() {}\n");
    desk.put("src/deep/er/lib.rs", "// Needle\n");
    desk.put("blob", b"needle\0");
    desk.put("README.md", "nothing\n");
    desk
}

async fn list(desk: &Desk, arguments: Value) -> Result<String, ToolError> {
    desk.call(List::new(desk.workspace.clone()), arguments).await
}

async fn glob(desk: &Desk, arguments: Value) -> Result<String, ToolError> {
    desk.call(Glob::new(desk.workspace.clone()), arguments).await
}

async fn grep(desk: &Desk, arguments: Value) -> Result<String, ToolError> {
    desk.call(Grep::new(desk.workspace.clone()), arguments).await
}

#[tokio::test]
async fn a_folder_is_listed_as_a_tree_without_what_is_ignored() {
    let desk = project();
    let tree = list(&desk, json!({})).await.unwrap();
    assert_eq!(tree, "README.md\nblob\nsrc/\n  deep/\n  main.rs");
    let deeper = list(&desk, json!({ "path": "src", "depth": 3 })).await.unwrap();
    assert_eq!(deeper, "deep/\n  er/\n    lib.rs\nmain.rs");
    let file = failure(list(&desk, json!({ "path": "README.md" })).await);
    assert_eq!(file, "README.md is a file; see it with read");
    let missing = failure(list(&desk, json!({ "path": "scr" })).await);
    assert_eq!(missing, "there is no scr; did you mean src?");
}

#[tokio::test]
async fn a_long_listing_is_cut_and_says_so() {
    let desk = Desk::new();
    for n in 0..1100 {
        desk.put(&format!("{n:04}"), "");
    }
    let text = list(&desk, json!({})).await.unwrap();
    assert!(text.ends_with("0999\n[100 more entries; list a folder of it or a smaller depth]"));
    let text = glob(&desk, json!({ "pattern": "*" })).await.unwrap();
    assert!(text.ends_with("[600 more older files; use a narrower pattern]"), "{text}");
}

#[tokio::test]
async fn files_are_found_by_name_newest_first() {
    let desk = project();
    let old = SystemTime::now() - Duration::from_secs(1000);
    let file = std::fs::File::options().write(true).open(desk.path("src/main.rs")).unwrap();
    file.set_modified(old).unwrap();
    let all = glob(&desk, json!({ "pattern": "*.rs" })).await.unwrap();
    assert_eq!(all, "src/deep/er/lib.rs\nsrc/main.rs");
    assert_eq!(glob(&desk, json!({ "pattern": "src/*.rs" })).await.unwrap(), "src/main.rs");
    let below = json!({ "pattern": "**/*.{rs,md}", "path": "src/deep" });
    assert_eq!(glob(&desk, below).await.unwrap(), "src/deep/er/lib.rs");
    let absolute = format!("{}/src/*.rs", desk.workspace.cwd.display());
    assert_eq!(glob(&desk, json!({ "pattern": absolute })).await.unwrap(), "src/main.rs");
    let hidden = json!({ "pattern": ".hidden/*" });
    assert_eq!(glob(&desk, hidden).await.unwrap(), ".hidden/x.rs");
    assert_eq!(glob(&desk, json!({ "pattern": "*.c" })).await.unwrap(), "no files");
    assert!(failure(glob(&desk, json!({ "pattern": "a[" })).await).starts_with("bad pattern: "));
}

#[tokio::test]
async fn text_is_found_with_its_lines() {
    let desk = project();
    let found = grep(&desk, json!({ "pattern": "needle" })).await.unwrap();
    assert_eq!(found, "src/main.rs\n2:    needle();");
    let found =
        grep(&desk, json!({ "pattern": "NEEDLE", "ignore_case": true, "files_only": true }));
    assert_eq!(found.await.unwrap(), "src/deep/er/lib.rs\nsrc/main.rs");
    let found =
        grep(&desk, json!({ "pattern": "fn", "glob": "*.rs", "context": 1 })).await.unwrap();
    let expected = "src/main.rs\n1:fn main() {\n2-    needle();\n--\n4-\n5:fn other() {}";
    assert_eq!(found, expected);
    let found = grep(&desk, json!({ "pattern": "needle", "path": "src/main.rs" })).await.unwrap();
    assert_eq!(found, "src/main.rs\n2:    needle();");
    assert_eq!(grep(&desk, json!({ "pattern": "absent" })).await.unwrap(), "no matches");
    assert!(failure(grep(&desk, json!({ "pattern": "(" })).await).starts_with("bad pattern: "));
}

#[tokio::test]
async fn many_matches_are_cut_and_counted() {
    let mut desk = Desk::new();
    desk.cx.output_bytes = 1000;
    desk.put("a", "match\n".repeat(500));
    let found = grep(&desk, json!({ "pattern": "match" })).await.unwrap();
    assert!(found.len() <= 1000, "{}", found.len());
    assert!(
        found.ends_with("500 matches in 1 files: narrow the pattern, path or glob]"),
        "{found}"
    );
    desk.put("b", "x".repeat(5000));
    let found = grep(&desk, json!({ "pattern": "x", "path": "b" })).await.unwrap();
    assert_eq!(found, format!("b\n1:{}…", "x".repeat(400)));
}
