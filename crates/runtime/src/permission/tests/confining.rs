//! What commands run in, and what is said when something is touched.

use pretty_assertions::assert_eq;

use bowline_tools::guard::{Confinement, Guard as _, Network, ResourceLimits, Want};

use super::*;
use crate::permission::intersect;

fn confinement(engine: &Engine, command: &str) -> Option<Confinement> {
    engine.confinement(&"call".into(), command).unwrap()
}

#[test]
fn the_sandbox_is_made_of_the_same_rules() {
    let machine = Machine::new(&[
        (
            "config/config.toml",
            "[permissions]\nallow = [\"write(~/shared)\", \"net(docs.rs)\", \"write(*.log)\", \"write(.git)\"]\n\
             deny = [\"write(src/keep.rs)\", \"read(~/diary)\"]\n[sandbox]\nhosts = [\"*.example.com\"]\n\
             add_dirs = [\"~/more\"]\noutside = [\"docker *\"]\n\
             limits = { memory = \"2GiB\", cpu_seconds = 60 }\n",
        ),
        ("home/.ssh/id_rsa", ""),
    ]);
    let engine = machine.in_mode(Mode::Auto);
    let made = confinement(&engine, "cargo test").unwrap();
    let has = |paths: &[PathBuf], path: &str| paths.contains(&machine.path(path));
    for path in ["work", "home/shared", "home/more"] {
        assert!(has(&made.writable, path), "{path}: {made:?}");
    }
    assert_eq!(made.writable.len(), 4, "and the one for temporary files: {made:?}");
    // What a name alone lifts it lifts below the working folder.
    for path in ["work/.bowline", "work/.claude", "work/src/keep.rs", "home/more/.git", "work/.git"]
    {
        assert!(has(&made.protected, path) != path.starts_with("work/.git"), "{path}: {made:?}");
    }
    assert!(has(&made.hidden, "home/.ssh") && has(&made.hidden, "home/diary"), "{made:?}");
    assert_eq!(made.network, Network::Hosts(vec!["*.example.com".into(), "docs.rs".into()]));
    let limits = ResourceLimits {
        memory: Some(2 << 30),
        cpu_seconds: Some(60),
        ..ResourceLimits::default()
    };
    assert_eq!((made.unix_sockets, &made.limits), (false, &limits));
    assert_eq!(confinement(&engine, "docker ps"), None);
    assert!(confinement(&engine, "docker ps; rm x").is_some());
    assert_eq!(confinement(&machine.in_mode(Mode::Bypass), "ls"), None);
    let plan = confinement(&machine.in_mode(Mode::Plan), "ls").unwrap();
    assert_eq!(plan.writable.len(), 1, "{plan:?}");
}

#[test]
fn nothing_is_protected_in_the_folder_for_temporary_files() {
    let machine = Machine::new(&[]);
    let engine = machine.in_mode(Mode::Auto);
    let made = confinement(&engine, "git init $TMPDIR").unwrap();
    let work = machine.path("work");
    let temp: Vec<_> = made.writable.iter().filter(|path| **path != work).collect();
    let [temp] = temp.as_slice() else { panic!("{made:?}") };
    assert!(made.protected.iter().all(|path| path.starts_with(&work)), "{made:?}");
    let within = |name: &str| temp.join(name).display().to_string();
    assert_eq!(machine.write(&within(".git/config")).decided(&engine), Decision::Allow);
    assert_eq!(machine.write("work/.git/config").decided(&engine), Decision::Deny);
}

#[test]
fn what_bowline_keeps_is_protected_in_a_workspace_that_holds_it() {
    let machine = Machine::new(&[("data/sessions/x", ""), ("cache/x", "")]);
    let all =
        Flags { mode: Some(Mode::Auto), add_dirs: vec![machine.path("")], ..Flags::default() };
    let engine = machine.engine(all);
    for (path, decision) in [
        ("data/sessions/x", Decision::Deny),
        ("cache/x", Decision::Deny),
        ("home/x", Decision::Allow),
        ("work/x", Decision::Allow),
    ] {
        assert_eq!(machine.write(path).decided(&engine), decision, "{path}");
    }
    let made = confinement(&engine, "make").unwrap();
    for path in ["data", "cache", "config"] {
        assert!(made.protected.contains(&machine.path(path)), "{made:?}");
    }
    // The folder for temporary files lies in there, and is none of it.
    let temp = made.writable.iter().find(|path| path.starts_with(machine.path("cache"))).unwrap();
    let file = temp.join("x").display().to_string();
    assert_eq!(machine.write(&file).decided(&engine), Decision::Allow);
}

#[test]
fn what_is_protected_is_so_where_it_is_kept() {
    let text = "gitdir: repo/kept\n";
    let machine = Machine::new(&[("work/repo/kept/config", ""), ("work/repo/readme", "")]);
    std::fs::remove_dir(machine.path("work/.git")).unwrap();
    std::fs::write(machine.path("work/.git"), text).unwrap();
    machine.link("work/.claude", "work/ai");
    machine.link("work/.cursor", "work/.");
    let engine = machine.in_mode(Mode::Auto);
    for path in ["work/repo/kept/hooks/post-commit", "work/ai/settings.json", "work/.git"] {
        assert_eq!(machine.write(path).decided(&engine), Decision::Deny, "{path}");
    }
    for path in ["work/repo/readme", "work/src/x"] {
        assert_eq!(machine.write(path).decided(&engine), Decision::Allow, "{path}");
    }
    let made = confinement(&engine, "make").unwrap();
    for path in ["work/repo/kept", "work/ai"] {
        assert!(made.protected.contains(&machine.path(path)), "{made:?}");
    }
    assert!(!made.protected.contains(&machine.path("work")), "{made:?}");
}

#[test]
fn a_link_to_what_names_the_folder_of_the_repository_is_protected_with_both() {
    // Whatever the link leads to, git reads the path from where the link is.
    let files = [("work/sub/pointer", "gitdir: kept\n"), ("work/kept/config", "")];
    let machine = Machine::new(&files);
    std::fs::remove_dir(machine.path("work/.git")).unwrap();
    machine.link("work/.git", "work/sub/pointer");
    let engine = machine.in_mode(Mode::Auto);
    for path in ["work/sub/pointer", "work/kept/config"] {
        assert_eq!(machine.write(path).decided(&engine), Decision::Deny, "{path}");
    }
    assert_eq!(machine.write("work/sub/kept").decided(&engine), Decision::Allow);
}

#[test]
fn a_denied_pattern_is_about_each_file_that_is_there() {
    let files = [
        "work/.env",
        "work/a/b/.env",
        "work/a/b/key.pem",
        "work/a/secrets/x",
        "work/c/x.lock",
        "home/keys/one.pem",
        "home/keys/two.txt",
    ];
    let rules = "[permissions]\ndeny = [\"read(.env)\", \"read(*.pem)\", \"read(a/*/x)\", \
                 \"read(**/secrets/**)\", \"read(~/keys/*.pem)\", \"write(*.lock)\"]\n";
    let files: Vec<_> = files.iter().map(|file| (*file, "")).collect();
    let machine = Machine::new(&[&files[..], &[("config/config.toml", rules)]].concat());
    machine.link("work/out", "home");
    let made = confinement(&machine.in_mode(Mode::Auto), "make").unwrap();
    let hidden = [
        "home/keys/one.pem",
        "work/.env",
        "work/a/b/.env",
        "work/a/b/key.pem",
        "work/a/secrets",
        "work/a/secrets/x",
        "work/secrets",
    ];
    assert_eq!(made.hidden, hidden.map(|path| machine.path(path)));
    assert!(made.protected.contains(&machine.path("work/c/x.lock")), "{made:?}");
}

#[test]
fn a_rule_lifts_what_it_means_and_no_more() {
    let rules = "[permissions]\nallow = [\"write(.git/info/exclude)\", \"write(.vscode/*.json)\", \
                 \"write(.idea/**)\", \"read(~/.ssh/known_hosts)\", \"read(~/.aws)\"]\n";
    let machine = Machine::new(&[
        ("config/config.toml", rules),
        ("work/.git/info/exclude", ""),
        ("home/.ssh/id_rsa", ""),
        ("home/.ssh/known_hosts", ""),
        ("home/.aws/config", ""),
    ]);
    let made = confinement(&machine.in_mode(Mode::Auto), "make").unwrap();
    let has = |paths: &[PathBuf], path: &str| paths.contains(&machine.path(path));
    assert!(has(&made.writable, "work/.git/info/exclude"), "{made:?}");
    let protected = ["work/.git", "work/.vscode", "work/.idea"];
    assert_eq!(protected.map(|path| has(&made.protected, path)), [true, true, false], "{made:?}");
    assert_eq!(made.hidden, [machine.path("home/.ssh/id_rsa")]);
}

#[test]
fn what_is_protected_is_so_wherever_it_was_before_the_first_command() {
    let machine = Machine::new(&[
        ("work/sub/.git", "gitdir: ../.git/modules/sub"),
        ("work/a/b/.vscode/tasks.json", ""),
        ("work/node_modules/x/.vscode/tasks.json", ""),
        ("work/.git/modules/sub/.git/x", ""),
    ]);
    let engine = machine.in_mode(Mode::Auto);
    let nested = || {
        let made = confinement(&engine, "make").unwrap();
        let work = machine.path("work");
        let is_nested = |path: &PathBuf| path.starts_with(&work) && path.parent() != Some(&work);
        made.protected.into_iter().filter(is_nested).collect::<Vec<_>>()
    };
    let expected = ["work/a/b/.vscode", "work/sub/.git"].map(|path| machine.path(path));
    assert_eq!(nested(), expected);
    // What an agent makes later is its own.
    std::fs::create_dir_all(machine.path("work/cloned/.git")).unwrap();
    assert_eq!(nested(), expected);
}

#[test]
fn commands_reach_no_host_that_a_rule_keeps_them_from() {
    let network = |sandbox: &str, permissions: &str| {
        let text = format!("[sandbox]\n{sandbox}\n[permissions]\n{permissions}\n");
        let machine = Machine::new(&[("config/config.toml", &text)]);
        confinement(&machine.in_mode(Mode::Auto), "make").unwrap().network
    };
    let hosts = |names: &[&str]| Network::Hosts(names.iter().map(|&n| n.to_owned()).collect());
    let all = "network = true";
    assert_eq!(network(all, ""), Network::Full);
    assert_eq!(network(all, "deny = [\"net(a.org)\"]"), hosts(&["!a.org", "*"]));
    assert_eq!(network(all, "deny = [\"net\"]"), Network::None);
    assert_eq!(network(all, "ask = [\"net\"]\nallow = [\"net(b.org)\"]"), Network::None);
    let some = "hosts = [\"*.a.org\", \"b.org\", \"c.org\"]";
    let rules = "deny = [\"net(x.a.org)\", \"net(b.org)\"]";
    assert_eq!(network(some, rules), hosts(&["!b.org", "!x.a.org", "*.a.org", "c.org"]));
    let rules = "allow = [\"net(a.org)\"]\ndeny = [\"net(a.org)\"]";
    assert_eq!(network("", rules), Network::None);
}

#[test]
fn what_runs_because_it_only_looks_can_only_look() {
    let machine = Machine::new(&[]);
    for mode in [Mode::Ask, Mode::AcceptEdits, Mode::Deny, Mode::Plan] {
        let engine = machine.in_mode(mode);
        let writable = |command: &str| confinement(&engine, command).unwrap().writable.len();
        assert_eq!(writable("git status && git diff | head"), 1, "{mode:?}");
        assert_eq!(writable("make") == 1, mode == Mode::Plan, "{mode:?}");
    }
    // Without a sandbox what a repository names could do anything.
    let text = "[sandbox]\nprofile = \"off\"\n";
    let machine = Machine::new(&[("config/config.toml", text)]);
    for (mode, expected) in [(Mode::Ask, Decision::Ask), (Mode::Deny, Decision::Deny)] {
        let engine = machine.in_mode(mode);
        assert_eq!(bash("git status").decided(&engine), expected);
        assert_eq!(bash("ls").decided(&engine), Decision::Allow);
    }
}

#[test]
fn whoever_switches_the_sandbox_off_has_no_bounds_but_rules_and_what_is_secret() {
    let machine = Machine::new(&[(
        "config/config.toml",
        "[permissions]\ndeny = [\"bash(make *)\"]\n[sandbox]\nprofile = \"off\"\n",
    )]);
    let engine = machine.in_mode(Mode::Auto);
    assert_eq!(bash("make").decided(&engine), Decision::Deny);
    assert_eq!(bash("ls $(x) > /elsewhere").decided(&engine), Decision::Allow);
    assert_eq!(machine.write("home/x").decided(&engine), Decision::Allow);
    assert_eq!(machine.read("work/.env").decided(&engine), Decision::Deny);
    assert_eq!(confinement(&engine, "ls"), None);
    assert_eq!(bash("ls").decided(&machine.in_mode(Mode::Ask)), Decision::Allow);
    assert_eq!(bash("touch x").decided(&machine.in_mode(Mode::Ask)), Decision::Ask);
}

#[test]
fn without_a_sandbox_commands_are_beyond_it() {
    let machine = Machine::new(&[]);
    let runtime = machine.runtime();
    let policy = runtime.policy(&runtime.agent_config("default").unwrap(), false).unwrap();
    let engine = Engine::new(Arc::new(policy.with_confinement(false)), [], Arc::default());
    assert_eq!(bash("ls").decided(&engine), Decision::Deny);
    assert_eq!(machine.write("work/x").decided(&engine), Decision::Allow);
}

#[test]
fn a_child_may_do_nothing_that_its_parent_may_not() {
    let machine = Machine::new(&[(
        "config/config.toml",
        "[agents.parent.permissions]\nmode = \"auto\"\ndeny = [\"bash(make *)\"]\n\
         [agents.parent.sandbox]\nhosts = [\"a.org\", \"b.org\"]\n\
         [agents.child.permissions]\nmode = \"bypass\"\nallow = [\"bash(make *)\"]\n\
         [agents.careful]\npermissions = { mode = \"plan\" }\nsandbox = { hosts = [\"b.org\"] }\n",
    )]);
    let runtime = machine.runtime();
    let engine = |name: &str, above: &[&str]| {
        let above: Vec<String> = above.iter().map(|&name| name.to_owned()).collect();
        runtime.engine(&runtime.agent_config(name).unwrap(), &above, false).unwrap()
    };
    let child = engine("child", &["parent"]);
    assert_eq!(bash("make").decided(&child), Decision::Deny);
    assert_eq!(machine.write("home/x").decided(&child), Decision::Deny);
    assert_eq!(bash("cargo build").decided(&child), Decision::Allow);
    assert_eq!(confinement(&child, "ls"), confinement(&engine("parent", &[]), "ls"));
    assert_eq!(confinement(&engine("child", &[]), "ls"), None);
    let careful = engine("careful", &["parent"]);
    assert_eq!(machine.write("work/x").decided(&careful), Decision::Deny);
    let made = confinement(&careful, "ls").unwrap();
    assert_eq!((made.writable.len(), made.network), (1, Network::Hosts(vec!["b.org".into()])));
    assert_eq!(bash("make").decided(&engine("child", &["careful", "parent"])), Decision::Deny);
}

#[test]
fn a_question_of_a_parent_is_no_lesser_one_for_its_child() {
    let machine = Machine::new(&[(
        "config/config.toml",
        "[agents.asks.permissions]\nask = [\"bash(make *)\"]\n\
         [agents.looks.sandbox]\nprofile = \"read-only\"\n[agents.child]\n",
    )]);
    let runtime = machine.load(Flags { mode: Some(Mode::Ask), ..Flags::default() }).unwrap();
    let child = runtime.agent_config("child").unwrap();
    let by_mode_alone = |call: &Call, above: &[&str]| {
        let above: Vec<String> = above.iter().map(|&name| name.to_owned()).collect();
        call.judged(&runtime.engine(&child, &above, true).unwrap()).is_asked_by_mode_alone()
    };
    let (make, write) = (bash("make"), machine.write("work/x"));
    assert!(by_mode_alone(&make, &[]) && by_mode_alone(&write, &[]));
    assert!(!by_mode_alone(&make, &["asks"]), "a rule of the parent asks");
    assert!(!by_mode_alone(&write, &["looks"]), "it is beyond the sandbox of the parent");
}

#[test]
fn what_two_confine_confines_as_both_do() {
    let make = |writable: &[&str], network: Network, memory: Option<u64>| Confinement {
        writable: writable.iter().map(PathBuf::from).collect(),
        protected: vec![PathBuf::from(format!("{}/.git", writable[0]))],
        network,
        unix_sockets: memory.is_some(),
        limits: ResourceLimits { memory, ..ResourceLimits::default() },
        ..Confinement::default()
    };
    let hosts =
        |names: &[&str]| Network::Hosts(names.iter().map(|&name| name.to_owned()).collect());
    let one = make(&["/a", "/b/c", "/d"], hosts(&["*.x.org", "y.org"]), Some(5));
    let other = make(&["/a/b", "/b", "/e"], hosts(&["a.x.org", "z.org"]), None);
    let both = intersect(one.clone(), &other);
    assert_eq!(both.writable, [PathBuf::from("/a/b"), PathBuf::from("/b/c")]);
    assert_eq!(both.protected.len(), 2);
    assert_eq!((both.network, both.unix_sockets), (hosts(&["a.x.org"]), false));
    assert_eq!(both.limits.memory, Some(5));
    let common = |one: &[&str], other: &[&str]| {
        let one = make(&["/a"], hosts(one), None);
        intersect(one, &make(&["/a"], hosts(other), None)).network
    };
    assert_eq!(common(&["*", "!a.org"], &["a.org", "b.org"]), hosts(&["!a.org", "b.org"]));
    assert_eq!(common(&["*.x.org", "!a.x.org"], &["a.x.org"]), Network::None);
    assert_eq!(
        common(&["*.x.org", "!a.x.org", "a.x.org"], &["*"]),
        hosts(&["!a.x.org", "*.x.org", "a.x.org"])
    );
    let open = Confinement { network: Network::Full, ..other };
    assert_eq!(intersect(one.clone(), &open).network, one.network);
    assert_eq!(intersect(one, &Confinement::default()).network, Network::None);
}

#[tokio::test]
async fn what_is_touched_is_judged_again_by_what_it_really_is() {
    let machine = Machine::new(&[("home/x", ""), ("work/.env", "")]);
    let engine = machine.in_mode(Mode::Ask);
    let check = |path: &str, want| engine.check(&"call".into(), &machine.path(path), want);
    assert!(check("home/x", Want::Read).is_ok());
    assert!(check("home/x", Want::Write).is_err());
    assert!(check("work/.env", Want::Read).is_err());
    // A person allows one file, through a link; then the link leads elsewhere.
    machine.link("work/link", "home/x");
    let allow = op::Decision::ONCE;
    let passed = machine.write("work/link").gated(&engine, Some(&allow)).await;
    assert!(matches!(passed, Verdict::Allow { .. }));
    assert!(check("home/x", Want::Write).is_ok());
    let error = check("home/y", Want::Write).unwrap_err();
    assert!(error.contains("it is outside the workspace"), "{error}");
    let host = |host: &str| engine.check_host(&"call".into(), host);
    assert!(host("example.com").is_err());
    let passed = Call::host("example.com").gated(&engine, Some(&allow)).await;
    assert!(matches!(passed, Verdict::Allow { .. }));
    assert!(host("example.com").is_ok() && host("elsewhere.com").is_err());
}
