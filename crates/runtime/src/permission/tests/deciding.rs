//! What is decided about calls.

use pretty_assertions::assert_eq;

use bowline_agent::tool::Access;

use super::*;
use Decision::{Allow, Ask, Deny};

#[test]
fn each_mode_decides_what_no_rule_decides() {
    let machine = Machine::new(&[("work/src/a.rs", ""), ("work/.env", "KEY=x")]);
    let calls = [
        ("look", machine.read("work/src/a.rs")),
        ("look outside", machine.read("home/notes.txt")),
        ("look at a secret", machine.read("work/.env")),
        ("edit", machine.write("work/src/a.rs")),
        ("edit outside", machine.write("home/notes.txt")),
        ("edit git's", machine.write("work/.git/hooks/pre-commit")),
        ("run what looks", bash("git log --oneline | head -5")),
        ("run", bash("cargo test")),
        ("run what writes outside", bash("echo x > /etc/hosts")),
        ("run with a secret", bash("cat .env")),
        ("talk", Call::host("example.com")),
        ("delegate", Call::delegate("coder")),
        ("tool of a server", Call::new("mcp__files__move", Access::exclusive())),
        ("plan", Call::new("update_plan", Access::none())),
    ];
    let modes = [Mode::Ask, Mode::AcceptEdits, Mode::Plan, Mode::Auto, Mode::Deny, Mode::Bypass];
    let engines = modes.map(|mode| machine.in_mode(mode));
    let table =
        calls.iter().map(|(name, call)| (*name, engines.each_ref().map(|one| call.decided(one))));
    assert_eq!(
        table.collect::<Vec<_>>(),
        [
            // ask, accept-edits, plan, auto, deny, bypass
            ("look", [Allow, Allow, Allow, Allow, Allow, Allow]),
            ("look outside", [Allow, Allow, Allow, Allow, Allow, Allow]),
            ("look at a secret", [Ask, Ask, Deny, Deny, Deny, Allow]),
            ("edit", [Ask, Allow, Deny, Allow, Deny, Allow]),
            ("edit outside", [Ask, Ask, Deny, Deny, Deny, Allow]),
            ("edit git's", [Ask, Ask, Deny, Deny, Deny, Allow]),
            ("run what looks", [Allow, Allow, Allow, Allow, Allow, Allow]),
            ("run", [Ask, Ask, Deny, Allow, Deny, Allow]),
            ("run what writes outside", [Ask, Ask, Deny, Deny, Deny, Allow]),
            ("run with a secret", [Ask, Ask, Deny, Deny, Deny, Allow]),
            ("talk", [Ask, Ask, Deny, Deny, Deny, Allow]),
            ("delegate", [Allow, Allow, Allow, Allow, Allow, Allow]),
            ("tool of a server", [Ask, Ask, Deny, Allow, Deny, Allow]),
            ("plan", [Allow, Allow, Allow, Allow, Allow, Allow]),
        ]
    );
}

#[test]
fn what_is_denied_in_auto_says_how_it_can_be_allowed() {
    let machine = Machine::new(&[]);
    let engine = machine.in_mode(Mode::Auto);
    let path = machine.path("home/x.txt");
    let reason = machine.write("home/x.txt").judged(&engine).reason();
    let path = path.display();
    assert_eq!(
        reason,
        format!(
            "write({path}): it is outside the workspace (permission mode auto); the user can allow it \
             with --allow 'write({path})'"
        )
    );
    let flags = Flags {
        mode: Some(Mode::Auto),
        allow: vec![Rule::parse(&format!("write({path})")).unwrap()],
        ..Flags::default()
    };
    let engine = machine.engine(flags);
    assert_eq!(machine.write("home/x.txt").decided(&engine), Allow);
    assert_eq!(machine.write("home/y.txt").decided(&engine), Deny);
}

#[test]
fn the_higher_layer_is_right_but_any_deny_wins() {
    let machine = Machine::new(&[
        ("etc/config.toml", "[permissions]\nallow = [\"bash(sys *)\", \"bash(both *)\"]\n"),
        (
            "config/config.toml",
            "[permissions]\nask = [\"bash(both *)\"]\nallow = [\"bash(mine *)\", \"bash(theirs *)\"]\n",
        ),
        (
            "work/.bowline/config.toml",
            "[permissions]\nask = [\"bash(mine *)\"]\ndeny = [\"bash(theirs *)\", \"bash(never *)\"]\n",
        ),
        ("work/.bowline/config.local.toml", "[permissions]\nallow = [\"bash(mine here *)\"]\n"),
    ]);
    let flags = |allow: &[&str]| Flags {
        mode: Some(Mode::Ask),
        allow: allow.iter().map(|rule| Rule::parse(rule).unwrap()).collect(),
        ..Flags::default()
    };
    let engine = machine.engine(flags(&[]));
    let commands = ["sys x", "both x", "mine x", "mine here", "theirs x"];
    let decided = commands.map(|command| bash(command).decided(&engine));
    assert_eq!(decided, [Allow, Ask, Ask, Allow, Deny]);
    let engine = machine.engine(flags(&["bash(mine *)", "bash(never *)"]));
    assert_eq!(["mine x", "never x"].map(|command| bash(command).decided(&engine)), [Allow, Deny]);
}

#[test]
fn who_looks_after_the_machine_cannot_be_overruled() {
    let machine = Machine::new(&[
        (
            "etc/managed.toml",
            "modes = [\"ask\", \"auto\"]\n[permissions]\nallow = [\"bash(scan *)\"]\n\
             deny = [\"net(evil.example)\"]\nask = [\"bash(ship *)\"]\n",
        ),
        (
            "config/config.toml",
            "[permissions]\nallow = [\"net(evil.example)\", \"bash(ship *)\"]\n\
             deny = [\"bash(scan *)\", \"bash(ship it *)\"]\n[agents.small.permissions]\n\
             deny = [\"bash(scan *)\"]\n",
        ),
    ]);
    let engine = machine.in_mode(Mode::Ask);
    assert_eq!(bash("scan all").decided(&engine), Allow);
    assert_eq!(Call::host("evil.example").decided(&engine), Deny);
    assert_eq!(bash("ship now").decided(&engine), Ask);
    assert_eq!(bash("ship it").decided(&engine), Deny);
    // What an agent is made without stays away.
    let runtime = machine.runtime();
    let small = runtime.agent_config("small").unwrap();
    assert_eq!(bash("scan all").decided(&runtime.engine(&small, &[], false).unwrap()), Deny);
    let flags = Flags { mode: Some(Mode::Bypass), ..Flags::default() };
    let error = machine.load(flags).map(drop).unwrap_err();
    assert!(error.contains("bypass is not allowed on this machine; there is ask, auto"), "{error}");
    std::fs::write(machine.path("etc/managed.toml"), "mode = [\"ask\"]\n").unwrap();
    let error = machine.load(Flags::default()).map(drop).unwrap_err();
    assert_eq!(error, "etc/managed.toml: line 1: unknown key \"mode\"; did you mean \"modes\"?");
}

#[test]
fn a_path_is_judged_as_it_is_written_and_as_it_really_is() {
    let machine = Machine::new(&[
        (
            "config/config.toml",
            "[permissions]\nallow = [\"write(src/**)\"]\ndeny = [\"read(~/private)\", \"write(*.lock)\"]\n",
        ),
        ("home/private/diary", ""),
    ]);
    machine.link("work/src/out", "home");
    machine.link("work/src/innocent", "home/private/diary");
    machine.link("work/dot", "work/.git/config");
    let engine = machine.in_mode(Mode::Ask);
    let decided = |call: Call| call.decided(&engine);
    assert_eq!(decided(machine.write("work/src/a/b.rs")), Allow);
    // A link in the workspace leads out of it.
    assert_eq!(decided(machine.write("work/src/out/new.txt")), Ask);
    assert_eq!(decided(machine.write("work/src/../x")), Ask);
    assert_eq!(decided(machine.read("home/private/diary")), Deny);
    assert_eq!(decided(machine.read("home/private")), Deny);
    assert_eq!(decided(machine.read("work/src/innocent")), Deny);
    assert_eq!(decided(bash("cat src/innocent")), Deny);
    assert_eq!(decided(bash("cd src && cat innocent")), Deny);
    assert_eq!(decided(bash("tar c ~/private")), Deny);
    let through_proc = format!("/proc/self/root{}", machine.path("home/private/diary").display());
    assert_eq!(decided(Call::new("read", Access::read(&through_proc))), Deny);
    assert_eq!(decided(bash(&format!("cat {through_proc}"))), Deny);
    assert_eq!(decided(machine.write("work/deep/down/Cargo.lock")), Deny);
    assert_eq!(decided(bash("rm Cargo.lock")), Deny);
    let auto = machine.in_mode(Mode::Auto);
    assert_eq!(machine.write("work/dot").decided(&auto), Deny);
}

#[test]
fn files_are_judged_wherever_cd_may_have_led() {
    let machine = Machine::new(&[
        (
            "config/config.toml",
            "[permissions]\ndeny = [\"read(priv)\", \"write(priv)\", \"net(evil.com)\"]\n",
        ),
        ("work/priv/f", ""),
        ("work/sub/.env", ""),
        ("work/.env", ""),
        ("home/.ssh/x", ""),
    ]);
    let bypass = machine.in_mode(Mode::Bypass);
    let file = machine.path("work/priv/f").display().to_string();
    let absolute = ["> FILE", "cat FILE", "cat < FILE"]
        .map(|line| format!("cd .; {}", line.replace("FILE", &file)));
    let relative = [
        "cd .; cat priv/f",
        "cd priv; cat f",
        "cd priv; echo x > f",
        "cd src; cd ../priv; cat f",
        "cd src || cat priv/f",
        "! cd src && cat priv/f",
        "cd priv; cd -; cat priv/f",
        "pushd priv; cat f",
        "pushd priv; popd; echo x > priv/f",
        "cd \"$X\"; cat priv/f",
        "for i in 1; do cd priv; cat f; done",
        "f() { cat f; }; cd priv; f",
        "cd ~/..; cat work/priv/f",
        "cd .; (cd priv; cat f)",
        "cd .; cat pri*/f",
        "cd .; cat < /dev/tcp/evil.com/80",
        "cd -; cat < /dev/udp/evil.com/80",
    ];
    for command in absolute.iter().map(String::as_str).chain(relative) {
        assert_eq!(bash(command).decided(&bypass), Deny, "{command}");
    }
    for command in ["cd priv2; cat f", "cd src; cat f; echo x > g", "cd - && make all"] {
        assert_eq!(bash(command).decided(&bypass), Allow, "{command}");
    }
    let plan = machine.in_mode(Mode::Plan);
    for command in ["cd .; cat .env", "cd sub; cat .env", "cd ~/.ssh; cat x", "cd $X; cat .env"] {
        assert_eq!(bash(command).decided(&plan), Deny, "{command}");
    }
}

#[test]
fn where_a_folder_is_not_known_rules_about_files_ask() {
    let (machine, engine) = asking(
        "allow = [\"bash\"]\ndeny = [\"read(priv)\", \"write(x/*.lock)\"]\n[sandbox]\nprofile = \"off\"",
    );
    for command in ["cd \"$X\" && cat f", "cd - && rm f", "cd $X && wc < f", "popd; sort /x y"] {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
    for command in
        ["cd \"$X\" && cat /f", "cd src && cat f", "cd src; cargo test", "cd $X && ls -l"]
    {
        assert_eq!(bash(command).decided(&engine), Allow, "{command}");
    }
    drop(machine);
    // The sandbox keeps what is denied. What is asked about it does not.
    let decided = |rules: &str| {
        let machine = Machine::new(&[("config/config.toml", &format!("[permissions]\n{rules}"))]);
        let engine = machine.in_mode(Mode::Auto);
        ["cd $X && cat f", "cd sub && cargo test", "cd sub; cargo test"]
            .map(|command| bash(command).decided(&engine))
    };
    assert_eq!(decided(""), [Allow; 3]);
    assert_eq!(decided("deny = [\"read(priv)\"]"), [Allow; 3]);
    assert_eq!(decided("ask = [\"read(priv)\"]"), [Deny, Allow, Allow]);
}

#[test]
fn secrets_are_asked_about_and_examples_of_them_are_not() {
    let machine = Machine::new(&[
        ("config/config.toml", "[permissions]\nallow = [\"read(**)\", \"read(.env.ci)\"]\n"),
        ("work/credentials", ""),
    ]);
    let engine = machine.in_mode(Mode::Ask);
    let secret = [
        "work/.env",
        "work/.env.production",
        "work/a/server.pem",
        "home/.ssh/config",
        "home/.aws/config",
        "work/.npmrc",
        "home/.netrc",
        "work/id_rsa",
        "work/credentials",
        "home/.gnupg/x",
    ];
    for path in secret {
        assert_eq!(machine.read(path).decided(&engine), Ask, "{path}");
    }
    for path in
        ["work/.env.example", "work/.env.sample", "work/id_rsa.pub", "work/.env.ci", "work/env"]
    {
        assert_eq!(machine.read(path).decided(&engine), Allow, "{path}");
    }
    let environ = Call::new("read", Access::read("/proc/self/environ"));
    assert_eq!(environ.decided(&engine), Ask);
    for command in
        ["cat .env", "grep x ./.env", "git show HEAD:.env", "cat credentials", "head < .env"]
    {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
}

#[test]
fn a_word_that_may_name_a_secret_is_taken_for_it() {
    let machine = Machine::new(&[
        ("config/config.toml", "[permissions]\ndeny = [\"read(private/**)\"]\n"),
        ("work/.env", ""),
        ("work/a/.env", ""),
        ("work/a/b.rs", ""),
        ("work/private/x", ""),
    ]);
    let engine = machine.in_mode(Mode::Auto);
    let denied = [
        "cat .e*",
        "cat .en?",
        "cat .[e]nv",
        "cat .en[[:alpha:]]",
        "cat .en[![:digit:]x]",
        "cat .en[[=v=]]",
        "cat .e[]n]v",
        "cat .en{v..v}",
        "cat .e{a..z}v",
        "cat .e{z..a}v x{1..9}",
        "cat {.env,x}",
        "cat .e{n,}v",
        "cat a/{b,.{env,x}}",
        "cat $PWD/.env",
        "cat \"${PWD}\"/a/.env",
        "cat */.e*v",
        "head < .e*",
        "cd a && cat .*",
        "cat priv*/x",
        "cp -r p?ivate elsewhere",
    ];
    for command in denied {
        assert_eq!(bash(command).decided(&engine), Deny, "{command}");
    }
    for command in
        ["cat a/*", "ls a/*.rs", "cat $x", "cat .{a,b}", "cat [", "cat '.e*'", "cat .[[:alpha:]]"]
    {
        assert_eq!(bash(command).decided(&engine), Allow, "{command}");
    }
}

#[test]
fn only_a_rule_that_names_it_lifts_a_protection() {
    let protected =
        ["work/.git/config", "work/.vscode/tasks.json", "work/a/.claude/x", "work/.mcp.json"];
    let wide = Machine::new(&[(
        "config/config.toml",
        "[permissions]\nallow = [\"write\", \"write(**)\"]\n",
    )]);
    let engine = wide.in_mode(Mode::Auto);
    for path in protected {
        assert_eq!(wide.write(path).decided(&engine), Deny, "{path}");
    }
    for path in ["work/AGENTS.md", "work/.bowline/notes/a.md", "work/.gitignore", "home/new.txt"] {
        assert_eq!(wide.write(path).decided(&engine), Allow, "{path}");
    }
    assert_eq!(wide.write("home/.bashrc").decided(&engine), Deny);
    let named =
        Machine::new(&[("config/config.toml", "[permissions]\nallow = [\"write(.vscode/**)\"]\n")]);
    let engine = named.in_mode(Mode::Auto);
    assert_eq!(named.write("work/.vscode/tasks.json").decided(&engine), Allow);
    assert_eq!(named.write("work/.git/config").decided(&engine), Deny);
}

#[test]
fn hosts_agents_and_tools_of_servers_have_rules_too() {
    let (_machine, engine) = asking(
        "allow = [\"net(docs.rs)\", \"WebFetch(domain:*.example.com)\", \"mcp__files\", \"mcp__web__get*\"]\n\
         ask = [\"agent(root)\"]\ndeny = [\"agent(danger*)\", \"mcp__files__delete\"]",
    );
    let host = |host: &str| Call::host(host).decided(&engine);
    assert_eq!(["docs.rs", "DOCS.rs.", "a.example.com"].map(host), [Allow; 3]);
    assert_eq!(["example.com", "docs.rs.evil.org", "evildocs.rs"].map(host), [Ask; 3]);
    let agent = |agent: &str| Call::delegate(agent).decided(&engine);
    assert_eq!(["coder", "root", "dangerous"].map(agent), [Allow, Ask, Deny]);
    // Whatever else is said beside: a tool reads what it knows, and nothing more.
    for (tool, arguments) in [
        ("delegate", r#"{"tasks":[{"agent":"dangerous","task":"x"}],"agent":1,"target_agent":{}}"#),
        ("delegate_to_agent", r#"{"agent":"dangerous","task":"x","tasks":null}"#),
        ("delegate_to_agent", r#"{"agent":"dangerous","task":"x","tasks":[7,{"agent":7}]}"#),
        ("spawn_agents", r#"{"tasks":[{"agent":"x","task":"x"},{"agent":"danger"}],"agent":[]}"#),
        ("handoff", r#"{"target_agent":"danger","reason":"x","context":"x","agent":0}"#),
    ] {
        let call = Call::with(tool, arguments, Access::none());
        assert_eq!(call.decided(&engine), Deny, "{arguments}");
    }
    let server = |tool: &str| Call::new(tool, Access::exclusive()).decided(&engine);
    let tools = ["mcp__files__move", "mcp__files__delete", "mcp__web__get_page", "mcp__web__post"];
    assert_eq!(tools.map(server), [Allow, Deny, Allow, Ask]);
    assert_eq!(server("mcp__files2__move"), Ask);
}

#[test]
fn an_address_may_be_that_of_a_host_that_is_named() {
    let rules = "allow = [\"net(*)\", \"net(10.0.0.7)\", \"net(::1)\"]\n";
    let decided = |stopping: &str| {
        let (_machine, engine) = asking(&format!("{rules}{stopping}"));
        ["x.org", "1.2.3.4", "16909060", "[2001:db8::1]", "10.0.0.7", "0xa.7", "[::1]", "evil.com"]
            .map(|host| Call::host(host).decided(&engine))
    };
    assert_eq!(decided(""), [Allow; 8]);
    assert_eq!(
        decided("deny = [\"net(evil.com)\"]"),
        [Allow, Ask, Ask, Ask, Allow, Allow, Allow, Deny]
    );
    assert_eq!(
        decided("ask = [\"net(*.evil.com)\"]"),
        [Allow, Ask, Ask, Ask, Allow, Allow, Allow, Allow]
    );
    // An address is that address, whatever names lead there.
    assert_eq!(decided("deny = [\"net(1.2.3.4)\"]")[..4], [Allow, Deny, Deny, Allow]);
}

#[test]
fn a_tool_that_is_denied_altogether_is_hidden() {
    let (_machine, engine) = asking(
        "deny = [\"bash\", \"mcp__files\", \"Edit(*)\", \"net(x.org)\", \"bash(x *)\", \"agent\"]",
    );
    let hidden = ["bash", "job", "mcp__files__read", "write", "edit", "apply_patch", "delegate"];
    assert!(hidden.iter().all(|tool| engine.hides(tool)));
    assert!(!["read", "fetch", "mcp__web__x", "update_plan"].iter().any(|tool| engine.hides(tool)));
}

#[test]
fn what_is_denied_of_servers_may_be_named_as_it_names_itself() {
    let servers = "[mcp_servers.a__b]\ncommand = \"x\"\n[mcp_servers.\"a server of the house.\"]\n\
                   command = \"x\"\n[mcp_servers.my-company-internal-tracker]\ncommand = \"x\"\n";
    let rules = "[permissions]\ndeny = [\"mcp__a__b__del.*\", \"mcp__my-company-internal-tracker\"]\n\
                 ask = [\"mcp__a__b__up__load\"]\nallow = [\"mcp__a__b\", \"mcp__a_b\"]\n";
    let machine = Machine::new(&[("config/config.toml", &format!("{rules}{servers}"))]);
    let engine = machine.in_mode(Mode::Deny);
    let decided = |tool: &str| Call::new(tool, Access::exclusive()).decided(&engine);
    assert_eq!(["mcp__a_b__del_all", "mcp__a_b__up_load"].map(decided), [Deny; 2]);
    assert_eq!(["mcp__a_b__read", "mcp__a_b__del"].map(decided), [Allow; 2]);
    // Its name here is too long to be all of it.
    let engine = machine.in_mode(Mode::Bypass);
    let names = bowline_tools::mcp::Pattern::called_here(
        "mcp__my-company-internal-tracker__x",
        ["a__b", "a server of the house.", "my-company-internal-tracker"],
    );
    assert!(
        names.iter().all(|name| name.starts_with("mcp__my-company-int") && name.contains("__x"))
    );
    for name in names {
        assert!(engine.hides(&name));
        assert_eq!(Call::new(&name, Access::exclusive()).decided(&engine), Deny, "{name}");
    }
}

#[test]
fn a_rule_that_is_wrong_is_an_error_with_its_line() {
    let error = |text: &str| {
        Machine::new(&[("config/config.toml", text)]).load(Flags::default()).map(drop).unwrap_err()
    };
    let cases = [
        (
            "allow = [\"bash(git push\"]",
            "permissions.allow.0: \"bash(git push\" has no closing `)`",
        ),
        ("deny = [\n]\nask = [\"read()\"]", "line 4: permissions.ask.0: \"read()\" says nothing"),
        ("allow = [\"bash(a && b)\"]", "'&' in \"a && b\": a rule is about one program"),
        ("deny = [\"read(*.{a,b})\"]", "in paths only * and ** stand for something"),
        ("allow = [\"net(http://x)\"]", "\"http://x\" is no host"),
        ("deny = [\"read($HOME/x)\"]", "no variable is read; write ~/ for the home folder"),
        ("deny = [\"read(file:///x)\"]", "\"file:///x\" is no path; write it like /x"),
        ("deny = [\"read(~user/x)\"]", "only your own home folder has a sign"),
        ("deny = [\"read(!x)\"]", "`!` excepts nothing"),
        ("deny = [\"write(x|y)\"]", "write two rules for two names, or \\| for the character"),
        ("deny = [\"net(x.com:443)\"]", "a rule has no port; write net(x.com)"),
        ("deny = [\"net([::1]:443)\"]", "a rule has no port; write net([::1])"),
        ("deny = [\"net(a:b)\"]", "\"a:b\" is no host"),
        ("deny = [\"net(1.2.3.4.5)\"]", "\"1.2.3.4.5\" is no host"),
        ("allow = [{ rule = \"bash(a *)\", match = [\"b\"] }]", "`bash(a *)` is not about \"b\""),
        (
            "allow = [{ rule = \"bash(a *)\", not_match = [\"a b\"] }]",
            "which not_match says it is not",
        ),
        ("allow = [{ rule = \"bash\", reasn = \"x\" }]", "unknown key \"reasn\""),
        ("alow = []", "unknown key \"alow\" in [permissions]; did you mean \"allow\"?"),
    ];
    for (text, what) in cases {
        let error = error(&format!("[permissions]\n{text}\n"));
        assert!(error.starts_with("config/config.toml: line ") && error.contains(what), "{error}");
    }
    let right = "[permissions]\nallow = [{ rule = \"bash(git push *)\", reason = \"x\", \
                 match = [\"git push\", \"cd x && git -C y push\"], not_match = [\"git pull\"] },\n\
                 { rule = \"read(src/**)\", match = [\"src/a\"], not_match = [\"/etc/src/a\"] }]\n";
    assert!(Machine::new(&[("config/config.toml", right)]).load(Flags::default()).is_ok());
}

#[tokio::test]
async fn a_person_decides_what_is_asked_and_nothing_that_is_denied() {
    let (_machine, engine) = asking("deny = [\"bash(rm *)\"]");
    let allow = op::Decision::ONCE;
    let asked = bash("cargo test").gated(&engine, None).await;
    let (question, rule) = ("run `cargo test`?".to_owned(), Some("bash(cargo test *)".to_owned()));
    assert_eq!(asked, Verdict::Wait { question, rule });
    let allowed = bash("cargo test").gated(&engine, Some(&allow)).await;
    assert_eq!(allowed, Verdict::Allow { rule: Some("a person allowed it".to_owned()) });
    let Verdict::Deny { reason } = bash("rm x").gated(&engine, Some(&allow)).await else {
        panic!("it is denied");
    };
    assert!(
        reason.contains("bash(rm x): it falls under the rule `bash(rm *)` (user, "),
        "{reason}"
    );
}

#[test]
fn to_outlive_bowline_takes_a_rule_of_its_own() {
    let machine = Machine::new(&[("config/config.toml", "[permissions]\nallow = [\"bash\"]\n")]);
    let call = |survive: &str| {
        let arguments = format!(r#"{{"command":"ls","survive":{survive}}}"#);
        Call::with("bash", &arguments, Access::execute("ls"))
    };
    let expected = [
        (Mode::Ask, Decision::Ask),
        (Mode::AcceptEdits, Decision::Ask),
        (Mode::Plan, Decision::Deny),
        (Mode::Auto, Decision::Deny),
        (Mode::Deny, Decision::Deny),
        (Mode::Bypass, Decision::Allow),
    ];
    for (mode, decision) in expected {
        let engine = machine.in_mode(mode);
        assert_eq!(call("true").decided(&engine), decision, "{mode:?}");
        assert_eq!(call("false").decided(&engine), Decision::Allow, "{mode:?}");
    }
    let said = call("true").judged(&machine.in_mode(Mode::Auto)).reason();
    let reason = "survive: it would go on when bowline ends (permission mode auto); the user can \
                  allow it with --allow 'survive'";
    assert_eq!(said, reason);
    let with = |rules: &str| {
        let text = format!("[permissions]\n{rules}\n");
        let machine = Machine::new(&[("config/config.toml", &text)]);
        [Mode::Auto, Mode::Plan].map(|mode| call("true").decided(&machine.in_mode(mode)))
    };
    assert_eq!(with("allow = [\"survive\"]"), [Decision::Allow, Decision::Deny]);
    assert_eq!(with("allow = [\"*\"]")[0], Decision::Deny);
    assert_eq!(with("allow = [\"survive\"]\ndeny = [\"survive\"]")[0], Decision::Deny);
    let other = Call::with("deploy", r#"{"survive":true}"#, Access::execute("ls"));
    assert_eq!(other.decided(&machine.in_mode(Mode::Auto)), Decision::Allow);
}

#[test]
fn marks_can_be_taken_their_meaning_and_numbers_are_the_same_however_they_are_written() {
    let about = |rule: &str, example: &str| Rule::parse(rule).unwrap().is_about(example);
    for (rule, path) in [
        (r"read(routes/\$id.tsx)", "routes/$id.tsx"),
        (r"read(a\|b)", "a|b"),
        (r"read(\!x)", "!x"),
        (r"read(\~user)", "~user"),
        ("read(x~)", "x~"),
    ] {
        assert!(about(rule, path), "{rule}");
    }
    for rule in ["net(127.1)", "net(2130706433)", "net(0x7f.0.0.1)", "net(0177.0.0.01)"] {
        assert!(about(rule, "127.0.0.1"), "{rule}");
    }
    assert!(about("net(::ffff:102:304)", "::ffff:102:304"));
    assert!(about("net([0:0:0:0:0:0:0:1])", "::1") && about("net(::1)", "[::1]"));
    assert!(about("net(x1.example)", "x1.example") && !about("net(*.1)", "127.0.0.1"));
}
