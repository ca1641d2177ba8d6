//! The request that carries the conversation: what the model gets to see of it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;

use bowline_llm::{Message, MessageRef, Messages, Request};

use crate::conversation::Snapshot;
use crate::driver::panic_text;
use crate::entry::{Ending, RunError, RunErrorKind};
use crate::id::EntryId;
use crate::limits::LimitKind;
use crate::op::Input;
use crate::orchestrator::{self, Purpose};
use crate::transform::{self, Transform};

use super::{Halt, Turn, until};

/// What custom entries say to the model.
///
/// Each is asked about once, so that its encoding is kept too.
#[derive(Default)]
pub(super) struct Converted(HashMap<EntryId, Option<MessageRef>>);

impl Turn {
    /// Returns what the model is asked with; `None` if it is not asked after all.
    pub(super) async fn request(
        &mut self,
        purpose: Purpose,
        deadline: Option<Instant>,
    ) -> Result<Option<Request>, Halt> {
        self.fetch_bodies().await?;
        let snapshot = self.conversation.snapshot();
        let whole = self.bodies.fill(snapshot.messages);
        let shown = match self.with_customs(&whole) {
            Ok(messages) => {
                let snapshot = Snapshot { messages, ..snapshot };
                let Some(shown) = self.transformed(snapshot, deadline).await? else {
                    return Ok(None);
                };
                shown
            }
            Err(why) => Err(why),
        };
        let mut snapshot = match shown {
            Ok(snapshot) => snapshot,
            Err(message) => {
                let error = RunError { kind: RunErrorKind::Transform, message };
                self.finish(Ending::Failed(error), Vec::new()).await?;
                return Ok(None);
            }
        };
        let run = self.conversation.run();
        // What is told with a tool is no reply that a provider could shape; a plan has its own shape.
        let mut shape = run.and_then(|run| run.shape.clone().filter(|it| it.told_with.is_none()));
        if purpose == Purpose::Plan {
            let question = Input::from(orchestrator::question(&self.conversation)).0;
            snapshot.messages.push_back_mut(Message::User(question).into());
            shape = None;
        }
        Ok(Some(Request {
            system: snapshot.system,
            tools: snapshot.tools,
            messages: snapshot.messages,
            effort: run.and_then(|run| run.effort),
            max_output_tokens: None,
            output_schema: shape.map(|shape| shape.schema),
            cache_key: Some(self.meta.id.to_string().into()),
        }))
    }

    /// Puts what custom entries say among the messages.
    fn with_customs(&mut self, messages: &Messages) -> Result<Messages, String> {
        let Some(convert) = self.agent.convert.as_deref() else { return Ok(messages.clone()) };
        let mut said = Vec::new();
        for (place, entry) in self.conversation.view().customs().iter() {
            let message = match self.converted.0.get(&entry.id) {
                Some(known) => known.clone(),
                None => {
                    let asked = catch_unwind(AssertUnwindSafe(|| convert.convert(entry)));
                    let message = asked.map_err(|panic| {
                        format!("the converter panicked: {}", panic_text(&*panic))
                    })?;
                    let message = message.map(|said| Message::User(Arc::new(said)).into());
                    self.converted.0.insert(entry.id, message.clone());
                    message
                }
            };
            said.extend(message.map(|message| (place, message)));
        }
        Ok(transform::insert(messages, said))
    }

    /// Applies the transforms, while mail keeps coming in; `None` if the model is not asked after
    /// all.
    async fn transformed(
        &mut self,
        snapshot: Snapshot,
        deadline: Option<Instant>,
    ) -> Result<Option<Result<Snapshot, String>>, Halt> {
        if self.agent.transforms.is_empty() {
            return Ok(Some(Ok(snapshot)));
        }
        let seq = self.conversation.seq();
        let mut work = apply(self.agent.transforms.clone(), snapshot).boxed();
        loop {
            tokio::select! {
                biased;
                shown = &mut work => return Ok(Some(shown)),
                mail = self.mailbox.next() => self.accept(mail).await?,
                () = until(deadline) => {
                    self.transforms_are_late().await?;
                    return Ok(None);
                }
            }
            if self.conversation.seq() != seq {
                // What to do next is asked anew in view of what came in.
                return Ok(None);
            }
        }
    }

    /// There is no time left for the transforms: if they were to show the model what it sums up, it
    /// does not.
    async fn transforms_are_late(&mut self) -> Result<(), Halt> {
        let hit = self.conversation.run().and_then(|run| run.limit.as_ref());
        match hit.map(|hit| hit.limit) {
            Some(limit) => self.finish(Ending::Limit(limit), Vec::new()).await,
            None => self.hit(LimitKind::RunTime).await,
        }
    }
}

/// Applies transforms and mends what they have broken. A panic is an error.
async fn apply(
    transforms: Vec<Arc<dyn Transform>>,
    mut snapshot: Snapshot,
) -> Result<Snapshot, String> {
    for transform in transforms {
        let applied = AssertUnwindSafe(async { transform.apply(snapshot).await });
        snapshot = match applied.catch_unwind().await {
            Ok(Ok(snapshot)) => snapshot,
            Ok(Err(error)) => return Err(format!("a transform failed: {error}")),
            Err(panic) => {
                return Err(format!("a transform panicked: {}", panic_text(&*panic)));
            }
        };
    }
    let messages = transform::repair(&snapshot.messages);
    if messages.is_empty() {
        return Err("the transforms have left no message to send".to_owned());
    }
    Ok(Snapshot { messages, ..snapshot })
}
