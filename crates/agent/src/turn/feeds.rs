//! Asking feeds for messages, and others for a word, while mail keeps coming in.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::conversation::{Last, OpenRun};
use crate::driver::panic_text;
use crate::entry::EntryKind;
use crate::event::EventBody;
use crate::feed::Feed;
use crate::id::OpId;
use crate::limits::LimitKind;
use crate::op::{Input, Op, OpKind};

use super::{Halt, Turn, until};

/// The feeds of an agent.
pub(super) struct Feeds {
    pub(super) steering: Source,
    pub(super) follow_ups: Source,
}

/// A feed, and what was asked of it and has not been committed.
pub(super) struct Source {
    feed: Option<Arc<dyn Feed>>,
    // It is not dropped before it has answered.
    asked: Option<Asked>,
    handed: Vec<Op>,
}

/// What a feed handed over, or what it said when it panicked.
pub(super) type Handed = Result<Vec<Input>, String>;

/// The answer of a feed, to come.
type Asked = Shared<BoxFuture<'static, Handed>>;

/// What came of asking somebody while mail kept coming in.
pub(super) enum Heard<T> {
    Said(T),
    /// The run is to end.
    Ended,
    /// The time of the run is up.
    Late,
}

impl Feeds {
    pub(super) fn new(agent: &crate::Agent) -> Self {
        let source = |feed: &Option<Arc<dyn Feed>>| Source {
            feed: feed.clone(),
            asked: None,
            handed: Vec::new(),
        };
        Self { steering: source(&agent.steering), follow_ups: source(&agent.follow_ups) }
    }
}

impl Source {
    /// Asks the feed, unless that is what happens already; returns the answer to come.
    pub(super) fn ask(&mut self) -> Option<Asked> {
        if self.asked.is_none() {
            let feed = Arc::clone(self.feed.as_ref()?);
            let asked = AssertUnwindSafe(async move { feed.take().await }).catch_unwind();
            let asked = asked.map(|done| done.map_err(|panic| panic_text(&*panic).to_owned()));
            self.asked = Some(asked.boxed().shared());
        }
        self.asked.clone()
    }

    /// Tells whether the feed has been asked, and its answer was not taken.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Waits for what the feed hands over; for ever if it was not asked. It may be dropped at any
    /// time.
    pub(super) async fn answer(&self) -> Handed {
        match self.asked.clone() {
            Some(asked) => asked.await,
            None => std::future::pending().await,
        }
    }

    /// Keeps what was handed over until it is in the log.
    fn hand_over(&mut self, ops: Vec<Op>) {
        self.asked = None;
        self.handed.extend(ops);
    }
}

impl Turn {
    /// Asks for what is to be steered in, and accepts it.
    pub(super) async fn poll_steering(&mut self) -> Result<(), Halt> {
        if self.conversation.run().is_none_or(OpenRun::is_ending) {
            return Ok(());
        }
        let Some(mut asked) = self.feeds.steering.ask() else { return Ok(()) };
        match self.hear_out(&mut asked).await? {
            Heard::Said(handed) => self.accept_steering(handed).await,
            // A final answer is returned, however late it is.
            Heard::Late if self.conversation.last() != Last::Answer => {
                self.hit(LimitKind::RunTime).await
            }
            Heard::Late | Heard::Ended => Ok(()),
        }
    }

    pub(super) async fn accept_steering(&mut self, handed: Handed) -> Result<(), Halt> {
        let ops = self.ops("steering", handed, OpKind::Steer);
        self.feeds.steering.hand_over(ops);
        let kinds = self.posts(&self.feeds.steering.handed);
        self.commit(kinds).await?;
        self.feeds.steering.handed.clear();
        Ok(())
    }

    /// Asks for what follows up, and accepts it.
    pub(super) async fn poll_follow_ups(&mut self) -> Result<(), Halt> {
        let Some(mut asked) = self.feeds.follow_ups.ask() else { return Ok(()) };
        let Heard::Said(handed) = self.hear_out(&mut asked).await? else { return Ok(()) };
        let ops = self.ops("follow_ups", handed, OpKind::FollowUp);
        self.feeds.follow_ups.hand_over(ops);
        let kinds = self.posts(&self.feeds.follow_ups.handed);
        self.commit(kinds).await?;
        self.feeds.follow_ups.handed.clear();
        Ok(())
    }

    /// Tells whether calls may still start, but for what a feed may hand over first.
    pub(super) fn waits_for_steering(&self) -> bool {
        let is_open = self.conversation.open_calls().iter().any(|call| !call.started);
        let is_ending = self.conversation.run().is_none_or(OpenRun::is_ending);
        self.feeds.steering.is_asked() && is_open && !is_ending
    }

    /// Waits for what somebody says, while mail keeps coming in.
    pub(super) async fn hear_out<F: Future + Unpin>(
        &mut self,
        asked: &mut F,
    ) -> Result<Heard<F::Output>, Halt> {
        let deadline = self.deadline();
        loop {
            tokio::select! {
                biased;
                said = &mut *asked => return Ok(Heard::Said(said)),
                mail = self.mailbox.next() => self.accept(mail).await?,
                () = until(deadline) => return Ok(Heard::Late),
            }
            if self.conversation.run().is_none_or(OpenRun::is_ending) {
                return Ok(Heard::Ended);
            }
        }
    }

    fn ops(&self, feed: &str, handed: Handed, kind: fn(Input) -> OpKind) -> Vec<Op> {
        let inputs = handed.unwrap_or_else(|panic| {
            self.say(EventBody::Warning { message: format!("the feed {feed} panicked: {panic}") });
            Vec::new()
        });
        inputs.into_iter().map(|input| self.own_op(kind(input))).collect()
    }

    /// Makes an operation that nobody has sent.
    pub(super) fn own_op(&self, kind: OpKind) -> Op {
        let source = &*self.session.source;
        Op { id: OpId::new(source), to: None, at: source.now(), kind }
    }

    /// Makes entries of what is not in the log yet: a commit may be there although its answer never
    /// came.
    fn posts(&self, handed: &[Op]) -> Vec<EntryKind> {
        let new = handed.iter().filter(|op| !self.conversation.knows(op.id));
        new.cloned().map(EntryKind::Posted).collect()
    }
}
