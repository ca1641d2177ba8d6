//! Files as they were before: in real repositories, and without one.

mod beneath;
mod foreign;
mod seen;
mod user;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bowline_agent::id::{AgentId, SessionId, SystemSource};
use bowline_llm::CallId;
use bowline_tools::undo::{Kind, Limits, Place, Restored, Undo, UndoError, View};
use pretty_assertions::assert_eq;

/// A project, a session's folder beside it, and an agent that works in it.
struct Project {
    folder: tempfile::TempDir,
    agent: AgentId,
    limits: Limits,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "work", "session"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let agent = SessionId::new(&SystemSource).root();
        Self { folder, agent, limits: Limits::default() }
    }

    /// A project that is a repository in which `a.txt` is committed.
    fn repository() -> Self {
        let project = Self::new();
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.git(&["config", "user.name", "Ann"]);
        project.git(&["config", "user.email", "ann@example.com"]);
        project.put("a.txt", "one\n");
        project.put(".gitignore", "*.log\n");
        project.git(&["add", "."]);
        project.git(&["commit", "--quiet", "--message=first"]);
        project
    }

    fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn get(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work().join(name)).ok()
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.work().join(name)).unwrap();
    }

    fn git_in(&self, folder: &str, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.work().join(folder)).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    fn git(&self, arguments: &[&str]) {
        self.git_in("", arguments);
    }

    fn place(&self) -> Place {
        let home = self.folder.path().join("home").display().to_string();
        Place {
            root: self.work(),
            left_out: Vec::new(),
            git: "/usr/bin/git".into(),
            variables: vec![
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("HOME".to_owned(), home),
            ],
            limits: self.limits,
        }
    }

    fn undo(&self) -> Undo {
        Undo::open(&self.folder.path().join("session"), &self.place()).unwrap()
    }

    /// Does something as a call that names these paths.
    fn call(&self, undo: &mut Undo, names: &[&str], work: impl FnOnce()) {
        self.call_as("call", undo, names, work);
    }

    /// Does something as this call; it is recorded as tools are: at once where that can be.
    fn call_as(&self, call: &str, undo: &mut Undo, names: &[&str], work: impl FnOnce()) {
        let (agent, call) = (self.agent, CallId::from(call));
        let names: Vec<_> = names.iter().map(|name| self.work().join(name)).collect();
        if !undo.before_at_once(agent, &call, &names).unwrap() {
            undo.before(agent, &call, &names).unwrap();
        }
        work();
        if !undo.after_at_once(agent).unwrap() {
            undo.after(agent).unwrap();
        }
    }

    /// Returns all files with their content, links with where they lead.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        collect(&self.work(), &mut files);
        files.retain(|path, _| !path.starts_with(self.work().join(".git")));
        files
    }

    /// Returns the user's repository, byte for byte.
    fn repository_files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        collect(&self.work().join(".git"), &mut files);
        files
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        if data.is_dir() {
            collect(&path, files);
        } else if data.is_symlink() {
            files.insert(path.clone(), format!("-> {}", fs::read_link(path).unwrap().display()));
        } else {
            let runs = data.permissions().mode() & 0o111;
            let content = fs::read(&path).unwrap();
            files.insert(path, format!("{runs:o} {}", content.escape_ascii()));
        }
    }
}

/// Takes everything back, and returns what was done.
fn back(undo: &mut Undo) -> Restored {
    let all = undo.all();
    let plan = undo.plan(&all).unwrap();
    undo.restore(&plan, false, None).unwrap()
}

fn kinds(undo: &mut Undo) -> Vec<(String, Kind, bool)> {
    let all = undo.all();
    let changes = undo.plan(&all).unwrap().changes.into_iter();
    changes
        .map(|change| (change.path.display().to_string(), change.kind, change.is_changed_since))
        .collect()
}

/// Changes everything that can be changed.
fn change_all(project: &Project) {
    project.put("a.txt", "two\n");
    project.remove("dirty.txt");
    project.put("new/deep/file.txt", "new\n");
    fs::rename(project.work().join("b.txt"), project.work().join("c.txt")).unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(project.work().join("plain.sh"), mode).unwrap();
    project.remove("link");
    symlink("b.txt", project.work().join("link")).unwrap();
    project.put("line\nbreak ü.txt", "changed\r\n");
    // A folder where a file was, and the other way round.
    project.remove("file");
    project.put("file/inside", "x");
    fs::remove_dir_all(project.work().join("folder")).unwrap();
    project.put("folder", "now a file");
}

fn fill(project: &Project) {
    project.put("dirty.txt", "not committed\n");
    project.put("b.txt", "bee\n");
    project.put("plain.sh", "#!/bin/sh\n");
    symlink("a.txt", project.work().join("link")).unwrap();
    project.put("line\nbreak ü.txt", "strange\r\n");
    project.put("file", "a file");
    project.put("folder/inside", "y");
    let raw = OsStr::from_bytes(b"no \xff utf-8");
    fs::write(project.work().join(raw), "raw").unwrap();
}

#[test]
fn all_that_a_call_changes_comes_back_and_the_repository_is_not_touched() {
    for project in [Project::new(), Project::repository()] {
        project.put("a.txt", "one, and more\n");
        fill(&project);
        let before = project.files();
        let has_repository = project.work().join(".git").exists();
        if has_repository {
            project.git(&["stash", "list"]);
            project.git(&["add", "b.txt"]);
        }
        let repository = has_repository.then(|| project.repository_files());
        let mut undo = project.undo();
        project.call(&mut undo, &[], || change_all(&project));
        let changed = project.files();
        assert_ne!(changed, before);
        assert_eq!(back(&mut undo).blocked, Vec::<PathBuf>::new());
        assert_eq!(project.files(), before);
        // What was taken back comes back too, and is taken back again.
        for state in [&changed, &before] {
            let (stretch, _) = undo.last_restored().unwrap();
            let plan = undo.plan(&stretch).unwrap();
            undo.restore(&plan, false, None).unwrap();
            assert_eq!(project.files(), *state);
        }
        assert_eq!(repository, has_repository.then(|| project.repository_files()));
    }
}

#[test]
fn a_repository_without_a_commit_is_a_project() {
    for format in ["sha1", "sha256"] {
        let project = Project::new();
        project.git(&["init", "--quiet", &format!("--object-format={format}")]);
        project.put("a.txt", "one");
        let mut undo = project.undo();
        project.call(&mut undo, &[], || project.put("a.txt", "two"));
        back(&mut undo);
        assert_eq!(project.get("a.txt").unwrap(), "one");
        project.call(&mut undo, &[], || project.remove("a.txt"));
        back(&mut undo);
        assert_eq!(project.get("a.txt").unwrap(), "one");
    }
}

#[test]
fn what_is_changed_between_calls_is_left_alone() {
    let project = Project::repository();
    project.put("mine.txt", "mine\n");
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put("a.txt", "two\n"));
    project.put("mine.txt", "changed by me\n");
    project.call(&mut undo, &[], || project.put("b.txt", "new\n"));
    project.put("b.txt", "new, and mine\n");
    let expected =
        [("a.txt".to_owned(), Kind::Modified, false), ("b.txt".to_owned(), Kind::Added, true)];
    assert_eq!(kinds(&mut undo), expected);
    assert_eq!(back(&mut undo).files, [PathBuf::from("a.txt")]);
    assert_eq!(project.get("a.txt").unwrap(), "one\n");
    assert_eq!(project.get("b.txt").unwrap(), "new, and mine\n");
    assert_eq!(project.get("mine.txt").unwrap(), "changed by me\n");
    let plan = undo.plan(&undo.all()).unwrap();
    undo.restore(&plan, true, None).unwrap();
    assert_eq!(project.get("b.txt"), None);
}

#[test]
fn an_ignored_file_is_recorded_once_a_call_names_it() {
    let project = Project::repository();
    project.put("old.log", "old");
    project.put("other.log", "other");
    let mut undo = project.undo();
    project.call(&mut undo, &["old.log", "new.log"], || {
        project.put("old.log", "changed");
        project.put("new.log", "new");
        project.put("other.log", "changed");
    });
    back(&mut undo);
    assert_eq!(project.get("old.log").unwrap(), "old");
    assert_eq!(project.get("new.log"), None);
    assert_eq!(project.get("other.log").unwrap(), "changed");
}

#[test]
fn what_is_known_though_it_is_ignored_is_recorded() {
    let project = Project::repository();
    project.put("known.log", "one");
    project.git(&["add", "--force", "known.log"]);
    // Hidden from git: then its index says nothing.
    project.git(&["update-index", "--assume-unchanged", "a.txt"]);
    project.put("a.txt", "not as git thinks");
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.put("known.log", "two");
        project.put("a.txt", "changed");
    });
    back(&mut undo);
    assert_eq!(project.get("known.log").unwrap(), "one");
    assert_eq!(project.get("a.txt").unwrap(), "not as git thinks");
}

#[test]
fn what_git_would_convert_comes_back_byte_for_byte() {
    let project = Project::repository();
    project.put(".gitattributes", "*.txt text eol=lf\n*.bin filter=gone\n*.id ident\n");
    project.put("crlf.txt", "a\r\nb\r\n");
    project.put("x.bin", "raw");
    project.put("x.id", "$Id: mine $");
    project.git(&["config", "filter.gone.clean", "echo pointer"]);
    project.git(&["config", "filter.gone.smudge", "echo smudged"]);
    project.git(&["add", "."]);
    let before = project.files();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        for name in ["crlf.txt", "x.bin", "x.id"] {
            project.put(name, "changed");
        }
    });
    back(&mut undo);
    assert_eq!(project.files(), before);
}

#[test]
fn files_of_a_repository_within_the_project_are_recorded_as_files() {
    let project = Project::repository();
    for folder in ["nested", "nested/deeper"] {
        project.put(&format!("{folder}/x.txt"), "one");
        project.git_in(folder, &["init", "--quiet"]);
        project.git_in(folder, &["config", "user.name", "Ann"]);
        project.git_in(folder, &["config", "user.email", "ann@example.com"]);
        project.git_in(folder, &["add", "x.txt"]);
        project.git_in(folder, &["commit", "--quiet", "--message=x"]);
    }
    // As a submodule would be.
    project.git(&["add", "nested"]);
    let head = project.work().join("nested/.git/HEAD");
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.put("nested/x.txt", "two");
        project.put("nested/y.txt", "new");
        project.put("nested/deeper/x.txt", "two");
    });
    back(&mut undo);
    assert_eq!(project.get("nested/x.txt").unwrap(), "one");
    assert_eq!(project.get("nested/y.txt"), None);
    assert_eq!(project.get("nested/deeper/x.txt").unwrap(), "one");
    assert!(head.exists());
}

#[test]
fn what_is_too_large_or_unreadable_is_left_out_and_named() {
    let mut project = Project::new();
    project.limits.file_bytes = 10;
    project.put("large", "more than ten bytes");
    project.put("small", "small");
    project.put("secret", "secret");
    let secret = project.work().join("secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).unwrap();
    let is_root = fs::read(&secret).is_ok();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.put("large", "something else, and long");
        project.put("small", "other");
    });
    let plan = undo.plan(&undo.all()).unwrap();
    let left_out: Vec<_> = plan.left_out.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(left_out, if is_root { vec!["large"] } else { vec!["large", "secret"] });
    undo.restore(&plan, false, None).unwrap();
    assert_eq!(project.get("large").unwrap(), "something else, and long");
    assert_eq!(project.get("small").unwrap(), "small");
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    for name in [".gitignore", "deep/er/.gitignore"] {
        let mut project = Project::new();
        project.put("deep/er/file", "text");
        let pipe = project.work().join(name);
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        project.limits.time = Duration::from_millis(300);
        let session = project.folder.path().join("session");
        let Err(error) = Undo::open(&session, &project.place()) else { panic!("{name} was read") };
        assert!(error.to_string().contains("did not end in time"), "{error}");
    }
}

#[test]
fn too_large_a_project_is_refused() {
    let session = |project: &Project| project.folder.path().join("session");
    let mut project = Project::new();
    for index in 0..5 {
        project.put(&format!("{index}"), "some text");
    }
    let refused = |project: &Project| match Undo::open(&session(project), &project.place()) {
        Err(UndoError::Unable(why)) => why,
        other => panic!("{other:?}"),
    };
    project.limits = Limits { files: 4, ..Limits::default() };
    assert_eq!(refused(&project), "there are more than 4 files");
    project.limits = Limits { bytes: 20, ..Limits::default() };
    assert_eq!(refused(&project), "more than 0 MB are new at once");
    project.limits = Limits::default();
    project.undo();
}

#[test]
fn calls_beside_each_other_and_what_a_crash_cut_off() {
    let project = Project::repository();
    let mut undo = project.undo();
    let (one, two) = (CallId::from("one"), CallId::from("two"));
    undo.before(project.agent, &one, &[]).unwrap();
    project.put("one.txt", "1");
    undo.beside(project.agent, &two, &[]).unwrap();
    project.put("two.txt", "2");
    undo.after(project.agent).unwrap();
    // The process dies in the middle of a third.
    undo.before(project.agent, &CallId::from("three"), &[]).unwrap();
    project.put("three.txt", "3");
    drop(undo);
    let session = project.folder.path().join("session");
    fs::write(session.join("undo.git/index.lock"), "").unwrap();
    let mut journal = fs::read(session.join("undo.git/journal.jsonl")).unwrap();
    // It cut off a line in the middle of a name with a letter of two bytes.
    journal.extend_from_slice(b"\n{\"kind\":\"named\",\"path\":\"caf\xc3");
    fs::write(session.join("undo.git/journal.jsonl"), journal).unwrap();
    let mut undo = Undo::existing(&session, Path::new("/usr/bin/git")).unwrap().unwrap();
    let since_two = undo.since(|_, call| *call != one);
    let paths = |undo: &mut Undo, stretch| -> Vec<PathBuf> {
        undo.plan(&stretch).unwrap().changes.into_iter().map(|change| change.path).collect()
    };
    let all = undo.all();
    assert_eq!(paths(&mut undo, all).len(), 3);
    // Of calls at the same time nobody knows which did what: both count as begun before either.
    assert_eq!(paths(&mut undo, since_two).len(), 3);
    back(&mut undo);
    let names: Vec<_> = project.files().into_keys().collect();
    assert_eq!(names, [".gitignore", "a.txt"].map(|name| project.work().join(name)));
}

#[test]
fn what_stands_in_the_way_is_neither_removed_nor_followed() {
    let project = Project::repository();
    project.put("gone/file.txt", "one");
    project.put("led/file.txt", "one");
    let outside = project.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file.txt"), "not ours").unwrap();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        fs::remove_dir_all(project.work().join("gone")).unwrap();
        project.put("led/file.txt", "two");
        project.put("led/new.txt", "new");
    });
    // A folder with what nobody records, where the file was; a link, where the folder was.
    project.put("gone/file.txt/kept.log", "kept");
    fs::remove_dir_all(project.work().join("led")).unwrap();
    symlink(&outside, project.work().join("led")).unwrap();
    let plan = undo.plan(&undo.all()).unwrap();
    let restored = undo.restore(&plan, true, None).unwrap();
    assert_eq!(restored.files, Vec::<PathBuf>::new());
    assert!(restored.blocked.contains(&"gone/file.txt".into()), "{restored:?}");
    assert_eq!(project.get("gone/file.txt/kept.log").unwrap(), "kept");
    assert_eq!(fs::read_to_string(outside.join("file.txt")).unwrap(), "not ours");
}

#[test]
fn a_file_keeps_who_may_read_it() {
    let project = Project::new();
    project.put("key", "one");
    let key = project.work().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put("key", "two"));
    back(&mut undo);
    assert_eq!(project.get("key").unwrap(), "one");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn no_program_that_the_project_names_is_run() {
    let project = Project::repository();
    let mark = project.folder.path().join("sprung");
    let trap = format!("touch {}; cat", mark.display());
    project.put(".gitattributes", "* filter=trap diff=trap\n");
    for name in ["filter.trap.clean", "filter.trap.smudge", "filter.trap.process"] {
        project.git(&["config", name, &trap]);
    }
    for name in ["diff.trap.command", "diff.trap.textconv", "core.fsmonitor", "core.pager"] {
        project.git(&["config", name, &trap]);
    }
    let hook = project.work().join(".git/hooks/post-index-change");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{trap}\n")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put("a.txt", "two\n"));
    let plan = undo.plan(&undo.all()).unwrap();
    undo.diff(&plan, View::Patch).unwrap();
    back(&mut undo);
    assert_eq!(project.get("a.txt").unwrap(), "one\n");
    assert!(!mark.exists());
}

#[test]
fn what_was_changed_is_shown() {
    let project = Project::repository();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put("a.txt", "two\n"));
    let plan = undo.plan(&undo.all()).unwrap();
    let patch = String::from_utf8(undo.diff(&plan, View::Patch).unwrap()).unwrap();
    assert!(patch.ends_with("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"), "{patch}");
    assert_eq!(undo.diff(&plan, View::Numbers).unwrap(), b"1\t1\ta.txt\0");
    back(&mut undo);
    assert_eq!(kinds(&mut undo), []);
}

#[test]
fn another_project_is_not_recorded_with_the_first() {
    let (project, other) = (Project::new(), Project::new());
    drop(project.undo());
    let opened = Undo::open(&project.folder.path().join("session"), &other.place());
    assert!(matches!(opened, Err(UndoError::Unable(_))), "{opened:?}");
}
