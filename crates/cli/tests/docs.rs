//! The README and the book say what is there: their example compiles, their links lead somewhere.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn pages() -> Vec<PathBuf> {
    let folders = [root(), root().join("docs")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn the_readme_has_the_example_word_for_word() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = include_str!("../examples/readme.rs");
    let code = &example[example.find("use bowline").unwrap()..];
    assert!(readme.contains(code), "README.md and examples/readme.rs differ");
}

#[test]
fn pages_have_their_examples_word_for_word() {
    for (name, example) in [
        ("effects", "effects"),
        ("transforms", "transforms"),
        ("gates", "gates"),
        ("middleware", "middleware"),
        ("orchestrators", "custom_orchestrator"),
    ] {
        let page = std::fs::read_to_string(root().join(format!("docs/{name}.md"))).unwrap();
        let example = root().join(format!("crates/cli/examples/{example}.rs"));
        let example = std::fs::read_to_string(example).unwrap();
        let code = &example[example.find("\nuse ").unwrap() + 1..];
        assert!(page.contains(code), "docs/{name}.md and its example differ");
    }
}

#[test]
fn links_within_the_repository_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, _) = link.split_once('#').unwrap_or((link, ""));
            let is_outside = path.contains("://") || path.is_empty();
            if !is_outside && !page.with_file_name(path).exists() {
                broken.push(format!("{} -> {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
