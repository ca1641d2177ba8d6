//! A log that fails and code that panics: the run is lost or fails, nothing of it is left running,
//! and the session can be used.

#[cfg(test)]
mod support {
    #![allow(dead_code, reason = "not every test needs all of it")]
    pub(crate) mod crashing;
    pub(crate) mod jobs;
    pub(crate) mod scenario;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use bowline_agent::agent::Busy;
    use bowline_agent::conversation::{Conversation, Last};
    use bowline_agent::entry::Ending;
    use bowline_agent::event::{Event, EventBody, Phase};
    use bowline_agent::gate::{Gate, Review, Verdict};
    use bowline_agent::journal::JournalError;
    use bowline_agent::orchestrator::{NextStep, Orchestrator, React};
    use bowline_agent::tool::{Access, Recovery};
    use bowline_agent::{Agent, AgentError, SessionHandle, ToolExecution};
    use bowline_llm::{Model, ModelInfo, ModelStream, RawJson, Request};
    use futures::StreamExt as _;
    use pretty_assertions::assert_eq;
    use tokio::sync::mpsc::Receiver;

    use super::support::crashing::{Crashing, Fault, World};
    use super::support::jobs::{Strict, ask, calls, child, job, says, tool, tools};
    use super::support::scenario::{End, Scenario, check_events, compare};

    const JOBS: [&str; 10] = [
        "a board that children share",
        "parallel calls of all sorts",
        "three turns with notes",
        "children side by side",
        "nested children",
        "a child that is waited for",
        "what others say",
        "decisions and answers",
        "a tool that ends the run",
        "what is shown and what is around it",
    ];

    /// Lets a store fail at every commit of a job; returns how often a run was lost.
    fn fail_everywhere(name: &str, fault: Fault) -> usize {
        let job = job(name);
        let uncut = job.uncut();
        for commit in 0.. {
            let world = Arc::new(World::default());
            let store = Crashing::new(&world, None);
            store.break_at(commit, fault);
            let failed = AtomicBool::new(false);
            let end = job.live_with(&world, &store, async |agent| {
                failed.store(fail(agent, &job, &world, &store).await, Ordering::SeqCst);
            });
            assert_eq!(end, End::Finished);
            if !failed.load(Ordering::SeqCst) {
                return commit;
            }
            compare(&uncut, &world, &[]);
        }
        unreachable!()
    }

    async fn fail(agent: &Agent, job: &Scenario, world: &Arc<World>, store: &Crashing) -> bool {
        let handle = agent.start();
        let mut events = handle.subscribe(10_000);
        let mut runs = 0;
        let (mut lost, mut told, mut broke) = (false, false, false);
        while let Some(prompt) = job.prompts.get(runs) {
            let run = match handle.state().run {
                Some(_) => handle.continue_run().await.unwrap().unwrap(),
                None => handle.prompt(*prompt),
            };
            let end = run.await;
            if let Err(error) = &end {
                assert!(matches!(error, AgentError::Journal(_)), "{error}");
                assert!(!lost, "it was lost twice");
                lost = true;
                // A run that never began is refused.
                told = handle.state().run.is_some();
                is_down(&handle, world).await;
            }
            if store.mend() {
                broke = true;
                world.life.fetch_add(1, Ordering::SeqCst);
            }
            let log = world.log_of(handle.agent_id());
            runs = log.iter().filter(|entry| entry.kind.name() == "run_ended").count();
        }
        handle.close().await;
        events_are_those_of_the_log(&handle, &mut events, world, told);
        broke
    }

    /// Checks that nothing of a lost run is left, and that memory says what the log says.
    async fn is_down(handle: &SessionHandle, world: &World) {
        assert_eq!(world.running.load(Ordering::SeqCst), 0, "tools run on");
        let seen = |world: &World| (world.requests.lock().unwrap().len(), world.log().len());
        let before = seen(world);
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert_eq!(seen(world), before, "agents go on");
        let log = Conversation::replay(&world.log_of(handle.agent_id()));
        let state = handle.state();
        assert_eq!(state.snapshot, log.snapshot());
        assert_eq!(state.head, log.head());
        assert_eq!(state.run, log.run().map(|run| run.id));
        assert_eq!(state.phase, Phase::Idle);
    }

    fn events_are_those_of_the_log(
        handle: &SessionHandle,
        events: &mut Receiver<Arc<Event>>,
        world: &World,
        failed: bool,
    ) {
        let events: Vec<Arc<Event>> = std::iter::from_fn(|| events.try_recv().ok()).collect();
        let lost = |event: &&Arc<Event>| {
            matches!(event.body, EventBody::RunLost { .. }) && event.agent.id == handle.agent_id()
        };
        assert_eq!(events.iter().filter(lost).count(), usize::from(failed));
        check_events(&events, world);
    }

    #[test]
    fn a_full_disk_loses_the_run_and_nothing_else() {
        for job in JOBS {
            println!("{job}: {} failures", fail_everywhere(job, Fault::Full));
        }
    }

    #[test]
    fn a_lost_answer_loses_the_run_and_nothing_else() {
        // With sub-agents, the tool is told that one is lost, and its agent goes on.
        let alone = JOBS.iter().filter(|job| !job.contains("child"));
        for job in alone {
            println!("{job}: {} failures", fail_everywhere(job, Fault::Mute));
        }
    }

    #[test]
    fn another_writer_stops_the_loser() {
        let job = job("parallel calls of all sorts");
        let uncut = job.uncut();
        for commit in 0..uncut.commits.lock().unwrap().len() {
            let world = Arc::new(World::default());
            let store = Crashing::new(&world, None);
            store.break_at(commit, Fault::Fenced);
            job.live_with(&world, &store, async |agent| {
                let handle = agent.start();
                let error = handle.prompt("go").await.unwrap_err();
                let is_fenced = matches!(error, AgentError::Journal(JournalError::Fenced(_)));
                assert!(is_fenced, "{error}");
                is_down(&handle, &world).await;
            });
        }
    }

    #[test]
    fn an_answer_that_is_in_the_log_is_returned_even_if_the_disk_cannot_be_synced() {
        let job = job("a limit of tokens");
        let world = Arc::new(World::default());
        let store = Crashing::new(&world, None);
        store.break_at(0, Fault::Sync);
        job.live_with(&world, &store, async |agent| {
            let handle = agent.start();
            let mut events = handle.subscribe(1000);
            let outcome = handle.prompt("go").await.unwrap();
            assert_eq!(outcome.text(), "sum");
            handle.close().await;
            drop(handle);
            let mut ended = false;
            while let Ok(event) = events.try_recv() {
                assert!(!ended || event.run.is_none(), "an event after the end: {event:?}");
                assert!(!matches!(event.body, EventBody::RunLost { .. }));
                ended |= matches!(event.body, EventBody::RunEnd(_));
            }
            assert!(ended);
        });
    }

    /// A commit of the parent is lost while its sub-agent is at work.
    #[test]
    fn what_was_delegated_goes_on_after_a_lost_run() {
        let job = Scenario {
            prompts: &["go"],
            scripts: vec![
                ("root", vec![calls(&[("a", "busy", "child"), ("b", "nap", "")]), says("done")]),
                ("child", vec![calls(&[("x", "slow", "")]), says("child done")]),
            ],
            build: |world, agent| {
                let mut all = tools(world);
                let declared = ("busy", Access::read("a"), Recovery::Reattach);
                tool(&mut all, world, declared, |args, cx, world| async move {
                    let child = child(&cx, &args.text, None, tools(&world)).await?;
                    Ok(ask(&child, "go").await?.into())
                });
                let declared = ("nap", Access::none(), Recovery::Rerun);
                tool(&mut all, world, declared, |_, _, _| async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok("rested".into())
                });
                Agent { tools: all, ..agent }
            },
        };
        let uncut = job.uncut();
        let commits = uncut.commits.lock().unwrap().clone();
        let commit = commits.iter().position(|commit| commit[0].kind.name() == "call_ended");
        let world = Arc::new(World::default());
        let store = Crashing::new(&world, None);
        store.break_at(commit.unwrap(), Fault::Fenced);
        job.live_with(&world, &store, async |agent| {
            let handle = agent.start();
            let lost = handle.prompt("go").await;
            assert!(matches!(lost, Err(AgentError::Journal(_))), "{lost:?}");
            is_down(&handle, &world).await;
            let run = handle.continue_run().await.unwrap().unwrap();
            assert!(run.await.unwrap().is_done());
        });
        let kinds = |world: &World| {
            let mut log = world.log();
            log.retain(|entry| entry.agent != World::session().root());
            log.iter().map(|entry| entry.kind.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&world), kinds(&uncut));
    }

    #[test]
    fn whoever_asks_is_told_that_the_log_failed() {
        let job = Scenario {
            prompts: &["go"],
            scripts: vec![("root", vec![calls(&[("a", "slow", "")]), says("done")])],
            build: |world, agent| Agent { tools: tools(world), ..agent },
        };
        for asked in 0..3 {
            let world = Arc::new(World::default());
            let store = Crashing::new(&world, None);
            // Behind the start, the reply and the start of the call.
            store.break_at(3, Fault::Full);
            job.live_with(&world, &store, async |agent| {
                let handle = agent.start();
                let run = handle.prompt("go");
                tokio::time::sleep(Duration::from_secs(1)).await;
                let error = match asked {
                    0 => handle.queue("more").await.unwrap_err(),
                    1 => handle.record("mine", RawJson::of(&1).unwrap()).await.unwrap_err(),
                    _ => handle.prompt_with("more", Busy::CancelPrevious).await.unwrap_err(),
                };
                assert!(matches!(error, AgentError::Journal(_)), "{asked}: {error}");
                assert!(matches!(run.await, Err(AgentError::Journal(_))));
                handle.close().await;
            });
        }
    }

    #[test]
    fn a_run_that_never_began_is_not_lost() {
        let job = Scenario {
            prompts: &["go"],
            scripts: vec![("root", vec![says("done")])],
            build: |world, agent| Agent { tools: tools(world), ..agent },
        };
        let world = Arc::new(World::default());
        let store = Crashing::new(&world, None);
        store.break_at(0, Fault::Full);
        job.live_with(&world, &store, async |agent| {
            let handle = agent.start();
            let mut events = handle.subscribe(100);
            let refused = handle.prompt("go").await;
            assert!(matches!(refused, Err(AgentError::Journal(_))), "{refused:?}");
            handle.close().await;
            while let Ok(event) = events.try_recv() {
                assert!(!matches!(event.body, EventBody::RunLost { .. }), "{event:?}");
            }
        });
    }

    struct Panicking {
        armed: AtomicBool,
    }

    impl Panicking {
        fn armed() -> Arc<Self> {
            Arc::new(Self { armed: AtomicBool::new(true) })
        }

        fn go_off(&self) {
            assert!(!self.armed.swap(false, Ordering::SeqCst), "it went off");
        }
    }

    impl Orchestrator for Panicking {
        fn next(&self, conversation: &Conversation) -> NextStep {
            let is_root = conversation.created().is_some_and(|created| created.depth == 0);
            if is_root && conversation.last() == Last::Results {
                self.go_off();
            }
            React.next(conversation)
        }
    }

    #[async_trait::async_trait]
    impl Gate for Panicking {
        async fn review(&self, review: &Review<'_>) -> Verdict {
            if review.call.name == "fail" {
                // What is in flight gets on first.
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.go_off();
            }
            Strict.review(&Review { call: review.call, ..*review }).await
        }
    }

    struct PanickingModel(Arc<Panicking>, Arc<dyn Model>);

    impl Model for PanickingModel {
        fn info(&self) -> &ModelInfo {
            self.1.info()
        }

        fn stream(&self, request: Request) -> ModelStream {
            self.0.go_off();
            self.1.stream(request)
        }
    }

    /// Runs an agent that panics in its first run, and then again.
    fn panics(fails: bool, change: impl Fn(Agent) -> Agent) {
        let job = Scenario {
            prompts: &[],
            scripts: vec![
                (
                    "root",
                    vec![
                        calls(&[("a", "busy", "child"), ("b", "read", "1"), ("c", "fail", "")]),
                        says("done"),
                        says("done again"),
                    ],
                ),
                ("child", vec![calls(&[("x", "slow", "")]), says("child done"), says("again")]),
            ],
            build: |world, agent| {
                let mut all = tools(world);
                let declared = ("busy", Access::read("a"), Recovery::Reattach);
                tool(&mut all, world, declared, |args, cx, world| async move {
                    let child = child(&cx, &args.text, None, tools(&world)).await?;
                    let _ = child.prompt("go").await;
                    let _ = child.prompt("go").await;
                    Ok("busy".into())
                });
                Agent { tools: all, ..agent }
            },
        };
        let world = Arc::new(World::default());
        job.live_for(&world, None, async |agent| {
            let agent = change(agent.clone());
            let handle = agent.start();
            let run = handle.prompt("go");
            let events: Vec<_> = run.collect().await;
            let ends = events
                .iter()
                .filter(|event| event.body.is_terminal() && event.agent.id == handle.agent_id());
            assert_eq!(ends.count(), 1);
            let latest = handle.state().latest.clone().unwrap();
            match &latest.ending {
                Ending::Failed(error) if fails => {
                    assert!(error.message.contains("panicked"), "{error}");
                }
                ending => assert!(!fails && *ending == Ending::Done, "{ending:?}"),
            }
            assert!(fails || latest.denials.len() == 1);
            is_down(&handle, &world).await;
            // The session can be used.
            let outcome = handle.prompt("again").await.unwrap();
            assert!(outcome.is_done(), "{outcome:?}");
        });
    }

    #[test]
    fn a_panic_in_an_orchestrator_fails_the_run() {
        panics(true, |agent| Agent { orchestrator: Panicking::armed(), ..agent });
    }

    #[test]
    fn a_panic_in_a_model_fails_the_run() {
        panics(true, |agent| {
            let model = PanickingModel(Panicking::armed(), Arc::clone(&agent.model));
            Agent { model: Arc::new(model), ..agent }
        });
    }

    #[test]
    fn a_panic_in_a_gate_denies_the_call_and_leaves_nothing_running() {
        panics(false, |agent| {
            // The third call is reviewed while the first one is in flight.
            let tool_execution = ToolExecution::Parallel { max: 2 };
            Agent { gate: Panicking::armed(), tool_execution, ..agent }
        });
    }
}
