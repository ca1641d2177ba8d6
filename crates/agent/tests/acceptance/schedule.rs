//! Which calls of one reply overlap, and in which order they end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_agent::ToolExecution;
use bowline_agent::tool::{Access, FunctionTool, ToolContext, ToolError, ToolOutput, tool_fn};
use bowline_llm::scripted::Reply;
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;

use crate::support::{Latch, Stage, Text, conversation, hear, held, stage};

/// When calls began and ended, in tenths of a second.
type Diary = Arc<Mutex<Vec<(String, u128, u128)>>>;
type Boxed = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// Makes a tool that takes a second and writes it down.
fn takes_a_second(
    name: &'static str,
    access: Access,
    diary: &Diary,
) -> FunctionTool<Text, impl Fn(Text, ToolContext) -> Boxed + Send + Sync + 'static> {
    let diary = Arc::clone(diary);
    let run = move |_: Text, cx: ToolContext| {
        let diary = Arc::clone(&diary);
        Box::pin(async move {
            let began = since_start();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let call = cx.call.to_string();
            diary.lock().unwrap().push((call, began, since_start()));
            Ok("".into())
        }) as Boxed
    };
    tool_fn(name, "A tool.", run).with_access(access)
}

fn since_start() -> u128 {
    thread_local! {
        static START: tokio::time::Instant = tokio::time::Instant::now();
    }
    START.with(|start| start.elapsed().as_millis() / 100)
}

/// Plays one reply that calls these tools, and returns from which to which second each ran.
async fn play(execution: ToolExecution, calls: &[(&'static str, Access)]) -> Vec<(u128, u128)> {
    since_start();
    let diary = Diary::default();
    let reply = calls.iter().fold(Reply::text("x"), |reply, (name, _)| reply.and_call(*name, "{}"));
    let mut stage: Stage = stage([reply, Reply::text("done")]);
    let mut names = BTreeSet::new();
    for (name, access) in calls {
        if names.insert(*name) {
            stage = stage.with(takes_a_second(name, access.clone(), &diary));
        }
    }
    let stage = stage.change(|agent| agent.tool_execution = execution);
    let began = since_start();
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    let mut diary = diary.lock().unwrap().clone();
    diary.sort_by_key(|(call, ..)| call.trim_start_matches("call_").parse::<u32>().unwrap());
    diary.into_iter().map(|(_, from, to)| ((from - began) / 10, (to - began) / 10)).collect()
}

async fn auto(calls: &[(&'static str, Access)]) -> Vec<(u128, u128)> {
    play(ToolExecution::Auto, calls).await
}

// F114
#[tokio::test(start_paused = true)]
async fn writes_of_one_path_take_turns_and_reads_overlap() {
    let write = |path: &str| Access::write(path);
    let read = |path: &str| Access::read(path);
    assert_eq!(auto(&[("a", write("f")), ("b", write("f"))]).await, [(0, 1), (1, 2)]);
    assert_eq!(auto(&[("a", read("f")), ("b", read("f"))]).await, [(0, 1), (0, 1)]);
    assert_eq!(auto(&[("a", write("f")), ("b", write("g"))]).await, [(0, 1), (0, 1)]);
    assert_eq!(auto(&[("a", read("f")), ("b", write("f"))]).await, [(0, 1), (1, 2)]);
    assert_eq!(auto(&[("a", write("f")), ("b", read("f"))]).await, [(0, 1), (1, 2)]);
    // A folder stands for what is in it.
    assert_eq!(auto(&[("a", write("d")), ("b", read("d/f"))]).await, [(0, 1), (1, 2)]);
    assert_eq!(auto(&[("a", write("d/f")), ("b", write("d/g"))]).await, [(0, 1), (0, 1)]);
    assert_eq!(auto(&[("a", write("d")), ("b", write("d2"))]).await, [(0, 1), (0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn commands_conflict_with_writes_and_commands_but_not_with_reads() {
    let run = || Access::execute("make");
    assert_eq!(auto(&[("a", run()), ("b", run())]).await, [(0, 1), (1, 2)]);
    assert_eq!(auto(&[("a", run()), ("b", Access::write("f"))]).await, [(0, 1), (1, 2)]);
    assert_eq!(auto(&[("a", Access::write("f")), ("b", run())]).await, [(0, 1), (1, 2)]);
    assert_eq!(auto(&[("a", run()), ("b", Access::read("f"))]).await, [(0, 1), (0, 1)]);
    assert_eq!(auto(&[("a", run()), ("b", Access::none())]).await, [(0, 1), (0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_exclusive_is_alone() {
    let exclusive = Access::exclusive;
    assert_eq!(
        auto(&[("a", Access::none()), ("b", exclusive()), ("c", Access::none())]).await,
        [(0, 1), (1, 2), (2, 3)]
    );
}

// Conflicting calls keep call order; what conflicts with neither goes ahead.
#[tokio::test(start_paused = true)]
async fn a_later_call_does_not_overtake_one_it_conflicts_with() {
    let calls = [
        ("a", Access::write("f")),
        ("b", Access::write("f")),
        ("c", Access::read("f")),
        ("d", Access::read("g")),
    ];
    assert_eq!(auto(&calls).await, [(0, 1), (1, 2), (2, 3), (0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn at_most_eight_run_at_once() {
    let calls = vec![("a", Access::none()); 10];
    let mut wanted = vec![(0, 1); 8];
    wanted.extend([(1, 2), (1, 2)]);
    assert_eq!(auto(&calls).await, wanted);
}

#[tokio::test(start_paused = true)]
async fn sequential_and_parallel_can_be_forced() {
    let reads = vec![("a", Access::none()); 3];
    assert_eq!(play(ToolExecution::Sequential, &reads).await, [(0, 1), (1, 2), (2, 3)]);
    let writes = vec![("a", Access::write("f")); 3];
    let parallel = |max| ToolExecution::Parallel { max };
    assert_eq!(play(parallel(2), &writes).await, [(0, 1), (0, 1), (1, 2)]);
    assert_eq!(play(parallel(0), &writes).await, [(0, 1), (1, 2), (2, 3)]);
    assert_eq!(play(parallel(10), &vec![("a", Access::none()); 10]).await, [(0, 1); 10]);
}

#[tokio::test]
async fn results_are_in_call_order_whatever_ends_first() {
    let (first, second) = (Latch::default(), Latch::default());
    let reply = Reply::call("slow", r#"{"text":"1"}"#).and_call("fast", r#"{"text":"2"}"#);
    let stage =
        stage([reply, Reply::text("done")]).with(held("slow", &first)).with(held("fast", &second));
    let handle = stage.start();
    let run = handle.prompt("go");
    first.reached().await;
    second.open();
    // The view shows nothing of the batch before it is whole.
    handle.wait_for(|state| state.pending_calls.len() == 1).await.unwrap();
    assert_eq!(conversation(&handle), ["user \"go\"", "assistant call_1=slow call_2=fast"]);
    first.open();
    let told = hear(run).await;
    assert_eq!(told.ends(), ["tool_end(call_2, ok)", "tool_end(call_1, ok)"]);
    assert_eq!(conversation(&handle)[2], "results call_1=\"1\" call_2=\"2\"");
}

// Calls that start in one instant share a commit.
#[tokio::test]
async fn calls_that_start_together_share_a_commit() {
    let latch = Latch::default();
    let reply = Reply::call("held", "{}").and_call("held", "{}").and_call("held", "{}");
    let stage = stage([reply, Reply::text("done")]).with(held("held", &latch));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached_by(3).await;
    latch.open();
    let told = hear(run).await;
    let calls = told.call_lines();
    assert_eq!(calls[3..6], ["tool_start(call_1)", "tool_start(call_2)", "tool_start(call_3)"]);
}
