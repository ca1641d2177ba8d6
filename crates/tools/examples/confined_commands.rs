//! Measures what confining a command costs: runs `/bin/true` many times as it is and confined, and prints
//! the processor time of the helper and of all it starts, for each command.
//!
//! `cargo run --release -p bowline-tools --example confined_commands -- 2000`

use std::path::Path;

use bowline_tools::guard::{Confinement, Network};
use bowline_tools::process::{Command, Helper, Processes};

#[expect(clippy::print_stdout, reason = "it is there to show something")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // This program is its own helper process.
    bowline_tools::helper();

    let times = std::env::args().nth(1).map_or(Ok(2000), |times| times.parse::<u32>())?;
    let folder = tempfile::tempdir()?;
    let work = folder.path().canonicalize()?.join("work");
    std::fs::create_dir_all(work.join(".git/hooks"))?;
    let names =
        [".git/hooks", ".git/config", ".bowline", ".claude", ".vscode", ".idea", ".mcp.json"];
    let confinement = Confinement {
        writable: vec![work.clone()],
        protected: names.iter().map(|name| work.join(name)).collect(),
        ..Confinement::default()
    };
    let network = Confinement { network: Network::Full, ..confinement.clone() };
    let kinds = [
        ("as it is", None),
        ("confined", Some(confinement)),
        ("with the whole network", Some(network)),
    ];
    // The first round warms everything up.
    for round in 0..3 {
        for (name, confinement) in &kinds {
            let processes = Processes::new(Helper::Own);
            let before = children_ticks()?;
            for _ in 0..times {
                let command = command(folder.path(), &work, confinement.clone());
                let status = processes.start(command).await?.exit().await?;
                assert_eq!(status.code, Some(0), "a command that does nothing does it well");
            }
            let memory = memory();
            processes.close().await;
            let ticks = children_ticks()? - before;
            // A tick is a hundredth of a second wherever Linux runs.
            let micros = f64::from(ticks) * 10_000.0 / f64::from(times);
            if round > 0 {
                println!("{name}: {micros:.0} µs a command, helper {memory}");
            }
        }
    }
    Ok(())
}

fn command(folder: &Path, work: &Path, confinement: Option<Confinement>) -> Command {
    Command {
        owner: "session/agent".to_owned(),
        program: "/bin/true".into(),
        arguments: Vec::new(),
        cwd: work.to_owned(),
        environment: Vec::new(),
        output: folder.join("output"),
        max_output: 1 << 20,
        stdin: false,
        confinement,
    }
}

/// Returns the processor time of all children that are over, with all of theirs, in ticks.
fn children_ticks() -> std::io::Result<u32> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    Ok(fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum())
}

/// Returns how much memory of its own the helper has, and who watches over it.
fn memory() -> String {
    let children = |pid: &str| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        children.split_ascii_whitespace().next().unwrap_or_default().to_owned()
    };
    let watcher = children(&std::process::id().to_string());
    let own = [children(&watcher), watcher].map(|pid| {
        let smaps =
            std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let own = smaps.lines().filter(|line| line.starts_with("Private_"));
        own.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    });
    let [helper, watcher]: [u64; 2] = own;
    format!("{helper} KiB, watcher {watcher} KiB")
}
