use std::path::PathBuf;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use bowline_agent::tool::{Toolbox, tool_fn};
use bowline_agent::{Agent, ToolExecution};
use bowline_llm::Effort;

use crate::config::{self, AgentConfig, Said, Trust};
use crate::environment::{Environment, Folders};
use crate::test_machine::folder_with;
use crate::{AgentFactory, Choice, ConfigError, Runtime};

use super::toolboxes;

mod strangers;

/// A machine with files: `home` for the user, `work` for the project.
struct Machine(TempDir);

/// What every configuration here begins with: two models that need no key.
const MODELS: &str = "model = \"here/big\"\n[providers.here]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                      [providers.there]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"small\"\n";

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        Self(folder_with(&["work/.git"], files))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Loads everything; what is wrong, or what a person should know.
    fn load(&self, trust: Trust) -> (config::Loaded, Vec<String>) {
        let folders = self.folders();
        let (loaded, faults) =
            config::read_all(&folders, &self.environment(), &Said::default(), trust);
        let faults = faults.iter().map(|fault| self.shown(&fault.to_string())).collect();
        (loaded, faults)
    }

    fn environment(&self) -> Environment {
        Environment { cwd: self.path("work"), ..Environment::default() }
    }

    fn folders(&self) -> Folders {
        Folders {
            system: self.path("etc"),
            config: self.path("home"),
            data: self.path("data"),
            cache: self.path("cache"),
        }
    }

    /// Returns what makes agents of everything here.
    fn factory(&self, entry: &str) -> AgentFactory {
        let (loaded, faults) = self.load(Trust::Project);
        assert_eq!(faults, Vec::<String>::new());
        let runtime = Runtime::with(self.environment(), self.folders(), loaded);
        let own = runtime.agent_config(entry).unwrap();
        let limits = runtime.config.limits.headless_of(&own);
        let name = crate::provider::ModelName::parse("here/big:low").unwrap();
        runtime.factory(Choice {
            agent: entry.to_owned(),
            model: name.into(),
            limits,
            ephemeral: true,
            attended: true,
            instructions: "Told by the project.".to_owned(),
            skills: crate::skills::Skills::default(),
            output_schema: None,
        })
    }

    fn shown(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// Returns what is wrong with an agent of the user's, in a file of its own.
fn faults(text: &str) -> Vec<String> {
    Machine::new(&[("home/agents/a.md", text)]).load(Trust::User).1
}

fn tools(agent: &Agent) -> Vec<&str> {
    agent.tools.names().collect()
}

const CODER: &str = "---\ndescription: Writes code.\nmodel: there\neffort: high\n\
    fallback: [here/big]\ntools: [filesystem, grep, bash]\neffects:\n  - kind: loop_detect\n\
    limits:\n  model_turns: 7\n  cost_usd: 0\ntool_execution: {parallel: 3}\ntimeout: 5m\n\
    orchestrator: plan_execute\nproject_context: false\n---\n\nYou write code.\n\nWell.\n";

#[test]
fn an_agent_is_made_of_its_file() {
    let machine = Machine::new(&[("home/config.toml", MODELS), ("home/agents/coder.md", CODER)]);
    let agent = machine.factory("default").build("coder").unwrap();
    assert_eq!(agent.name, "coder");
    assert!(agent.instructions.contains("You write code.\n\nWell."), "{}", agent.instructions);
    assert_eq!(agent.model.info().id(), "there/small");
    assert_eq!(agent.effort, Some(Effort::High));
    assert_eq!(tools(&agent), ["read", "write", "edit", "list", "grep", "bash"]);
    assert_eq!((agent.limits.model_turns, agent.limits.run_time_ms), (7, 30 * 60 * 1000));
    assert_eq!(agent.tool_execution, ToolExecution::Parallel { max: 3 });
    assert_eq!(agent.orchestrator.name(), "plan_execute");
    assert_eq!(agent.effects.len(), 1);
    assert_eq!(agent.middleware.len(), 1);
    assert!(!agent.context.contains("Told by the project."), "{}", agent.context);
}

#[test]
fn what_an_agent_does_not_say_is_that_of_the_whole() {
    let machine = Machine::new(&[("home/config.toml", MODELS), ("home/agents/plain.md", "Hello.")]);
    let factory = machine.factory("default");
    let agent = factory.build("plain").unwrap();
    assert!(agent.instructions.contains("\nHello.\n"), "{}", agent.instructions);
    assert_eq!((agent.model.info().id().as_str(), agent.effort), ("here/big", Some(Effort::Low)));
    let of_default = factory.build("default").unwrap();
    let mut of_default = tools(&of_default);
    // Whoever is alone with itself has nobody to delegate to.
    of_default.retain(|tool| !bowline_agent::crew::TOOLS.contains(tool));
    assert_eq!(tools(&agent), of_default);
    assert_eq!(agent.limits.model_turns, 100);
    assert!(agent.context.contains("Told by the project."), "{}", agent.context);
}

#[test]
fn an_unknown_agent_is_refused_with_the_nearest() {
    let machine = Machine::new(&[("home/config.toml", MODELS), ("home/agents/coder.md", CODER)]);
    let error = machine.factory("default").build("codre").unwrap_err();
    assert!(matches!(error, ConfigError::UnknownAgent { .. }));
    assert_eq!(error.to_string(), "there is no agent \"codre\"; did you mean \"coder\"?");
}

#[test]
fn the_nearer_file_says_everything() {
    let files = [
        ("home/config.toml", "[agents.b]\ndescription = \"user table\"\nwarn_turns = 3\n"),
        ("home/agents/a.md", "---\nwarn_turns: 3\n---\nuser"),
        ("work/.bowline/agents/a.md", "---\ndescription: project\n---\nproject"),
        ("work/.bowline/agents/b.md", "project"),
        ("work/.claude/agents/a.md", "---\nname: a\ndescription: claude\n---\nclaude"),
        ("work/.claude/agents/c.md", "---\nname: c\ndescription: claude\n---\nclaude"),
    ];
    let (loaded, faults) = Machine::new(&files).load(Trust::Project);
    assert_eq!(faults, Vec::<String>::new());
    let said = |name: &str| {
        let agent = &loaded.config.agents[name];
        (agent.description.as_str(), agent.instructions.as_str(), agent.warn_turns)
    };
    assert_eq!(said("a"), ("project", "project", 0));
    assert_eq!(said("b"), ("", "project", 0));
    assert_eq!(said("c"), ("claude", "claude", 0));
}

#[test]
fn agents_of_a_project_do_not_count_until_it_is_trusted() {
    let files = [
        ("work/.bowline/agents/a.md", "project"),
        ("work/.bowline/agents/bad.md", "---\ntols: []\n---\n"),
        ("work/.claude/agents/c.md", "claude"),
    ];
    let machine = Machine::new(&files);
    let (loaded, faults) = machine.load(Trust::User);
    assert_eq!((faults.len(), loaded.config.agents.len()), (0, 0));
    let notes: Vec<_> = loaded.notes.iter().map(|note| machine.shown(note)).collect();
    assert_eq!(
        notes[0],
        "not applied, and would not be: work/.bowline/agents/bad.md: line 2: unknown key \"tols\" in \
         [agents.bad]; did you mean \"tools\"?"
    );
    assert!(
        notes[1].starts_with("not applied: work/.claude/agents, work/.bowline/agents; the folder"),
        "{notes:?}"
    );
    let runtime = Runtime::with(machine.environment(), machine.folders(), loaded);
    let error = runtime.agent_config("a").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no agent \"a\"; the project has one, but the folder is not trusted: see `bowline trust`"
    );
}

#[test]
fn an_agent_in_two_places_is_an_error_that_names_both() {
    let both = |files: &[(&str, &str)]| Machine::new(files).load(Trust::Project).1;
    let table = "\n[agents.a]\noutput = \"text\"\n";
    assert_eq!(
        both(&[("home/config.toml", table), ("home/agents/a.md", "x")]),
        ["home/config.toml: line 2: the agent \"a\" is also in home/agents/a.md; keep one"]
    );
    assert_eq!(
        both(&[("work/.bowline/config.toml", table), ("home/agents/a.md", "x")]),
        [
            "work/.bowline/config.toml: line 2: the agent \"a\" is also in home/agents/a.md; keep one"
        ]
    );
    assert_eq!(
        both(&[("home/agents/a.md", "x"), ("home/agents/b.md", "---\nname: a\n---\n")]),
        ["home/agents/b.md: the agent \"a\" is also in home/agents/a.md; keep one"]
    );
    // What is said for one start goes over the file.
    let machine = Machine::new(&[("home/agents/a.md", "---\nmax_depth: 1\n---\nx")]);
    let said = Said { assignments: vec!["agents.a.max_depth=2".to_owned()], ..Said::default() };
    let loaded = config::load(&machine.folders(), &machine.environment(), &said).unwrap();
    let agent = &loaded.config.agents["a"];
    assert_eq!((agent.max_depth, agent.instructions.as_str()), (Some(2), "x"));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line_and_the_nearest_name() {
    for (text, what) in [
        (
            "---\ntols: []\n---\n",
            "line 2: unknown key \"tols\" in [agents.a]; did you mean \"tools\"?",
        ),
        (
            "---\n\ntools:\n  - raed\n---\n",
            "line 4: agents.a.tools.0: there is no tool and no toolbox \"raed\"; did you mean \"read\"?",
        ),
        (
            "---\ntoolboxes:\n  - serch\n---\n",
            "line 3: agents.a.toolboxes.0: there is no toolbox \"serch\"; did you mean \"search\"?",
        ),
        (
            "---\ntoolboxes:\n  - name: exec\n    tools: [bahs]\n---\n",
            "line 4: agents.a.toolboxes.0.tools.0: the toolbox \"exec\" has no tool \"bahs\"; did you mean \"bash\"?",
        ),
        (
            "---\nchild_tools: [grp]\n---\n",
            "line 2: agents.a.child_tools.0: there is no tool and no toolbox \"grp\"; did you mean \"grep\"?",
        ),
        ("---\nskills: [x]\n---\n", "line 2: agents.a.skills.0: there is no skill \"x\""),
        (
            "---\nmcp_servers: [x]\n---\n",
            "line 2: agents.a.mcp_servers.0: there is no [mcp_servers.x]",
        ),
        (
            "---\ndelegates: [defalt]\n---\n",
            "line 2: agents.a.delegates.0: there is no agent \"defalt\"; did you mean \"default\"?",
        ),
        (
            "---\nmodel: gpt\n---\n",
            "line 2: agents.a.model: model \"gpt\" has no provider: write it provider/model",
        ),
        (
            "---\nmodel: antropic/x\n---\n",
            "line 2: agents.a.model: there is no provider \"antropic\"; did you mean \"anthropic\"?",
        ),
        (
            "---\neffort: hig\n---\n",
            "line 2: agents.a.effort: \"hig\" is none of minimal, low, medium, high, xhigh; did you mean \"high\"?",
        ),
        (
            "---\nestimated_cost: free\n---\n",
            "line 2: agents.a.estimated_cost: \"free\" is none of cheap, medium, expensive",
        ),
        (
            "---\ninteraction: manual\n---\n",
            "line 2: agents.a.interaction: \"manual\" is none of auto, interactive, blocking",
        ),
        (
            "---\ncontext_threshold: 1.5\n---\n",
            "line 2: agents.a.context_threshold: a share, 0 or more and less than 1, is expected",
        ),
        (
            "---\nmax_depth: -1\n---\n",
            "line 2: agents.a.max_depth: integer `-1`; expected is a whole number, 0 or more",
        ),
        (
            "---\ntool_execution: {parallel: 0}\n---\n",
            "line 2: agents.a.tool_execution: auto, parallel, sequential or { parallel = N } with at least 1 is expected",
        ),
        (
            "---\nlimits:\n  model_turn: 1\n---\n",
            "line 3: unknown key \"model_turn\" in [agents.a.limits]; did you mean \"model_turns\"?",
        ),
        (
            "---\neffects:\n  - kind: compat\n---\n",
            "line 3: agents.a.effects.0: there is no effect \"compat\"; did you mean \"compact\"?",
        ),
        (
            "---\npermissions:\n  mode: yolo\n---\n",
            "line 3: agents.a.permissions.mode: \"yolo\" is none of ask, accept-edits, plan, auto, deny, bypass",
        ),
        (
            "---\noptions:\n  max_iteration: 1\n---\n",
            "line 3: unknown key \"max_iteration\" in [options]; did you mean \"max_iterations\"?",
        ),
        (
            "---\ninstructions: x\n---\ny\n",
            "line 2: instructions: they stand below the front matter too; keep one",
        ),
        ("---\nname: [x]\n---\n", "line 2: name: a text is expected"),
        (
            "---\ntools: []\n",
            "line 1: the front matter that begins here has no end: a line with ---",
        ),
    ] {
        assert_eq!(faults(text), [format!("home/agents/a.md: {what}")], "{text}");
    }
    let (_, entry) =
        Machine::new(&[("home/config.toml", "entry_agent = \"defualt\"\n")]).load(Trust::User);
    assert_eq!(
        entry,
        ["home/config.toml: line 1: entry_agent: there is no agent \"defualt\"; did you mean \
          \"default\"?"]
    );
}

#[test]
fn all_that_is_wrong_is_found_at_once() {
    let files = [
        ("home/agents/a.md", "---\ntools: [raed, grp]\n---\n"),
        ("home/agents/b.md", "---\ntols: []\n---\n"),
        ("home/config.toml", "modle = 1\n"),
    ];
    assert_eq!(Machine::new(&files).load(Trust::User).1.len(), 4);
}

#[test]
fn names_that_are_there_are_no_faults() {
    let files = [
        ("home/config.toml", "[mcp_servers.files]\ncommand = \"x\"\n"),
        ("home/skills/mending/SKILL.md", "Mend."),
        ("work/.bowline/skills/sewing/SKILL.md", "Sew."),
        (
            "home/agents/a.md",
            "---\nname: tailor\ntools: [\"*\", exec, files, mcp__files__read, mcp__files]\n\
             toolboxes: [ask, {name: files, tools: [read]}]\nmcp_servers: [files]\n\
             model: local/tiny\nfallback: [ollama/qwen3]\n\
             skills: [mending, sewing]\ndelegates: [\"*\", default]\nchild_tools: [read]\n---\n",
        ),
    ];
    let (loaded, faults) = Machine::new(&files).load(Trust::User);
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(loaded.config.agents.keys().collect::<Vec<_>>(), ["tailor"]);
}

#[test]
fn lines_end_as_they_like_and_front_matter_may_be_missing() {
    let files = [
        ("home/agents/a.md", "---\r\ndescription: x\r\n---\r\nOne.\r\nTwo.\r\n"),
        ("home/agents/b.md", "---\ndescription: z\n---"),
        ("home/agents/c.md", "\u{feff}No front matter.\n\n---\n\nAt all."),
    ];
    let (loaded, faults) = Machine::new(&files).load(Trust::User);
    assert_eq!(faults, Vec::<String>::new());
    let said = |name: &str| {
        let agent = &loaded.config.agents[name];
        (agent.description.as_str(), agent.instructions.as_str())
    };
    assert_eq!(said("a"), ("x", "One.\nTwo."));
    assert_eq!(said("b"), ("z", ""));
    assert_eq!(said("c"), ("", "No front matter.\n\n---\n\nAt all."));
}

#[test]
fn names_of_agents_are_fit_for_lists_and_paths() {
    let long = "x".repeat(65);
    for name in ["a/b", "a\\b", " ", "a\nb", "\u{1b}[31ma", &long] {
        let text = format!("[agents.{name:?}]\n").replace("\\u{1b}", "\\u001b");
        let (_, faults) = Machine::new(&[("home/config.toml", &text)]).load(Trust::User);
        assert!(faults.iter().any(|fault| fault.contains("the name of an agent")), "{faults:?}");
        assert!(faults.iter().all(|fault| !fault.contains(char::is_control)), "{faults:?}");
    }
}

#[test]
fn configured_tools_can_be_listed_and_name_what_is_there() {
    let tool = |text: &str| {
        let text = format!("[agents.coder]\ntools = [\"deploy\"]\n[tools.deploy]\n{text}");
        let machine = Machine::new(&[("home/config.toml", &text)]);
        machine.load(Trust::User).1
    };
    assert_eq!(tool("command = [\"true\"]\n"), Vec::<String>::new());
    assert_eq!(
        tool("kind = \"agent\"\nagent = \"coedr\"\ntask = \"go\"\n"),
        [
            "home/config.toml: line 5: tools.deploy.agent: there is no agent \"coedr\"; did you mean \
          \"coder\"?"
        ]
    );
    for name in ["delegate", "read"] {
        let text = format!("[tools.{name}]\ncommand = [\"true\"]\n");
        let (_, faults) = Machine::new(&[("home/config.toml", &text)]).load(Trust::User);
        assert_eq!(
            faults,
            [format!("home/config.toml: line 1: tools.{name}: there is a tool of this name")]
        );
    }
}

#[test]
fn what_is_said_for_one_start_is_said_of_an_agent_that_is_there() {
    let machine = Machine::new(&[("home/agents/rev.md", "x")]);
    let check = |assignment: &str| {
        let said = Said { assignments: vec![assignment.to_owned()], ..Said::default() };
        let (_, faults) =
            config::read_all(&machine.folders(), &machine.environment(), &said, Trust::User);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(check("agents.rev.max_depth=1"), Vec::<String>::new());
    assert_eq!(check("agents.default.max_depth=1"), Vec::<String>::new());
    let faults = check("agents.rve.max_depth=1");
    assert!(faults[0].ends_with("there is no agent \"rve\"; did you mean \"rev\"?"), "{faults:?}");
}

#[test]
fn checking_finds_what_a_run_would_refuse() {
    let text = "[tools.bad]\nkind = \"http\"\n";
    let machine = Machine::new(&[("home/config/config.toml", text)]);
    let home = machine.path("home").to_string_lossy().into_owned();
    let vars = [("BOWLINE_HOME".to_owned(), home)].into();
    let environment = Environment { vars, ..machine.environment() };
    let checked = super::overview::check(&environment, &Said::default()).unwrap();
    let faults: Vec<_> = checked.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["tool \"bad\": a tool of kind http needs url"]);
}

/// Makes a toolbox of tools that do nothing, with these names.
fn toolbox(names: &[&str]) -> Toolbox {
    let mut toolbox = Toolbox::default();
    for name in names {
        let tool = tool_fn(name, "", |(): (), _| async { Ok("".into()) });
        toolbox = toolbox.with(tool).unwrap();
    }
    toolbox
}

fn of_agent(said: &str, all: &[&str]) -> Vec<String> {
    let agent: AgentConfig = toml::from_str(said).unwrap();
    let tools = toolboxes::of_agent(&agent, &toolbox(all)).unwrap();
    tools.names().map(str::to_owned).collect()
}

#[test]
fn an_agent_has_the_tools_that_it_names_in_the_order_there_is() {
    let all =
        ["read", "apply_patch", "grep", "bash", "job", "mcp__a__x", "mcp__a__y", "mcp__ab__x"];
    assert_eq!(of_agent("", &all), all);
    assert_eq!(of_agent("tools = [\"*\"]", &all), all);
    assert_eq!(of_agent("tools = []", &all), Vec::<String>::new());
    assert_eq!(of_agent("toolboxes = []", &all), Vec::<String>::new());
    assert_eq!(of_agent("tools = [\"bash\", \"read\"]", &all), ["read", "bash"]);
    // Of the two ways to edit an agent has the one that its model uses.
    assert_eq!(of_agent("tools = [\"edit\"]", &all), ["apply_patch"]);
    assert_eq!(
        of_agent("tools = [\"exec\"]\ntoolboxes = [\"search\"]", &all),
        ["grep", "bash", "job"]
    );
    let some =
        "toolboxes = [{ name = \"exec\", tools = [\"job\"] }, { name = \"a\", tools = [\"y\"] }]";
    assert_eq!(of_agent(some, &all), ["job", "mcp__a__y"]);
    assert_eq!(of_agent("tools = [\"mcp__a__x\"]", &all), ["mcp__a__x"]);
    assert_eq!(of_agent("tools = [\"mcp__a\"]", &all), ["mcp__a__x", "mcp__a__y"]);
    assert_eq!(of_agent("tools = [\"ab\"]", &all), ["mcp__ab__x"]);
    let of_one = "tools = [\"*\"]\nmcp_servers = [\"ab\"]";
    assert_eq!(of_agent(of_one, &all)[5..], ["mcp__ab__x"]);
}

#[test]
fn every_tool_is_in_a_toolbox_that_can_be_named() {
    let machine = Machine::new(&[("home/config.toml", MODELS)]);
    let agent = machine.factory("default").build("default").unwrap();
    let known: Vec<_> = toolboxes::tools().collect();
    for tool in agent.tools.names() {
        assert!(known.contains(&tool), "{tool} is in no toolbox");
    }
    for tool in known.into_iter().filter(|tool| !toolboxes::is_listed_only(tool)) {
        let is_there = agent.tools.names().any(|own| toolboxes::is_same(own, tool));
        assert!(is_there, "there is no tool {tool}");
    }
}

#[test]
fn an_agent_has_what_it_shares_with_others_if_it_lists_it() {
    let files = [
        ("home/config.toml", MODELS),
        ("home/agents/plain.md", "Hello."),
        ("home/agents/all.md", "---\ntools: [\"*\", git, tasks]\n---\n"),
        (
            "home/agents/note.md",
            "---\ntoolboxes: [{name: notes, tools: [read_note]}, state]\n---\n",
        ),
    ];
    let machine = Machine::new(&files);
    let factory = machine.factory("default");
    let has = |agent: &str, tool: &str| {
        factory.build(agent).unwrap().tools.names().any(|own| own == tool)
    };
    assert!(!has("plain", "git_status") && !has("plain", "list_notes"));
    assert!(has("all", "git_status") && has("all", "shared_tasks_claim") && has("all", "bash"));
    assert!(!has("all", "list_notes"));
    assert!(has("note", "read_note") && has("note", "shared_state_get"));
    assert!(!has("note", "write_note") && !has("note", "bash"));
}

#[test]
fn templates_are_right_and_keep_what_is_there() {
    for template in super::templates::all() {
        let machine = Machine::new(&[("home/config.toml", MODELS)]);
        let folder = machine.path("work/.bowline");
        let written = template.write(&folder, false).unwrap();
        assert_eq!(written.len(), template.files.len());
        let (loaded, faults) = machine.load(Trust::Project);
        assert_eq!(faults, Vec::<String>::new(), "{}", template.name);
        let entry = loaded.config.entry_agent.clone().unwrap();
        let factory = machine.factory(&entry);
        for name in loaded.config.agents.keys() {
            assert!(!factory.build(name).unwrap().tools.is_empty(), "{name}");
        }
        assert_eq!(template.write(&folder, false).unwrap(), Vec::<PathBuf>::new());
        std::fs::remove_file(&written[1]).unwrap();
        std::fs::write(&written[2], "mine").unwrap();
        let error = template.write(&folder, false).unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
        assert!(!written[1].exists(), "nothing is written");
        assert_eq!(template.write(&folder, true).unwrap(), written[1..3]);
        // A link leads nobody knows where, and a file may stand where a folder is to be.
        let outside = machine.path("outside");
        std::fs::remove_file(&written[1]).unwrap();
        std::os::unix::fs::symlink(&outside, &written[1]).unwrap();
        std::fs::remove_file(&written[2]).unwrap();
        for force in [false, true] {
            let error = template.write(&folder, force).unwrap_err().to_string();
            assert!(error.contains("is no file"), "{error}");
            assert!(!outside.exists() && !written[2].exists(), "nothing is written");
        }
        std::fs::remove_dir_all(folder.join("agents")).unwrap();
        std::fs::write(folder.join("agents"), "mine").unwrap();
        std::fs::remove_file(&written[1]).unwrap();
        let error = template.write(&folder, true).unwrap_err().to_string();
        assert!(error.contains("is no folder"), "{error}");
        assert!(!written[1].exists(), "nothing is written");
    }
}

const PAGE: &str = include_str!("../../../../docs/agents.md");

#[test]
fn the_example_of_the_page_is_an_agent() {
    let example = PAGE.split("```markdown\n").nth(1).unwrap().split("```").next().unwrap();
    let files = [("home/config.toml", MODELS), ("home/agents/reviewer.md", example)];
    let (loaded, faults) = Machine::new(&files).load(Trust::User);
    assert_eq!(faults, Vec::<String>::new());
    let agent = &loaded.config.agents["reviewer"];
    assert_eq!(agent.limits.model_turns, Some(40));
    assert!(agent.instructions.starts_with("You review a change"));
}

#[test]
fn the_page_has_every_key_and_every_toolbox() {
    let error = toml::from_str::<AgentConfig>("no_such_key = 1").unwrap_err();
    let keys: Vec<_> = error.message().split('`').skip(3).step_by(2).collect();
    assert!(keys.len() > 30, "{error}");
    let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    let mut names: Vec<&str> = toolboxes::names().chain(toolboxes::tools()).collect();
    names.extend(keys);
    for name in names {
        let name = format!("`{name}`");
        assert!(rows.iter().any(|row| row.contains(&name)), "{name} is not on the page");
    }
}
