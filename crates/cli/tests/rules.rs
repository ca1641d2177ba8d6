//! `bowline rules`, and rules as a run of `exec` meets them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a failure here is a failure of the test"
)]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, obedient, results};

/// A provider that makes one call of a tool, and then says `done`.
fn calls(tool: &'static str, arguments: Value) -> Provider {
    Provider::answering(move |request| match results(request) {
        0 => Reply::Calls(vec![("call_0".to_owned(), tool, arguments.clone())]),
        _ => Reply::Text("done".to_owned()),
    })
}

/// Returns what the model was told last.
fn told(provider: &Provider) -> String {
    let last = provider.requests().pop().unwrap();
    messages(&last).last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn explain_says_what_decides_about_each_part() {
    let home = Home::configured(
        "[permissions]\nallow = [\"bash(cargo test *)\"]\n\
         deny = [{ rule = \"bash(git push *)\", reason = \"people push\" }]\n",
    );
    let command = "cargo test && sudo git push";
    let (code, out, err) = home.run(&["rules", "explain", "--mode", "ask", command]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("allow     bash(cargo test): it falls under the rule `bash(cargo test *)`"),
        "{out}"
    );
    assert!(out.contains("through sudo") && out.contains(": people push"), "{out}");
    assert!(out.contains("(user, ") && out.ends_with("verdict   deny\n"), "{out}");
    let (code, out, _) = home.run(&["rules", "explain", "--json", command]);
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &explained["decision"], &explained["mode"]),
        (0, &json!("deny"), &json!("auto"))
    );
    assert_eq!(explained["segments"][0]["why"]["layer"], "user");
    let (_, out, _) = home.run(&["rules", "explain", "--path", ".env"]);
    assert!(
        out.contains(".env is a file that holds secrets") && out.contains("--allow 'read("),
        "{out}"
    );
    let (_, out, _) = home.run(&["rules", "explain", "--host", "x.org", "--allow", "net(x.org)"]);
    assert!(out.contains("(command line, ") && out.ends_with("verdict   allow\n"), "{out}");
}

#[test]
fn rules_are_listed_and_checked() {
    let home = Home::configured("[permissions]\nask = [\"bash(rm *)\"]\nallow = [\"read(~/x)\"]\n");
    let (code, out, _) = home.run(&["rules", "list"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("ask    bash(rm *)  user  ") && out.contains("config.toml:2"), "{out}");
    assert!(out.ends_with("else the permission mode auto\n"), "{out}");
    assert_eq!(
        home.run(&["rules", "check"]),
        (0, "all rules are right\n".to_owned(), String::new())
    );
    let home =
        Home::configured("[permissions]\nask = [{ rule = \"bash(rm *)\", match = [\"mv\"] }]\n");
    let (code, _, err) = home.run(&["rules", "check"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("config.toml: line 2: permissions.ask.0: `bash(rm *)` is not about"),
        "{err}"
    );
    let (code, _, err) = home.run(&["exec", "--deny", "bash(a | b)", "go"]);
    assert_eq!(code, 2);
    assert!(err.contains("a rule is about one program"), "{err}");
}

#[test]
fn a_rule_about_a_tool_that_is_not_known_is_said() {
    let home = Home::configured(
        "[permissions]\ndeny = [\"raed\", \"own\", \"mcp__x__y\", \"load_skill\", \"shared_*\"]\n\
         [agents.a.permissions]\nask = [\"nett\"]\n\
         [tools.own]\ndescription = \"x\"\ncommand = [\"true\"]\n",
    );
    let (code, out, err) = home.run(&["rules", "check", "-c", "permissions.allow=[\"Bsh\"]"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let said = |rule: &str, meant: &str| {
        format!("the rule `{rule}` is about a tool that is not known here; did you mean {meant:?}?")
    };
    for (rule, meant) in [("raed", "read"), ("nett", "net"), ("Bsh", "bash")] {
        assert!(err.contains(&said(rule, meant)), "{err}");
    }
    assert_eq!(err.lines().count(), 3, "{err}");
    // It may be one that somebody adds: that is no reason not to start.
    let (code, _, err) = home.run(&["rules", "list"]);
    assert_eq!((code, err.matches("is not known here").count()), (0, 2), "{err}");
}

#[test]
fn what_is_denied_is_told_to_the_model_with_the_way_to_allow_it() {
    let arguments = json!({ "path": "../outside.txt", "content": "x" });
    let provider = calls("write", arguments.clone());
    let home = Home::new(&provider);
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 0, "{err}");
    assert!(!home.path("outside.txt").exists());
    let told = told(&provider);
    assert!(told.contains("it is outside the workspace"), "{told}");
    let rule = told.split("--allow '").nth(1).unwrap().trim_end_matches('\'').to_owned();
    let provider = calls("write", arguments);
    let home_of = Home::new(&provider);
    // The rule is about one place; in another home it is another one.
    let rule = rule.replace(home.path("").to_str().unwrap(), home_of.path("").to_str().unwrap());
    let (code, _, err) = home_of.run(&["exec", "--allow", &rule, "go"]);
    assert_eq!(code, 0, "{err}");
    assert!(home_of.path("outside.txt").exists(), "{rule}");
}

#[test]
fn a_flag_denies_whatever_the_mode_and_its_tool_is_hidden() {
    let provider = calls("bash", json!({ "command": "echo x > made.txt" }));
    let home = Home::new(&provider);
    let (code, _, _) = home.run(&["exec", "--yolo", "--deny", "bash(echo *)", "go"]);
    assert_eq!(code, 0);
    assert!(!home.work().join("made.txt").exists());
    assert!(
        told(&provider).contains("the rule `bash(echo *)` (command line"),
        "{}",
        told(&provider)
    );
    let (code, _, _) = home.run(&["exec", "--deny", "bash", "go"]);
    assert_eq!(code, 0);
    let request = provider.requests().pop().unwrap();
    let tools: Vec<_> =
        request["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert!(!tools.contains(&&json!("bash")) && tools.contains(&&json!("read")), "{tools:?}");
}

#[test]
fn denials_are_in_the_end_of_the_run() {
    let provider = calls("read", json!({ "path": ".env" }));
    let home = Home::new(&provider);
    std::fs::write(home.work().join(".env"), "KEY=hidden-value").unwrap();
    let (code, out, _) = home.run(&["exec", "--json", "go"]);
    assert_eq!(code, 0);
    assert!(!told(&provider).contains("hidden-value"));
    let mut events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let end = events.rfind(|event| event["type"] == "run_end").unwrap();
    assert_eq!(end["data"]["denials"], json!(["call_0"]));
}

#[test]
fn without_the_sandbox_commands_have_all_rights_and_it_is_said() {
    let provider = calls("bash", json!({ "command": "echo here > ../outside" }));
    let home = Home::new(&provider);
    let (code, _, err) = home.run(&["exec", "--sandbox", "off", "go"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("sandbox off: commands are not confined"), "{err}");
    assert_eq!(std::fs::read_to_string(home.path("outside")).unwrap(), "here\n");
}

#[test]
fn what_flags_forbid_holds_for_whoever_goes_on_with_the_session() {
    let provider = obedient();
    let home = Home::new(&provider);
    let can_write = |arguments: &[&str], name: &str| {
        let prompt = format!("put {name}");
        let (_, _, err) = home.run(&[&["exec"], arguments, &[&prompt]].concat());
        assert!(!err.contains("error:"), "{err}");
        home.work().join(name).exists()
    };
    assert!(!can_write(&["--deny", "write(a)"], "a"));
    assert!(!can_write(&["--continue"], "a"));
    let denied = home.sessions().remove(0);
    // More is forbidden, and nothing is forgotten.
    assert!(!can_write(&["--continue", "--mode", "plan", "--ask", "write(b)"], "c"));
    assert!(!can_write(&["--continue"], "c"));
    // A person may say that it works in another mode now; what is denied still is.
    assert!(can_write(&["--continue", "--mode", "auto"], "c"));
    assert!(can_write(&["--continue"], "d"));
    assert!(!can_write(&["--continue"], "b") && !can_write(&["--continue"], "a"));
    // A fork is another session of the same conversation.
    assert!(!can_write(&[&format!("--fork={denied}")], "a"));
    assert!(!can_write(&["--continue"], "a"));
    // What widens is never kept.
    assert!(can_write(&["--allow", "write(.git)"], ".git/x"));
    assert!(!can_write(&["--continue"], ".git/y"));
    assert!(can_write(&["--mode", "bypass"], ".git/z"));
    assert!(!can_write(&["--continue"], ".git/y"));
    let records = home.entries(&denied).into_iter();
    let records = records.filter(|entry| entry["data"]["name"] == "permissions");
    assert_eq!(records.count(), 3, "one for each change");
}

#[test]
fn a_read_only_session_stays_read_only() {
    let provider = obedient();
    let home = Home::new(&provider);
    home.run(&["exec", "--sandbox", "read-only", "sh touch a"]);
    home.run(&["exec", "--continue", "sh touch a"]);
    assert!(!home.work().join("a").exists());
    home.run(&["exec", "--continue", "--sandbox", "workspace-write", "sh touch a"]);
    assert!(home.work().join("a").exists());
}

#[test]
fn a_killed_run_goes_on_with_what_flags_forbade() {
    let provider = Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![(
            "call_0".to_owned(),
            "bash",
            json!({ "command": "echo > begun; sleep 1000" }),
        )]),
        1 => {
            let arguments = json!({ "path": "a", "content": "put" });
            Reply::Calls(vec![("call_1".to_owned(), "write", arguments)])
        }
        _ => Reply::Text("done".to_owned()),
    });
    let home = Home::new(&provider);
    let mut child = home.bowline().args(["exec", "--deny", "write(a)", "go"]).spawn().unwrap();
    while !home.work().join("begun").exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert!(!home.work().join("a").exists());
}
