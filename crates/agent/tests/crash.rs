//! One test for each line of the table in `docs/log.md`: a process dies just before and just after
//! an entry of the kind, another one goes on, and it comes to the same as if nothing had happened.

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
    use std::sync::atomic::Ordering;

    use bowline_agent::conversation::{CallState, Conversation};
    use bowline_agent::entry::{CallStatus, EntryKind, Via};
    use bowline_agent::id::OpId;
    use bowline_agent::journal::Store as _;
    use bowline_agent::op::{Op, OpKind};
    use bowline_agent::orchestrator::React;
    use bowline_agent::{Agent, Memory, SessionHandle};
    use bowline_llm::RawJson;
    use futures::FutureExt as _;
    use pretty_assertions::assert_eq;

    use super::support::crashing::{Cut, Side, World};
    use super::support::jobs::job;
    use super::support::scenario::{End, Scenario, compare, work};

    use Side::{After, Before};

    /// Cuts a job around every commit that has an entry of the kind, looks at what another process
    /// finds, lets it go on, and compares. Returns what came of it.
    fn around(
        name: &str,
        kind: &str,
        look: impl Fn(Side, &SessionHandle, &World),
    ) -> Vec<(Side, Arc<World>)> {
        let job = job(name);
        let uncut = job.uncut();
        let commits = uncut.commits.lock().unwrap().clone();
        let has = |commit: &usize| commits[*commit].iter().any(|entry| entry.kind.name() == kind);
        let mut ends = Vec::new();
        for commit in (0..commits.len()).filter(has) {
            for side in [Before, After] {
                let cut = Cut { commit, side };
                let world = Arc::new(World::default());
                assert_eq!(job.live(&world, Some(cut)), End::Crashed);
                let before: usize = commits[..commit].iter().map(Vec::len).sum();
                let is_there = world.log().len() > before;
                assert_eq!(is_there, side == After, "the commit is there");
                if !world.log().is_empty() {
                    job.live_for(&world, None, async |agent| {
                        let handle = agent.resume(World::session()).await.unwrap();
                        look(side, &handle, &world);
                    });
                }
                assert_eq!(job.live(&world, None), End::Finished);
                compare(&uncut, &world, &[cut]);
                ends.push((side, world));
            }
        }
        assert!(!ends.is_empty(), "{name:?} has no {kind}");
        ends
    }

    fn root(world: &World) -> Conversation {
        Conversation::replay(&world.log_of(World::session().root()))
    }

    fn inbox(memory: &Memory) -> Vec<Op> {
        memory.inbox(World::session()).take().now_or_never().unwrap().unwrap()
    }

    fn count(world: &World, kind: &str) -> usize {
        world.log().iter().filter(|entry| entry.kind.name() == kind).count()
    }

    /// Returns how often requests were sent that had been sent before.
    fn repeated(world: &World) -> usize {
        let requests = world.requests.lock().unwrap();
        let mut seen: Vec<(Option<Arc<str>>, _)> = Vec::new();
        let is_repeated = |(_, request): &&(usize, bowline_llm::Request)| {
            let key = (request.cache_key.clone(), request.messages.clone());
            let is_repeated = seen.contains(&key);
            seen.push(key);
            is_repeated
        };
        requests.iter().filter(is_repeated_ref(is_repeated)).count()
    }

    // `filter` wants a closure that may be called again; this names its form.
    fn is_repeated_ref<T>(mut test: impl FnMut(&T) -> bool) -> impl FnMut(&T) -> bool {
        move |value| test(value)
    }

    #[test]
    fn created() {
        for (_, world) in around("a child with two prompts", "created", |side, handle, world| {
            // Without its first commit there is no such agent; with it there is one.
            let agents = count(world, "created");
            assert_eq!(agents, if side == Before { 1 } else { agents });
            assert!(handle.state().run.is_some());
        }) {
            assert_eq!(count(&world, "created"), 2);
        }
    }

    #[test]
    fn run_started() {
        around("a child with two prompts", "run_started", |side, handle, world| {
            let is_first = count(world, "run_ended") == 0;
            match side {
                // The prompt is lost, but for the one of a tool that gives it again.
                Before => assert_eq!(
                    handle.state().run.is_some(),
                    is_first || count(world, "run_ended") < 3
                ),
                After => assert!(handle.state().run.is_some()),
            }
        });
    }

    #[test]
    fn a_prompt_that_was_posted_is_a_draft() {
        let job = job("a model that fails");
        let world = Arc::new(World::default());
        assert_eq!(job.live(&world, None), End::Finished);
        let op = world.post("prompt", None, OpKind::Prompt("later".into()));
        for side in [Before, After] {
            let end = job.live_for(&world, Some(Cut { commit: 0, side }), async |agent| {
                let handle = agent.resume(World::session()).await.unwrap();
                handle.wait_for(|state| !state.drafts.is_empty()).await.unwrap();
            });
            assert_eq!(end, End::Crashed);
            assert_eq!(inbox(&world.memory).iter().map(|op| op.id).collect::<Vec<_>>(), [op]);
        }
        job.live_for(&world, None, async |agent| {
            let handle = agent.resume(World::session()).await.unwrap();
            assert_eq!(handle.state().drafts.iter().map(|op| op.id).collect::<Vec<_>>(), [op]);
            assert_eq!(handle.state().run, None);
            // Its turn to read the inbox has come when it answers.
            assert!(handle.queue("x").await.is_err());
            handle.prompt("again").await.unwrap();
        });
        assert_eq!(inbox(&world.memory), []);
        assert_eq!(count(&world, "posted"), 1);
    }

    #[test]
    fn user() {
        around("what others say", "user", |side, _, world| {
            let pending = root(world).run().map_or(0, |run| run.pending.len());
            let delivered = world
                .log()
                .iter()
                .filter(|entry| matches!(&entry.kind, EntryKind::User(said) if said.op.is_some()))
                .count();
            let posted = count(world, "posted");
            assert_eq!(pending, posted - (delivered - 1), "{side:?}");
        });
    }

    #[test]
    fn the_repair_of_an_answer_is_asked_for_once() {
        let job = "an answer that does not fit and is mended";
        for (side, world) in around(job, "user", |_, _, _| {}) {
            let log = world.log();
            let repairs = log.iter().filter(
                |entry| matches!(&entry.kind, EntryKind::User(said) if said.via == Via::Repair),
            );
            assert_eq!(repairs.count(), 2, "{side:?}");
            let endings = log.iter().filter_map(|entry| match &entry.kind {
                EntryKind::RunEnded(ended) => Some(ended.outcome.as_str()),
                _ => None,
            });
            assert_eq!(endings.collect::<Vec<_>>(), ["done", "error"], "{side:?}");
        }
    }

    #[test]
    fn posted() {
        around("what others say", "posted", |side, _, world| {
            let waiting: Vec<OpId> = inbox(&world.memory).iter().map(|op| op.id).collect();
            let known = root(world);
            let is_known = waiting.iter().map(|op| known.knows(*op)).collect::<Vec<_>>();
            // Committed and not forgotten yet, or not committed yet.
            assert_eq!(is_known, [side == After]);
        });
    }

    #[test]
    fn assistant() {
        for job in ["parallel calls of all sorts", "an answer that is cut and goes on"] {
            for (side, world) in around(job, "assistant", |_, _, _| {}) {
                assert_eq!(repeated(&world), usize::from(side == Before), "{job} {side:?}");
            }
        }
    }

    #[test]
    fn call_started() {
        let job = "parallel calls of all sorts";
        for (side, world) in around(job, "call_started", |side, _, world| {
            let in_flight = root(world).open_calls().iter().filter(|call| call.started).count();
            assert_eq!(in_flight > 0, side == After);
        }) {
            let shell = world.log().iter().any(|entry| {
                matches!(&entry.kind,
                EntryKind::CallEnded(ended) if ended.status == CallStatus::Interrupted)
            });
            if side == Before {
                assert!(!shell, "nothing had happened");
            }
        }
    }

    #[test]
    fn call_waiting() {
        around("decisions and answers", "call_waiting", |side, handle, _| {
            let waits = handle.state().waiting_calls.len();
            assert!(side == Before || waits > 0);
        });
        around("a question that nobody answers", "call_waiting", |side, handle, _| {
            assert_eq!(handle.state().waiting_calls.len(), usize::from(side == After));
        });
    }

    #[test]
    fn woken() {
        for kind in ["decided", "answered", "woken"] {
            around("decisions and answers", kind, |side, _, world| {
                let conversation = root(world);
                let woken = |call: &&&bowline_agent::conversation::Call| {
                    matches!(call.state, CallState::Woken(_))
                };
                let open = conversation.open_calls();
                if side == After {
                    assert!(open.iter().filter(woken).count() > 0, "{kind}");
                }
            });
        }
        around("a child that is waited for", "woken", |_, _, _| {});
        around("decisions for children", "decided", |_, _, _| {});
    }

    #[test]
    fn call_ended() {
        for job in
            ["parallel calls of all sorts", "three turns with notes", "children side by side"]
        {
            for (_, world) in around(job, "call_ended", |_, _, _| {}) {
                assert_eq!(world.crashes.lock().unwrap().len(), 1);
            }
        }
    }

    #[test]
    fn external_usage() {
        for (side, world) in around("a limit of tokens", "external_usage", |side, handle, _| {
            assert_eq!(handle.token_usage().input, if side == After { 17 } else { 10 });
        }) {
            // The call runs again, and spends again what it had spent.
            assert_eq!(count(&world, "external_usage"), if side == After { 2 } else { 1 });
        }
    }

    #[test]
    fn limit_hit() {
        for job in [
            "a limit of model calls",
            "a limit of tool calls",
            "a limit of tokens",
            "a limit of time while the model speaks",
            "a limit of time without a last word",
            "a limit of time while tools run",
        ] {
            around(job, "limit_hit", |side, _, world| {
                let is_hit = root(world).run().is_some_and(|run| run.limit.is_some());
                assert_eq!(is_hit, side == After);
            });
        }
    }

    #[test]
    fn canceled() {
        around("a cancel from elsewhere", "canceled", |side, _, world| {
            let is_canceled = root(world).run().is_some_and(|run| run.canceled.is_some());
            assert_eq!(is_canceled, side == After);
            assert_eq!(inbox(&world.memory).len(), 1);
        });
    }

    #[test]
    fn background_ended() {
        let is_over =
            |world: &World| root(world).run().is_some_and(|run| run.background.is_empty());
        around("work behind a call", "background_ended", |side, _, world| {
            assert_eq!((side, is_over(world)), (side, side == After));
        });
    }

    #[test]
    fn run_ended() {
        let is_end = |side, world: &World| {
            let conversation = root(world);
            (side, conversation.run().is_none())
        };
        for job in
            ["a limit of tokens", "a tool that ends the run", "a question that nobody answers"]
        {
            around(job, "run_ended", |side, handle, world| {
                assert_eq!(is_end(side, world), (side, side == After));
                assert_eq!(
                    handle.state().latest.is_some(),
                    side == After || count(world, "run_ended") > 0
                );
            });
        }
        // Of a child: its end is there, and the tool that runs again gets it without a model call.
        for (_, world) in around("a child with two prompts", "run_ended", |_, _, _| {}) {
            assert_eq!(repeated(&world), 0);
        }
    }

    /// A job whose agent is another one from the second prompt on.
    fn changing() -> (Scenario, Scenario) {
        let first = job("an answer that is cut and goes on");
        let second = Scenario {
            prompts: &["one", "two"],
            scripts: vec![("changed", first.scripts[0].1.clone())],
            build: |world, agent| Agent {
                instructions: "changed".into(),
                tools: super::support::jobs::delegating(world),
                ..agent
            },
        };
        (Scenario { prompts: &["one"], ..first }, second)
    }

    #[test]
    fn changed() {
        let (first, second) = changing();
        let uncut = Arc::new(World::default());
        assert_eq!(first.live(&uncut, None), End::Finished);
        assert_eq!(second.live(&uncut, None), End::Finished);
        for side in [Before, After] {
            let world = Arc::new(World::default());
            assert_eq!(first.live(&world, None), End::Finished);
            world.crashes.lock().unwrap().clear();
            let cut = Cut { commit: 0, side };
            assert_eq!(second.live(&world, Some(cut)), End::Crashed);
            let changes = count(&world, "system_changed") + count(&world, "tools_changed");
            assert_eq!(changes, if side == Before { 0 } else { 2 });
            assert_eq!(second.live(&world, None), End::Finished);
            assert_eq!(names(&uncut), names(&world));
            assert_eq!(count(&world, "system_changed"), 1);
            assert_eq!(count(&world, "tools_changed"), 1);
        }
        // An open run goes on with what it began with, whatever the agent has become.
        let world = Arc::new(World::default());
        let cut = Cut { commit: 1, side: After };
        assert_eq!(first.live(&world, Some(cut)), End::Crashed);
        let end = second.live_for(&world, None, async |agent| {
            let handle = agent.resume(World::session()).await.unwrap();
            assert_eq!(&*handle.state().snapshot.system, "root");
        });
        assert_eq!(end, End::Finished);
    }

    fn names(world: &World) -> Vec<String> {
        world.log().iter().map(|entry| entry.kind.name().to_owned()).collect()
    }

    #[test]
    fn head() {
        let job = job("an answer that is cut and goes on");
        let whole = Arc::new(World::default());
        job.live(&whole, None);
        let go_on = async |agent: &Agent, world: &World| {
            let handle = agent.resume(World::session()).await.unwrap();
            let ended =
                |entry: &&bowline_agent::entry::Entry| matches!(entry.kind, EntryKind::RunEnded(_));
            let first = world.log().iter().find(ended).unwrap().id;
            if count(world, "head") == 0 {
                assert_eq!(handle.state().snapshot.messages.len(), 6);
                handle.rewind(Some(first)).await.unwrap();
            }
            assert_eq!(handle.state().head, Some(first));
            assert_eq!(handle.state().snapshot.messages.len(), 4);
            // Rewinding refunds nothing.
            assert_eq!(handle.token_usage().input, 30);
            handle.prompt("three").await.unwrap();
            assert_eq!(handle.state().snapshot.messages.len(), 6);
        };
        job.live_for(&whole, None, async |agent| go_on(agent, &whole).await);
        for side in [Before, After] {
            let world = Arc::new(World::default());
            job.live(&world, None);
            let cut = Cut { commit: 0, side };
            let end = job.live_for(&world, Some(cut), async |agent| go_on(agent, &world).await);
            assert_eq!(end, End::Crashed);
            assert_eq!(count(&world, "head"), usize::from(side == After));
            job.live_for(&world, None, async |agent| go_on(agent, &world).await);
            compare(&whole, &world, &[cut]);
        }
    }

    #[test]
    fn effect() {
        for job in
            ["results that are shortened", "a summary", "results that are put away and recalled"]
        {
            for (side, world) in around(job, "effect", |side, _, world| {
                // What it is about is a commit of its own: before it the effect has done nothing.
                let last = world.log().pop().unwrap();
                assert_eq!(last.kind.name() == "effect", side == After, "{job}");
            }) {
                // Nothing was sent between what led to it and what it did.
                assert_eq!(repeated(&world), 0, "{job} {side:?}");
            }
        }
    }

    #[test]
    fn plan() {
        let planning = |world: &World| root(world).run().unwrap().planning.clone();
        for (side, world) in around("a plan", "planned", |side, _, world| {
            // The reply that it is made from is there until there is the plan.
            assert_eq!(planning(world).proposal.is_some(), side == Before);
            let is_begun = planning(world).course.is_some_and(|course| course.next().is_some());
            assert!(is_begun || side == Before || count(world, "planned") == 3);
        }) {
            assert_eq!((repeated(&world), count(&world, "planned")), (0, 3), "{side:?}");
        }
        for (side, world) in around("a plan", "step_taken", |side, _, world| {
            let conversation = root(world);
            let open = conversation.open_calls();
            let is_new = |call: &&bowline_agent::conversation::Call| !call.started;
            assert_eq!(open.iter().copied().filter(is_new).count(), usize::from(side == After));
        }) {
            assert_eq!((repeated(&world), count(&world, "step_taken")), (0, 5), "{side:?}");
        }
    }

    #[test]
    fn an_open_run_goes_on_with_the_orchestrator_that_it_began_with() {
        let job = job("a plan");
        let world = Arc::new(World::default());
        assert_eq!(job.live(&world, Some(Cut { commit: 1, side: After })), End::Crashed);
        let end = job.live_for(&world, None, async |agent| {
            let agent = Agent { orchestrator: Arc::new(React), ..agent.clone() };
            work(&agent, &world, job.prompts).await;
        });
        assert_eq!(end, End::Finished);
        // The second prompt is the other orchestrator's.
        assert_eq!((count(&world, "planned"), count(&world, "step_taken")), (2, 5));
    }

    #[test]
    fn custom() {
        for (_, world) in around("three turns with notes", "custom", |_, _, _| {}) {
            assert_eq!(count(&world, "custom"), 3);
        }
        // What the embedding program adds.
        let job = job("a model that fails");
        for side in [Before, After] {
            let world = Arc::new(World::default());
            let end = job.live_for(&world, Some(Cut { commit: 0, side }), async |agent| {
                let handle = agent.start();
                handle.record("mine", RawJson::parse("[1,  2]").unwrap()).await.unwrap();
            });
            assert_eq!(end, End::Crashed);
            let expected: &[&str] = if side == Before { &[] } else { &["created", "custom"] };
            assert_eq!(names(&world), expected);
            assert_eq!(
                job.live_for(&world, None, async |agent| work(agent, &world, job.prompts).await),
                End::Finished
            );
            assert_eq!(world.life.load(Ordering::SeqCst), 2);
        }
    }
}
