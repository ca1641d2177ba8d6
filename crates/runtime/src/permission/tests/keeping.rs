//! The rules that a person is offered, and the file that they are kept in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use pretty_assertions::assert_eq;

use bowline_agent::tool::Access;

use super::*;
use crate::permission::remember;

#[test]
fn what_is_offered_is_wider_than_the_call_and_no_wider_than_expected() {
    let cases = [
        ("git push origin main", Some("bash(git push *)")),
        ("cargo test -p x | head", Some("bash(cargo test *)")),
        ("npm run build -- --fast", Some("bash(npm run build *)")),
        ("pytest -x tests", Some("bash(pytest *)")),
        ("cd src && pytest", Some("bash(pytest *)")),
        ("python x.py", None),
        ("python3.11 x.py", None),
        ("nodejs x.js", None),
        ("psql -c x", None),
        ("bash -c \"$X\"", None),
        ("sudo make", None),
        ("env make", None),
        ("xargs pytest", None),
        ("node -e 1", None),
        ("sh x.sh", None),
        ("eval x", Some("bash(x *)")),
        ("rm -rf x", None),
        ("rsync -a x host:", None),
        ("truncate -s 0 x", None),
        ("git -C x push", None),
        ("pytest && jest", None),
        ("pytest > out", None),
        ("$X", None),
    ];
    for (command, rule) in cases {
        assert_eq!(bash(command).suggested().as_deref(), rule, "{command}");
    }
    let paths = Call::new("write", Access::write("/x/a*b"));
    assert_eq!(paths.suggested().as_deref(), Some(r"write(/x/a\*b)"));
    assert_eq!(Call::host("docs.rs").suggested().as_deref(), Some("net(docs.rs)"));
    assert_eq!(Call::delegate("coder").suggested().as_deref(), Some("agent(coder)"));
    // What strangers name is no pattern, nor another thing than was asked about.
    assert_eq!(Call::delegate("*").suggested().as_deref(), Some(r"agent(\*)"));
    assert_eq!(Call::delegate("c*").suggested().as_deref(), Some(r"agent(c\*)"));
    for (what, call) in [
        ("host", Call::host("*.com")),
        ("agent", Call::delegate("coder ")),
        ("folder", Call::new("write", Access::write("/x/ "))),
        ("file", Call::new("write", Access::write("/x/y\n"))),
        ("file", Call::new("read", Access::read("/x/\u{a0}"))),
        ("bytes", Call::new("write", Access::write(OsStr::from_bytes(b"/x/\xff")))),
    ] {
        assert_eq!(call.suggested(), None, "{what}");
    }
    let tool = Call::new("mcp__a__b", Access::exclusive());
    assert_eq!(tool.suggested().as_deref(), Some("mcp__a__b"));
    assert_eq!(Call::new("edit", writes(["/a".into(), "/b".into()])).suggested(), None);
}

#[test]
fn a_rule_that_allows_nearly_everything_is_not_kept() {
    let machine = Machine::new(&[]);
    let file = machine.path("work/.bowline/config.local.toml");
    let useless = [
        "bash",
        "bash(*)",
        "bash(python *)",
        "bash(python3 -c *)",
        "bash(python3.11 *)",
        "bash(pypy3 *)",
        "bash(nodejs *)",
        "bash(tcsh *)",
        "bash(psql *)",
        "bash(just *)",
        "bash(bash -c *)",
        "bash(sudo *)",
        "bash(sudo apt *)",
        "bash(env *)",
        "bash(xargs *)",
        "bash(node *)",
        "bash(sh *)",
        "bash(eval *)",
        "bash(rm *)",
        "bash(git *)",
        "bash(* x)",
        "bash(npm run *)",
        "bash(git -C *)",
        "bash(git -C x *)",
        "bash(git --no-pager *)",
        "bash(systemctl --user *)",
        "bash(npm --prefix x run *)",
        "bash(cargo +nightly *)",
        "bash(go run *)",
        "bash(deno run *)",
        "bash(deno eval *)",
        "bash(bun run *)",
        "fetch",
        "writ*",
        "apply_patch",
        "*",
        "write",
        "read(/**)",
        "net",
    ];
    for rule in useless {
        let error = remember(&Rule::parse(rule).unwrap(), &file).unwrap_err();
        assert!(error.contains("allow something narrower"), "{rule}: {error}");
    }
    assert!(!file.exists());
    for rule in ["bash(git push *)", "bash(rm x)", "bash(npm run test *)", "bash(python x.py *)"] {
        remember(&Rule::parse(rule).unwrap(), &file).unwrap();
    }
    let table: toml::Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(table["permissions"]["allow"].as_array().unwrap().len(), 4);
}

#[test]
fn no_link_has_a_rule_kept_elsewhere() {
    let rule = Rule::parse("net(a.org)").unwrap();
    let file = "work/.bowline/config.local.toml";
    let mine = "mine = true\n";
    let machine = || Machine::new(&[("home/mine.toml", mine), ("work/.bowline/x", "")]);
    let beside = machine();
    beside.link("work/.bowline/config.local.toml.new", "home/mine.toml");
    remember(&rule, &beside.path(file)).unwrap();
    assert!(std::fs::read_to_string(beside.path(file)).unwrap().contains("net(a.org)"));
    let itself = machine();
    itself.link(file, "home/mine.toml");
    let folder = Machine::new(&[("home/mine.toml", mine)]);
    folder.link("work/.bowline", "home");
    for machine in [&itself, &folder] {
        let error = remember(&rule, &machine.path(file)).unwrap_err();
        assert!(error.ends_with("it is reached by a link"), "{error}");
    }
    for machine in [beside, itself, folder] {
        assert_eq!(std::fs::read_to_string(machine.path("home/mine.toml")).unwrap(), mine);
        assert!(!machine.path("home/config.local.toml").exists());
    }
}

#[test]
fn a_rule_is_added_and_nothing_else_changes() {
    let cases = [
        ("", "[permissions]\nallow = [\"net(a.org)\"]\n"),
        (
            "# mine\nmodel = \"a/b\"",
            "# mine\nmodel = \"a/b\"\n\n[permissions]\nallow = [\"net(a.org)\"]\n",
        ),
        (
            "[permissions] # what may be\nmode = \"ask\" # always\n",
            "[permissions] # what may be\nallow = [\"net(a.org)\"]\nmode = \"ask\" # always\n",
        ),
        (
            "[permissions]\nallow = [\n  \"read(x)\", # why\n]\n[limits]\n",
            "[permissions]\nallow = [\n  \"read(x)\", \"net(a.org)\", # why\n]\n[limits]\n",
        ),
        ("permissions.allow = []\n", "permissions.allow = [\"net(a.org)\"]\n"),
        (
            "permissions.mode = \"ask\"\n",
            "permissions.allow = [\"net(a.org)\"]\npermissions.mode = \"ask\"\n",
        ),
        ("[permissions]\nallow = [\"net(a.org)\"]\n", "[permissions]\nallow = [\"net(a.org)\"]\n"),
    ];
    let rule = Rule::parse("net(a.org)").unwrap();
    for (before, after) in cases {
        let machine = Machine::new(&[("work/.bowline/config.local.toml", before)]);
        let file = machine.path("work/.bowline/config.local.toml");
        remember(&rule, &file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
    }
    let broken = Machine::new(&[("x.toml", "permissions = { mode = \"ask\" }\n")]);
    let error = remember(&rule, &broken.path("x.toml")).unwrap_err();
    assert!(error.contains("write `allow = [\"net(a.org)\"]` yourself"), "{error}");
}
