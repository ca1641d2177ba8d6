use std::sync::Arc;

use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::id::SystemSource;

use super::*;

/// A board as an agent sees it that is called so.
fn seen_by(cx: &ToolContext, name: &str, depth: u32) -> Board {
    let agent = crate::event::AgentMeta { name: name.to_owned(), depth, ..(*cx.agent).clone() };
    let call = bowline_llm::CallId::from(format!("call of {name}").as_str());
    Board::of(&ToolContext { agent: Arc::new(agent), call, ..cx.clone() })
}

fn context() -> ToolContext {
    ToolContext::standalone(Arc::new(SystemSource), None)
}

fn task(title: &str, blocked_by: &[&str]) -> NewTask {
    let blocked_by = blocked_by.iter().map(|id| (*id).to_owned()).collect();
    NewTask { title: title.to_owned(), blocked_by, ..NewTask::default() }
}

fn status(status: TaskStatus) -> TaskUpdate {
    TaskUpdate { status: Some(status), ..TaskUpdate::default() }
}

fn behind(ids: &[&str]) -> TaskUpdate {
    let blocked_by = Some(ids.iter().map(|id| (*id).to_owned()).collect());
    TaskUpdate { blocked_by, ..TaskUpdate::default() }
}

fn why<T>(result: Result<T, BoardError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

fn blocked(board: &Board, id: &str) -> String {
    board.get(id).unwrap().blocked.map(|blocked| blocked.to_string()).unwrap_or_default()
}

/// A board with three tasks, each waiting for the one before it, as the root sees it.
fn line() -> (ToolContext, Board) {
    let cx = context();
    let board = seen_by(&cx, "root", 0);
    for (title, before) in [("dig", &[][..]), ("build", &["task-1"]), ("paint", &["task-2"])] {
        board.create(task(title, before)).unwrap();
    }
    (cx, board)
}

// 108
#[test]
fn a_task_is_made_pending_and_nobodys() {
    let (cx, board) = line();
    let made = board.get("task-2").unwrap();
    assert_eq!((made.task.status, made.task.assignee), (TaskStatus::Pending, None));
    assert_eq!((made.task.created_by.as_str(), made.task.title.as_str()), ("root", "build"));
    let titles: Vec<_> =
        board.list(&TaskFilter::default()).into_iter().map(|t| t.task.title).collect();
    assert_eq!(titles, ["dig", "build", "paint"]);
    assert_eq!(why(board.create(task(" ", &[]))), "a task needs a title");
    let unknown = why(board.create(task("x", &["task-9"])));
    assert_eq!(unknown, "there is no task \"task-9\"; there are task-1 to task-3");
    assert_eq!(board.list(&TaskFilter::default()).len(), 3);
    // A call that runs again finds what it had made, and makes what is missing.
    let again = seen_by(&cx, "root", 0);
    let ids: Vec<_> = ["dig", "build", "paint", "clean"]
        .map(|title| again.create(task(title, &[])).unwrap().task.id)
        .into();
    // The fourth and fifth attempts had made nothing.
    assert_eq!(ids, ["task-1", "task-2", "task-3", "task-4"]);
}

// 109
#[test]
fn of_many_who_claim_one_gets_it() {
    let (cx, _) = line();
    let claims: Vec<_> = std::thread::scope(|scope| {
        let claim = |n: usize| {
            let cx = &cx;
            scope.spawn(move || {
                let board = seen_by(cx, &format!("worker-{n}"), 1);
                board.claim("task-1").map(|got| got.task.assignee.unwrap())
            })
        };
        let claims: Vec<_> = (0..16).map(claim).collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    });
    let winners: Vec<_> = claims.iter().filter_map(|claim| claim.as_ref().ok()).collect();
    let [winner] = winners[..] else { panic!("{claims:?}") };
    assert!(claims.iter().filter_map(|claim| claim.as_ref().err()).all(|error| {
        *error == BoardError::Taken { id: "task-1".into(), assignee: winner.clone() }
    }));
    let again = seen_by(&cx, winner, 1).claim("task-1").unwrap();
    assert_eq!(again.task.status, TaskStatus::InProgress);
}

// 79, 110
#[test]
fn what_is_blocked_ended_or_unknown_is_nobodys_to_take() {
    let (cx, board) = line();
    assert_eq!(why(board.claim("task-2")), "task-2 is blocked by task-1");
    assert_eq!(why(board.reassign("task-2", "other")), "task-2 is blocked by task-1");
    assert!(why(board.claim("task-7")).starts_with("there is no task"));
    assert!(why(board.reassign("task-7", "other")).starts_with("there is no task"));
    assert!(why(board.cancel("task-7")).starts_with("there is no task"));
    // The one who planned has it; delegation hands it on.
    board.claim("task-1").unwrap();
    assert_eq!(why(board.claim_task("task-1", "coder-1")), "task-1 belongs to root");
    board.reassign("task-1", "coder-1").unwrap();
    assert_eq!(
        seen_by(&cx, "coder-1", 1).claim("task-1").unwrap().task.assignee.as_deref(),
        Some("coder-1")
    );
    board.update_task_status("task-1", TaskStatus::Completed).unwrap();
    let ended = "task-1 is completed; reopen it first";
    assert_eq!(why(board.claim("task-1")), ended);
    assert_eq!(why(board.reassign("task-1", "x")), ended);
    assert_eq!(why(board.cancel("task-1")), ended);
    assert_eq!(blocked(&board, "task-2"), "");
    board.claim("task-2").unwrap();
}

// B30
#[test]
fn what_has_ended_stays_so_until_it_is_reopened() {
    let (_, board) = line();
    board.claim("task-1").unwrap();
    assert_eq!(why(board.reopen("task-1")), "task-1 is in_progress, it needs no reopening");
    board.update("task-1", status(TaskStatus::Failed)).unwrap();
    for next in
        [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed, TaskStatus::Canceled]
    {
        assert_eq!(why(board.update("task-1", status(next))), "task-1 is failed; reopen it first");
    }
    // Saying the same twice is no way out.
    board.update("task-1", status(TaskStatus::Failed)).unwrap();
    // Reopened with something that is not allowed then, it stays as it was.
    let again = TaskUpdate { reopen: true, ..status(TaskStatus::InProgress) };
    assert_eq!(why(board.update("task-1", again)), "task-1 has no assignee; claim it first");
    assert_eq!(board.get("task-1").unwrap().task.status, TaskStatus::Failed);
    let reopened = board.reopen("task-1").unwrap();
    assert_eq!((reopened.task.status, reopened.task.assignee), (TaskStatus::Pending, None));
    assert_eq!(
        why(board.update("task-1", status(TaskStatus::InProgress))),
        "task-1 has no assignee; claim it first"
    );
}

// B30
#[test]
fn no_task_waits_for_itself() {
    let (_, board) = line();
    let cycle = why(board.update("task-1", behind(&["task-3"])));
    assert_eq!(cycle, "task-1 would wait for itself: task-1 -> task-3 -> task-2 -> task-1");
    let own = why(board.update("task-1", behind(&["task-1"])));
    assert_eq!(own, "task-1 would wait for itself: task-1 -> task-1");
    assert!(why(board.update("task-1", behind(&["task-8"]))).starts_with("there is no task"));
    let changed = board.update("task-3", behind(&["task-1", "task-1"])).unwrap();
    assert_eq!(changed.task.blocked_by, ["task-1"]);
    board.update("task-2", behind(&[])).unwrap();
    assert_eq!(
        (blocked(&board, "task-2").as_str(), blocked(&board, "task-3").as_str()),
        ("", "blocked by task-1")
    );
}

// B30
#[test]
fn who_waits_for_what_failed_says_so() {
    let (_, board) = line();
    board.cancel("task-1").unwrap();
    for id in ["task-2", "task-3"] {
        assert_eq!(blocked(&board, id), "blocked by canceled task task-1");
        let seen = board.watch(id, None).now_or_never().unwrap().unwrap();
        assert_eq!(seen.task.status, TaskStatus::Pending);
    }
    assert_eq!(why(board.claim("task-3")), "task-3 is blocked by canceled task task-1");
    let waiting = TaskFilter { blocked: Some(true), ..TaskFilter::default() };
    assert_eq!(board.list(&waiting).len(), 2);
    board.reopen("task-1").unwrap();
    assert_eq!(blocked(&board, "task-3"), "blocked by task-2");
    assert!(board.watch("task-3", None).now_or_never().is_none());
}

// B30
#[test]
fn another_ones_task_is_not_changed() {
    let (cx, board) = line();
    let (one, other) = (seen_by(&cx, "one", 1), seen_by(&cx, "other", 1));
    other
        .update("task-1", TaskUpdate { description: Some("deep".into()), ..TaskUpdate::default() })
        .unwrap();
    one.claim("task-1").unwrap();
    for refused in [other.update("task-1", status(TaskStatus::Completed)), other.cancel("task-1")] {
        assert_eq!(why(refused), "task-1 belongs to one");
    }
    one.update("task-1", status(TaskStatus::Pending)).unwrap();
    assert_eq!(board.get("task-1").unwrap().task.assignee, None);
    other.claim("task-1").unwrap();
    board.update("task-1", status(TaskStatus::Completed)).unwrap();
    let own = other.create(task("own", &[])).unwrap().task.id;
    one.claim(&own).unwrap();
    other.cancel(&own).unwrap();
}

// 111
#[test]
fn metadata_is_added_to() {
    let (_, board) = line();
    let update = |metadata: Value| {
        let metadata = metadata.as_object().unwrap().clone();
        board.update("task-1", TaskUpdate { metadata, ..TaskUpdate::default() }).unwrap()
    };
    update(json!({ "a": 1, "b": { "c": [] } }));
    let mut seen = update(json!({ "a": 2, "d": true, "b": null })).task.metadata;
    assert_eq!(Value::Object(seen.clone()), json!({ "a": 2, "d": true }));
    seen.clear();
    assert_eq!(board.get("task-1").unwrap().task.metadata.len(), 2);
}

// 112, 114
#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_task() {
    let (_, board) = line();
    assert!(why(board.watch("task-9", None).await).starts_with("there is no task"));
    board.claim("task-1").unwrap();
    let mut watch = Box::pin(board.watch("task-1", None));
    assert!((&mut watch).now_or_never().is_none());
    board.create(task("another", &[])).unwrap();
    assert!((&mut watch).now_or_never().is_none());
    // For as long as somebody has it.
    tokio::time::advance(Duration::from_secs(10_000)).await;
    assert!((&mut watch).now_or_never().is_none());
    board.update("task-1", status(TaskStatus::Completed)).unwrap();
    assert_eq!(watch.await.unwrap().task.status, TaskStatus::Completed);
    assert!(board.watch("task-1", None).now_or_never().unwrap().is_ok());
}

// 112, B31
#[tokio::test(start_paused = true)]
async fn a_watch_gives_up_on_what_nobody_takes_and_not_on_what_is_blocked() {
    let (_, board) = line();
    let began = tokio::time::Instant::now();
    let error = board.watch("task-1", None).await.unwrap_err();
    assert_eq!(error.to_string(), "task-1 has no assignee: nobody took it for 15 s");
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    let later = async {
        tokio::time::sleep(Duration::from_secs(1000)).await;
        board.claim("task-1").unwrap();
        board.update("task-1", status(TaskStatus::Completed)).unwrap();
        // From here on somebody could take it.
        tokio::time::sleep(Duration::from_secs(14)).await;
        board.claim("task-2").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        board.update("task-2", status(TaskStatus::Pending)).unwrap();
        tokio::time::sleep(Duration::from_secs(14)).await;
        board.cancel("task-2").unwrap();
    };
    let (seen, ()) = tokio::join!(board.watch("task-2", None), later);
    assert_eq!(seen.unwrap().task.status, TaskStatus::Canceled);
}

// 113
#[tokio::test]
async fn a_cancel_is_heard() {
    let (_, board) = line();
    let later = board.watch_canceled("task-1");
    let mut other = board.watch_canceled("task-2");
    board.cancel("task-1").unwrap();
    later.await;
    board.watch_canceled("task-1").await;
    assert!((&mut other).now_or_never().is_none());
}

#[tokio::test]
async fn nobody_watches_a_task_that_waits_for_an_own_one() {
    let cx = context();
    let [one, two, three] = ["one", "two", "three"].map(|name| seen_by(&cx, name, 1));
    for (board, title, before) in
        [(&one, "dig", &[][..]), (&two, "build", &[]), (&three, "paint", &[])]
    {
        let id = board.create(task(title, before)).unwrap().task.id;
        board.claim(&id).unwrap();
    }
    one.create(task("sell", &["task-3"])).unwrap();
    let mut first = Box::pin(one.watch("task-2", None));
    assert!((&mut first).now_or_never().is_none());
    assert_eq!(
        why(two.watch("task-1", None).await),
        "task-1 waits for you in turn: one has task-1 and watches task-2, which is yours"
    );
    // With a limit of time it ends, and so does what waits for it.
    assert!(two.watch("task-1", Some(Duration::from_secs(1))).now_or_never().is_none());
    let mut second = Box::pin(two.watch("task-4", None));
    assert!((&mut second).now_or_never().is_none());
    assert_eq!(
        why(three.watch("task-1", None).await),
        "task-1 waits for you in turn: one has task-1 and watches task-2, two has task-2 and watches \
         task-4, task-4 waits for task-3, which is yours"
    );
    // Who watches no longer is in nobody's way.
    drop(second);
    let mut third = Box::pin(three.watch("task-1", None));
    assert!((&mut third).now_or_never().is_none());
    two.update("task-2", status(TaskStatus::Completed)).unwrap();
    assert_eq!(first.await.unwrap().task.status, TaskStatus::Completed);
    two.watch("task-1", None).now_or_never();
    one.update("task-1", status(TaskStatus::Completed)).unwrap();
    assert_eq!(third.await.unwrap().task.status, TaskStatus::Completed);
}
