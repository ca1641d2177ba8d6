//! File tools under a guard that lets them touch the working folder alone: whatever path is given, by
//! whatever links, nothing outside is seen or changed.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_agent::tool::{DynTool, ToolError};
use bowline_llm::CallId;
use bowline_tools::guard::{Confinement, Guard, Reach, Want};
use bowline_tools::{ApplyPatch, Edit, Glob, Grep, List, Read, Write};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::desk::{Desk, failure};

/// Lets calls touch what is really in one folder.
#[derive(Debug)]
struct Inside(PathBuf);

impl Guard for Inside {
    fn check(&self, _: &CallId, path: &Path, _: Want) -> Result<(), String> {
        match path.starts_with(&self.0) {
            true => Ok(()),
            false => Err(format!("{} is outside", path.display())),
        }
    }

    fn check_host(&self, _: &CallId, host: &str) -> Result<Reach, String> {
        Err(format!("{host} is outside"))
    }

    fn names(&self, _: IpAddr) -> bool {
        false
    }

    fn confinement(&self, _: &CallId, _: &str) -> Result<Option<Confinement>, String> {
        Err("no command".to_owned())
    }
}

/// A working folder, and beside it a folder `out` with a file `secret`.
struct Fenced {
    desk: Desk,
    out: PathBuf,
}

impl Fenced {
    fn new() -> Self {
        let mut desk = Desk::new();
        desk.workspace.guard = Arc::new(Inside(desk.workspace.cwd.clone()));
        let out = desk.workspace.cwd.with_file_name("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("secret"), "hidden words\n").unwrap();
        Self { desk, out }
    }

    async fn call(&self, tool: impl DynTool, arguments: Value) -> Result<String, ToolError> {
        self.desk.call(tool, arguments).await
    }

    async fn read(&self, path: &str) -> Result<String, ToolError> {
        self.call(Read::new(self.desk.workspace.clone()), json!({ "path": path })).await
    }

    async fn write(&self, path: &str) -> Result<String, ToolError> {
        let arguments = json!({ "path": path, "content": "mine\n" });
        self.call(Write::new(self.desk.workspace.clone()), arguments).await
    }

    /// What is outside must be as it was.
    fn is_untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(&self.out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.out.join("secret")).unwrap(), "hidden words\n");
    }
}

/// Lets calls touch all but one folder.
#[derive(Debug)]
struct Outside(PathBuf);

impl Guard for Outside {
    fn check(&self, _: &CallId, path: &Path, _: Want) -> Result<(), String> {
        match path.starts_with(&self.0) {
            true => Err(format!("{} is denied", path.display())),
            false => Ok(()),
        }
    }

    fn check_host(&self, _: &CallId, _: &str) -> Result<Reach, String> {
        Ok(Reach::Public)
    }

    fn names(&self, _: IpAddr) -> bool {
        false
    }

    fn confinement(&self, _: &CallId, _: &str) -> Result<Option<Confinement>, String> {
        Ok(None)
    }
}

#[tokio::test]
async fn a_search_does_not_say_what_is_in_a_denied_folder() {
    let mut desk = Desk::new();
    desk.put("a/denied/words", "words");
    desk.put("a/words", "words");
    symlink(desk.path("a"), desk.path("link")).unwrap();
    desk.workspace.guard = Arc::new(Outside(desk.workspace.cwd.join("a/denied")));
    for path in [".", "a", "link"] {
        let (glob, grep, list) = (
            desk.call(
                Glob::new(desk.workspace.clone()),
                json!({ "pattern": "words", "path": path }),
            ),
            desk.call(Grep::new(desk.workspace.clone()), json!({ "pattern": "w", "path": path })),
            desk.call(List::new(desk.workspace.clone()), json!({ "depth": 5, "path": path })),
        );
        for told in [glob.await, grep.await, list.await].map(Result::unwrap) {
            assert!(told.contains("words") && !told.contains("denied"), "{path}: {told}");
        }
    }
}

/// Paths that lead out, once links are there as [`links`] makes them.
const WAYS_OUT: [&str; 11] = [
    "../out/secret",
    "folder/../../out/secret",
    "link",
    "links/to/link",
    "out/secret",
    "deep/out/secret",
    "/proc/self/cwd/../nothing/../etc/hostname",
    concat!("/proc/self/", "root", "/etc/hostname"),
    "/etc/hostname",
    "loop-to-out/secret",
    "./folder/./../out/secret",
];

fn links(fenced: &Fenced) {
    let desk = &fenced.desk;
    desk.put("folder/file", "x");
    desk.put("deep/file", "x");
    desk.put("links/to/file", "x");
    symlink(fenced.out.join("secret"), desk.path("link")).unwrap();
    symlink("../../link", desk.path("links/to/link")).unwrap();
    symlink("../out", desk.path("out")).unwrap();
    symlink(&fenced.out, desk.path("deep/out")).unwrap();
    symlink("deep/out", desk.path("loop-to-out")).unwrap();
}

#[tokio::test]
async fn no_path_leads_out_for_reading() {
    let fenced = Fenced::new();
    links(&fenced);
    for path in WAYS_OUT {
        let result = fenced.read(path).await;
        let text = result.unwrap_or_else(|error| error.to_string());
        assert!(!text.contains("hidden words"), "{path}: {text}");
        assert!(text.contains("is outside") || text.contains("there is no"), "{path}: {text}");
    }
}

#[tokio::test]
async fn no_path_leads_out_for_writing() {
    let fenced = Fenced::new();
    links(&fenced);
    for path in WAYS_OUT {
        let failed = failure(fenced.write(path).await);
        assert!(
            failed.contains("is outside") || failed.contains("cannot write"),
            "{path}: {failed}"
        );
    }
    for path in ["out/new", "deep/out/new/er", "../out/new", "../new/folder/file"] {
        assert!(failure(fenced.write(path).await).contains("is outside"), "{path}");
    }
    // A link to what is not there yet.
    symlink(fenced.out.join("new"), fenced.desk.path("dangling")).unwrap();
    assert!(failure(fenced.write("dangling").await).contains("is outside"));
    fenced.is_untouched();
    assert!(!fenced.out.with_file_name("new").exists());
}

#[tokio::test]
async fn no_patch_and_no_edit_leads_out() {
    let fenced = Fenced::new();
    links(&fenced);
    fenced.desk.put("mine", "one\n");
    let patches = [
        "*** Add File: out/new\n+x",
        "*** Add File: ../out/new\n+x",
        "*** Delete File: out/secret",
        "*** Delete File: link",
        "*** Update File: out/secret\n@@\n-hidden words\n+x",
        "*** Update File: mine\n*** Move to: out/mine\n@@\n-one\n+two",
    ];
    for patch in patches {
        let patch = json!({ "patch": format!("*** Begin Patch\n{patch}\n*** End Patch\n") });
        let failed =
            failure(fenced.call(ApplyPatch::new(fenced.desk.workspace.clone()), patch).await);
        assert!(failed.contains("is outside"), "{failed}");
    }
    let edit = json!({ "path": "link", "old_string": "hidden", "new_string": "x" });
    let failed = failure(fenced.call(Edit::new(fenced.desk.workspace.clone()), edit).await);
    assert!(failed.contains("is outside"), "{failed}");
    assert_eq!(fenced.desk.get("mine"), "one\n");
    fenced.is_untouched();
}

#[tokio::test]
async fn no_search_leads_out() {
    let fenced = Fenced::new();
    links(&fenced);
    for path in [".", "out", "deep", "../out", "loop-to-out", "link"] {
        let grep = json!({ "pattern": "hidden|words", "path": path });
        let found = fenced.call(Grep::new(fenced.desk.workspace.clone()), grep).await;
        let text = found.unwrap_or_else(|error| error.to_string());
        assert!(!text.contains("hidden words"), "{path}: {text}");
        let list = json!({ "path": path });
        let listed = fenced.call(List::new(fenced.desk.workspace.clone()), list).await;
        let text = listed.unwrap_or_else(|error| error.to_string());
        // Of what is refused only the name is said.
        assert!(text.contains("is outside") || !text.contains("secret"), "{path}: {text}");
    }
}

// A hard link has no other end that could be looked at: what is written gets a file of its own.
#[tokio::test]
async fn writing_a_hard_link_leaves_the_other_name_as_it_was() {
    let fenced = Fenced::new();
    fs::hard_link(fenced.out.join("secret"), fenced.desk.path("twin")).unwrap();
    fenced.read("twin").await.unwrap();
    fenced.write("twin").await.unwrap();
    assert_eq!(fenced.desk.get("twin"), "mine\n");
    fenced.is_untouched();
}

/// Swaps a folder for a link to the folder outside and back, as fast as it can, until it is dropped.
struct Swapping(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Swapping {
    fn start(fenced: &Fenced) -> Self {
        let (ends, at) = (Arc::new(AtomicBool::new(false)), fenced.desk.path("swapped"));
        let link = fenced.desk.path("link-to-out");
        fs::create_dir(&at).unwrap();
        fs::write(at.join("secret"), "own words\n").unwrap();
        symlink(&fenced.out, &link).unwrap();
        let has_ended = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            while !has_ended.load(Ordering::Relaxed) {
                renameat_with(CWD, &at, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        Self(ends, Some(thread))
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

#[tokio::test]
async fn a_link_that_changes_at_every_moment_leads_nowhere() {
    let fenced = Fenced::new();
    let swapping = Swapping::start(&fenced);
    for turn in 0..400 {
        let text = fenced.read("swapped/secret").await.unwrap_or_else(|error| error.to_string());
        assert!(!text.contains("hidden words"), "{turn}: {text}");
        let _ = fenced.write(&format!("swapped/new-{turn}")).await;
        let grep = json!({ "pattern": "words", "path": "swapped" });
        let found = fenced.call(Grep::new(fenced.desk.workspace.clone()), grep).await;
        let text = found.unwrap_or_else(|error| error.to_string());
        assert!(!text.contains("hidden"), "{turn}: {text}");
    }
    drop(swapping);
    fenced.is_untouched();
}

// Names that look the same are other names: nothing is made the same that the system tells apart.
#[tokio::test]
async fn names_are_what_their_bytes_are() {
    let fenced = Fenced::new();
    for name in
        ["caf\u{e9}", "cafe\u{301}", "CAF\u{c9}", "a\u{2044}b", "..\u{2024}", "\u{ff0e}\u{ff0e}"]
    {
        fenced.write(name).await.unwrap();
        assert_eq!(fenced.desk.get(name), "mine\n");
    }
    assert_eq!(fs::read_dir(&fenced.desk.workspace.cwd).unwrap().count(), 6);
    fenced.is_untouched();
}
