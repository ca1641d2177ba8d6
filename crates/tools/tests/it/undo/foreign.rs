//! What is not the session's is neither shown as its work nor taken back with it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bowline_agent::id::{AgentId, SessionId, SystemSource};
use bowline_llm::CallId;
use bowline_tools::undo::{Kind, Undo, View};
use pretty_assertions::assert_eq;

use super::{Project, back, kinds};

/// A project with files that are ignored: beside others, and in folders of their own.
fn with_ignored_files() -> Project {
    let project = Project::repository();
    project.put(".gitignore", "secret.txt\nbuild/\n");
    project.put("secret.txt", "mine");
    project.put("build/o", "mine");
    project.put("web/.gitignore", "node_modules\n");
    project.put("web/node_modules/deep/x.js", "mine");
    project.put("web/index.js", "known");
    project
}

fn left_out(undo: &mut Undo) -> Vec<String> {
    let plan = undo.plan(&undo.all()).unwrap();
    plan.left_out.into_iter().map(|file| file.path).collect()
}

/// What a call does, and which files that were there it makes known.
type Case = (fn(&Project), &'static [&'static str]);

#[test]
fn what_was_ignored_before_a_call_had_it_known_stays() {
    let cases: [Case; 4] = [
        (|project| project.put(".gitignore", ""), &["build/o", "secret.txt"]),
        (|project| project.remove("web/.gitignore"), &["web/node_modules/deep/x.js"]),
        (
            |project| {
                let path = |name| project.work().join(name);
                fs::rename(path("build"), path("made")).unwrap();
            },
            &["made/o"],
        ),
        (
            |project| {
                project.put(".gitignore", "build/\n");
                // As an editor would: what is there now was made by the call.
                project.put("draft", "changed");
                let path = |name| project.work().join(name);
                fs::rename(path("draft"), path("secret.txt")).unwrap();
            },
            &["secret.txt"],
        ),
    ];
    for (work, found) in cases {
        let project = with_ignored_files();
        let mut undo = project.undo();
        project.call(&mut undo, &[], || {
            work(&project);
            project.put("new.txt", "new");
        });
        let after = project.files();
        assert_eq!(left_out(&mut undo), found);
        let plan = undo.plan(&undo.all()).unwrap();
        let shown = String::from_utf8(undo.diff(&plan, View::Numbers).unwrap()).unwrap();
        assert!(found.iter().all(|path| !shown.contains(path)), "{shown}");
        back(&mut undo);
        let now = project.files();
        for path in found {
            let path = project.work().join(path);
            assert_eq!(now.get(&path), after.get(&path));
            assert!(now.contains_key(&path), "{path:?}");
        }
        assert_eq!(project.get("new.txt"), None);
    }
}

#[test]
fn what_was_ignored_stays_however_the_process_of_the_call_ended() {
    let project = with_ignored_files();
    let mut undo = project.undo();
    undo.before(project.agent, &CallId::from("call"), &[]).unwrap();
    project.put(".gitignore", "");
    project.put("new.txt", "new");
    drop(undo);
    let session = project.folder.path().join("session");
    let mut undo = Undo::existing(&session, Path::new("/usr/bin/git")).unwrap().unwrap();
    back(&mut undo);
    assert_eq!(project.get("secret.txt").unwrap(), "mine");
    assert_eq!(project.get("build/o").unwrap(), "mine");
    assert_eq!(project.get("new.txt"), None);
}

#[test]
fn what_was_made_known_comes_back_as_it_was_then() {
    let project = with_ignored_files();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put(".gitignore", ""));
    project.call(&mut undo, &[], || {
        project.put("secret.txt", "changed");
        project.remove("build/o");
    });
    back(&mut undo);
    assert_eq!(project.get("secret.txt").unwrap(), "mine");
    assert_eq!(project.get("build/o").unwrap(), "mine");
}

#[test]
fn what_was_recorded_and_moved_goes_back() {
    let project = Project::repository();
    project.put("old/deep/file", "one");
    let mut undo = project.undo();
    let before = project.files();
    let path = |name: &str| project.work().join(name);
    project.call(&mut undo, &[], || fs::rename(path("old"), path("new")).unwrap());
    assert_eq!(back(&mut undo).blocked, Vec::<std::path::PathBuf>::new());
    assert_eq!(project.files(), before);
}

#[test]
fn what_agents_make_beside_each_other_is_theirs() {
    let project = Project::repository();
    let other: AgentId = SessionId::new(&SystemSource).root();
    let mut undo = project.undo();
    undo.before(project.agent, &CallId::from("one"), &[]).unwrap();
    project.put("one.txt", "1");
    undo.before(other, &CallId::from("two"), &[]).unwrap();
    project.put("one.txt", "1, and more");
    undo.after(other).unwrap();
    project.put("one.txt", "1, and more, and the end");
    undo.after(project.agent).unwrap();
    assert_eq!(kinds(&mut undo), [("one.txt".to_owned(), Kind::Added, false)]);
    back(&mut undo);
    assert_eq!(project.get("one.txt"), None);
}

#[test]
fn what_was_left_out_is_never_removed() {
    let mut project = Project::repository();
    project.limits.file_bytes = 100;
    project.put("large", "l".repeat(1000));
    project.put("locked", "mine");
    let path = |name: &str| project.work().join(name);
    fs::set_permissions(path("locked"), Permissions::from_mode(0o0)).unwrap();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        File::options().write(true).open(path("large")).unwrap().set_len(10).unwrap();
        fs::set_permissions(path("locked"), Permissions::from_mode(0o644)).unwrap();
    });
    let shown = kinds(&mut undo);
    assert!(shown.iter().all(|(_, kind, _)| *kind != Kind::Added), "{shown:?}");
    assert!(left_out(&mut undo).contains(&"large".to_owned()));
    let all = undo.all();
    let plan = undo.plan(&all).unwrap();
    undo.restore(&plan, true, None).unwrap();
    assert_eq!(project.get("large").unwrap(), "l".repeat(10));
    assert_eq!(project.get("locked").unwrap(), "mine");
}

#[test]
fn what_was_changed_between_two_calls_that_change_it_is_left_alone() {
    let project = Project::repository();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put("a.txt", "two\n"));
    project.put("a.txt", "mine\n");
    project.call(&mut undo, &[], || project.put("a.txt", "mine\nthree\n"));
    assert_eq!(kinds(&mut undo), [("a.txt".to_owned(), Kind::Modified, true)]);
    assert_eq!(back(&mut undo).files, Vec::<std::path::PathBuf>::new());
    assert_eq!(project.get("a.txt").unwrap(), "mine\nthree\n");
    let plan = undo.plan(&undo.all()).unwrap();
    undo.restore(&plan, true, None).unwrap();
    assert_eq!(project.get("a.txt").unwrap(), "one\n");
}
