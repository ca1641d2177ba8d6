//! Putting secrets back where the model writes their placeholders to files.

use futures::FutureExt;

use bowline_llm::CallId;

use crate::tool::{Prepared, ToolError};

use super::Turn;

impl Turn {
    /// Puts secrets back into the arguments of a call that writes files, at the last moment: the log and
    /// everybody who was asked about the call know it by the placeholders alone.
    pub(super) fn with_secrets(&self, call: &CallId, prepared: Prepared) -> Prepared {
        let open = self.conversation.open_calls();
        let Some(call) = open.into_iter().find(|open| open.id() == call) else { return prepared };
        let tool = self.tools.get(&call.call.name);
        let Some(tool) = tool.filter(|tool| tool.puts_secrets_back()) else {
            return self.without_placeholders(call.arguments(), prepared);
        };
        match self.agent.redaction.put_back(call.arguments()) {
            Ok(None) => prepared,
            Ok(Some(arguments)) => match tool.prepare(&arguments) {
                // What was let pass is what is written to.
                Ok(whole) if whole.access == prepared.access => {
                    Prepared { run: whole.run, ..prepared }
                }
                Ok(_) => {
                    let why = "a path cannot hold the placeholder of a secret; nothing was written";
                    failing(prepared, why.to_owned())
                }
                Err(error) => failing(prepared, error.to_string()),
            },
            Err(why) => failing(prepared, why),
        }
    }

    /// Lets no command run with a placeholder: it would be taken for what it stands for.
    fn without_placeholders(&self, arguments: &str, prepared: Prepared) -> Prepared {
        let is_command = prepared.access.execute.is_some();
        let held = is_command.then(|| self.agent.redaction.placeholder_in(arguments)).flatten();
        let Some(placeholder) = held else { return prepared };
        let why = format!(
            "a command cannot use {placeholder}: secrets are put back only into files, by the tools that \
             write them"
        );
        failing(prepared, why)
    }
}

/// Makes a call that does nothing but say why.
fn failing(prepared: Prepared, why: String) -> Prepared {
    let run = Box::new(|_| async { Err(ToolError::Failed(why)) }.boxed());
    Prepared { run, ..prepared }
}
