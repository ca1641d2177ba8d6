//! Every run, cut at every commit and gone on with, comes to the same as the run that was not cut.

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

    use bowline_agent::entry::{Entry, EntryKind};
    use bowline_agent::journal::JournalError;
    use bowline_agent::{Agent, AgentError};
    use bowline_llm::scripted::{Reply, ScriptedModel};
    use bowline_llm::{ErrorKind, Message, ModelError, text_of};

    use super::support::crashing::{Cut, Side, World};
    use super::support::jobs::job;
    use super::support::scenario::{compare, every, names};

    macro_rules! cut_everywhere {
        ($($test:ident: $job:literal, $stride:literal;)*) => {
            $(#[test]
            fn $test() {
                println!("{} cuts", job($job).cut_everywhere());
                println!("{} pairs of cuts", job($job).cut_twice($stride));
            })*
        };
    }

    cut_everywhere! {
        parallel_calls_of_all_sorts: "parallel calls of all sorts", 3;
        three_turns_with_notes: "three turns with notes", 3;
        a_child_with_two_prompts: "a child with two prompts", 11;
        children_side_by_side: "children side by side", 29;
        nested_children: "nested children", 13;
        a_child_that_is_waited_for: "a child that is waited for", 3;
        a_child_that_forks_its_parent: "a child that forks its parent", 3;
        an_answer_that_is_cut_and_goes_on: "an answer that is cut and goes on", 3;
        what_others_say: "what others say", 3;
        a_cancel_from_elsewhere: "a cancel from elsewhere", 3;
        decisions_and_answers: "decisions and answers", 7;
        decisions_for_children: "decisions for children", 11;
        a_question_that_nobody_answers: "a question that nobody answers", 3;
        a_limit_of_model_calls: "a limit of model calls", 3;
        a_limit_of_tool_calls: "a limit of tool calls", 3;
        a_limit_of_tokens: "a limit of tokens", 3;
        a_limit_of_time_while_the_model_speaks: "a limit of time while the model speaks", 3;
        a_limit_of_time_without_a_last_word: "a limit of time without a last word", 3;
        a_limit_of_time_while_tools_run: "a limit of time while tools run", 3;
        children_that_speak_late: "children that speak late", 29;
        work_behind_a_call: "work behind a call", 11;
        a_tool_that_ends_the_run: "a tool that ends the run", 3;
        a_model_that_is_tried_again: "a model that is tried again", 3;
        large_bodies: "large bodies", 9;
        outputs_that_are_cut: "outputs that are cut", 3;
        what_is_shown_and_what_is_around_it: "what is shown and what is around it", 3;
        a_model_that_fails: "a model that fails", 3;
        what_effects_say: "what effects say", 29;
        effects_that_stop_a_run: "effects that stop a run", 13;
        results_that_are_shortened: "results that are shortened", 29;
        a_summary: "a summary", 29;
        a_window_that_slides: "a window that slides", 29;
        results_that_are_put_away_and_recalled: "results that are put away and recalled", 29;
        a_crew: "a crew", 61;
        a_crew_whose_agents_ask: "a crew whose agents ask", 13;
        a_crew_that_answers: "a crew that answers", 13;
        a_crew_in_the_background: "a crew in the background", 13;
        a_crew_in_the_background_on_the_board: "a crew in the background, on the board", 13;
        a_plan: "a plan", 3;
        a_plan_that_fails_for_good: "a plan that fails for good", 5;
        a_plan_and_what_others_say: "a plan, and what others say", 5;
        a_board_that_children_share: "a board that children share", 29;
        a_plan_that_is_done_to_its_end: "a plan that is done to its end", 5;
    }

    /// Whoever looks at the board later, nobody works on a task whose agent was stopped.
    #[test]
    fn no_task_is_left_in_progress_wherever_its_agent_is_stopped_and_a_process_dies() {
        let jobs = [
            "a crew in the background that is canceled",
            "a crew that asks and is canceled",
            "a crew that asks and is dismissed",
        ];
        for name in jobs {
            let (stopped, mut cuts) = (job(name), 0);
            assert_eq!(seen_on_the_board(&stopped.uncut()), "task-1 failed coder-task-1");
            for (nth, first) in every().enumerate() {
                let Some(world) = stopped.cut(&[first]) else { break };
                let crash = world.crashes.lock().unwrap()[0];
                let seen = seen_on_the_board(&world);
                let is_right = match seen.as_str() {
                    "task-1 pending nobody" => !is_claimed(&world.log()[..crash]),
                    seen => seen == "task-1 failed coder-task-1",
                };
                assert!(is_right, "{name}, cut at {first:?}: {seen}\n{:#?}", names(&world.log()));
                cuts += 1;
                let pairs = every().take_while(|_| nth % 13 == 0).map(|second| [first, second]);
                for cut in pairs {
                    let Some(world) = stopped.cut(&cut) else { break };
                    let seen = seen_on_the_board(&world);
                    let is_left = seen.contains("in_progress");
                    assert!(!is_left, "{name}, cut at {cut:?}\n{:#?}", names(&world.log()));
                    cuts += 1;
                }
            }
            println!("{name}: {cuts} cuts");
        }
    }

    /// Returns what the lead saw in the end.
    fn seen_on_the_board(world: &World) -> String {
        let ends = world.log().into_iter().filter_map(|entry| match entry.kind {
            EntryKind::CallEnded(ended) if ended.call.as_str() == "t" => {
                Some(text_of(&ended.content))
            }
            _ => None,
        });
        ends.last().unwrap()
    }

    /// Tells whether a log says that somebody works on a task.
    fn is_claimed(log: &[Entry]) -> bool {
        let is_shared = |entry: &&Entry| matches!(&entry.kind, EntryKind::Custom(custom) if custom.name == "shared");
        let shared = log.iter().filter(is_shared);
        shared
            .map(|entry| serde_json::to_string(entry).unwrap())
            .any(|text| text.contains("in_progress"))
    }

    /// The jobs of effects are worth their name.
    #[test]
    fn effects_act_in_the_jobs_that_are_cut() {
        let acts = |name: &str| {
            let log = job(name).uncut().log();
            let acts = log.iter().filter_map(|entry| match &entry.kind {
                EntryKind::Effect(acted) => {
                    Some(format!("{} {}", acted.effect, acted.act.as_str()))
                }
                EntryKind::RunEnded(ended) => Some(ended.outcome.as_str().to_owned()),
                _ => None,
            });
            acts.collect::<Vec<_>>()
        };
        let said = [
            "inject say",
            "loop_detect say",
            "progress say",
            "inject say",
            "reflection say",
            "token_budget say",
            "progress say",
            "done",
            "inject say",
            "progress say",
            "inject say",
            "token_budget say",
            "progress say",
            "token_budget stop",
            "limit",
        ];
        assert_eq!(acts("what effects say"), said);
        let stopped = [
            "time_budget-2 say",
            "stall_detect say",
            "time_budget say",
            "stall_detect stop",
            "limit",
            "time_budget-2 say",
            "time_budget say",
            "time_budget stop",
            "limit",
        ];
        assert_eq!(acts("effects that stop a run"), stopped);
    }

    /// What these jobs are for happens in them.
    #[test]
    fn what_is_shortened_in_a_job_is_shortened() {
        let effects = [
            ("results that are shortened", "rewrite", "ask"),
            ("a summary", "ask", "warn"),
            ("a window that slides", "ask", "warn"),
            ("results that are put away and recalled", "rewrite", "ask"),
        ];
        for (name, act, other) in effects {
            let log = job(name).uncut().log();
            let count = |act: &str| {
                let acts = log.iter().filter_map(|entry| match &entry.kind {
                    EntryKind::Effect(acted) => Some(acted.act.as_str()),
                    _ => None,
                });
                acts.filter(|one| *one == act).count()
            };
            assert!(count(act) >= 2 && count(other) == 0, "{name}: {:#?}", names(&log));
            let recalls = names(&log).iter().filter(|line| line.ends_with(" recall")).count();
            assert_eq!(recalls, if name.contains("recalled") { 2 } else { 0 });
        }
    }

    /// Whatever the job of the board is cut into, it ends with what was to be done.
    #[test]
    fn what_children_share_is_there_in_the_end() {
        let world = job("a board that children share").uncut();
        let last = world.log().iter().rev().find_map(|entry| match &entry.kind {
            EntryKind::CallEnded(ended) => Some(text_of(&ended.content)),
            _ => None,
        });
        let board = "task-1 completed helper-1\ntask-2 completed helper-2\ntask-3 pending nobody";
        assert_eq!(last.unwrap(), board);
    }

    /// What the jobs of crews are for happens in them.
    #[test]
    fn crews_work_in_the_jobs_that_are_cut() {
        let told = |name: &str, call: &str| {
            let root = World::session().root();
            let log = job(name).uncut().log_of(root);
            let result = log.iter().find_map(|entry| match &entry.kind {
                EntryKind::CallEnded(ended) if ended.call.as_str() == call => {
                    Some(text_of(&ended.content))
                }
                _ => None,
            });
            result.unwrap()
        };
        let crew = told("a crew", "a");
        let expected = [
            "\"name\":\"coder-fix-1\",\"result\":\"it is done\"",
            "\"unverified\":[\"a.rs: only shell or note may have written it\",\"make: no command that \
             was run is it\"]",
            "\"name\":\"writer-test-2\",\"result\":\"written\"",
            "\"name\":\"lead-lead-1\",\"result\":\"it is done\"",
        ];
        for part in expected {
            assert!(crew.contains(part), "{part} is not in {crew}");
        }
        let asked = told("a crew that answers", "a");
        assert!(asked.contains("\"content\":\"which?\""), "{asked}");
        assert!(told("a crew that answers", "b").contains("\"content\":\"really?\""));
        assert!(told("a crew that answers", "c").contains("\"result\":\"it is done\""));
        assert!(told("a crew in the background", "a").contains("\"status\":\"running\""));
        let answers = job("a crew whose agents ask").uncut().log();
        let answers = answers.iter().filter(|entry| entry.kind.name() == "answered");
        assert_eq!(answers.count(), 2);
    }

    /// A crash between a child's end and its parent's result loses and repeats nothing.
    #[test]
    fn between_the_end_of_a_child_and_the_result_of_its_call_nothing_is_lost_or_repeated() {
        let job = job("a child with two prompts");
        let uncut = job.uncut();
        let commits = uncut.commits.lock().unwrap().clone();
        let root = World::session().root();
        let is_end = |commit: &Vec<Entry>| {
            commit.iter().any(|entry| entry.agent != root && entry.kind.name() == "run_ended")
        };
        let last = commits.iter().rposition(is_end).unwrap();
        let result = commits[last..].iter().position(|commit| commit[0].agent == root).unwrap();
        let between = [(last, Side::After), (last + result, Side::Before)];
        for (commit, side) in between {
            let cut = Cut { commit, side };
            let world = job.cut(&[cut]).unwrap();
            compare(&uncut, &world, &[cut]);
            let requests = |world: &World| world.requests.lock().unwrap().len();
            assert_eq!(requests(&world), requests(&uncut));
        }
    }

    /// F110, and what the model is told of a call that nobody knows the outcome of.
    #[test]
    fn a_call_that_was_cut_off_is_told_as_interrupted_and_the_run_goes_on() {
        let job = job("parallel calls of all sorts");
        let uncut = job.uncut();
        let commits = uncut.commits.lock().unwrap().clone();
        let starts = |commit: &Vec<Entry>| {
            commit.iter().any(|entry| {
                matches!(&entry.kind,
                EntryKind::CallStarted(started) if started.call.as_str() == "e")
            })
        };
        let commit = commits.iter().position(starts).unwrap();
        let world = job.cut(&[Cut { commit, side: Side::After }]).unwrap();
        let requests = world.requests.lock().unwrap();
        let (_, request) = requests.last().unwrap();
        let results = request.messages.iter().rev().find_map(|message| match &**message {
            Message::Results(results) => Some(results.clone()),
            _ => None,
        });
        let result = results.unwrap().into_iter().find(|result| result.call.as_str() == "e");
        let result = result.unwrap();
        assert!(result.is_error);
        let text = text_of(&result.content);
        assert!(text.contains("interrupted") && text.contains("Check"), "{text}");
        let runs = world.runs.lock().unwrap();
        assert!(!runs.iter().any(|ran| ran.call.as_str() == "e" && ran.life > 0), "it ran again");
    }

    /// F113.
    #[tokio::test]
    async fn a_session_has_one_writer_at_a_time() {
        let model = Arc::new(ScriptedModel::new([Reply::text("one"), Reply::text("two")]));
        let agent = Agent::new(model);
        let handle = agent.start();
        handle.prompt("go").await.unwrap();
        let id = handle.session_id();
        let error = agent.resume(id).await.unwrap_err();
        let is_busy = matches!(&error, AgentError::Journal(JournalError::Busy { session, pid })
            if *session == id && *pid == std::process::id());
        assert!(is_busy, "{error}");
        handle.close().await;
        drop(handle);
        let again = agent.resume(id).await.unwrap();
        assert_eq!(again.prompt("more").await.unwrap().text(), "two");
    }

    /// F116.
    #[tokio::test]
    async fn what_was_said_stays_said_when_the_model_fails() {
        let error = ModelError::new(ErrorKind::Auth, "no");
        let model = ScriptedModel::new([Reply::error(error), Reply::text("hello")]);
        let agent = Agent::new(Arc::new(model.clone()));
        let handle = agent.start();
        let id = handle.session_id();
        assert!(!handle.prompt("hi").await.unwrap().is_done());
        drop(handle);
        let handle = loop {
            // The task lets go of the log when it sees that nobody holds a handle.
            match agent.resume(id).await {
                Ok(handle) => break handle,
                Err(AgentError::Journal(JournalError::Busy { .. })) => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        let expected = [Message::user("hi")];
        let messages: Vec<Message> = handle.messages().iter().map(|m| Message::clone(m)).collect();
        assert_eq!(messages, expected);
        assert_eq!(handle.prompt("again").await.unwrap().text(), "hello");
        assert_eq!(model.requests()[1].messages.len(), 2);
    }
}
