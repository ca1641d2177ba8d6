use std::fs;
use std::path::Path;

use bowline_runtime::config::{self, Said};
use bowline_runtime::environment::Environment;
use bowline_runtime::{instructions, skills};

use crate::desk::in_memory;

/// What configuration is read from: the first byte of an input says which.
const FILES: [&str; 8] = [
    "home/config/config.toml",
    "work/.bowline/config.toml",
    "work/.bowline/agents/one.md",
    "work/.bowline/agents/one.yaml",
    "work/.claude/agents/one.md",
    "work/.opencode/agent/one.md",
    "work/.mcp.json",
    "work/.bowline/skills/one/SKILL.md",
];

/// What is wrong with a file is said in one line for each fault, which names a line that the file has, if any;
/// and reading it changes nothing.
pub fn config(data: &[u8]) {
    let Some((which, text)) = data.split_first() else { return };
    let name = FILES.get(usize::from(which.wrapping_sub(b'0'))).copied().unwrap_or(FILES[0]);
    let root = in_memory();
    let path = root.path().join(name);
    fs::create_dir_all(root.path().join("work")).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let home = root.path().join("home").to_string_lossy().into_owned();
    let vars = [("BOWLINE_HOME".to_owned(), home.clone()), ("HOME".to_owned(), home)];
    let environment = Environment { vars: vars.into(), cwd: root.path().join("work") };
    let folders = environment.folders().unwrap();
    let said = Said { trust: true, ..Said::default() };
    match config::load(&folders, &environment, &said) {
        Ok(loaded) => loaded.notes.iter().for_each(|note| check(note, &path, text)),
        Err(error) => error.to_string().lines().for_each(|line| check(line, &path, text)),
    }
    let skills = skills::read(&skills::places(&folders, &environment, true));
    skills.notes().iter().for_each(|note| check(note, &path, text));
    let _ = instructions::read(&folders.config, &environment.cwd, &|_| None);
    assert_eq!(fs::read(&path).unwrap(), text, "it was only read");
}

fn check(said: &str, path: &Path, text: &[u8]) {
    assert!(!said.contains(char::is_control), "{said:?}");
    // In YAML a carriage return ends a line as well.
    let lines = text.iter().filter(|byte| b"\r\n".contains(byte)).count() + 1;
    let Some(behind) = said.split_once(&*path.to_string_lossy()).map(|(_, behind)| behind) else {
        return;
    };
    let behind = behind.strip_prefix(": line ").or_else(|| behind.strip_prefix(':'));
    let digits: String =
        behind.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    if let Ok(line) = digits.parse::<usize>() {
        assert!((1..=lines).contains(&line), "there are {lines} lines: {said}");
    }
}
