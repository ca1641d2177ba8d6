//! Commands that go on when bowline is gone.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::Duration;

use bowline_agent::tool::{ToolContext, ToolError, ToolOutput};

use super::{Bash, BashInput, OutputFile, START, after};
use crate::confined::in_folder_of_its_own;
use crate::job::{Found, new_output};
use crate::process::{Asked, Fate};
use crate::workspace::owner;

impl Bash {
    /// Starts a command that survives, or finds the one that this very call has started before the process
    /// that it ran in died.
    pub(super) async fn survive(
        &self,
        input: BashInput,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        if cx.agent.depth > 0 {
            return refused("only the first agent of a session can start what survives it");
        }
        if cx.folder().is_none() {
            return refused("of a session that is not kept no job survives");
        }
        let (job, note) = match self.jobs.started_by(cx, &self.workspace) {
            Some(job) => (job, None),
            None => self.start_surviving(&input, cx).await?,
        };
        tokio::select! {
            () = job.survivor.over() => {}
            () = tokio::time::sleep(START) => {}
            () = cx.cancel.cancelled() => job.survivor.end().await,
        }
        self.jobs.record_found(&job, cx)?;
        if let Fate::Refused(error) = job.survivor.fate() {
            return refused(&error);
        }
        let mut text = new_output(&job, cx).await?;
        if matches!(job.survivor.fate(), Fate::Running { .. }) {
            text = after(text, "[it goes on when bowline ends; see how with job]");
        }
        Ok(note.map_or(text.clone(), |note| after(text, note)).into())
    }

    async fn start_surviving(
        &self,
        input: &BashInput,
        cx: &ToolContext,
    ) -> Result<(Arc<Found>, Option<&'static str>), ToolError> {
        let failed = |error: std::io::Error| {
            ToolError::Failed(format!("cannot keep what it needs: {error}"))
        };
        let folder = self.workspace.folder(cx);
        let output = OutputFile::create(&folder, cx.call.as_str()).map_err(failed)?;
        let temporary = output.path.with_extension("tmp");
        DirBuilder::new().recursive(true).mode(0o700).create(&temporary).map_err(failed)?;
        let mut command = self.command(input, &output, cx)?;
        command.stdin = false;
        let note = in_folder_of_its_own(&mut command, temporary.canonicalize().map_err(failed)?);
        let asked = Asked {
            owner: owner(cx.session, cx.agent.id),
            call: cx.call.to_string(),
            id: self.jobs.next_id(cx, &self.workspace),
            command: input.command.clone(),
            output: output.path,
        };
        let time = input.timeout.map(Duration::from_secs);
        let survivor = self.workspace.processes.survive(command, asked, time).await;
        let survivor = survivor.map_err(|error| ToolError::Failed(error.to_string()))?;
        Ok((self.jobs.found(survivor), note))
    }
}

fn refused<T>(why: &str) -> Result<T, ToolError> {
    Err(ToolError::Failed(why.to_owned()))
}
