//! Configured agents that work together, as a user meets them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, results};

const AGENTS: &str = "\
[agents.default]
description = \"leads\"

[agents.coder]
description = \"Writes code.\"
prefix = \"C\"
skills_tags = [\"rust\"]
estimated_cost = \"cheap\"
model = \"test/coder\"
tools = [\"write\", \"notes\"]
limits = { model_turns = 5 }

[agents.reviewer]
description = \"Reviews code.\"
model = \"test/reviewer\"
tools = [\"read\"]
max_depth = 0
";

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn system(request: &Value) -> &str {
    messages(request)[0]["content"].as_str().unwrap()
}

fn call(name: &'static str, arguments: &Value) -> Reply {
    Reply::Calls(vec![("call".to_owned(), name, arguments.clone())])
}

fn tasks(tasks: &Value) -> Reply {
    call("delegate", &json!({ "tasks": tasks }))
}

/// A lead that has a file written and looked at.
fn crew() -> Provider {
    Provider::answering(|request| match (request["model"].as_str().unwrap(), results(request)) {
        ("coder", 0) => call("write", &json!({ "path": "a.txt", "content": "made\n" })),
        ("coder", _) => {
            let claims = json!({ "status": "completed", "summary": "a.txt is there",
                                 "files_modified": ["a.txt", "b.txt"] });
            call("task_complete", &claims)
        }
        ("reviewer", _) => Reply::Text("It is fine.".to_owned()),
        (_, 0) => tasks(&json!([
            { "agent": "coder", "task": "Write the file.", "context": "It is a.txt." },
            { "agent": "reviewer", "task": "Review it." },
            { "agent": "coderr", "task": "Write more." },
        ])),
        (_, _) => Reply::Text("done".to_owned()),
    })
}

#[test]
fn agents_of_the_configuration_are_given_tasks() {
    let provider = crew();
    let home = Home::with(&provider, AGENTS);
    let (code, out, err) = home.run(&["exec", "Have a.txt written."]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "made\n");
    let requests = provider.requests();
    let of = |model: &str| requests.iter().find(|request| request["model"] == model).unwrap();
    let lead = &requests[0];
    assert!(names(lead).contains(&"delegate") && !names(lead).contains(&"task_complete"));
    assert!(system(lead).contains("- **coder**: Writes code. [skills: rust] [cost: cheap]"));
    let coder = of("coder");
    assert_eq!(
        names(coder)[..4],
        ["write", "write_note", "read_note", "list_notes"],
        "only what it lists, and what its place gives it"
    );
    assert!(names(coder).contains(&"delegate") && names(coder).contains(&"task_complete"));
    for section in ["<completion_protocol>", "<notes_protocol>", "<available_agents>"] {
        assert!(system(coder).contains(section), "{section}");
    }
    let told = messages(coder).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(told.contains("<delegation_context>") && told.contains("It is a.txt."), "{told}");
    let reviewer = of("reviewer");
    assert_eq!(names(reviewer), ["read", "task_complete", "request_input"]);
    assert!(!system(reviewer).contains("<available_agents>"));
    // The lead is told what came of it, and what is not as it was said.
    let answer = requests.last().unwrap();
    let results = messages(answer).last().unwrap()["content"].to_string();
    for part in ["a.txt is there", "b.txt: nothing wrote it", "It is fine.", "coderr"] {
        assert!(results.contains(part), "{part} is not in {results}");
    }
}

#[test]
fn who_has_nobody_to_delegate_to_is_not_told_of_it() {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    let home = Home::with(&provider, "[agents.default]\ndescription = \"alone\"\n");
    assert_eq!(home.run(&["exec", "go"]).0, 0);
    let request = &provider.requests()[0];
    assert!(!names(request).contains(&"delegate"));
    assert!(!system(request).contains("<available_agents>"));
}

#[test]
fn a_limit_of_the_whole_reaches_every_agent() {
    let provider = Provider::answering(|request| match request["model"].as_str().unwrap() {
        "coder" => call("list_notes", &json!({})),
        _ => tasks(&json!([{ "agent": "coder", "task": "Never end." }])),
    });
    let home = Home::with(&provider, AGENTS);
    let (code, _, err) = home.run(&["exec", "--max-turns", "4", "go"]);
    assert_eq!(code, 3, "{err}");
    let turns = provider.requests().iter().filter(|request| request["model"] == "coder").count();
    assert_eq!(turns, 3);
}

/// Returns the name of the agent that asks.
fn asking(request: &Value) -> &str {
    let identity = system(request).split_once("You are ").unwrap().1;
    identity.split_once(',').unwrap().0
}

fn one(agent: &str, task: &str) -> Reply {
    tasks(&json!([{ "agent": agent, "task": task }]))
}

fn complete(summary: &str, more: &Value) -> Reply {
    let mut claims = json!({ "status": "completed", "summary": summary });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call("task_complete", &claims)
}

/// The team of the template, at a script that greets wrongly.
fn team() -> Provider {
    Provider::answering(|request| match (asking(request), results(request)) {
        ("lead", 0) => one("explorer", "Find out where the greeting is made."),
        ("lead", 1) => one("planner", "Plan to greet the world."),
        ("lead", 2) => one("coder", "Greet the world in greet.sh."),
        ("lead", 3) => one("reviewer", "Review the change of greet.sh."),
        ("lead", _) => Reply::Text("greet.sh greets the world; its test passes.".to_owned()),
        ("explorer", 0) => call("grep", &json!({ "pattern": "echo" })),
        ("explorer", _) => complete("greet.sh:2 echoes it", &json!({})),
        ("planner", 0) => call(
            "write_note",
            &json!({ "name": "plan", "content": "Change greet.sh, run test.sh." }),
        ),
        ("planner", _) => complete("the plan is the note plan", &json!({})),
        ("coder", 0) => call("read", &json!({ "path": "greet.sh" })),
        ("coder", 1) => {
            let new = json!({ "path": "greet.sh", "old_string": "moon", "new_string": "world" });
            call("edit", &new)
        }
        ("coder", 2) => call("bash", &json!({ "command": "sh test.sh" })),
        ("coder", _) => complete(
            "greet.sh greets the world",
            &json!({ "files_modified": ["greet.sh"], "tests_run": ["sh test.sh"] }),
        ),
        ("reviewer", 0) => call("git_diff", &json!({})),
        ("reviewer", 1) => call("bash", &json!({ "command": "sh test.sh" })),
        ("reviewer", _) => complete("nothing is wrong", &json!({})),
        (other, _) => panic!("nobody is called {other}"),
    })
}

fn git(home: &Home, arguments: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
    assert!(git.current_dir(home.work()).output().unwrap().status.success());
}

// The team of the template makes a real change in a real repository.
#[test]
fn the_team_of_the_template_makes_a_change() {
    let provider = team();
    let home = Home::new(&provider);
    std::fs::write(home.work().join("greet.sh"), "#!/bin/sh\necho hello moon\n").unwrap();
    let test = "#!/bin/sh\n[ \"$(sh greet.sh)\" = 'hello world' ] && echo passed\n";
    std::fs::write(home.work().join("test.sh"), test).unwrap();
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "begin"]] {
        git(&home, arguments);
    }
    assert_eq!(home.run(&["init", "--template", "dev-team"]).0, 0);
    // A project's own agents count once it is trusted; a user's always do.
    for part in ["agents", "skills"] {
        let to = home.path(&format!("home/config/{part}"));
        std::fs::rename(home.work().join(".bowline").join(part), to).unwrap();
    }
    let (code, out, err) = home.run(&["exec", "--agent", "lead", "Greet the world, not the moon."]);
    assert_eq!((code, out.as_str()), (0, "greet.sh greets the world; its test passes.\n"), "{err}");
    let greeting = std::fs::read_to_string(home.work().join("greet.sh")).unwrap();
    assert_eq!(greeting, "#!/bin/sh\necho hello world\n");
    let plan = std::fs::read_to_string(home.work().join(".bowline/notes/plan.md")).unwrap();
    assert!(plan.contains("Change greet.sh, run test.sh."), "{plan}");
    let requests = provider.requests();
    let told = messages(requests.last().unwrap()).iter().map(ToString::to_string);
    let told = told.collect::<Vec<_>>().join("\n");
    for part in ["greet.sh:2 echoes it", "greet.sh greets the world", "nothing is wrong"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(!told.contains("discrepancies"), "{told}");
    // The log has all of them, each under the call that made it.
    let created: Vec<_> = home
        .sessions()
        .iter()
        .flat_map(|session| home.entries(session))
        .filter(|entry| entry["kind"] == "created")
        .map(|entry| entry["data"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        created,
        ["lead", "explorer-find-1", "planner-plan-1", "coder-greet-1", "reviewer-review-1"]
    );
}

// A tool of the configuration is a task for an agent.
#[test]
fn a_configured_tool_is_a_task_for_an_agent() {
    let provider = Provider::answering(|request| match (asking(request), results(request)) {
        ("reviewer", _) => Reply::Text("a.rs is fine".to_owned()),
        (_, 0) => call("review", &json!({ "path": "a.rs" })),
        (_, _) => Reply::Text("done".to_owned()),
    });
    let tool = "[tools.review]\nkind = \"agent\"\ndescription = \"Reviews a file.\"\n\
                agent = \"reviewer\"\ntask = \"Review {path} as a stranger.\"\n\
                [tools.review.parameters]\ntype = \"object\"\nrequired = [\"path\"]\n\
                properties = { path = { type = \"string\" } }\n";
    let home = Home::with(&provider, &format!("{AGENTS}{tool}"));
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 0, "{err}");
    let requests = provider.requests();
    let asked = messages(&requests[1]).last().unwrap()["content"].to_string();
    assert!(asked.contains("Review a.rs as a stranger."), "{asked}");
    let told = messages(&requests[2]).last().unwrap()["content"].to_string();
    assert!(told.contains("a.rs is fine"), "{told}");
    assert!(!err.contains("no effect"), "{err}");
}

// 83: who fails leaves a note, and the next one with such a task is told.
#[test]
fn what_went_wrong_is_told_to_the_next_one() {
    let provider = Provider::answering(|request| match (asking(request), results(request)) {
        ("coder", _) => call(
            "task_complete",
            &json!({ "status": "failed", "summary": "the parser has no tests", "caveats": "write some" }),
        ),
        (_, 0) => one("coder", "Refactor the parser of expressions."),
        (_, _) => Reply::Text("done".to_owned()),
    });
    let home = Home::with(&provider, AGENTS);
    let told = |from: usize| {
        let requests = provider.requests();
        let coder = requests[from..].iter().find(|request| asking(request) == "coder").unwrap();
        messages(coder).iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(home.run(&["exec", "go"]).0, 0);
    assert!(!told(0).contains("prior_reflections"));
    let before = provider.requests().len();
    assert_eq!(home.run(&["exec", "go"]).0, 0);
    let second = told(before);
    assert!(second.contains("prior_reflections") && second.contains("the parser has no tests"));
    let (_, out, _) = home.run(&["reflections", "list"]);
    assert!(out.contains("coder"), "{out}");
}
