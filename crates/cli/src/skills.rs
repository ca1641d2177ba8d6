//! `bowline skills`: what an agent can learn, and what is wrong with it.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_runtime::skills::{self, Refused, Skill};
use serde_json::{Value, json};

use crate::args::{SkillCommand, Skills};
use crate::exit::Failure;
use crate::print;
use crate::screen;
use crate::sessions::printed;
use bowline_runtime::plain;

/// Runs a command about skills.
pub(crate) fn run(args: &Skills) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    match &args.command {
        SkillCommand::List { json } => list(&runtime, *json),
        SkillCommand::Show { name, json } => show(&runtime, name, *json),
        SkillCommand::Check { path, json } => check(&runtime, path.as_deref(), *json),
    }
}

fn list(runtime: &Runtime, json: bool) -> Result<ExitCode, Failure> {
    let skills = runtime.skills();
    let mut out = screen::out();
    if json {
        let document = json!({
            "skills": skills.all.iter().map(about).collect::<Vec<_>>(),
            "refused": skills.refused,
            "hidden": skills.hidden,
            "untrusted": skills.untrusted,
        });
        return printed(writeln!(out, "{document}"));
    }
    for note in skills.notes() {
        print::note(&note);
    }
    if skills.all.is_empty() {
        return printed(writeln!(out, "no skills"));
    }
    let widest = skills.all.iter().map(|skill| skill.name.len()).max().unwrap_or_default();
    let lines = skills.all.iter().map(|skill| {
        let folder = shown(&skill.folder, runtime);
        let description = skill.description.as_deref().unwrap_or_default();
        let what = first_words(description);
        format!("{:widest$}  {:<13}  {folder}  {what}", skill.name, kind(skill))
            .trim_end()
            .to_owned()
    });
    printed(writeln!(out, "{}", plain::text(&lines.collect::<Vec<_>>().join("\n"))))
}

fn show(runtime: &Runtime, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let skills = runtime.skills();
    let skill = skills.get(name).ok_or_else(|| Failure::Usage(skills.unknown(name)))?;
    let mut out = screen::out();
    if json {
        return printed(writeln!(out, "{}", json!(skill)));
    }
    let mut lines = vec![
        format!("{}: {}", skill.name, kind(skill)),
        format!("folder: {}", shown(&skill.folder, runtime)),
    ];
    let said = [
        ("description", &skill.description),
        ("license", &skill.license),
        ("compatibility", &skill.compatibility),
        ("allowed-tools (no effect)", &skill.allowed_tools),
    ];
    let said = said.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?)));
    let metadata = skill.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    lines.extend(said.chain(metadata).map(|(key, value)| format!("{key}: {value}")));
    lines.extend(skill.remarks.iter().map(|remark| format!("note: {remark}")));
    let text = format!("{}\n\n{}", lines.join("\n"), skill.text);
    printed(writeln!(out, "{}", plain::text(&text)))
}

fn check(runtime: &Runtime, path: Option<&Path>, json: bool) -> Result<ExitCode, Failure> {
    let results = match path {
        Some(path) if !path.is_dir() => {
            return Err(Failure::Usage(format!("{} is no folder", path.display())));
        }
        Some(path) => skills::check(&runtime.environment.cwd.join(path)),
        None => {
            let places = skills::places(&runtime.folders, &runtime.environment, true);
            places.iter().flat_map(|place| skills::check(&place.folder)).collect()
        }
    };
    let is_fine = results.iter().all(Result::is_ok);
    let mut out = screen::out();
    printed(match json {
        true => {
            let checked: Vec<_> = results.iter().map(verdict).collect();
            writeln!(out, "{}", json!({ "ok": is_fine, "skills": checked }))
        }
        false => verdicts(&results, runtime, &mut out),
    })?;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn verdict(result: &Result<Skill, Refused>) -> Value {
    match result {
        Ok(skill) => json!({
            "folder": skill.folder, "ok": true, "standard": skill.remarks.is_empty(),
            "name": skill.name, "remarks": skill.remarks,
        }),
        Err(Refused { file, what }) => json!({
            "folder": file.parent(), "ok": false, "standard": false, "problem": what,
        }),
    }
}

fn verdicts(
    results: &[Result<Skill, Refused>],
    runtime: &Runtime,
    out: &mut impl Write,
) -> io::Result<()> {
    if results.is_empty() {
        return writeln!(out, "no skills");
    }
    for result in results {
        match result {
            Ok(skill) if skill.remarks.is_empty() => {
                writeln!(out, "ok       {}", shown(&skill.folder, runtime))?;
            }
            Ok(skill) => {
                let remarks = skill.remarks.join("; ");
                writeln!(out, "note     {}: {remarks}", shown(&skill.folder, runtime))?;
            }
            Err(refused) => writeln!(out, "PROBLEM  {refused}")?,
        }
    }
    Ok(())
}

/// Says what is known of a skill, without its text.
fn about(skill: &Skill) -> Value {
    let mut about = json!(skill);
    if let Some(about) = about.as_object_mut() {
        about.remove("text");
    }
    about
}

fn kind(skill: &Skill) -> &'static str {
    match (skill.is_for_models, &skill.description) {
        (false, _) => "not for models",
        (true, Some(_)) => "on demand",
        (true, None) => "inline",
    }
}

/// Writes a folder as it is from the working directory or the user's home.
fn shown(folder: &Path, runtime: &Runtime) -> String {
    let home = runtime.environment.get("HOME").map(Path::new);
    if let Ok(near) = folder.strip_prefix(&runtime.environment.cwd) {
        return near.display().to_string();
    }
    match home.and_then(|home| folder.strip_prefix(home).ok()) {
        Some(own) => format!("~/{}", own.display()),
        None => folder.display().to_string(),
    }
}

/// Returns the beginning of a description, in one line.
pub(crate) fn first_words(description: &str) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
