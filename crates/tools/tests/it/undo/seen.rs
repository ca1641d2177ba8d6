//! What has changed is noticed however little of it shows, and git is not run for what has not.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bowline_agent::id::{SessionId, SystemSource};
use bowline_llm::CallId;
use bowline_tools::undo::{Kind, Place, Undo};
use pretty_assertions::assert_eq;

use super::{Project, back, kinds};

/// A git that notes each time it is run.
struct Counted {
    program: PathBuf,
    log: PathBuf,
}

impl Counted {
    fn new(project: &Project) -> Self {
        let program = project.folder.path().join("git");
        let log = project.folder.path().join("runs");
        let script =
            format!("#!/bin/sh\necho \"$*\" >>{}\nexec /usr/bin/git \"$@\"\n", log.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Self { program, log }
    }

    fn undo(&self, project: &Project) -> Undo {
        let place = Place { git: self.program.clone(), ..project.place() };
        Undo::open(&project.folder.path().join("session"), &place).unwrap()
    }

    /// Returns what it was run for since this was asked last.
    fn runs(&self) -> String {
        let runs = fs::read_to_string(&self.log).unwrap_or_default();
        let _ = fs::remove_file(&self.log);
        runs
    }
}

/// Sets the time of the last change of what is in a file, as `touch -d` does.
fn set_time(project: &Project, name: &str, time: SystemTime) {
    File::options()
        .write(true)
        .open(project.work().join(name))
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// A project in which everything can change so that little of it shows.
fn filled() -> Project {
    let project = Project::repository();
    project.put(".gitignore", "*.log\ntarget/\n");
    for name in ["one.txt", "two.txt", "src/one.rs", "src/two.rs", "other/one.rs", "other/two.rs"] {
        project.put(name, format!("{name:20}"));
        set_time(&project, name, SystemTime::UNIX_EPOCH);
    }
    project.put("target/made", "made");
    // A folder that ignores itself, as virtual environments of Python do.
    project.put("venv/.gitignore", "*\n");
    project.put("venv/lib/x.py", "x");
    fs::create_dir(project.work().join("empty")).unwrap();
    symlink("one.txt", project.work().join("link")).unwrap();
    project
}

/// Puts something of the same size into a file, and sets the time back.
fn rewrite(project: &Project, name: &str) {
    let old = project.get(name).unwrap();
    let time = project.work().join(name).metadata().unwrap().modified().unwrap();
    project.put(name, old.chars().rev().collect::<String>());
    set_time(project, name, time);
}

fn swap(project: &Project, one: &str, two: &str) {
    let path = |name: &str| project.work().join(name);
    fs::rename(path(one), path("between")).unwrap();
    fs::rename(path(two), path(one)).unwrap();
    fs::rename(path("between"), path(two)).unwrap();
}

#[test]
fn git_is_not_run_while_nothing_has_changed() {
    let project = filled();
    let git = Counted::new(&project);
    let mut undo = git.undo(&project);
    assert_ne!(git.runs(), "");
    for _ in 0..3 {
        project.call(&mut undo, &["one.txt"], || {});
        let asked = git.runs();
        // Once, whether the file that the call names is ignored.
        assert!(asked.lines().all(|run| run.contains("check-ignore")), "{asked}");
        assert!(asked.lines().count() < 2, "{asked}");
    }
    project.call(&mut undo, &[], || {
        project.put("target/made", "made again");
        project.put("target/deep/new", "new");
        project.put("between", "for a moment");
        project.remove("between");
    });
    assert_eq!(git.runs(), "");
    fs::remove_dir(project.work().join("empty")).unwrap();
    project.call(&mut undo, &[], || {});
    fs::create_dir(project.work().join("empty")).unwrap();
    project.call(&mut undo, &[], || {});
    assert_eq!(git.runs(), "");
    project.call(&mut undo, &[], || project.put("one.txt", "changed"));
    let runs = git.runs();
    assert!((1..=6).contains(&runs.lines().count()), "{runs}");
    project.call(&mut undo, &[], || {});
    assert_eq!(git.runs(), "");
    assert_eq!(kinds(&mut undo), [("one.txt".to_owned(), Kind::Modified, false)]);
}

#[test]
fn what_has_not_changed_is_recorded_at_once() {
    let project = filled();
    let mut undo = project.undo();
    let call = CallId::from("call");
    let until_at_once = |undo: &mut Undo| {
        // What has just changed is not known for sure.
        while !undo.before_at_once(project.agent, &call, &[]).unwrap() {
            undo.before(project.agent, &call, &[]).unwrap();
            undo.after(project.agent).unwrap();
        }
        assert!(undo.after_at_once(project.agent).unwrap());
    };
    until_at_once(&mut undo);
    // Of a file that no call has named yet git is asked whether it is ignored.
    let named = [project.work().join("one.txt")];
    assert!(!undo.before_at_once(project.agent, &call, &named).unwrap());
    undo.before(project.agent, &call, &named).unwrap();
    assert!(undo.after_at_once(project.agent).unwrap());
    assert!(undo.before_at_once(project.agent, &call, &named).unwrap());
    project.put("src/three.rs", "three");
    assert!(!undo.after_at_once(project.agent).unwrap());
    undo.after(project.agent).unwrap();
    assert_eq!(kinds(&mut undo), [("src/three.rs".to_owned(), Kind::Added, false)]);
    until_at_once(&mut undo);
    // Somebody else records.
    let lock = File::open(project.folder.path().join("session/undo.git/.lock")).unwrap();
    lock.lock().unwrap();
    assert!(!undo.before_at_once(project.agent, &call, &[]).unwrap());
}

#[test]
fn what_is_made_while_a_state_is_recorded_is_new_in_the_next_one() {
    let project = filled();
    let git = Counted::new(&project);
    let (made, flag) = (project.work().join("made"), project.folder.path().join("flag"));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *write-tree*) [ -e {flag} ] && rm {flag} && touch {made};; esac\n\
         exec /usr/bin/git \"$@\"\n",
        flag = flag.display(),
        made = made.display(),
    );
    fs::write(&git.program, script).unwrap();
    let mut undo = git.undo(&project);
    let other = SessionId::new(&SystemSource).root();
    undo.before(other, &CallId::from("long"), &[]).unwrap();
    project.call(&mut undo, &[], || {
        project.put("one.txt", "changed");
        fs::write(&flag, "").unwrap();
    });
    assert!(made.exists() && !flag.exists());
    undo.after(other).unwrap();
    let restored = back(&mut undo);
    assert_eq!(project.get("made"), None, "{restored:?}");
    assert_eq!(project.get("one.txt").unwrap().trim_end(), "one.txt");
}

#[test]
fn whatever_changes_is_noticed_and_comes_back() {
    let path = |project: &Project, name: &str| project.work().join(name);
    type Change = (&'static str, fn(&Project));
    let changes: [Change; 11] = [
        ("the same size and time", |project| rewrite(project, "one.txt")),
        ("the mode", |project| {
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(project.work().join("src/one.rs"), mode).unwrap();
        }),
        ("where a link leads", |project| {
            project.remove("link");
            symlink("two.txt", project.work().join("link")).unwrap();
        }),
        ("names", |project| swap(project, "one.txt", "two.txt")),
        ("folders", |project| swap(project, "src", "other")),
        ("a folder made anew", |project| {
            fs::remove_dir_all(project.work().join("src")).unwrap();
            for name in ["src/one.rs", "src/two.rs"] {
                project.put(name, format!("{:20}", "new"));
                set_time(project, name, SystemTime::UNIX_EPOCH);
            }
        }),
        ("a file in a folder that was empty", |project| project.put("empty/deep/file", "new")),
        ("a file of another name", |project| {
            fs::rename(project.work().join("src/one.rs"), project.work().join("src/1.rs")).unwrap();
        }),
        ("a folder that is gone", |project| {
            fs::remove_dir_all(project.work().join("other")).unwrap();
        }),
        ("a link instead of a folder", |project| {
            fs::rename(project.work().join("src"), project.work().join("moved")).unwrap();
            symlink("moved", project.work().join("src")).unwrap();
        }),
        ("a folder instead of a file", |project| {
            project.remove("two.txt");
            project.put("two.txt/inside", "new");
        }),
    ];
    let project = filled();
    let before = project.files();
    let mut undo = project.undo();
    for (what, change) in changes {
        // As often as it takes for two of them to fall into one tick of the clock.
        for _ in 0..5 {
            project.call(&mut undo, &[], || change(&project));
            assert_ne!(project.files(), before, "{what}");
            let all = undo.all();
            let plan = undo.plan(&all).unwrap();
            assert_ne!(plan.changes, [], "{what}");
            undo.restore(&plan, false, None).unwrap();
            fs::create_dir_all(path(&project, "empty")).unwrap();
            assert_eq!(project.files(), before, "{what}");
        }
    }
}

#[test]
fn every_one_of_many_changes_in_a_moment_is_a_state_of_its_own() {
    let project = filled();
    let mut undo = project.undo();
    for round in 0..40 {
        let call = CallId::from(format!("call {round}"));
        project.call_as(call.as_str(), &mut undo, &[], || rewrite(&project, "one.txt"));
        let last = undo.since(|_, other| *other == call);
        let changed: Vec<_> =
            undo.plan(&last).unwrap().changes.into_iter().map(|change| change.path).collect();
        assert_eq!(changed, [PathBuf::from("one.txt")], "{round}");
    }
}

#[test]
fn what_somebody_else_changes_between_two_calls_is_theirs_however_little_shows() {
    let project = filled();
    let mut undo = project.undo();
    for _ in 0..5 {
        project.call(&mut undo, &[], || rewrite(&project, "src/one.rs"));
        rewrite(&project, "one.txt");
        project.call(&mut undo, &[], || rewrite(&project, "src/two.rs"));
        swap(&project, "other/one.rs", "other/two.rs");
    }
    let changed = |name: &str| (name.to_owned(), Kind::Modified, false);
    assert_eq!(kinds(&mut undo), [changed("src/one.rs"), changed("src/two.rs")]);
}

#[test]
fn ignored_files_count_from_when_they_are_named_or_no_longer_ignored() {
    let project = filled();
    let mut undo = project.undo();
    let call = |undo: &mut Undo, name: &'static str, names: &[&str], work: &dyn Fn()| {
        let names: Vec<_> = names.iter().map(|name| project.work().join(name)).collect();
        undo.before(project.agent, &CallId::from(name), &names).unwrap();
        work();
        undo.after(project.agent).unwrap();
    };
    call(&mut undo, "ignored", &[], &|| project.put("target/made", "not recorded"));
    assert_eq!(kinds(&mut undo), []);
    call(&mut undo, "named", &["target/deep/new"], &|| {});
    call(&mut undo, "made", &[], &|| project.put("target/deep/new", "one"));
    call(&mut undo, "changed", &[], &|| rewrite(&project, "target/deep/new"));
    let changed = |undo: &mut Undo, first: &'static str| -> Vec<_> {
        let since = undo.since(|_, call| *call == CallId::from(first));
        let changes = undo.plan(&since).unwrap().changes.into_iter();
        changes.map(|change| (change.path.display().to_string(), change.kind)).collect()
    };
    assert_eq!(kinds(&mut undo), [("target/deep/new".to_owned(), Kind::Added, false)]);
    assert_eq!(changed(&mut undo, "changed"), [("target/deep/new".to_owned(), Kind::Modified)]);

    call(&mut undo, "other rules", &[], &|| {
        project.put(".gitignore", "*.log\n");
        project.put("venv/.gitignore", "#\n");
    });
    call(&mut undo, "after", &[], &|| {
        rewrite(&project, "target/made");
        project.put("venv/lib/x.py", "y");
    });
    let expected = ["target/made", "venv/lib/x.py"].map(|name| (name.to_owned(), Kind::Modified));
    assert_eq!(changed(&mut undo, "after"), expected);
}

#[test]
fn what_another_process_records_of_the_session_is_noticed() {
    let project = filled();
    let (mut one, mut two) = (project.undo(), project.undo());
    project.call(&mut one, &[], || rewrite(&project, "one.txt"));
    project.call(&mut two, &[], || rewrite(&project, "two.txt"));
    project.call(&mut one, &[], || rewrite(&project, "src/one.rs"));
    drop((one, two));
    let changed = |name: &str| (name.to_owned(), Kind::Modified, false);
    let expected = [changed("one.txt"), changed("src/one.rs"), changed("two.txt")];
    assert_eq!(kinds(&mut project.undo()), expected);
}

#[test]
fn a_folder_that_cannot_be_read_keeps_nothing_else_from_being_recorded() {
    let project = filled();
    project.put("closed/file", "one");
    let closed = project.work().join("closed");
    let mode = |mode: u32| fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
    mode(0o0);
    let mut undo = project.undo();
    project.call(&mut undo, &[], || rewrite(&project, "one.txt"));
    assert_eq!(kinds(&mut undo), [("one.txt".to_owned(), Kind::Modified, false)]);
    mode(0o755);
    // Known from here on.
    project.call(&mut undo, &[], || {});
    project.call(&mut undo, &[], || rewrite(&project, "closed/file"));
    back(&mut undo);
    assert_eq!(project.get("closed/file").unwrap(), "one");
}

#[test]
fn a_time_in_the_future_hides_nothing() {
    let project = filled();
    set_time(&project, "one.txt", SystemTime::now() + Duration::from_secs(1 << 20));
    let mut undo = project.undo();
    project.call(&mut undo, &[], || rewrite(&project, "one.txt"));
    assert_eq!(kinds(&mut undo), [("one.txt".to_owned(), Kind::Modified, false)]);
}
