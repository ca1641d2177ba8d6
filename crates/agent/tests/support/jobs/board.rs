//! A job of agents that share a board.

use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::crew::board::TaskView;
use bowline_agent::crew::board::{Board, BoardError, NewTask, TaskFilter, TaskStatus, TaskUpdate};
use bowline_agent::tool::{Access, Recovery, Toolbox};

use super::{World, ask, calls, child, says, tool};
use crate::support::scenario::Scenario;

pub(super) fn jobs() -> Vec<(&'static str, Scenario)> {
    let worker = |own: &'static str, id: &str| {
        vec![
            calls(&[(&format!("{id}1"), "claim", own), (&format!("{id}2"), "claim", "task-3")]),
            calls(&[(&format!("{id}3"), "finish", own)]),
            says("finished"),
        ]
    };
    vec![(
        "a board that children share",
        Scenario {
            prompts: &["one"],
            scripts: vec![
                (
                    "root",
                    vec![
                        calls(&[("a", "plan", "dig,build"), ("b", "plan", "paint")]),
                        calls(&[("c", "crew", "")]),
                        calls(&[("d", "tasks", "")]),
                        says("done"),
                    ],
                ),
                ("child", worker("task-1", "c")),
                ("other", worker("task-2", "o")),
            ],
            build: |world, agent| Agent { tools: crew(world), ..agent },
        },
    )]
}

fn crew(world: &Arc<World>) -> Toolbox {
    let mut all = with_board(world);
    let crew = ("crew", Access::none(), Recovery::Reattach);
    tool(&mut all, world, crew, |_, cx, world| async move {
        let (one, two) = (
            child(&cx, "child", Some("one"), with_board(&world)).await?,
            child(&cx, "other", Some("two"), with_board(&world)).await?,
        );
        let (first, second) = tokio::join!(ask(&one, "one"), ask(&two, "two"));
        Ok(format!("{}, {}", first?, second?).into())
    });
    all
}

/// Returns tools that do something with the board, each call beside all others.
pub(super) fn with_board(world: &Arc<World>) -> Toolbox {
    let mut all = Toolbox::default();
    let rerun = |name| (name, Access::none(), Recovery::Rerun);
    tool(&mut all, world, rerun("plan"), |args, cx, _| async move {
        let board = Board::of(&cx);
        let before: Option<Vec<String>> =
            (args.text == "paint").then(|| vec!["task-1".to_owned(), "task-2".to_owned()]);
        let made = args.text.split(',').map(|title| {
            let blocked_by = before.clone().unwrap_or_default();
            board.create(NewTask { title: title.to_owned(), blocked_by, ..NewTask::default() })
        });
        let made = made.map(|made| made.map(|made| line(&made))).collect::<Result<Vec<_>, _>>()?;
        tokio::task::yield_now().await;
        Ok(made.join("\n").into())
    });
    tool(&mut all, world, rerun("claim"), |args, cx, _| async move {
        let claimed = Board::of(&cx).claim(&args.text);
        tokio::task::yield_now().await;
        // Whether the other one has finished is not the same in every life.
        match claimed {
            Err(BoardError::Blocked { id, .. }) => Ok(format!("{id} is blocked").into()),
            claimed => Ok(line(&claimed?).into()),
        }
    });
    tool(&mut all, world, rerun("finish"), |args, cx, _| async move {
        let status = Some(TaskStatus::Completed);
        let update = TaskUpdate { status, ..TaskUpdate::default() };
        let finished = Board::of(&cx).update(&args.text, update)?;
        tokio::task::yield_now().await;
        Ok(line(&finished).into())
    });
    tool(&mut all, world, rerun("tasks"), |_, cx, _| async move {
        let tasks = Board::of(&cx).list(&TaskFilter::default());
        Ok(tasks.iter().map(line).collect::<Vec<_>>().join("\n").into())
    });
    all
}

fn line(view: &TaskView) -> String {
    let assignee = view.task.assignee.as_deref().unwrap_or("nobody");
    format!("{} {} {assignee}", view.task.id, view.task.status)
}
