//! What is read of the user's repository, and what of it is not believed.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use bowline_tools::undo::Undo;
use pretty_assertions::assert_eq;

use super::{Project, back};

#[test]
fn no_file_that_the_project_names_is_read_for_patterns() {
    let project = Project::repository();
    let key = project.folder.path().join("key");
    fs::write(&key, "PRIVATE").unwrap();
    project.git(&["config", "core.excludesFile", key.to_str().unwrap()]);
    let exclude = project.work().join(".git/info/exclude");
    fs::create_dir_all(exclude.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&exclude);
    symlink(&key, &exclude).unwrap();
    drop(project.undo());
    let copied = project.folder.path().join("session/undo.git/info/exclude");
    let copied = fs::read_to_string(copied).unwrap();
    assert!(!copied.contains("PRIVATE"), "{copied}");
}

#[test]
fn what_the_repository_of_the_user_has_is_not_stored_again() {
    let project = Project::repository();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.put("same.txt", "one\n");
        project.put("other.txt", "other\n");
    });
    let is_stored = |name: &str| {
        let mut git = Command::new("/usr/bin/git");
        let said = git.arg("hash-object").arg(project.work().join(name)).output().unwrap().stdout;
        let id = String::from_utf8(said).unwrap();
        let objects = project.folder.path().join("session/undo.git/objects");
        objects.join(&id[..2]).join(id[2..].trim_end()).exists()
    };
    assert_eq!(["same.txt", "other.txt"].map(is_stored), [false, true]);
}

#[test]
fn what_the_user_ignores_everywhere_is_ignored() {
    let project = Project::repository();
    let ignored = project.folder.path().join("home/ignored");
    fs::write(&ignored, "*.mine\n").unwrap();
    symlink(&ignored, project.folder.path().join("home/link")).unwrap();
    let config = project.folder.path().join("home/.gitconfig");
    fs::write(config, "[core]\n\texcludesFile = ~/link\n").unwrap();
    fs::write(project.work().join(".git/info/exclude"), "*.here\n").unwrap();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.put("x.mine", "x");
        project.put("x.here", "x");
        project.put("x", "x");
    });
    back(&mut undo);
    assert_eq!(
        ["x.mine", "x.here", "x"].map(|name| project.get(name).is_some()),
        [true, true, false]
    );
}

#[test]
fn a_pipe_in_the_place_of_patterns_is_not_waited_for() {
    let mut project = Project::repository();
    let exclude = project.work().join(".git/info/exclude");
    fs::create_dir_all(exclude.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&exclude);
    assert!(Command::new("mkfifo").arg(&exclude).status().unwrap().success());
    let session = project.folder.path().join("session");
    project.limits.time = Duration::from_millis(300);
    // The user's git may wait for it, and is ended in time then; nothing else waits.
    let opened = Undo::open(&session, &project.place());
    assert!(session.join("undo.git/info/exclude").exists(), "{opened:?}");
}

#[test]
fn what_is_known_though_it_is_ignored_is_recorded_if_the_index_is_in_parts() {
    let project = Project::repository();
    project.put("known.log", "one");
    project.git(&["add", "--force", "known.log"]);
    project.git(&["update-index", "--split-index"]);
    project.put("b.txt", "bee");
    project.git(&["add", "b.txt"]);
    let repository = project.repository_files();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.put("known.log", "two");
        project.put("a.txt", "two");
    });
    back(&mut undo);
    assert_eq!(project.get("known.log").unwrap(), "one");
    assert_eq!(project.get("a.txt").unwrap(), "one\n");
    assert_eq!(project.repository_files(), repository);
}

#[test]
fn names_that_mean_something_elsewhere_are_recorded_or_named() {
    let project = Project::repository();
    project.put("git~1", "one");
    project.put(".g\u{200c}it", "one");
    project.put(".GIT/config", "one");
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        for name in ["git~1", ".g\u{200c}it", ".GIT/config"] {
            project.put(name, "two");
        }
    });
    let plan = undo.plan(&undo.all()).unwrap();
    let left_out: Vec<_> = plan.left_out.into_iter().map(|file| file.path).collect();
    assert_eq!(left_out, [".GIT/config"]);
    back(&mut undo);
    assert_eq!(project.get("git~1").unwrap(), "one");
    assert_eq!(project.get(".g\u{200c}it").unwrap(), "one");
    assert_eq!(project.get(".GIT/config").unwrap(), "two");
}
