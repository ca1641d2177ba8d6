//! What an agent loads when it needs it, in a session as it runs.

use std::path::Path;
use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::effect::TrimToolResults;
use bowline_agent::tool::Toolbox;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{Message, ModelInfo, text_of};
use bowline_tools::{LoadSkill, Skill};
use pretty_assertions::assert_eq;
use serde_json::json;

fn skill(folder: &Path, name: &str, text: &str) -> Skill {
    Skill { name: name.to_owned(), folder: folder.join("skills").join(name), text: text.to_owned() }
}

fn agent(cwd: &Path, skills: Vec<Skill>, script: Vec<Reply>) -> Agent {
    let tools = Toolbox::default().with(LoadSkill::new(cwd.to_owned(), skills)).unwrap();
    Agent { tools, ..Agent::new(Arc::new(ScriptedModel::new(script))) }
}

fn load(name: &str) -> Reply {
    Reply::call("load_skill", json!({ "name": name }).to_string())
}

/// Says what came of each call of an agent, and whether it failed.
async fn results(agent: Agent) -> Vec<(String, bool)> {
    let handle = agent.start();
    assert_eq!(handle.prompt("go").text().await.unwrap(), "done");
    let messages = handle.messages();
    let results = messages.iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(results),
        Message::User(_) | Message::Assistant(_) => None,
    });
    let told = results.flatten().map(|result| (text_of(&result.content), result.is_error));
    told.collect()
}

#[tokio::test]
async fn a_skill_comes_with_its_folder_and_its_files() {
    let place = tempfile::tempdir().unwrap();
    let pdf = place.path().join("skills/pdf");
    for file in ["SKILL.md", "scripts/fill.py", "references/forms.md", ".hidden", "notes.txt"] {
        std::fs::create_dir_all(pdf.join(file).parent().unwrap()).unwrap();
        std::fs::write(pdf.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", pdf.join("passwd")).unwrap();
    let skills = vec![skill(place.path(), "pdf", "Use fill.py.\n")];
    let agent = agent(place.path(), skills, vec![load("pdf"), Reply::text("done")]);
    let expected = "Use fill.py.\n\n[skill folder: skills/pdf; paths above are relative to it; its \
                    files: notes.txt, references/forms.md, scripts/fill.py]";
    assert_eq!(results(agent).await, [(expected.to_owned(), false)]);
}

#[tokio::test]
async fn a_skill_that_is_still_in_view_is_not_sent_again() {
    let place = tempfile::tempdir().unwrap();
    let skills =
        vec![skill(place.path(), "pdf", "Use fill.py."), skill(place.path(), "xls", "Sum.")];
    let script = vec![load("pdf"), load("xls"), load("pdf"), load(" xls "), Reply::text("done")];
    let told = results(agent(place.path(), skills, script)).await;
    let texts: Vec<&str> = told.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts[0], "Use fill.py.\n\n[skill folder: skills/pdf]");
    assert_eq!(texts[1], "Sum.\n\n[skill folder: skills/xls]");
    assert_eq!(texts[2], "the skill pdf is loaded already; its text is above");
    assert_eq!(texts[3], "the skill xls is loaded already; its text is above");
}

#[tokio::test]
async fn a_skill_that_went_out_of_view_is_sent_again() {
    let place = tempfile::tempdir().unwrap();
    let text = "Use fill.py. ".repeat(100);
    let skills = vec![skill(place.path(), "pdf", &text), skill(place.path(), "xls", "Sum.")];
    let script = [load("pdf"), load("xls"), load("pdf"), Reply::text("done")];
    let agent = agent(place.path(), skills, Vec::new());
    let info = ModelInfo { context_window: Some(1000), ..agent.model.info().clone() };
    let trim = TrimToolResults { threshold: 0.2, max_result_length: 20, preserve_recent: 1 };
    let agent = Agent {
        model: Arc::new(ScriptedModel::new(script).with_info(info)),
        effects: vec![Arc::new(trim)],
        ..agent
    };
    let told = results(agent).await;
    let texts: Vec<&str> = told.iter().map(|(text, _)| text.as_str()).collect();
    assert!(texts[0].len() < 200, "{}", texts[0]);
    assert_eq!(texts[2], format!("{}\n\n[skill folder: skills/pdf]", text.trim()));
}

#[tokio::test]
async fn an_unknown_skill_is_an_error_that_names_the_nearest() {
    let place = tempfile::tempdir().unwrap();
    let skills = vec![skill(place.path(), "pdf-forms", "a"), skill(place.path(), "xls", "b")];
    let script = vec![load("pdf-form"), load("../pdf-forms/.."), load(""), Reply::text("done")];
    let told = results(agent(place.path(), skills, script)).await;
    let error = |text: &str| (text.to_owned(), true);
    assert_eq!(
        told,
        [
            error("there is no skill \"pdf-form\"; did you mean \"pdf-forms\"?"),
            error("there is no skill \"../pdf-forms/..\"; there is pdf-forms, xls"),
            error("there is no skill \"\"; there is pdf-forms, xls"),
        ]
    );
}
