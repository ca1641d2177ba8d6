//! `bowline init`: agents to begin with.

use std::io::Write as _;
use std::process::ExitCode;

use bowline_runtime::agents::templates::{self, Template};
use bowline_runtime::environment::Environment;
use bowline_runtime::project;

use crate::args::Init;
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Writes a template into the project's folder, or lists what there is.
pub(crate) fn run(args: &Init) -> Result<ExitCode, Failure> {
    let mut out = screen::out();
    let Some(name) = args.template.as_deref().filter(|_| !args.list) else {
        let lines = templates::all().iter().map(|Template { name, about, .. }| {
            let width = templates::all().iter().map(|one| one.name.len()).max().unwrap_or(0);
            format!("{name:width$}  {about}\n")
        });
        return printed(out.write_all(lines.collect::<String>().as_bytes()));
    };
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let cwd = environment.cwd;
    let folder = project::bowline_folder(&cwd).unwrap_or_else(|| cwd.join(".bowline"));
    let template = templates::find(name).map_err(Failure::Usage)?;
    let written = template.write(&folder, args.force)?;
    let mut lines: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
    if written.is_empty() {
        lines = format!("{} is there already\n", folder.display());
    }
    let _ = writeln!(
        screen::err(),
        "bowline: agents of a project count when its folder is trusted: `bowline trust`"
    );
    printed(out.write_all(lines.as_bytes()))
}
