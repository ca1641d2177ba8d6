//! Skills and the system text, as a user and a provider meet them.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use support::{Home, Provider, Reply, messages, results};

fn skill(home: &Home, folder: &str, text: &str) {
    let folder = home.path(folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
}

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files.\n---\nUse scripts/read.py.\n";

/// A home with a skill on demand and an inline one.
fn home(provider: &Provider, config: &str) -> Home {
    let home = Home::with(provider, config);
    skill(&home, ".agents/skills/pdf", PDF);
    std::fs::create_dir(home.path(".agents/skills/pdf/scripts")).unwrap();
    std::fs::write(home.path(".agents/skills/pdf/scripts/read.py"), "").unwrap();
    skill(&home, "home/config/skills/style", "Use tabs, never spaces.");
    home
}

fn silent() -> Provider {
    Provider::answering(|_| Reply::Text("ok".into()))
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn a_model_is_told_of_a_skill_loads_it_and_gets_it_once() {
    let provider = Provider::answering(|request| match results(request) {
        at @ 0..2 => Reply::Calls(vec![(format!("c{at}"), "load_skill", json!({ "name": "pdf" }))]),
        _ => Reply::Text("done".into()),
    });
    let home = home(&provider, "");
    let (code, out, err) = home.run(&["exec", "read it"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    let requests = provider.requests();
    let text = system(&requests[0]);
    assert!(text.contains("<skills>\n### style\n\nUse tabs, never spaces.\n</skills>"), "{text}");
    assert!(text.contains("\n- **pdf**: Reads PDF files.\n</available_skills>"), "{text}");
    assert!(!text.contains("scripts/read.py"), "{text}");
    let told: Vec<_> =
        messages(&requests[2]).iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(
        told.iter().map(|told| told["content"].as_str().unwrap()).collect::<Vec<_>>(),
        [
            "Use scripts/read.py.\n\n[skill folder: ../.agents/skills/pdf; paths above are relative to \
             it; its files: scripts/read.py]",
            "the skill pdf is loaded already; its text is above",
        ]
    );
}

#[test]
fn an_agent_names_its_skills_and_the_tool_is_there_only_where_one_can_be_loaded() {
    let provider = silent();
    let home = home(&provider, "");
    let run =
        |value: &str| home.run(&["exec", "-c", &format!("agents.default.skills={value}"), "go"]);
    for value in ["[\"*\"]", "[]", "[\"style\"]", "[\"pdf\"]"] {
        let (code, _, err) = run(value);
        assert_eq!(code, 0, "{err}");
    }
    let (code, _, err) = run("[\"pfd\"]");
    assert_eq!(code, 2);
    assert!(err.contains("skills.0: there is no skill \"pfd\"; did you mean \"pdf\"?"), "{err}");
    let requests = provider.requests();
    let seen: Vec<_> = requests
        .iter()
        .map(|request| {
            let has = |text: &str| system(request).contains(text);
            (has("<skills>"), has("<available_skills>"), tools(request).contains(&"load_skill"))
        })
        .collect();
    assert_eq!(
        seen,
        [(true, true, true), (false, false, false), (true, false, false), (false, true, true)]
    );
}

#[test]
fn skills_of_a_project_do_not_count_and_a_bad_one_keeps_nobody_from_working() {
    let provider = silent();
    let home = Home::new(&provider);
    skill(&home, "work/.claude/skills/pdf", PDF);
    skill(&home, ".agents/skills/bad", "---\nname: other\n---\n");
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 0, "{err}");
    let notes: Vec<_> = err.lines().filter(|line| line.contains("skill")).collect();
    assert_eq!(notes.len(), 2, "{err}");
    assert!(
        notes[1].contains("bad/SKILL.md: the name \"other\" is not that of its folder"),
        "{err}"
    );
    assert!(notes[0].contains(".claude/skills; the folder is not trusted"), "{err}");
    assert!(!system(&provider.requests()[0]).contains("pdf"));
}

#[test]
fn the_first_request_is_small_and_says_nothing_volatile_in_its_system_text() {
    let provider = silent();
    let home = Home::new(&provider);
    std::fs::write(home.work().join("AGENTS.md"), "Say please.").unwrap();
    assert_eq!(home.run(&["exec", "--no-context-files", "hello"]).0, 0);
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    let requests = provider.requests();
    let text = system(&requests[0]);
    assert!(text.len() <= 2_000, "{} {text}", text.len());
    assert!(text.starts_with("<identity>\nYou are bowline, "), "{text}");
    let size = requests[0].to_string().len();
    assert!(size <= 5_700, "{size}");
    assert_eq!(system(&requests[1]), text);
    let work = home.work().display().to_string();
    let year = year(&requests[0]);
    assert!(!text.contains(&work) && !text.contains(&year) && !text.contains("please"), "{text}");
    assert!(messages(&requests[1])[1].to_string().contains("Say please."));
}

/// Returns the year that the first message says.
fn year(request: &Value) -> String {
    said(request)[0].split_once("date: ").unwrap().1[..4].to_owned()
}

/// Returns the parts of the first message.
fn said(request: &Value) -> Vec<&str> {
    let parts = messages(request)[1]["content"].as_array().unwrap();
    parts.iter().map(|part| part["text"].as_str().unwrap()).collect()
}

#[test]
fn what_a_prompt_says_can_be_seen_without_asking_anybody() {
    let provider = silent();
    let home = home(&provider, "[agents.coder]\ndescription = \"You know Go.\"\nskills = []\n");
    std::fs::write(home.work().join("AGENTS.md"), "Say please.").unwrap();
    let (code, out, err) = home.run(&["exec", "--dump-prompt", "--json", "hello"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(provider.requests().len(), 0);
    assert_eq!(home.sessions(), Vec::<String>::new());
    let dump: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    let request = &provider.requests()[0];
    assert_eq!(dump["system"], system(request));
    assert_eq!(dump["first_message"], json!(said(request)));
    let names = |list: &Value, key: &str| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&dump["tools"], "name"), tools(request));
    let tags =
        ["identity", "behavioral_constraints", "skills", "available_skills", "available_agents"];
    assert_eq!(names(&dump["sections"], "tag"), tags);
    let sum = |list: &Value| -> u64 {
        list.as_array().unwrap().iter().map(|one| one["size"]["bytes"].as_u64().unwrap()).sum()
    };
    let sizes = &dump["sizes"];
    // One end of a line between each two sections.
    assert_eq!(sizes["system"]["bytes"], sum(&dump["sections"]) + 4);
    assert_eq!(sizes["tools"]["bytes"], sum(&dump["tools"]));
    let (code, out, err) = home.run(&["exec", "--dump-prompt", "--agent", "coder"]);
    assert_eq!(code, 0, "{err}");
    for part in [
        "You are coder, ",
        "You know Go.",
        "\n  identity  ",
        "\n  bash  ",
        "Say please.",
        "all together",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("load_skill"), "{out}");
    let (code, _, err) = home.run(&["exec", "--dump-prompt", "--agent", "codr"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no agent \"codr\"; did you mean \"coder\"?"), "{err}");
}

#[test]
fn a_prompt_can_be_seen_without_a_model_and_without_a_key() {
    let home = Home::configured("local_servers = []\n");
    let (code, out, err) = home.run(&["exec", "--dump-prompt"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("<identity>\n"), "{out}");
    assert!(err.contains("no model is named"), "{err}");
    let (code, out, _) = home.run(&["exec", "--dump-prompt", "-m", "openai/gpt-5.5", "--json"]);
    assert_eq!(code, 0);
    assert!(out.contains("\"apply_patch\"") && !out.contains("\"edit\""), "{out}");
}

#[test]
fn skills_are_listed_and_shown() {
    let home = home(&silent(), "");
    skill(&home, "home/config/skills/pdf", PDF);
    let (code, out, err) = home.run(&["skills", "list"]);
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "pdf    on demand      ~/.agents/skills/pdf  Reads PDF files.\n\
             style  inline         ~/home/config/skills/style\n"
        )
    );
    assert!(err.contains("skill pdf in ") && err.contains("goes before"), "{err}");
    let (_, out, _) = home.run(&["skills", "list", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["skills"][0]["name"], "pdf");
    assert_eq!(list["hidden"][0]["folder"], json!(home.path("home/config/skills/pdf")));
    let (code, out, _) = home.run(&["skills", "show", "pdf"]);
    let expected = "pdf: on demand\nfolder: ~/.agents/skills/pdf\ndescription: Reads PDF files.\n\n\
                    Use scripts/read.py.\n";
    assert_eq!((code, out.as_str()), (0, expected));
    let (code, _, err) = home.run(&["skills", "show", "pfd"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no skill \"pfd\"; did you mean \"pdf\"?"), "{err}");
    let (code, out, _) = Home::configured("").run(&["skills", "list"]);
    assert_eq!((code, out.as_str()), (0, "no skills\n"));
}

#[test]
fn the_skills_of_an_untrusted_project_can_be_checked() {
    let home = home(&silent(), "");
    skill(&home, "work/.agents/skills/theirs", "---\nname: theirs\n---\n");
    let (code, out, _) = home.run(&["skills", "check"]);
    assert_eq!(code, 1);
    let expected = format!(
        "PROBLEM  {}/.agents/skills/theirs/SKILL.md: says nothing; write a description and a text\n\
         ok       ~/.agents/skills/pdf\n\
         note     ~/home/config/skills/style: there is no front matter; there is no name; the folder's \
         is taken; there is no description; all of it goes into the system text\n",
        home.work().canonicalize().unwrap().display()
    );
    assert_eq!(out, expected);
    let (code, _, err) = home.run(&["skills", "check", "nowhere"]);
    assert_eq!(code, 2, "{err}");
}

/// What the folder of skills beside this file comes to; `scripts/skills-ref` compares it with the
/// standard's own validators.
#[test]
fn the_standards_own_rules_are_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/skills");
    let home = Home::configured("");
    let (_, out, _) = home.run(&["skills", "check", "--json", folder.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&out).unwrap();
    for verdict in report["skills"].as_array().unwrap() {
        let name = Path::new(verdict["folder"].as_str().unwrap()).file_name().unwrap();
        let name = name.to_str().unwrap();
        // `good-` is standard, `lax-` works here all the same, everything else does not.
        let expected =
            (name.starts_with("good-"), name.starts_with("good-") || name.starts_with("lax-"));
        assert_eq!((verdict["standard"] == true, verdict["ok"] == true), expected, "{verdict}");
    }
    assert_eq!(
        report["skills"].as_array().unwrap().len(),
        std::fs::read_dir(folder).unwrap().count()
    );
}
