//! Laws that hold for every script.

#[cfg(test)]
mod support {
    #![allow(dead_code, reason = "not every test needs all of it")]
    pub(crate) mod crashing;
    pub(crate) mod jobs;
    pub(crate) mod laws;
    pub(crate) mod scenario;
}

#[cfg(test)]
mod tests {
    use std::hash::{Hash as _, Hasher as _};
    use std::sync::Arc;

    use bowline_agent::conversation::Conversation;
    use bowline_agent::entry::{Entry, EntryKind, Plan, PlanStep, Wake};
    use bowline_agent::event::Event;
    use bowline_agent::id::EntryId;
    use bowline_agent::journal::{JournalError, Seq, Store as _};
    use bowline_agent::limits::Limits;
    use bowline_agent::orchestrator::{NextStep, Orchestrator, PlanExecute, Purpose};
    use bowline_agent::{Agent, Memory};
    use bowline_llm::scripted::Reply;
    use bowline_llm::{ErrorKind, ModelError, RawJson, StopReason};
    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::support::crashing::{Cut, Side, World};
    use super::support::jobs::{Strict, calls, delegating, says};
    use super::support::laws::check_log;
    use super::support::scenario::{End, Scenario, check_events, work};

    /// A job made at random.
    #[derive(Debug, Clone)]
    struct Random {
        replies: Vec<Said>,
        limits: Limits,
    }

    #[derive(Debug, Clone)]
    enum Said {
        Text(bool),
        Calls(Vec<(&'static str, &'static str, bool)>),
        Fails(ErrorKind),
        Nothing,
    }

    const CALLS: [(&str, &str); 20] = [
        ("read", "1"),
        ("read", "rewrite"),
        ("read", "forbidden"),
        ("slow", ""),
        ("shell", "x"),
        ("shell", "deny"),
        ("fail", ""),
        ("boom", ""),
        ("note", "a"),
        ("spend", ""),
        ("say", "steer"),
        ("say", "queue"),
        ("say", "follow"),
        ("say", "cancel"),
        ("ask", ""),
        ("job", ""),
        ("sleep", ""),
        ("fatal", ""),
        ("unknown", ""),
        ("delegate", "child"),
    ];

    fn random() -> impl Strategy<Value = Random> {
        let call = (0..CALLS.len(), proptest::bool::weighted(0.1))
            .prop_map(|(index, twice)| (CALLS[index].0, CALLS[index].1, twice));
        let said = prop_oneof![
            2 => any::<bool>().prop_map(Said::Text),
            6 => proptest::collection::vec(call, 1..5).prop_map(Said::Calls),
            1 => prop_oneof![Just(ErrorKind::Auth), Just(ErrorKind::Overloaded)].prop_map(Said::Fails),
            1 => Just(Said::Nothing),
        ];
        let limits = (0..5_u32, 0..6_u32, 0..3_u64, any::<bool>());
        let limits = limits.prop_map(|(turns, calls, tokens, wrap_up)| Limits {
            model_turns: if turns == 0 { 0 } else { turns + 1 },
            tool_calls: calls,
            total_tokens: tokens * 25,
            run_time_ms: if wrap_up { 0 } else { 8_000 },
            wrap_up,
            ..Limits::default()
        });
        (proptest::collection::vec(said, 1..6), limits)
            .prop_map(|(replies, limits)| Random { replies, limits })
    }

    impl Random {
        fn job(&self) -> Scenario {
            let mut replies: Vec<Reply> = Vec::new();
            for (index, said) in self.replies.iter().enumerate() {
                replies.push(match said {
                    Said::Text(true) => says("cut").with_stop(StopReason::MaxTokens),
                    Said::Text(false) => says("text"),
                    Said::Calls(list) => {
                        let id = |n: usize, twice: bool| match twice {
                            true => "twice".to_owned(),
                            false => format!("c{index}.{n}"),
                        };
                        let list: Vec<(String, &str, &str)> = list
                            .iter()
                            .enumerate()
                            .map(|(n, (name, text, twice))| (id(n, *twice), *name, *text))
                            .collect();
                        let list: Vec<(&str, &str, &str)> = list
                            .iter()
                            .map(|(id, name, text)| (id.as_str(), *name, *text))
                            .collect();
                        calls(&list)
                    }
                    Said::Fails(kind) => Reply::error(ModelError::new(*kind, "no")),
                    Said::Nothing => Reply::message(bowline_llm::AssistantMessage::default()),
                });
            }
            replies.extend(std::iter::repeat_n(says("over"), 80));
            let child =
                vec![calls(&[("x", "read", "1"), ("y", "fail", "")]), says("one"), says("two")];
            Scenario {
                prompts: &["one", "two"],
                scripts: vec![("root", replies), ("child", child)],
                build: |world, agent| Agent {
                    tools: delegating(world),
                    gate: Arc::new(Strict),
                    ..agent
                },
            }
        }

        /// Lives once, and checks at every moment that what is seen is what the log says.
        fn live(&self, world: &Arc<World>, cut: Option<Cut>) -> End {
            let job = self.job();
            job.live_for(world, cut, async |agent| {
                let agent = Agent { limits: self.limits.clone(), ..agent.clone() };
                work(&agent, world, job.prompts).await;
            })
        }

        fn live_and_look(&self, world: &Arc<World>) {
            let job = self.job();
            job.live_for(world, None, async |agent| {
                let agent = Agent { limits: self.limits.clone(), ..agent.clone() };
                let handle = agent.start();
                let mut seen = handle.subscribe(100_000);
                let look = async {
                    loop {
                        let head = handle.state().head;
                        let log = world.log_of(handle.agent_id());
                        let replayed = Conversation::replay(&log);
                        let state = handle.state();
                        assert_eq!(state.head, replayed.head());
                        assert_eq!(state.snapshot, replayed.snapshot());
                        assert_eq!(state.run, replayed.run().map(|run| run.id));
                        assert_eq!(state.drafts, replayed.totals().drafts);
                        assert_eq!(state.latest, replayed.totals().latest);
                        assert_eq!(state.context_tokens, replayed.context_tokens());
                        let open = replayed.open_calls();
                        let open = open.iter().map(|call| call.id().clone());
                        assert_eq!(state.pending_calls, open.collect::<Vec<_>>());
                        let _ = handle.wait_for(|state| state.head != head).await;
                    }
                };
                let talk = async {
                    for prompt in job.prompts {
                        handle.prompt(*prompt).await.unwrap();
                    }
                };
                tokio::select! {
                    () = talk => {}
                    () = look => {}
                }
                handle.close().await;
                let events = std::iter::from_fn(|| seen.try_recv().ok());
                let events: Vec<Arc<Event>> = events.collect();
                check_events(&events, world);
                let totals = Conversation::replay(&world.log_of(handle.agent_id()));
                let mine = totals.totals().spent.usage.input;
                assert!(handle.token_usage().input >= mine);
            });
        }
    }

    /// Says anything at all, but the same of the same conversation.
    #[derive(Debug, Clone, Copy)]
    struct Wild(u64);

    impl Orchestrator for Wild {
        fn next(&self, conversation: &Conversation) -> NextStep {
            let mut hasher = std::hash::DefaultHasher::new();
            (self.0, conversation.seq().0).hash(&mut hasher);
            let n = hasher.finish();
            let step = |n: u64| {
                let (tool, text) = CALLS[usize::try_from(n).unwrap() % CALLS.len()];
                let args = RawJson::of(&serde_json::json!({ "text": text })).unwrap();
                PlanStep { tool: tool.to_owned(), args }
            };
            let purposes = [
                Purpose::Turn,
                Purpose::WrapUp,
                Purpose::Compact,
                Purpose::Continue,
                Purpose::Repair,
                Purpose::Plan,
            ];
            match n % 16 {
                0 => NextStep::Settle,
                1 => NextStep::Rest,
                2 => NextStep::CallTools,
                3 => NextStep::Wait(vec![("c0.0".into(), Wake::Job("none".into()))]),
                4..8 => NextStep::Step,
                8..10 => NextStep::Plan(Plan { steps: (0..n / 16 % 4).map(step).collect() }),
                10..13 => NextStep::CallModel(purposes[usize::try_from(n / 16 % 6).unwrap()]),
                _ => PlanExecute::default().next(conversation),
            }
        }
    }

    impl Random {
        /// Lives once with an orchestrator that says anything, within limits.
        fn live_wildly(&self, wild: Wild, world: &Arc<World>, cut: Option<Cut>) -> End {
            let job = self.job();
            job.live_for(world, cut, async |agent| {
                let limits =
                    Limits { model_turns: self.limits.model_turns.max(2), ..self.limits.clone() };
                let agent = Agent { limits, orchestrator: Arc::new(wild), ..agent.clone() };
                work(&agent, world, job.prompts).await;
            })
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_seen_is_what_the_log_says(random in random()) {
            let world = Arc::new(World::default());
            random.live_and_look(&world);
            check_log(&world);
        }

        #[test]
        fn a_run_cut_anywhere_comes_to_a_valid_end(
            random in random(), commit in 0..30_usize, before: bool, again in 0..10_usize,
        ) {
            let world = Arc::new(World::default());
            let side = if before { Side::Before } else { Side::After };
            if random.live(&world, Some(Cut { commit, side })) == End::Crashed
                && random.live(&world, Some(Cut { commit: again, side })) == End::Crashed
            {
                prop_assert_eq!(random.live(&world, None), End::Finished);
            }
            check_log(&world);
        }

        #[test]
        fn whatever_an_orchestrator_says_the_history_is_whole_and_the_run_ends(
            random in random(), wild: u64, commit in 0..40_usize, before: bool,
        ) {
            let (world, wild) = (Arc::new(World::default()), Wild(wild));
            let side = if before { Side::Before } else { Side::After };
            if random.live_wildly(wild, &world, Some(Cut { commit, side })) == End::Crashed {
                prop_assert_eq!(random.live_wildly(wild, &world, None), End::Finished);
            }
            check_log(&world);
        }

        #[test]
        fn a_log_cut_within_a_commit_comes_to_a_valid_end(random in random(), at: prop::sample::Index) {
            let whole = Arc::new(World::default());
            prop_assert_eq!(random.live(&whole, None), End::Finished);
            let log = whole.log();
            let part = &log[..1 + at.index(log.len())];
            let world = Arc::new(World::default());
            {
                let session = world.memory.create(World::session());
                let mut seqs = std::collections::HashMap::new();
                for entry in part {
                    let seq = seqs.entry(entry.agent).or_insert(0);
                    let entries = std::slice::from_ref(entry);
                    let journal = session.journal(entry.agent);
                    journal.append(Seq(*seq), entries).now_or_never().unwrap().unwrap();
                    world.commits.lock().unwrap().push(entries.to_vec());
                    *seq += 1;
                }
            }
            world.life.store(1, std::sync::atomic::Ordering::SeqCst);
            prop_assert_eq!(random.live(&world, None), End::Finished);
            check_log(&world);
        }

        #[test]
        fn what_is_not_known_survives_byte_for_byte(
            kind in "[a-z_]{1,12}x", number: i64, text in ".{0,12}", spaces in " {0,3}", critical: bool, v in 1..4_u32,
        ) {
            let string = serde_json::to_string(&text).unwrap();
            let data = format!("{{{spaces}\"b\":{number}.50,{spaces}\"a\" : [{string}, 1e3]}}");
            let id = "0123456789abcdef0123456789abcdef";
            let critical_text = if critical { "\"critical\":true," } else { "" };
            let text = format!(
                "{{\"v\":{v},\"id\":\"{id}\",\"at\":\"2026-11-21T22:00:00.123Z\",\"agent\":\"{id}\",{critical_text}\"kind\":\"{kind}\",\"data\":{data}}}"
            );
            let entry: Entry = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&entry.kind, &EntryKind::Unknown { kind, data: RawJson::parse(data).unwrap() });
            prop_assert_eq!(serde_json::to_string(&entry).unwrap(), text);
            // It has no effect, but for keeping this version from writing.
            let world = Arc::new(World::default());
            let random = Random { replies: vec![Said::Text(false)], limits: Limits::default() };
            random.live(&world, None);
            let log = world.log();
            let id = EntryId::from(uuid::Uuid::from_u128(7));
            let (agent, parent) = (World::session().root(), log.last().map(|entry| entry.id));
            let unknown = Entry { id, agent, parent, ..entry };
            let session = world.memory.open(World::session()).now_or_never().unwrap().unwrap();
            let journal = session.journal(agent);
            journal.append(Seq(log.len() as u64), &[unknown]).now_or_never().unwrap().unwrap();
            drop((journal, session));
            let opened = world.memory.open(World::session()).now_or_never().unwrap();
            if critical {
                let is_refused = matches!(opened, Err(JournalError::ReadOnly { .. }));
                prop_assert!(is_refused);
            } else {
                prop_assert!(opened.is_ok());
            }
        }
    }

    #[test]
    fn a_later_form_of_a_known_kind_is_kept() {
        let id = "0123456789abcdef0123456789abcdef";
        let text = format!(
            r#"{{"v":2,"id":"{id}","at":"2026-11-21T22:00:00.123Z","agent":"{id}","kind":"user","data":{{ "new":1 }}}}"#
        );
        let entry: Entry = serde_json::from_str(&text).unwrap();
        assert!(matches!(&entry.kind, EntryKind::Unknown { kind, .. } if kind == "user"));
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
        let _: Memory = Memory::default();
    }
}
