//! How hooks are written and listed.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn what_is_misspelt_is_said_with_its_line_and_what_is_meant() {
    let said = |hook: &str| {
        let home = Home::configured(&format!("model = \"test/m\"\n[[hooks]]\n{hook}\n"));
        let (code, _, err) = home.run(&["hooks", "list"]);
        assert_eq!(code, 2, "{err}");
        err.rsplit_once("config.toml: ").unwrap().1.trim().to_owned()
    };
    assert_eq!(
        said("event = \"Stop\"\ntimeouts = 3"),
        "line 4: unknown key \"timeouts\" in [hooks.0]; did you mean \"timeout\"?"
    );
    assert!(
        said("event = \"PreTooluse\"\ncommand = \"x\"").ends_with("did you mean \"PreToolUse\"?")
    );
    assert!(
        said("event = \"Stop\"\nmatcher = \"(\"\ncommand = \"x\"")
            .contains("no regular expression")
    );
    assert!(said("event = \"Stop\"\ncommand = \" \"").contains("a command is expected"));
    assert!(said("event = \"Stop\"\ncommand = \"x\"\ntimeout = 0").contains("seconds above 0"));
    assert!(said("event = \"Stop\"").contains("missing field `command`"));
}

#[test]
fn hooks_of_all_layers_are_listed_in_their_order() {
    let home = Home::configured(
        "[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"Bash|mcp__.*\"\ncommand = \"./guard\"\ntimeout = 5\n",
    );
    fs::create_dir_all(home.path("work/.bowline")).unwrap();
    let local = "[[hooks]]\nevent = \"Stop\"\ncommand = \"./check\"\nasync = true\n";
    fs::write(home.path("work/.bowline/config.local.toml"), local).unwrap();
    let (code, out, err) = home.run(&["hooks", "list", "--trust", "--json"]);
    assert_eq!(code, 0, "{err}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    let of = |name: &str| {
        let hooks = listed["hooks"].as_array().unwrap();
        hooks.iter().map(|hook| hook[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("event"), ["PreToolUse", "Stop"]);
    assert_eq!(of("matcher"), ["Bash|mcp__.*", "*"]);
    assert_eq!(of("layer"), ["user", "local"]);
    assert_eq!(of("timeout"), [5.0, 60.0]);
    assert_eq!(of("async"), [false, true]);
    assert_eq!(of("active"), [true, true]);
    let (_, out, _) = home.run(&["hooks", "list", "--trust"]);
    assert!(out.lines().next().unwrap().contains("Bash|mcp__.*"), "{out}");
    assert!(out.contains("config.toml:1") && out.contains("config.local.toml:1"), "{out}");
    let (_, out, _) = Home::configured("").run(&["hooks", "list"]);
    assert_eq!(out, "no hooks\n");
}
