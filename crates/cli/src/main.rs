//! The `bowline` command.

mod agents;
mod args;
mod config;
mod demo;
mod diff;
mod doctor;
mod dump;
mod effects;
mod exec;
mod exit;
mod hooks;
mod init;
mod jobs;
mod kept;
mod mcp;
mod model;
mod models;
mod output;
mod print;
mod reflections;
mod rewind;
mod rules;
mod screen;
mod sessions;
mod skills;
mod trace;
mod trust;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use exit::Failure;

fn main() -> ExitCode {
    bowline_tools::helper();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no errors; where they cannot be printed nobody is left to tell.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(exit::USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(args) {
        Ok(code) => code,
        Err(failure) => {
            for line in failure.to_string().lines() {
                let _ = writeln!(screen::err(), "bowline: {line}");
            }
            failure.code()
        }
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    // One thread is enough: what takes long waits for the world, and the rest is handed to
    // threads of its own.
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let code = match args.command {
        Command::Exec(exec) => tokio.block_on(exec::run(*exec)),
        Command::Demo(demo) => tokio.block_on(demo::run(demo)),
        Command::Model(model) => tokio.block_on(model::run(&model)),
        Command::Models(models) => tokio.block_on(models::run(&models)),
        Command::Sessions(sessions) => tokio.block_on(sessions::run(sessions)),
        Command::Jobs(jobs) => tokio.block_on(jobs::run(jobs)),
        Command::Rewind(rewind) => tokio.block_on(rewind::run(&rewind)),
        Command::Diff(diff) => diff::run(&diff),
        Command::Agents(agents) => agents::run(&agents),
        Command::Init(init) => init::run(&init),
        Command::Effects(effects) => effects::run(&effects),
        Command::Skills(skills) => skills::run(&skills),
        Command::Reflections(reflections) => reflections::run(&reflections),
        Command::Rules(rules) => rules::run(&rules),
        Command::Mcp(mcp) => tokio.block_on(mcp::run(&mcp)),
        Command::Hooks(hooks) => hooks::run(&hooks),
        Command::Trust(trust) => trust::run(&trust),
        Command::Config(config) => config::run(&config),
        Command::Doctor(doctor) => tokio.block_on(doctor::run(&doctor)),
    };
    // A tool that hangs in a thread of its own must not keep the process.
    tokio.shutdown_background();
    code
}
