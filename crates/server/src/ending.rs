//! How a run ended, in a line for a person.

use bowline_agent::entry::Ending;
use bowline_agent::op::CancelReason;

/// Says in one line why a run gave no answer; `None` if it ended with one.
pub fn complaint(ending: &Ending) -> Option<String> {
    Some(match ending {
        Ending::Done => return None,
        Ending::Failed(error) => error.message.clone(),
        Ending::Canceled(reason) => match reason {
            CancelReason::User => "interrupted".to_owned(),
            CancelReason::Timeout => "stopped: the time is up".to_owned(),
            CancelReason::Parent | CancelReason::Shutdown => "terminated".to_owned(),
            CancelReason::Provider => "the provider canceled the reply".to_owned(),
        },
        Ending::Limit(limit) => format!("stopped at the limit {}", limit.as_str()),
        Ending::NeedsApproval => {
            "stopped: a call needs a decision or an answer, and nobody is there to give it"
                .to_owned()
        }
    })
}
