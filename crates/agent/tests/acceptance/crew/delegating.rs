//! `delegate`: what is refused, what its agents are told, and what comes back.

use bowline_agent::crew::{Card, ChildTools, Member, Spawn, Trace};
use bowline_agent::entry::Ending;
use bowline_agent::event::EventBody;
use bowline_agent::limits::Limits;
use bowline_agent::tool::Toolbox;
use bowline_agent::{Agent, AgentError};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Message, ModelError, ScriptedModel, text_of};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Crew, delegate, done, report, reports};
use crate::support::{Told, echo, lines, lines_of, stage, tool};

/// Returns what the first request of a model holds, message by message.
fn briefed(model: &ScriptedModel) -> Vec<String> {
    let request = &model.requests()[0];
    request.messages.iter().map(|message| said(message)).collect()
}

fn said(message: &Message) -> String {
    match message {
        Message::User(said) => text_of(&said.content),
        other => panic!("{other:?} is not said to it"),
    }
}

// 60, 74, 86
#[tokio::test]
async fn tasks_are_done_and_their_agents_are_named_after_them() {
    let crew = Crew::for_tasks(json!([
        { "agent": "coder", "task": "refactor the authentication module" },
        { "agent": "coder", "task": "fix bug in parser" },
        { "agent": "tester", "task": "go" },
    ]));
    crew.hire("coder", [done("one"), Reply::text("two")]);
    crew.hire("tester", [Reply::text("three")]);
    let told = crew.play().await;
    let summary = json!({ "status": "completed", "summary": "one" });
    assert_eq!(
        json!(reports(&told)),
        json!([
            { "agent": "coder", "name": "coder-refactor-1", "result": "one", "completion": summary },
            { "agent": "coder", "name": "coder-fix-2", "result": "two" },
            { "agent": "tester", "name": "tester-task-1", "result": "three" },
        ])
    );
    assert_eq!(told.text(), "done");
}

async fn refused(arguments: &str) -> (Told, String) {
    let crew = Crew::new([Reply::call("delegate", arguments), Reply::text("done")]);
    let model = crew.hire("coder", [Reply::text("never")]);
    crew.hire("root", []);
    let told = crew.play().await;
    assert_eq!(model.requests().len(), 0, "nothing is to be done");
    let result = told.result("call_1");
    (told, result)
}

// 62, 63, 65
#[tokio::test]
async fn a_call_that_makes_no_sense_is_refused_as_a_whole() {
    let (told, error) = refused("{").await;
    assert!(error.contains("no valid JSON"), "{error}");
    assert_eq!(told.ends(), ["tool_end(call_1, error)"]);
    for name in ["root", "Root", "ROOT"] {
        let other = json!({ "agent": "coder", "task": "go" });
        let own = json!({ "agent": name, "task": "go" });
        let arguments = json!({ "tasks": [other, own] }).to_string();
        let (told, error) = refused(&arguments).await;
        assert_eq!(error, "root cannot delegate to itself");
        assert_eq!(told.ends(), ["tool_end(call_1, error)"]);
    }
    let (told, nothing) = refused(r#"{"tasks":[]}"#).await;
    assert_eq!(nothing, "[]");
    assert_eq!(told.ends(), ["tool_end(call_1, ok)"]);
}

// 64: of an agent that is too deep, although it has the tool.
#[tokio::test]
async fn nobody_delegates_deeper_than_is_allowed() {
    let crew = Crew::for_tasks(json!([{ "agent": "middle", "task": "go" }]));
    crew.hire("leaf", [Reply::text("never")]);
    let deeper = delegate(json!([{ "agent": "leaf", "task": "go" }]));
    // It brings a tool that was made for another place.
    let misplaced = crew.member().tools(&Spawn { max_depth: 1, ..Spawn::root("middle") });
    let model = ScriptedModel::new([deeper, Reply::text("tried")]);
    let middle = crew.hire_with("middle", model, misplaced, |_| {});
    let told = crew.play().await;
    let results = lines_of(middle.requests()[1].messages.last());
    assert_eq!(results, ["results call_1!=\"max delegation depth 1 reached\""]);
    assert_eq!(report(&told)["result"], "tried");
}

// 64, B21: a child with a larger limit of its own.
#[tokio::test]
async fn a_limit_of_depth_holds_for_all_generations() {
    let crew = Crew::for_tasks(json!([{ "agent": "one", "task": "go" }]));
    let down = |name: &str| delegate(json!([{ "agent": name, "task": "go" }]));
    let far: fn(&mut Member) = |member| member.max_depth = 100;
    let script = |name: &str| ScriptedModel::new([down(name), Reply::text("back")]);
    crew.hire_with("one", script("two"), Toolbox::default(), far);
    let two = crew.hire_with("two", script("three"), Toolbox::default(), far);
    let three = crew.hire("three", []);
    let member = Member { max_depth: 2, ..crew.member() };
    let told = crew.play_as(member).await;
    assert_eq!(three.requests().len(), 0);
    let request = &two.requests()[0];
    assert!(request.tools.specs().iter().all(|spec| spec.name != "delegate"), "{request:?}");
    assert_eq!(report(&told)["result"], "back");
}

// 66, 67
#[tokio::test]
async fn a_task_that_fails_fails_alone() {
    let crew = Crew::for_tasks(json!([
        { "agent": "codr", "task": "a" },
        { "agent": "coder", "task": "b" },
        { "agent": "broken", "task": "c" },
        { "agent": "unmakeable", "task": "d" },
        { "agent": "quite something else", "task": "e" },
        { "task": "f" },
        { "system_prompt": "You are new.", "task": "g" },
        { "agent": "coder", "task": " " },
    ]));
    crew.hire("coder", [Reply::text("fine")]);
    crew.hire("broken", [Reply::error(ModelError::new(ErrorKind::Auth, "no key"))]);
    let unmakeable = Card::new("unmakeable", "");
    crew.registry.register(unmakeable, |_| Err(AgentError::NotMade("there is no key".to_owned())));
    let told = crew.play().await;
    let errors: Vec<_> = reports(&told).iter().map(|report| report["error"].clone()).collect();
    let error = |n: usize| errors[n].as_str().unwrap_or_default().to_owned();
    assert_eq!(error(0), "there is no agent \"codr\"; did you mean \"coder\"?");
    assert!(errors[1].is_null());
    assert!(error(2).contains("no key"), "{errors:?}");
    assert_eq!(error(3), "unmakeable cannot be made: there is no key");
    assert!(error(4).ends_with("; there are broken, coder, unmakeable"), "{errors:?}");
    assert_eq!(error(5), "name an agent for the task");
    assert!(error(6).contains("cannot be made of a system_prompt here"), "{errors:?}");
    assert_eq!(error(7), "say what is to be done");
    assert_eq!(reports(&told)[1]["result"], "fine");
    assert_eq!((told.ending(), told.text()), (Ending::Done, "done".to_owned()));
}

#[tokio::test]
async fn an_agent_delegates_only_to_those_it_may() {
    let tasks = json!([{ "agent": "coder", "task": "a" }, { "agent": "tester", "task": "b" }]);
    let crew = Crew::for_tasks(tasks);
    let coder = crew.hire("coder", []);
    crew.hire("tester", [Reply::text("tested")]);
    let member = Member { delegates: Some(vec!["tester".to_owned()]), ..crew.member() };
    let told = crew.play_as(member).await;
    assert_eq!(coder.requests().len(), 0);
    assert_eq!(reports(&told)[0]["error"], "there is no agent \"coder\"; there are tester");
    assert_eq!(reports(&told)[1]["result"], "tested");
}

// E.1.15
#[tokio::test]
async fn an_agent_delegates_to_itself_if_it_may() {
    let crew = Crew::for_tasks(json!([{ "agent": "root", "task": "go" }]));
    crew.hire("root", [Reply::text("I did it")]);
    let member = Member { allow_self: true, ..crew.member() };
    let told = crew.play_as(member).await;
    assert_eq!(report(&told)["result"], "I did it");
}

// 69
#[tokio::test]
async fn a_child_delegates_further() {
    let crew = Crew::for_tasks(json!([{ "agent": "middle", "task": "go" }]));
    crew.hire("leaf", [done("deep")]);
    let down = delegate(json!([{ "agent": "leaf", "task": "go" }]));
    let middle = crew.hire("middle", [down, Reply::text("passed on")]);
    let told = crew.play().await;
    assert_eq!(report(&told)["result"], "passed on");
    let requests = middle.requests();
    let Message::Results(results) = &**requests[1].messages.last().unwrap() else {
        panic!("no results")
    };
    assert!(text_of(&results[0].content).contains("\"result\":\"deep\""));
    let deepest = told.events.iter().map(|event| event.agent.depth).max();
    assert_eq!(deepest, Some(2));
}

// 70, 71
#[tokio::test]
async fn an_agent_is_told_its_context_and_then_its_task() {
    let crew = Crew::for_tasks(json!([
        { "agent": "a", "task": "first", "context": "it is blue" },
        { "agent": "b", "task": "second", "context": "it is red" },
        { "agent": "c", "task": "third", "context": " " },
        { "agent": "d", "task": "fourth", "context": "é".repeat(16_003) },
        { "agent": "e", "task": "fifth", "context": "é".repeat(16_000) },
    ]));
    let models = ["a", "b", "c", "d", "e"].map(|name| crew.hire(name, [Reply::text("ok")]));
    crew.play().await;
    let tagged = |text: &str| format!("<delegation_context>\n{text}\n</delegation_context>");
    assert_eq!(briefed(&models[0]), [tagged("it is blue"), "first".to_owned()]);
    assert_eq!(briefed(&models[1]), [tagged("it is red"), "second".to_owned()]);
    assert_eq!(briefed(&models[2]), ["third"]);
    let cut = format!("{}\n[cut here: 3 more characters are left out]", "é".repeat(16_000));
    assert_eq!(briefed(&models[3]), [tagged(&cut), "fourth".to_owned()]);
    assert_eq!(briefed(&models[4])[0], tagged(&"é".repeat(16_000)));
}

// 73: isolation.
#[tokio::test]
async fn a_child_has_its_own_tools_only() {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    let script = [Reply::call("parents", "{}"), Reply::text("tried")];
    let own = Toolbox::default().with(tool("own", async |_, _| Ok("".into()))).unwrap();
    let coder = crew.hire_with("coder", ScriptedModel::new(script), own, |_| {});
    let Crew { registry, stage } = crew;
    let stage = stage.with(tool("parents", async |_, _| Ok("secret".into())));
    Crew { registry, stage }.play().await;
    let results = lines_of(coder.requests()[1].messages.last());
    assert!(results[0].starts_with("results call_1!=\"unknown tool"), "{results:?}");
}

async fn tools_of_a_child(child_tools: ChildTools, tools: serde_json::Value) -> Vec<String> {
    let task = json!({ "agent": "coder", "task": "go", "tools": tools });
    let crew = Crew::for_tasks(json!([task]));
    let own = Toolbox::default().with(tool("both", async |_, _| Ok("own".into()))).unwrap();
    let own = own.with(tool("own", async |_, _| Ok("".into()))).unwrap();
    let script = [Reply::call("both", "{}"), Reply::text("ok")];
    let model =
        crew.hire_with("coder", ScriptedModel::new(script), own, |member| member.max_depth = 0);
    let member = Member { child_tools, ..crew.member() };
    let Crew { registry, stage } = crew;
    let stage = stage.with(tool("both", async |_, _| Ok("parent's".into())));
    let stage = stage.with(tool("parents", async |_, _| Ok("".into())));
    let told = Crew { registry, stage }.play_as(member).await;
    let requests = model.requests();
    let Some(request) = requests.first() else {
        return vec![report(&told)["error"].as_str().unwrap().to_owned()];
    };
    let crews = ["task_complete", "request_input"];
    let names = request.tools.specs().iter().map(|spec| spec.name.clone());
    let mut names: Vec<String> = names.filter(|name| !crews.contains(&&**name)).collect();
    names.extend(lines_of(requests[1].messages.last()));
    names
}

// E.1.11
#[tokio::test]
async fn the_tools_of_children_are_as_their_parent_says() {
    let own = "results call_1=\"own\"";
    let parents = "results call_1=\"parent's\"";
    let none = json!(null);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let subset = |of: &[&str]| ChildTools::Subset(names(of));
    let tools = tools_of_a_child(ChildTools::Configured, none.clone()).await;
    assert_eq!(tools, ["both", "own", own]);
    let tools = tools_of_a_child(ChildTools::Union, none.clone()).await;
    assert_eq!(tools, ["both", "own", "parents", own]);
    let tools = tools_of_a_child(subset(&["both"]), none.clone()).await;
    assert_eq!(tools, ["both", parents]);
    let tools = tools_of_a_child(subset(&["delegate"]), none.clone()).await;
    assert!(tools[0].contains("there is no tool \"delegate\""), "{tools:?}");
    let given = Toolbox::default().with(tool("both", async |_, _| Ok("given".into()))).unwrap();
    let tools = tools_of_a_child(ChildTools::Explicit(given), none).await;
    assert_eq!(tools, ["both", "results call_1=\"given\""]);
    let tools = tools_of_a_child(ChildTools::Union, json!(["parents", "both"])).await;
    assert_eq!(tools, ["parents", "both", own]);
    let tools = tools_of_a_child(ChildTools::Configured, json!(["*"])).await;
    assert_eq!(tools, ["both", "own", own]);
    let tools = tools_of_a_child(ChildTools::Configured, json!([])).await;
    assert!(tools[0].starts_with("results call_1!="), "{tools:?}");
    let tools = tools_of_a_child(ChildTools::Configured, json!(["parents"])).await;
    assert!(tools[0].contains("there is no tool \"parents\""), "{tools:?}");
}

// C.8: an agent made of a system text.
#[tokio::test]
async fn an_agent_is_made_of_a_system_text() {
    let task = json!({
        "system_prompt": "You count.",
        "tools": ["echo"],
        "task": "count to one",
        "context": "zero comes first",
    });
    let replies = [
        delegate(json!([task])),
        Reply::call("echo", r#"{"text":"1"}"#),
        done("counted"),
        Reply::text("done"),
    ];
    let crew = Crew { registry: std::sync::Arc::default(), stage: stage(replies).with(echo()) };
    let member = Member { ad_hoc: true, ..crew.member() };
    let stage = crew.lead(&member);
    let told = stage.play().await;
    let request = &stage.model.requests()[1];
    assert_eq!(&*request.system, "You count.");
    let names: Vec<&str> = request.tools.specs().iter().map(|spec| &*spec.name).collect();
    assert!(names.starts_with(&["echo", "task_complete"]), "{names:?}");
    assert!(!names.contains(&"delegate"), "it does not delegate: {names:?}");
    let report = report(&told);
    assert_eq!((&report["agent"], &report["name"]), (&json!("ad-hoc"), &json!("ad-hoc-count-1")));
    assert_eq!(report["result"], "counted");
}

// B28: what is long is cut, and can be read on.
#[tokio::test]
async fn a_long_answer_is_cut_and_can_be_read_on() {
    let long = format!("{}{}", "a".repeat(2_000), "é".repeat(30_000));
    let rest = |from: usize| {
        let arguments = json!({ "name": "coder-task-1", "from": from }).to_string();
        Reply::call("delegation_result", arguments)
    };
    let crew = Crew::new([
        delegate(json!([{ "agent": "coder", "task": "go" }])),
        rest(2_000).and_call("delegation_result", r#"{"name":"somebody"}"#),
        rest(18_000),
        Reply::text("done"),
    ]);
    crew.hire("coder", [Reply::text(&long)]);
    let told = crew.play().await;
    let result = report(&told)["result"].as_str().unwrap().to_owned();
    let (shown, note) = result.split_once("\n[").unwrap();
    assert_eq!(shown, "a".repeat(2_000));
    assert_eq!(
        note,
        "30000 more characters: read on with delegation_result {\"name\": \"coder-task-1\", \
         \"from\": 2000}]"
    );
    let more = told.result("call_2");
    assert_eq!(more, format!("{}\n[14000 more characters, from 18000]", "é".repeat(16_000)));
    assert_eq!(told.result("call_3"), "no agent \"somebody\" worked for you");
    assert_eq!(told.result("call_4"), "é".repeat(14_000));
}

// 80: not a tool error, and what it said last is not lost.
#[tokio::test]
async fn an_agent_that_is_exhausted_has_failed() {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    let script = [
        Reply::text("I found the place.").and_call("echo", r#"{"text":"x"}"#),
        Reply::text("I think so.").and_call("nothing", r#"{"text":"y"}"#),
    ];
    let agent = Agent {
        model: std::sync::Arc::new(ScriptedModel::new(script)),
        limits: Limits { model_turns: 2, wrap_up: false, ..Limits::default() },
        tools: Toolbox::default().with(echo()).unwrap(),
        ..crew.stage.agent.clone()
    };
    crew.registry.register(Card::new("coder", ""), move |_| Ok(agent.clone()));
    let told = crew.play().await;
    assert_eq!(told.ends().last().unwrap(), "tool_end(call_1, ok)");
    let report = report(&told);
    assert_eq!(report["completion"]["status"], "failed");
    assert_eq!(report["completion"]["summary"], "exhausted its iteration limit");
    assert_eq!(report["partial"], "I think so.");
    let trace = report["trace"].as_str().unwrap();
    assert!(trace.starts_with("echo {\"text\":\"x\"}\nnothing {\"text\":\"y\"} -> "), "{trace}");
    assert!(report.get("result").is_none() && report.get("error").is_none());
}

// E.1.17
#[tokio::test]
async fn the_model_is_told_the_steps_when_it_should_be() {
    for (trace, told_of_success) in
        [(Trace::OnError, false), (Trace::Always, true), (Trace::Never, false)]
    {
        let tasks = json!([{ "agent": "good", "task": "a" }, { "agent": "bad", "task": "b" }]);
        let crew = Crew::for_tasks(tasks);
        let tools = || Toolbox::default().with(echo()).unwrap();
        let many =
            (0..60).map(|n| Reply::call("echo", json!({ "text": format!("{n:050}") }).to_string()));
        let failed = Reply::error(ModelError::new(ErrorKind::Auth, "no key"));
        let good = [Reply::call("echo", "{}"), Reply::text("ok")];
        crew.hire_with("good", ScriptedModel::new(good), tools(), |_| {});
        crew.hire_with("bad", ScriptedModel::new(many.chain([failed])), tools(), |_| {});
        let member = Member { trace, ..crew.member() };
        let told = crew.play_as(member).await;
        let reports = reports(&told);
        let good = reports[0].get("trace");
        assert_eq!(good, told_of_success.then_some(&json!("echo {}")));
        let bad = reports[1].get("trace").map(|trace| trace.as_str().unwrap());
        assert_eq!(bad.is_some(), trace != Trace::Never);
        if let Some(bad) = bad {
            assert!(bad.len() <= 2048 && bad.len() > 1900, "{}", bad.len());
            assert!(bad.contains(" earlier steps]\n") && bad.contains(&format!("{:050}", 59)));
        }
    }
}

// 72, 87, 88: everything its agents do is told, in the name of whoever does it (B27).
#[tokio::test]
async fn all_that_happens_is_told_under_the_name_of_whoever_does_it() {
    let crew = Crew::for_tasks(json!([{ "agent": "middle", "task": "go" }]));
    crew.hire("leaf", [Reply::text("deep")]);
    let down = delegate(json!([{ "agent": "leaf", "task": "go" }]));
    crew.hire("middle", [down, Reply::text("passed on")]);
    let told = crew.play().await;
    let shown = lines(&told.events, |body| {
        matches!(
            body,
            EventBody::AgentStart { .. } | EventBody::AgentEnd { .. } | EventBody::Text { .. }
        )
    });
    assert_eq!(
        shown,
        [
            "middle-task-1: agent_start(call_1)",
            "leaf-task-1: agent_start(call_1)",
            "leaf-task-1: text(\"deep\", final)",
            "leaf-task-1: agent_end(done)",
            "middle-task-1: text(\"passed on\", final)",
            "middle-task-1: agent_end(done)",
            "text(\"done\", final)",
        ]
    );
}

/// Tools that come and go.
struct Server(Toolbox);

impl bowline_agent::tool::ToolSource for Server {
    fn tools(&self) -> Toolbox {
        self.0.clone()
    }
}

fn server(names: &[&'static str]) -> Option<std::sync::Arc<dyn bowline_agent::tool::ToolSource>> {
    let mut tools = Toolbox::default();
    for name in names {
        tools.add(std::sync::Arc::new(tool(name, async |_, _| Ok("".into())))).unwrap();
    }
    Some(std::sync::Arc::new(Server(tools)))
}

fn names_of(model: &ScriptedModel) -> Vec<String> {
    let crews = bowline_agent::crew::TOOLS;
    let requests = model.requests();
    let names = requests[0].tools.specs().iter().map(|spec| spec.name.clone());
    names.filter(|name| !crews.contains(&&**name)).collect()
}

/// Returns the tools of a child and of its own child, below a lead with these, where both agents have
/// a tool of their own and one of a server.
async fn tools_below(lead: Member, crew: Crew, task: serde_json::Value) -> [Vec<String>; 2] {
    let own = || Toolbox::default().with(tool("own", async |_, _| Ok("".into()))).unwrap();
    let Crew { registry, stage } = crew;
    let stage = stage.change(|agent| agent.more_tools = server(&["theirs", "both"]));
    let crew = Crew { registry, stage };
    let down = delegate(json!([{ "agent": "leaf", "task": "go" }]));
    let middle = ScriptedModel::new([down, Reply::text("ok")]);
    let middle = crew.hire_with("middle", middle, own(), |_| {});
    let leaf = crew.hire_with("leaf", ScriptedModel::new([Reply::text("ok")]), own(), |_| {});
    let Crew { registry, stage } = crew;
    let stage = stage.change(|agent| {
        agent.more_tools = server(&["parents", "both"]);
        agent.model =
            std::sync::Arc::new(ScriptedModel::new([delegate(json!([task])), Reply::text("done")]));
    });
    let stage = stage.with(tool("mine", async |_, _| Ok("".into())));
    Crew { registry, stage }.play_as(lead).await;
    [names_of(&middle), names_of(&leaf)]
}

/// A server that takes a while to start: it says what it has when somebody waits for it.
#[derive(Default)]
struct Starting(std::sync::OnceLock<Toolbox>);

impl bowline_agent::tool::ToolSource for Starting {
    fn tools(&self) -> Toolbox {
        self.0.get().cloned().unwrap_or_default()
    }

    fn settled(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::task::yield_now().await;
            let late = tool("late", async |_, _| Ok("".into()));
            self.0.get_or_init(|| Toolbox::default().with(late).unwrap());
        })
    }
}

#[tokio::test]
async fn a_task_may_name_a_tool_of_a_server_that_still_starts() {
    for names in [vec!["own"], vec!["own", "late"]] {
        let Crew { registry, stage } =
            Crew::for_tasks(json!([{ "agent": "leaf", "task": "go", "tools": names }]));
        let starting = std::sync::Arc::new(Starting::default());
        let stage = stage.change(|agent| agent.more_tools = Some(starting));
        let crew = Crew { registry, stage };
        let own = Toolbox::default().with(tool("own", async |_, _| Ok("".into()))).unwrap();
        let leaf = ScriptedModel::new([Reply::text("ok")]);
        let leaf = crew.hire_with("leaf", leaf, own, |_| {});
        crew.play().await;
        assert_eq!(names_of(&leaf), names);
    }
}

#[tokio::test]
async fn what_an_agent_is_kept_from_those_below_it_are_kept_from_too() {
    let table: [(ChildTools, serde_json::Value, &[&str], &[&str]); 7] = [
        (
            ChildTools::Configured,
            json!(null),
            &["own", "theirs", "both"],
            &["own", "theirs", "both"],
        ),
        (ChildTools::Configured, json!(["own"]), &["own"], &["own"]),
        (ChildTools::Configured, json!(["theirs"]), &["theirs"], &["theirs"]),
        (
            ChildTools::Union,
            json!(null),
            &["own", "mine", "theirs", "both", "parents"],
            &["own", "theirs", "both"],
        ),
        (ChildTools::Common, json!(null), &["both"], &["both"]),
        (
            ChildTools::Subset(vec!["parents".into(), "mine".into()]),
            json!(null),
            &["mine", "parents"],
            &[],
        ),
        (
            ChildTools::Listed(
                Toolbox::default(),
                bowline_agent::crew::Allowed::only(|name| name == "parents" || name == "theirs"),
            ),
            json!(null),
            &["theirs", "parents"],
            &["theirs"],
        ),
    ];
    for (child_tools, tools, middle, leaf) in table {
        let crew = Crew::new([]);
        let lead = Member { child_tools: child_tools.clone(), ..crew.member() };
        let task = json!({ "agent": "middle", "task": "go", "tools": tools });
        let found = tools_below(lead, crew, task).await;
        assert_eq!(found, [middle, leaf], "{child_tools:?} {tools}");
    }
}

#[tokio::test]
async fn an_agent_of_a_system_text_is_kept_from_what_others_are() {
    let task = json!({ "system_prompt": "You count.", "task": "count" });
    let replies = [delegate(json!([task])), done("counted"), Reply::text("done")];
    let crew = Crew { registry: std::sync::Arc::default(), stage: stage(replies).with(echo()) };
    let Crew { registry, stage } = crew;
    let stage = stage.change(|agent| agent.more_tools = server(&["theirs"]));
    let crew = Crew { registry, stage };
    let child_tools = ChildTools::Subset(vec!["echo".to_owned()]);
    let member = Member { ad_hoc: true, child_tools, ..crew.member() };
    let stage = crew.lead(&member);
    stage.play().await;
    let request = &stage.model.requests()[1];
    let names: Vec<&str> = request.tools.specs().iter().map(|spec| &*spec.name).collect();
    assert!(names.starts_with(&["echo", "task_complete"]), "{names:?}");
    assert!(!names.contains(&"theirs"), "{names:?}");
}
