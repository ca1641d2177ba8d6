//! What lies around the calls of an agent that has hooks: its gate, and its tools.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use bowline_agent::Redaction;
use bowline_agent::event::AgentMeta;
use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::op::{Decision, Scope};
use bowline_agent::tool::{
    DynTool, PassedOn, Prepared, ToolContext, ToolError, ToolOutput, ToolSource, Toolbox,
    ToolboxError, changed, parse_arguments,
};
use bowline_llm::{CallId, Part, ToolSpec, text_of};

use super::answer::{self, Answer, bounded};
use super::around::Hooked;
use super::config::Event;
use super::found::Speech;
use super::{Asked, Moment, claude};
use crate::permission::Engine;

/// Asks hooks about calls before the rules are asked. A hook can forbid more than the rules, and have a
/// person asked; what it allows nobody is asked about whom the mode alone would have asked.
pub(crate) struct Gated {
    hooked: Arc<Hooked>,
    engine: Arc<Engine>,
}

/// A call as hooks are told of it.
struct Told<'a> {
    id: &'a CallId,
    tool: &'a str,
    arguments: &'a Value,
}

impl Told<'_> {
    fn fields(&self, hooked: &Hooked, speech: Speech) -> Value {
        let arguments = self.arguments.clone();
        let (name, input) = match speech {
            Speech::Bowline => (self.tool, arguments),
            Speech::Claude => {
                let cwd = &hooked.hooks.shell.cwd;
                (claude::tool_name(self.tool), claude::arguments(self.tool, arguments, cwd))
            }
        };
        json!({ "tool_name": name, "tool_input": input, "tool_use_id": self.id.as_str() })
    }
}

impl Hooked {
    /// Puts the hooks before the rules of an agent.
    pub(crate) fn gate(self: &Arc<Self>, engine: Arc<Engine>) -> Arc<dyn Gate> {
        let events = [Event::PreToolUse, Event::PermissionRequest];
        match self.hooks.has_any(&events) {
            true => Arc::new(Gated { hooked: Arc::clone(self), engine }),
            false => engine,
        }
    }

    /// Puts the hooks around the tools of an agent, and around those that come and go.
    pub(crate) fn around_all(
        self: &Arc<Self>,
        tools: Toolbox,
        more: Option<Arc<dyn ToolSource>>,
    ) -> Result<(Toolbox, Option<Arc<dyn ToolSource>>), ToolboxError> {
        if !self.hears_of_ends() {
            return Ok((tools, more));
        }
        let source = |tools| {
            let hooked = Arc::clone(self);
            // Two tools of one name would not have been in a toolbox.
            changed(tools, move |tools| hooked.around(&tools).unwrap_or(tools))
        };
        Ok((self.around(&tools)?, more.map(source)))
    }

    fn around(self: &Arc<Self>, tools: &Toolbox) -> Result<Toolbox, ToolboxError> {
        let mut all = Toolbox::default();
        for tool in tools.names().filter_map(|name| tools.get(name)) {
            let (name, hooked) = (tool.spec().name, Arc::clone(self));
            all.add(Arc::new(Around { tool, name, hooked }))?;
        }
        Ok(all)
    }

    fn hears_of_ends(&self) -> bool {
        self.hooks.has_any(&[Event::PostToolUse, Event::PostToolUseFailure])
    }

    async fn ask_about(&self, event: Event, review: &Review<'_>) -> Answer {
        let call = review.call;
        let arguments = read(&call.arguments);
        let told = Told { id: &call.id, tool: &call.name, arguments: &arguments };
        let fields = |speech| told.fields(self, speech);
        let names = claude::names(told.tool);
        let moment = Moment { event, about: &names, fields: &fields };
        let asked = asked(event, review, &call.arguments);
        self.hooks.ask_once(&self.whose(review.agent), asked, moment).await
    }
}

fn asked(event: Event, review: &Review<'_>, arguments: &str) -> Asked {
    let (agent, call) = (review.agent.id, review.call.id.as_str().to_owned());
    Asked { event, agent, call, arguments: arguments.to_owned() }
}

/// Reads arguments as a model wrote them; what is no JSON is a text.
fn read(arguments: &str) -> Value {
    match arguments.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

#[async_trait]
impl Gate for Gated {
    async fn review(&self, review: &Review<'_>) -> Verdict {
        let said = match self.heard(Event::PreToolUse, review).await {
            Break(decided) => return decided,
            Continue(said) => said,
        };
        let verdict = self.engine.review(review).await;
        match (verdict, said) {
            (Verdict::Allow { .. }, answer::Verdict::Ask(reason)) if review.decision.is_none() => {
                self.asks(&reason)
            }
            (Verdict::Wait { question, rule }, answer::Verdict::Ask(reason)) => {
                Verdict::Wait { question: format!("{question} (a hook: {reason})"), rule }
            }
            (wait @ Verdict::Wait { .. }, answer::Verdict::Allow) => {
                match self.spared(review).await {
                    Some(allowed) => allowed,
                    None => self.before_a_person(review, wait).await,
                }
            }
            (wait @ Verdict::Wait { .. }, _) => self.before_a_person(review, wait).await,
            (verdict, _) => verdict,
        }
    }
}

impl Gated {
    /// Asks hooks about a call and passes on what they tell; returns what they say of it, unless that it may
    /// not be or is to be another one decides already.
    async fn heard(
        &self,
        event: Event,
        review: &Review<'_>,
    ) -> ControlFlow<Verdict, answer::Verdict> {
        let mut said = self.hooked.ask_about(event, review).await;
        self.hooked.hooks.warn(review.agent, std::mem::take(&mut said.warnings));
        if let Some(denied) = self.denied(event, review, &said) {
            return Break(denied);
        }
        if let Some(context) = said.told() {
            self.hooked.say(review.agent, context);
        }
        if let Some(arguments) = rewritten(review, &mut said) {
            // What they say of the call as it was they say of the call as it is now.
            self.hooked.hooks.keep(asked(event, review, &arguments), said);
            return Break(Verdict::Rewrite { arguments });
        }
        Continue(said.verdict)
    }

    /// Returns that a call may not be, if hooks say so.
    fn denied(&self, event: Event, review: &Review<'_>, said: &Answer) -> Option<Verdict> {
        let (agent, tool) = (review.agent, &review.call.name);
        if let Some(reason) = &said.stop {
            self.hooked.end_run(agent, reason);
            return Some(Verdict::Deny { reason: format!("a hook ended the run: {reason}") });
        }
        let answer::Verdict::Block(reason) = &said.verdict else { return None };
        self.hooked.hooks.warn(agent, [format!("a {event} hook denied {tool}: {reason}")]);
        let reason = match said.told() {
            Some(context) => format!("{reason}\n{context}"),
            None => reason.clone(),
        };
        Some(Verdict::Deny { reason: format!("a hook forbids it: {reason}") })
    }

    /// Has a person decide, if one is there.
    fn asks(&self, reason: &str) -> Verdict {
        match self.hooked.is_attended {
            true => Verdict::Wait { question: format!("a hook asks: {reason}"), rule: None },
            false => Verdict::Deny {
                reason: format!("a hook asks, and nobody is there to answer: {reason}"),
            },
        }
    }

    /// Lets a call pass that a hook allows, if only the mode would have a person asked.
    async fn spared(&self, review: &Review<'_>) -> Option<Verdict> {
        if !self.engine.judge(review).is_asked_by_mode_alone() {
            return None;
        }
        let once = Decision::Allow { scope: Scope::Once };
        match self.engine.review(&Review { decision: Some(&once), ..copy(review) }).await {
            Verdict::Allow { .. } => {
                Some(Verdict::Allow { rule: Some("a hook allowed it".to_owned()) })
            }
            Verdict::Deny { .. } | Verdict::Rewrite { .. } | Verdict::Wait { .. } => None,
        }
    }

    /// Asks hooks before a person is asked.
    async fn before_a_person(&self, review: &Review<'_>, wait: Verdict) -> Verdict {
        match self.heard(Event::PermissionRequest, review).await {
            Break(decided) => decided,
            Continue(answer::Verdict::Allow) => self.spared(review).await.unwrap_or(wait),
            Continue(
                answer::Verdict::Silent | answer::Verdict::Ask(_) | answer::Verdict::Block(_),
            ) => wait,
        }
    }
}

fn copy<'a>(review: &Review<'a>) -> Review<'a> {
    let Review { call, access, agent, decision, granted } = *review;
    Review { call, access, agent, decision, granted }
}

/// Takes the arguments that hooks want the call to have instead, if they are others.
fn rewritten(review: &Review<'_>, said: &mut Answer) -> Option<String> {
    let (speech, arguments) = said.updated.take()?;
    let tool = &review.call.name;
    let arguments = match speech {
        Speech::Bowline => arguments,
        Speech::Claude => claude::arguments_back(tool, arguments),
    };
    (arguments != read(&review.call.arguments)).then(|| arguments.to_string())
}

/// A tool, and the hooks that hear of the ends of its calls.
struct Around {
    tool: Arc<dyn DynTool>,
    name: String,
    hooked: Arc<Hooked>,
}

impl DynTool for Around {
    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn puts_secrets_back(&self) -> bool {
        self.tool.puts_secrets_back()
    }

    fn passes_on(&self) -> bool {
        self.tool.passes_on()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let mut prepared = Arc::clone(&self.tool).prepare(arguments)?;
        let (name, arguments) = self.called(arguments);
        if !self.is_heard_of(&name) {
            return Ok(prepared);
        }
        let run = prepared.run;
        prepared.run = Box::new(move |cx| {
            Box::pin(async move {
                let mut result = run(cx.clone()).await;
                // Who does not want the call any more does not wait for hooks.
                tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => {}
                    () = self.ended(&cx, &name, &arguments, &mut result) => {}
                }
                result
            })
        });
        Ok(prepared)
    }
}

impl Around {
    /// Returns the tool that is really called, and its arguments.
    fn called(&self, arguments: &str) -> (String, String) {
        if self.tool.passes_on()
            && let Ok(passed) = parse_arguments::<PassedOn>(arguments)
        {
            let arguments = passed.arguments().to_owned();
            return (passed.name, arguments);
        }
        (self.name.clone(), arguments.to_owned())
    }

    fn is_heard_of(&self, name: &str) -> bool {
        let names = claude::names(name);
        let events = [Event::PostToolUse, Event::PostToolUseFailure];
        events.into_iter().any(|event| self.hooked.hooks.about(event, &names).next().is_some())
    }

    /// Tells hooks of the end of a call, and adds what they say to what the model is told of it.
    async fn ended(
        &self,
        cx: &ToolContext,
        tool: &str,
        arguments: &str,
        result: &mut Result<ToolOutput, ToolError>,
    ) {
        let redaction: &Redaction = &self.hooked.seat.redaction;
        let (event, text) = match result {
            Ok(ToolOutput::Content(content) | ToolOutput::Concluded { content, .. }) => {
                (Event::PostToolUse, text_of(content))
            }
            Ok(ToolOutput::Waiting(_)) => return,
            Err(error) => (Event::PostToolUseFailure, error.to_string()),
        };
        let (text, arguments) = (redaction.apply(&text), read(&redaction.apply(arguments)));
        let told = Told { id: &cx.call, tool, arguments: &arguments };
        let fields = |speech| {
            let mut fields = told.fields(&self.hooked, speech);
            match (event, speech) {
                (Event::PostToolUse, Speech::Bowline) => fields["tool_response"] = json!(text),
                (Event::PostToolUse, Speech::Claude) => {
                    let response = claude::response(tool, &fields["tool_input"], &text);
                    fields["tool_response"] = response;
                }
                (_, _) => fields["error"] = json!(text),
            }
            fields
        };
        let moment = Moment { event, about: &claude::names(tool), fields: &fields };
        let said = self.hooked.hooks.ask(&self.hooked.whose(&cx.agent), moment).await;
        self.say(&cx.agent, event, said, result);
    }

    fn say(
        &self,
        agent: &AgentMeta,
        event: Event,
        said: Answer,
        result: &mut Result<ToolOutput, ToolError>,
    ) {
        if let Some(reason) = &said.stop {
            self.hooked.end_run(agent, reason);
        }
        let mut lines: Vec<String> = said.told().into_iter().collect();
        self.hooked.hooks.warn(agent, said.warnings);
        if let answer::Verdict::Block(reason) = said.verdict {
            self.hooked.hooks.warn(agent, [format!("a {event} hook complains: {reason}")]);
            lines.insert(0, reason);
        }
        if lines.is_empty() {
            return;
        }
        let added = format!("[a hook says: {}]", bounded(&lines.join("\n")));
        match result {
            Ok(ToolOutput::Content(content) | ToolOutput::Concluded { content, .. }) => {
                content.push(Part::Text(added));
            }
            Err(ToolError::Failed(why) | ToolError::TimedOut(why)) => {
                why.push_str(&format!("\n\n{added}"));
            }
            Ok(ToolOutput::Waiting(_)) | Err(ToolError::Fatal(_)) => {}
        }
    }
}
