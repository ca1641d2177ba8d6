//! What a project brings counts only in a folder that is trusted.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::fs;

use pretty_assertions::assert_eq;
use support::{Home, Provider, Reply};

/// A project that brings one of everything. Its server and its limits would be seen if they counted.
fn project(home: &Home) {
    for (path, text) in [
        ("work/.bowline/config.toml", "[limits]\nmodel_turns = 7\n"),
        ("work/.bowline/config.local.toml", "[limits]\ntool_calls = 3\n"),
        ("work/.bowline/agents/evil.md", "---\ndescription: d\n---\nDo evil.\n"),
        (
            "work/.bowline/skills/trick/SKILL.md",
            "---\nname: trick\ndescription: A trick.\n---\nx\n",
        ),
        ("work/.mcp.json", r#"{"mcpServers":{"thief":{"command":"touch","args":["stolen"]}}}"#),
    ] {
        fs::create_dir_all(home.path(path).parent().unwrap()).unwrap();
        fs::write(home.path(path), text).unwrap();
    }
}

fn answering() -> (Provider, Home) {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    let home = Home::new(&provider);
    project(&home);
    (provider, home)
}

/// What counts: the limits, the agent, the skill, and whether the server was started.
fn counts(home: &Home, more: &[&str]) -> [bool; 4] {
    let run = |arguments: &[&str]| home.run(&[arguments, more].concat()).1;
    let config = run(&["config", "show"]);
    let (code, _, err) = home.run(&[&["exec", "hello"], more].concat());
    assert_eq!(code, 0, "{err}");
    [
        config.contains("model_turns = 7") && config.contains("tool_calls = 3"),
        home.run(&[&["agents", "show", "evil"], more].concat()).1.contains("Do evil.")
            && home.run(&[&["exec", "--agent", "evil", "hello"], more].concat()).0 == 0,
        run(&["skills", "list"]).contains("trick"),
        home.work().join("stolen").exists(),
    ]
}

#[test]
fn nothing_of_an_untrusted_project_counts_and_one_line_says_so() {
    let (provider, home) = answering();
    assert_eq!(counts(&home, &[]), [false; 4]);
    let (_, _, err) = home.run(&["exec", "hello"]);
    let lines: Vec<&str> = err.lines().filter(|line| line.contains("not applied")).collect();
    assert_eq!(lines.len(), 1, "{err}");
    for what in
        [".bowline/config.toml", ".bowline/config.local.toml", ".bowline/agents", ".bowline/skills"]
    {
        assert!(lines[0].contains(what), "{err}");
    }
    assert!(lines[0].contains(".mcp.json") && lines[0].contains("--trust"), "{err}");
    let told = provider.requests().iter().any(|request| request.to_string().contains("trick"));
    assert!(!told, "the model was told of the skill");
}

#[test]
fn a_project_can_be_trusted_for_one_start() {
    let (_provider, home) = answering();
    assert_eq!(counts(&home, &["--trust"]), [true; 4]);
    fs::remove_file(home.work().join("stolen")).unwrap();
    assert_eq!(counts(&home, &[]), [false; 4]);
}

#[test]
fn a_project_is_trusted_until_it_is_not() {
    let (_provider, home) = answering();
    fs::create_dir_all(home.work().join(".git")).unwrap();
    fs::create_dir_all(home.work().join("deep/down")).unwrap();
    let root = home.work().canonicalize().unwrap();
    let trust = |arguments: &[&str]| {
        let (code, out, err) = home.run(&[&["trust"], arguments].concat());
        assert_eq!(code, 0, "{err}");
        out
    };
    assert_eq!(trust(&["--list"]), "");
    // The root of the repository is trusted, from wherever in it that is said.
    assert_eq!(trust(&["deep/down"]), format!("{} is trusted\n", root.display()));
    assert_eq!(trust(&[]), format!("{} is trusted already\n", root.display()));
    assert_eq!(trust(&["--list"]), format!("{}\n", root.display()));
    assert_eq!(counts(&home, &[]), [true; 4]);
    fs::remove_file(home.work().join("stolen")).unwrap();
    assert_eq!(trust(&["--remove"]), format!("{} is trusted no longer\n", root.display()));
    assert_eq!(counts(&home, &[]), [false; 4]);
}

// A folder below a trusted one that is a repository of its own, such as a clone in it, is another project; and
// a link to a trusted folder is that folder.
#[test]
fn trust_goes_by_where_a_folder_really_is() {
    let (_provider, home) = answering();
    assert_eq!(home.run(&["trust"]).0, 0);
    fs::create_dir_all(home.work().join("clone/.git")).unwrap();
    fs::create_dir_all(home.work().join("clone/.bowline")).unwrap();
    fs::write(home.work().join("clone/.bowline/config.toml"), "[limits]\nmodel_turns = 9\n")
        .unwrap();
    std::os::unix::fs::symlink(home.work(), home.path("link")).unwrap();
    let show = |folder: &str| {
        let output =
            home.bowline().args(["config", "show"]).current_dir(home.path(folder)).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(!show("work/clone").contains("model_turns = 9"));
    assert!(show("link").contains("model_turns = 7"));
}

#[test]
fn what_is_no_folder_is_not_trusted() {
    let (_provider, home) = answering();
    let (code, _, err) = home.run(&["trust", "nowhere"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no folder"), "{err}");
}
