//! `bowline exec`: do a task and print the answer.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;
use std::sync::Arc;

use futures::StreamExt as _;

use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Entry, EntryKind};
use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::SessionId;
use bowline_agent::journal::{JournalError, Pos};
use bowline_agent::limits::Limits;
use bowline_agent::op::CancelReason;
use bowline_agent::tool::Tool as _;
use bowline_agent::{Agent, AgentError, Busy, ForkPoint, Outcome, Projection, Run, SessionHandle};
use bowline_runtime::config::{AgentConfig, Said, Span};
use bowline_runtime::environment::Environment;
use bowline_runtime::instructions::Instructions;
use bowline_runtime::skills::Skills;
use bowline_runtime::{Choice, ConfigError, Runtime};
use bowline_server::dialect::{Dialect, Scene};
use bowline_store::Files;
use bowline_store::files::RunState;
use bowline_tools::Message;

use crate::args::{self, Events, Exec, Format};
use crate::dump;
use crate::exit::{self, Failure, Signal, Signals};
use crate::kept;
use crate::output::Output;
use crate::print::Printer;
use crate::trace::{self, Traced};

/// Does a task.
pub(crate) async fn run(args: Exec) -> Result<ExitCode, Failure> {
    if args.dump_prompt {
        return dump::run(&args);
    }
    // What the flags name is where the command was called, not where it works.
    let mut output = Output::new(args.output.as_deref(), args.output_schema.as_deref())?;
    let (runtime, said, source) = load(&args)?;
    let task = task(&args)?;
    let store = runtime.sessions();
    let mut printer = printer(&args)?;
    if let (None, Source::Resume(session)) = (&task, &source)
        && store.summary(*session)?.run != RunState::Open
    {
        return last_answer(&store, *session, &mut output, &mut printer);
    }
    runtime.loaded.notes.iter().for_each(|note| printer.note(note));
    let own = agent(&runtime, &store, &source, &args)?;
    runtime.start_servers(&own, false);
    let model = runtime.pick_for(&own, model(&store, &source, &args)?.as_deref()).await?;
    model.note.iter().for_each(|note| printer.note(note));
    let instructions = instructions(&runtime, &own, &args)?;
    // A conversation is told them when it begins.
    if matches!(source, Source::New) {
        instructions.notes.iter().for_each(|note| printer.note(note));
    }
    let choice = Choice {
        model,
        limits: limits(&runtime, &own, &args),
        skills: skills(&runtime, &own, &printer),
        agent: own.name.clone(),
        ephemeral: args.ephemeral,
        attended: false,
        instructions: instructions.text,
        output_schema: output.schema().cloned(),
    };
    runtime.settled_servers(&own).await.iter().for_each(|complaint| printer.note(complaint));
    let mut agent = runtime.agent(&choice)?;
    let mut traced = trace::begin(&runtime, &mut agent);
    printer.set_scene(&scene(&agent));
    let undo_note = runtime.undo_note().filter(|_| !args.ephemeral);
    undo_note.into_iter().chain(runtime.unconfined(&own, false)).for_each(|it| printer.note(&it));
    let handle = take_up(&agent, &source, &store, &mut printer).await?;
    kept::keep(&said, &store, &handle).await?;
    let listeners = Listeners {
        output: &mut output,
        printer: &mut printer,
        traced: &mut traced,
        is_summarised: false,
    };
    let code = match task {
        Some(Task::Compact { focus }) => summarise(&handle, focus, listeners).await,
        Some(Task::Prompt(prompt)) => {
            answer(&handle, handle.prompt_with(prompt, Busy::Queue), listeners).await
        }
        None => go_on(&agent, &handle, &store, listeners).await,
    };
    close(&runtime, &handle, &printer).await;
    trace::end(traced).await;
    if args.ephemeral {
        forget(&runtime, &handle);
    }
    code
}

/// Loads the configuration, with what the session that goes on was not allowed.
fn load(args: &Exec) -> Result<(Runtime, Said, Source), Failure> {
    let said = args.said();
    let runtime = Runtime::new(environment(args)?, &said)?;
    let store = runtime.sessions();
    match source(&runtime, &store, args)? {
        Source::New => Ok((runtime, said, Source::New)),
        source @ (Source::Resume(session) | Source::Fork(session)) => {
            let said = kept::said(said, &store, session)?;
            Ok((Runtime::new(environment(args)?, &said)?, said, source))
        }
    }
}

/// Ends all that has been started, and tells what has gone wrong beside the run.
async fn close(runtime: &Runtime, handle: &SessionHandle, printer: &Printer) {
    handle.close().await;
    runtime.close().await;
    let complaints = [runtime.hook_complaints(), runtime.undo_complaints()].concat();
    complaints.iter().for_each(|complaint| printer.note(complaint));
}

/// Takes up the conversation that there is, or begins one.
async fn take_up(
    agent: &Agent,
    source: &Source,
    store: &Files,
    printer: &mut Printer,
) -> Result<SessionHandle, Failure> {
    match *source {
        Source::New => Ok(agent.start()),
        Source::Fork(session) => Ok(agent.fork(fork(store, session)?).await?),
        Source::Resume(session) => {
            let handle = agent.resume(session).await?;
            if printer.wants_whole_runs() {
                open_run(store, session)?.iter().for_each(|event| printer.replayed(event));
            }
            Ok(handle)
        }
    }
}

/// Goes on with the run that an earlier process left open.
async fn go_on(
    agent: &Agent,
    handle: &SessionHandle,
    store: &Files,
    listeners: Listeners<'_>,
) -> Result<ExitCode, Failure> {
    if agent.tools.names().any(|name| name == Message::NAME) {
        recall(store, handle.session_id(), listeners.output, listeners.printer)?;
    }
    match handle.continue_run().await? {
        Some(run) => answer(handle, run, listeners).await,
        // Another process ended the run between the two looks at it.
        None => last_answer(store, handle.session_id(), listeners.output, listeners.printer),
    }
}

fn scene(agent: &Agent) -> Scene {
    Scene { cwd: agent.cwd.clone(), tools: agent.toolbox().names().map(str::to_owned).collect() }
}

/// Makes the printer of what was asked for.
fn printer(args: &Exec) -> Result<Printer, Failure> {
    let format = args.format();
    if let (Some(_), Format::Lines(dialect)) = (args.events, format)
        && dialect != Dialect::Bowline
    {
        return Err(Failure::Usage(format!(
            "--events is about our own events; {dialect} says itself what it tells of sub-agents"
        )));
    }
    Ok(Printer::new(format, args.events.unwrap_or(Events::Lifecycle)))
}

/// Reads what the user and the project tell every model, also for a session that goes on: a conversation in
/// it that begins may be one of a sub-agent.
fn instructions(
    runtime: &Runtime,
    agent: &AgentConfig,
    args: &Exec,
) -> Result<Instructions, ConfigError> {
    match args.no_context_files {
        true => Ok(Instructions::default()),
        false => runtime.instructions(agent),
    }
}

/// Reads what the agent may learn.
fn skills(runtime: &Runtime, agent: &AgentConfig, printer: &Printer) -> Skills {
    let skills = runtime.skills();
    skills.notes().iter().for_each(|note| printer.note(note));
    let missing = skills.missing(&agent.name, agent.skills.as_deref());
    missing.iter().for_each(|note| printer.note(note));
    skills
}

/// Deletes what tools kept of a session that is to leave nothing.
fn forget(runtime: &Runtime, handle: &SessionHandle) {
    // There may be nothing, and what cannot be deleted is in the cache, where anybody may.
    let _ = std::fs::remove_dir_all(runtime.scratch().join(handle.session_id().to_string()));
}

/// Where the conversation begins.
#[derive(Debug, Clone, Copy)]
enum Source {
    New,
    Resume(SessionId),
    Fork(SessionId),
}

/// Those who hear every event of a run.
struct Listeners<'a> {
    output: &'a mut Output,
    printer: &'a mut Printer,
    traced: &'a mut Option<Traced>,
    /// Whether a summary was made.
    is_summarised: bool,
}

impl Listeners<'_> {
    fn hear(&mut self, event: &Arc<Event>) {
        self.is_summarised |= matches!(event.body, EventBody::CompactionEnd { done: true, .. });
        self.printer.event(event);
        tell(event, self.output, self.printer);
    }

    /// Whoever asks twice does not wait for a receiver of traces either.
    fn leave(self, signal: Signal) -> ExitCode {
        *self.traced = None;
        signal.code()
    }
}

/// Follows a run to its answer.
async fn answer(
    handle: &SessionHandle,
    run: Run,
    mut listeners: Listeners<'_>,
) -> Result<ExitCode, Failure> {
    match follow(handle, run, &mut listeners).await? {
        Followed::Ended(outcome) => {
            finish(handle.session_id(), &outcome, listeners.output, listeners.printer)
        }
        Followed::Left(signal) => Ok(listeners.leave(signal)),
    }
}

/// Has the conversation summarised, and says what came of it.
async fn summarise(
    handle: &SessionHandle,
    focus: Option<String>,
    mut listeners: Listeners<'_>,
) -> Result<ExitCode, Failure> {
    let before = handle.state().snapshot.messages.len();
    let outcome = match follow(handle, handle.compact(focus), &mut listeners).await? {
        Followed::Ended(outcome) => outcome,
        Followed::Left(signal) => return Ok(listeners.leave(signal)),
    };
    let after = handle.state().snapshot.messages.len();
    let is_done = outcome.is_done() && listeners.is_summarised;
    listeners.printer.note(&match (is_done, exit::complaint(&outcome, "done")) {
        (true, _) => format!("summarised: {before} messages are {after} now"),
        (false, Some(complaint)) => complaint,
        (false, None) => "the conversation stays as it is".to_owned(),
    });
    Ok(if is_done { ExitCode::SUCCESS } else { exit::code_of(&outcome, "") })
}

/// How following a run ended.
enum Followed {
    /// With the run.
    Ended(Box<Outcome>),
    /// Before it, when a second signal came.
    Left(Signal),
}

/// Follows a run to its end, and cancels it when a signal asks for it.
async fn follow(
    handle: &SessionHandle,
    mut run: Run,
    listeners: &mut Listeners<'_>,
) -> Result<Followed, Failure> {
    let mut signals = Signals::listen()?;
    let mut stopped = None;
    loop {
        let signal = tokio::select! {
            event = run.next() => match event {
                Some(event) => {
                    listeners.hear(&event);
                    continue;
                }
                None => break,
            },
            signal = signals.next() => signal,
        };
        // The second one does not wait for anything; the log goes on from where it is.
        if stopped.is_some() {
            return Ok(Followed::Left(signal));
        }
        stopped = Some(signal);
        handle.cancel_for(match signal {
            Signal::Interrupted => CancelReason::User,
            Signal::Terminated => CancelReason::Shutdown,
        });
    }
    match (run.await, stopped) {
        // It was stopped before it began.
        (Err(AgentError::Refused(_)), Some(signal)) => Ok(Followed::Left(signal)),
        (outcome, _) => Ok(Followed::Ended(Box::new(outcome?))),
    }
}

/// Prints the answer, and what a person should know beside it.
fn finish(
    session: SessionId,
    outcome: &Outcome,
    output: &Output,
    printer: &mut Printer,
) -> Result<ExitCode, Failure> {
    let text = output.text(outcome);
    if let Ok(Some(text)) = &text
        && !output.is_told()
    {
        printer.answer(text);
    }
    if let Some(aside) = output.aside(outcome) {
        printer.aside(&aside);
    }
    if !outcome.undelivered.is_empty() {
        let count = outcome.undelivered.len();
        printer.note(&format!(
            "{count} message(s) not delivered; see `bowline sessions show {session}`"
        ));
    }
    if let (Ok(_), Some(complaint)) = (&text, exit::complaint(outcome, &output.answer(outcome))) {
        printer.note(&complaint);
    }
    output.write(outcome)?;
    match text {
        Ok(_) => Ok(exit::code_of(outcome, &output.answer(outcome))),
        Err(complaint) => {
            Err(Failure::Schema(format!("{complaint}; see `bowline sessions show {session}`")))
        }
    }
}

/// Prints the last answer of a session in which no run is open; this needs no model.
fn last_answer(
    store: &Files,
    session: SessionId,
    output: &mut Output,
    printer: &mut Printer,
) -> Result<ExitCode, Failure> {
    let entries = fork(store, session)?.entries;
    let own = entries.iter().map(|(_, entry)| entry).filter(|entry| entry.agent == session.root());
    let conversation = Conversation::replay(own);
    let Some(outcome) = &conversation.totals().latest else {
        return Err(Failure::Usage(format!(
            "session {session} has no run to go on with and no answer to print"
        )));
    };
    let mut scene = Scene::default();
    for (_, entry) in &entries {
        scene.learn(session, entry);
    }
    printer.set_scene(&scene);
    for event in latest_run(session, &entries) {
        printer.replayed(&event);
        tell(&event, output, printer);
    }
    finish(session, outcome, output, printer)
}

/// Prints what the open run of a session has sent before this process went on with it.
fn recall(
    store: &Files,
    session: SessionId,
    output: &mut Output,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let run = open_run(store, session)?;
    run.iter().for_each(|event| tell(event, output, printer));
    Ok(())
}

/// Returns what there is of the open run of a session, if there is one.
fn open_run(store: &Files, session: SessionId) -> Result<Vec<Event>, Failure> {
    let mut run = latest_run(session, &fork(store, session)?.entries);
    if run.iter().any(|event| event.body.is_terminal() && event.agent.depth == 0) {
        run.clear();
    }
    Ok(run)
}

/// Prints an event if it is a message to the user.
fn tell(event: &Event, output: &mut Output, printer: &mut Printer) {
    if let Some(message) = output.hear(event) {
        printer.answer(message);
    }
}

/// Returns the events of the latest run of a session.
fn latest_run(session: SessionId, entries: &[(Pos, Entry)]) -> Vec<Event> {
    let mut projection = Projection::new(session);
    let mut run = Vec::new();
    for (pos, entry) in entries {
        if entry.agent == session.root() && matches!(entry.kind, EntryKind::RunStarted(_)) {
            run.clear();
        }
        run.extend(projection.apply(*pos, entry));
    }
    run
}

pub(crate) fn environment(args: &Exec) -> Result<Environment, Failure> {
    if let Some(directory) = &args.directory {
        std::env::set_current_dir(directory).map_err(|error| {
            Failure::Usage(format!("cannot work in {}: {error}", directory.display()))
        })?;
    }
    Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))
}

/// What is to be done.
enum Task {
    Prompt(String),
    /// `/compact`, perhaps with what the summary should not leave out.
    Compact {
        focus: Option<String>,
    },
}

/// Returns what to do; `None` to go on without asking anything.
fn task(args: &Exec) -> Result<Option<Task>, Failure> {
    let resumes = args.continue_ || args.resume.is_some();
    let text = match args.prompt.as_deref() {
        Some("-") => stdin()?,
        Some(prompt) => prompt.to_owned(),
        None if resumes => return Ok(None),
        None if std::io::stdin().is_terminal() => {
            return Err(Failure::Usage("no task: say it as an argument or on stdin".to_owned()));
        }
        None => stdin()?,
    };
    if text.trim().is_empty() {
        return Err(Failure::Usage("the task is empty".to_owned()));
    }
    let focus = text
        .trim()
        .strip_prefix("/compact")
        .filter(|focus| focus.is_empty() || focus.starts_with(char::is_whitespace));
    match focus.map(str::trim) {
        None => Ok(Some(Task::Prompt(text))),
        Some(_) if !(resumes || args.fork.is_some()) => Err(Failure::Usage(
            "there is nothing to compact yet: say which session, with --resume or --continue"
                .to_owned(),
        )),
        Some(focus) => {
            let focus = Some(focus.to_owned()).filter(|focus| !focus.is_empty());
            Ok(Some(Task::Compact { focus }))
        }
    }
}

pub(crate) fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::Usage(format!("cannot read stdin: {error}")))?;
    Ok(text)
}

/// Returns how the agent is configured that was asked for: by a flag, or by the session that goes on as
/// long as there is such an agent.
fn agent(
    runtime: &Runtime,
    store: &Files,
    source: &Source,
    args: &Exec,
) -> Result<AgentConfig, Failure> {
    if let Some(name) = &args.agent {
        return Ok(runtime.agent_config(name)?);
    }
    let began = match source {
        Source::New => None,
        Source::Resume(session) | Source::Fork(session) => store.summary(*session)?.config,
    };
    match began.map(|name| runtime.agent_config(&name)) {
        Some(Ok(agent)) => Ok(agent),
        Some(Err(_)) | None => Ok(runtime.agent_config(runtime.entry_agent())?),
    }
}

fn limits(runtime: &Runtime, agent: &AgentConfig, args: &Exec) -> Limits {
    let limits = runtime.config.limits.headless_of(agent);
    let millis = |span: Span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX);
    Limits {
        model_turns: args.max_turns.unwrap_or(limits.model_turns),
        total_tokens: args.max_total_tokens.unwrap_or(limits.total_tokens),
        cost_usd: args.max_cost.unwrap_or(limits.cost_usd),
        run_time_ms: args.timeout.map_or(limits.run_time_ms, millis),
        ..limits
    }
}

/// Finds the session that was asked for.
fn source(runtime: &Runtime, store: &Files, args: &Exec) -> Result<Source, Failure> {
    if let Some(name) = &args.fork {
        return Ok(Source::Fork(args::resolve(store, name)?));
    }
    if let Some(name) = &args.resume {
        return Ok(Source::Resume(args::resolve(store, name)?));
    }
    if !args.continue_ {
        return Ok(Source::New);
    }
    let cwd = runtime.environment.cwd.to_string_lossy();
    let newest = store.newest(&cwd)?;
    let none = || Failure::Usage(format!("no session of {cwd} to go on with"));
    Ok(Source::Resume(newest.ok_or_else(none)?.id))
}

/// Returns the model that was asked for: by a flag, or by the session that goes on, as hard as it
/// thought there.
fn model(store: &Files, source: &Source, args: &Exec) -> Result<Option<String>, Failure> {
    Ok(match (&args.model, source) {
        (Some(model), _) => Some(model.clone()),
        (None, Source::New) => None,
        (None, Source::Resume(session) | Source::Fork(session)) => {
            store.latest_start(*session)?.map(|started| match started.effort {
                Some(effort) => format!("{}:{}", started.model, effort.as_str()),
                None => started.model,
            })
        }
    })
}

/// Reads a session as it is now, whoever writes to it.
fn fork(store: &Files, session: SessionId) -> Result<ForkPoint, JournalError> {
    let mut commits = store.read(session, Pos(0))?;
    let mut entries = Vec::new();
    for commit in &mut commits {
        let commit = commit?;
        entries.extend((commit.pos.0..).map(Pos).zip(commit.entries));
    }
    Ok(ForkPoint { session, entries, hash: commits.hash(), at: None })
}
