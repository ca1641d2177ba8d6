//! Runs a command as an agent would, `N` times (default once), and prints the last result.
//!
//! `cargo run -p bowline-tools --example commands -- 'echo hello' 3`

use std::sync::Arc;

use bowline_agent::id::SystemSource;
use bowline_agent::tool::{DynTool, ToolContext};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{Bash, Environment, Workspace};

#[expect(clippy::print_stdout, reason = "it is there to show something")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // This program is its own helper process.
    bowline_tools::helper();

    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "echo hello".to_owned());
    let times = arguments.next().map_or(Ok(1), |times| times.parse::<u32>())?;
    let helper = if arguments.next().is_some() { Helper::None } else { Helper::Own };

    let scratch = tempfile::tempdir()?;
    let processes = Arc::new(Processes::new(helper));
    let workspace = Workspace {
        cwd: std::env::current_dir()?,
        environment: Environment::allowed(std::env::vars_os()),
        processes: Arc::clone(&processes),
        scratch: scratch.path().to_owned(),
        guard: Arc::new(bowline_tools::guard::Open),
    };
    let tool = Arc::new(Bash::new(workspace, Arc::default()));
    let mut cx = ToolContext::standalone(Arc::new(SystemSource), None);
    let arguments = format!("{{\"command\": {command:?}}}");
    for left in (0..times).rev() {
        cx.call = format!("call-{left}").into();
        let prepared = Arc::clone(&tool).prepare(&arguments)?;
        let output = (prepared.run)(cx.clone()).await?;
        if left == 0 {
            println!("{output:?}");
        }
    }
    processes.close().await;
    Ok(())
}
