use std::sync::Arc;

use bowline_llm::CallId;
use futures::FutureExt as _;
use proptest::prelude::*;
use tokio::sync::mpsc;

use crate::id::{AgentId, EntryId, Source, SystemSource};
use crate::redact::Redaction;
use crate::tool::Before;

use super::*;

/// Numbers in the order in which they came.
#[derive(Debug, Default, Clone, PartialEq)]
struct Numbers(Vec<u32>);

impl Fold for Numbers {
    const NAME: &'static str = "numbers";
    type Change = u32;

    fn apply(&mut self, change: u32) {
        self.0.push(change);
    }
}

fn scope(redaction: Redaction) -> Arc<CallScope> {
    let (speaks, _) = mpsc::unbounded_channel();
    Arc::new(CallScope::new(CallId::from("call"), speaks, Before::default(), redaction))
}

fn push(shared: &Shared<Numbers>, number: u32) -> Result<usize, SharedError> {
    shared.change(|numbers| Ok((Some(number), numbers.0.len())))
}

fn look(shared: &Shared<Numbers>) -> Vec<u32> {
    shared.read(|numbers| numbers.0.clone())
}

/// Returns what the end of a call writes.
fn written(scope: &CallScope) -> Vec<Entry> {
    let source = SystemSource;
    let entry = |(name, data): (Arc<str>, RawJson)| Entry {
        v: 1,
        id: EntryId::new(&source),
        parent: None,
        at: source.now(),
        agent: AgentId::new(&source),
        critical: false,
        active_ms: None,
        kind: EntryKind::Custom(Custom { name: name.to_string(), call: None, data }),
    };
    scope.close().into_iter().map(entry).collect()
}

fn replayed(log: &[Entry]) -> Vec<u32> {
    let log: Vec<_> = (0..).map(Pos).zip(log.iter().cloned()).collect();
    look(&Shared::new(&Values::new(&log), &scope(Redaction::default())))
}

/// What happens in a session with a few calls at once.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A call begins, unless it runs.
    Begins(usize),
    Pushes(usize, u32),
    Looks(usize),
    /// Its tool has returned.
    Returns(usize),
    /// Its end is committed, if its tool has returned.
    Ends(usize, bool),
}

const CALLS: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let call = || 0..CALLS;
    let step = prop_oneof![
        call().prop_map(Step::Begins),
        (call(), any::<u32>()).prop_map(|(call, number)| Step::Pushes(call, number)),
        call().prop_map(Step::Looks),
        call().prop_map(Step::Returns),
        (call(), prop::bool::weighted(0.8))
            .prop_map(|(call, goes_well)| Step::Ends(call, goes_well)),
    ];
    prop::collection::vec(step, 0..60)
}

#[derive(Default)]
struct Running {
    open: Option<(Arc<CallScope>, Shared<Numbers>)>,
    // What was made when it last looked.
    seen: usize,
    returned: Option<Vec<Entry>>,
}

proptest! {
    /// However calls overlap, and wherever the log is cut off: what is replayed are the first of the
    /// changes that were made, among them all that a call has seen whose end is there.
    #[test]
    fn what_is_replayed_is_the_beginning_of_what_was_lived(steps in steps()) {
        let (values, mut calls) = (Values::default(), Vec::new());
        calls.resize_with(CALLS, Running::default);
        let mut made = Vec::new();
        // The log after each commit, and how many changes must be in it.
        let (mut log, mut cuts, mut due) = (Vec::new(), vec![(0, 0)], 0);
        for step in steps {
            match step {
                Step::Begins(call) if calls[call].open.is_none() && calls[call].returned.is_none() => {
                    let scope = scope(Redaction::default());
                    let shared = Shared::new(&values, &scope);
                    calls[call] = Running { open: Some((scope, shared)), ..Running::default() };
                }
                Step::Pushes(call, number) => {
                    if let Some((_, shared)) = &calls[call].open {
                        prop_assert_eq!(push(shared, number).unwrap(), made.len());
                        made.push(number);
                        calls[call].seen = made.len();
                    }
                }
                Step::Looks(call) => {
                    if let Some((_, shared)) = &calls[call].open {
                        prop_assert_eq!(&look(shared), &made);
                        calls[call].seen = made.len();
                    }
                }
                Step::Returns(call) => {
                    if let Some((scope, shared)) = calls[call].open.take() {
                        calls[call].returned = Some(written(&scope));
                        prop_assert!(matches!(push(&shared, 0), Err(SharedError::Closed)));
                    }
                }
                Step::Ends(call, goes_well) => {
                    if let Some(entries) = calls[call].returned.take()
                        && goes_well
                    {
                        values.committed(&entries);
                        log.extend(entries);
                        due = due.max(calls[call].seen);
                        cuts.push((log.len(), due));
                    }
                }
                Step::Begins(_) => {}
            }
        }
        for (cut, due) in cuts {
            let replayed = replayed(&log[..cut]);
            prop_assert!(replayed.len() >= due, "{} of {due}", replayed.len());
            prop_assert_eq!(&replayed[..], &made[..replayed.len()]);
        }
    }
}

#[test]
fn what_is_in_the_log_is_not_written_again() {
    let values = Values::default();
    let first = scope(Redaction::default());
    push(&Shared::new(&values, &first), 1).unwrap();
    let entries = written(&first);
    assert_eq!(entries.len(), 1);
    values.committed(&entries);
    let second = scope(Redaction::default());
    assert_eq!(look(&Shared::new(&values, &second)), [1]);
    assert_eq!(written(&second), []);
}

#[test]
fn a_refused_change_changes_nothing() {
    let values = Values::default();
    let scope = scope(Redaction::default());
    let shared = Shared::<Numbers>::new(&values, &scope);
    let refused: Result<(), ToolError> = shared.change(|_| Err(ToolError::failed("no")));
    assert_eq!(refused.unwrap_err().to_string(), "no");
    shared.change::<_, SharedError>(|_| Ok((None, ()))).unwrap();
    assert_eq!((look(&shared), written(&scope)), (Vec::new(), Vec::new()));
}

#[test]
fn a_secret_is_in_memory_as_it_is_in_the_log() {
    #[derive(Default)]
    struct Text(String);
    impl Fold for Text {
        const NAME: &'static str = "text";
        type Change = String;

        fn apply(&mut self, change: String) {
            self.0 = change;
        }
    }
    let secret = ("KEY".to_owned(), bowline_llm::Secret::from("sk-123456789"));
    let scope = scope(Redaction::new([secret]));
    let shared = Shared::<Text>::new(&Values::default(), &scope);
    let said = "it is sk-123456789".to_owned();
    shared.change::<_, SharedError>(|_| Ok((Some(said), ()))).unwrap();
    assert_eq!(shared.read(|text| text.0.clone()), "it is [secret KEY]");
    assert!(!format!("{:?}", written(&scope)).contains("sk-1"));
}

#[test]
fn whoever_waits_hears_of_each_change() {
    let values = Values::default();
    let shared = Shared::<Numbers>::new(&values, &scope(Redaction::default()));
    let mut second = Box::pin(shared.wait_for(|numbers| numbers.0.get(1).copied()));
    assert_eq!((&mut second).now_or_never(), None);
    push(&shared, 1).unwrap();
    assert_eq!((&mut second).now_or_never(), None);
    push(&shared, 2).unwrap();
    assert_eq!(second.now_or_never(), Some(2));
}
