//! Files are recorded from the folders of the project and brought back there, whatever stands there by then.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bowline_tools::undo::{Kind, Place, Undo, UndoError};
use pretty_assertions::assert_eq;

use super::{Project, back, kinds};

/// Makes a git before or after which something happens in the project, as if a command went on.
fn git_that(project: &Project, before: &str, after: &str) -> PathBuf {
    let script = format!(
        "#!/bin/sh\nwork='{}'\noutside='{}'\n{before}\n/usr/bin/git \"$@\" || exit\n{after}\nexit 0\n",
        project.work().display(),
        project.folder.path().join("outside").display()
    );
    let program = project.folder.path().join("git");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

/// Puts a link in the place of the folder `d`.
const SWAP: &str = "cd \"$work\" && test -d d && ! test -L d && mv d d.old && ln -s \"$outside\" d";

/// Makes a git that puts a link in the place of the folder `d` once something is read of what was
/// recorded, or written from it.
fn swapping(project: &Project) -> PathBuf {
    let swap = format!("case \"$*\" in *checkout-index*|*cat-file*) {SWAP};; esac");
    git_that(project, "", &swap)
}

/// Makes a git before which something happens each time it is about to store something.
fn storing(project: &Project, happens: &str) -> PathBuf {
    let happens =
        format!("case \"$*\" in *update-index*|*hash-object*) (cd \"$work\" && {happens});; esac");
    git_that(project, &happens, "")
}

fn undo(project: &Project, git: PathBuf) -> Result<Undo, UndoError> {
    let place = Place { git, ..project.place() };
    Undo::open(&project.folder.path().join("session"), &place)
}

/// Returns everything that is stored.
fn stored(project: &Project) -> String {
    let mut command = Command::new("/usr/bin/git");
    command.args(["cat-file", "--batch-all-objects", "--batch"]);
    command.env("GIT_DIR", project.folder.path().join("session/undo.git"));
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn nothing_behind_a_link_that_comes_while_files_are_recorded_is_stored() {
    for name in ["d/key", "d/deep/key", "d/strange\nname"] {
        let project = Project::repository();
        project.put("a.txt", "changed");
        project.put(name, "ours");
        let outside = project.folder.path().join("outside");
        let secret = outside.join(Path::new(name).strip_prefix("d").unwrap());
        fs::create_dir_all(secret.parent().unwrap()).unwrap();
        fs::write(&secret, "PRIVATE").unwrap();
        drop(undo(&project, storing(&project, SWAP)).unwrap());
        assert!(project.work().join("d").is_symlink());
        let all = stored(&project);
        assert!(!all.contains("PRIVATE"), "{all}");
        // What was looked at before is recorded nevertheless.
        assert!(all.contains("changed"), "{all}");

        // The link is what is recorded from here on.
        let mut undo = undo(&project, "/usr/bin/git".into()).unwrap();
        project.call(&mut undo, &[], || {
            project.remove("d");
            project.put(name, "ours again");
        });
        let changed =
            [("d".to_owned(), Kind::Deleted, false), (name.to_owned(), Kind::Added, false)];
        assert_eq!(kinds(&mut undo), changed);
        back(&mut undo);
        assert_eq!(fs::read_link(project.work().join("d")).unwrap(), outside);
        assert!(!stored(&project).contains("PRIVATE"));
    }
}

/// Were git given paths, it would know from the first that `d` is a folder, and not look again.
#[test]
fn nothing_behind_a_link_that_comes_between_two_files_of_a_folder_is_stored() {
    let slow = r#"case "$*" in *update-index*--stdin*)
        cat >"$outside.input"
        first=$(/usr/bin/git hash-object "$work/d/a")
        {
            printf 'd/a\0'
            tries=0
            until /usr/bin/git cat-file -e "$first" 2>/dev/null || test $tries -gt 1000; do
                tries=$((tries + 1))
            done
            mv "$work/d" "$work/d.old"
            ln -s "$outside" "$work/d"
            cat "$outside.input"
        } | /usr/bin/git "$@"
        exit;;
    esac"#;
    let project = Project::new();
    project.put("d/a", "ours");
    project.put("d/key", "ours, too");
    let outside = project.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("key"), "PRIVATE").unwrap();
    drop(undo(&project, git_that(&project, slow, "")));
    let all = stored(&project);
    assert!(all.contains("ours"), "{all}");
    assert!(!all.contains("PRIVATE"), "{all}");
}

#[test]
fn a_link_that_comes_in_the_place_of_a_file_while_it_is_recorded_is_not_followed() {
    let project = Project::repository();
    let outside = project.folder.path().join("outside");
    fs::write(&outside, "PRIVATE").unwrap();
    project.put("key", "ours");
    drop(undo(&project, storing(&project, "ln -sf \"$outside\" key")).unwrap());
    assert!(project.work().join("key").is_symlink());
    let all = stored(&project);
    assert!(!all.contains("PRIVATE"), "{all}");
}

#[test]
fn a_file_that_changes_or_goes_while_it_is_recorded_is_found_at_the_next_look() {
    let happens = [
        ("another content", "test -f file && printf later >file"),
        ("the same size", "test -f file && printf NOW >file"),
        ("gone", "rm -f file"),
        ("a pipe", "rm -f file; mkfifo file"),
        ("a folder", "rm -f file; mkdir -p file; printf later >file/inside"),
    ];
    for (what, happens) in happens {
        let mut project = Project::repository();
        project.limits.time = Duration::from_secs(5);
        project.put("file", "now");
        let git = storing(&project, happens);
        let mut undo = undo(&project, git.clone()).unwrap();
        // Nothing happens any more.
        fs::write(&git, "#!/bin/sh\nexec /usr/bin/git \"$@\"\n").unwrap();
        project.call(&mut undo, &[], || {});
        assert_eq!(kinds(&mut undo), [], "{what}");
        let path = project.work().join("file");
        if !path.is_file() {
            continue;
        }
        let later = fs::read(&path).unwrap();
        project.call(&mut undo, &[], || project.put("file", "another"));
        back(&mut undo);
        assert_eq!(fs::read(&path).unwrap(), later, "{what}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_that_is_recorded_counts_as_none() {
    let mut project = Project::repository();
    project.limits.time = Duration::from_secs(5);
    let path = project.work().join("a.txt");
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.remove("a.txt");
        make_pipe(&path);
    });
    assert_eq!(kinds(&mut undo), [("a.txt".to_owned(), Kind::Deleted, false)]);
    back(&mut undo);
    assert_eq!(project.get("a.txt").unwrap(), "one\n");
}

#[test]
fn a_project_that_has_become_a_link_is_not_taken_for_one_without_files() {
    let project = Project::repository();
    let (work, moved) = (project.work(), project.folder.path().join("moved"));
    let mut undo = project.undo();
    project.call(&mut undo, &[], || project.put("a.txt", "two"));
    fs::rename(&work, &moved).unwrap();
    symlink(&moved, &work).unwrap();
    fs::write(moved.join("a.txt"), "three").unwrap();
    let refused = undo.plan(&undo.all());
    assert!(matches!(refused, Err(UndoError::File { .. })), "{refused:?}");
    fs::remove_file(&work).unwrap();
    fs::rename(&moved, &work).unwrap();
    assert_eq!(kinds(&mut undo), [("a.txt".to_owned(), Kind::Modified, true)]);
}

#[test]
fn what_changes_between_two_parts_of_many_files_is_recorded_as_it_is_or_not_yet() {
    let mut project = Project::new();
    project.limits.file_bytes = 300;
    for index in 0..600 {
        project.put(&format!("{index:03}"), format!("{index}"));
    }
    project.put("d/key", "ours");
    project.put("grown", "now");
    project.put("closing", "last");
    let outside = project.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("key"), "PRIVATE").unwrap();
    let happens = format!("printf '{}' >grown; {SWAP}", "MORE THAN ALLOWED ".repeat(20));
    let mut undo = undo(&project, storing(&project, &happens)).unwrap();
    let all = stored(&project);
    for text in ["PRIVATE", "MORE THAN"] {
        assert!(!all.contains(text), "{all}");
    }
    project.call(&mut undo, &[], || {
        for index in 0..600 {
            project.remove(&format!("{index:03}"));
        }
        project.remove("closing");
        project.remove("d");
    });
    back(&mut undo);
    for index in 0..600 {
        assert_eq!(project.get(&format!("{index:03}")).unwrap(), format!("{index}"));
    }
    assert_eq!(project.get("closing").unwrap(), "last");
    assert_eq!(fs::read_link(project.work().join("d")).unwrap(), outside);
    assert!(!stored(&project).contains("PRIVATE"));
}

#[test]
fn nothing_is_written_behind_a_link_that_comes_while_files_are_brought_back() {
    let project = Project::repository();
    project.put("d/file", "one");
    project.put("d/run", "one");
    let mode = |path: PathBuf, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    mode(project.work().join("d/run"), 0o755);
    let outside = project.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["file", "run"] {
        fs::write(outside.join(name), "not ours").unwrap();
        mode(outside.join(name), 0o600);
    }
    let mut undo = undo(&project, swapping(&project)).unwrap();
    project.call(&mut undo, &[], || {
        project.put("d/file", "two");
        project.put("d/run", "two");
        project.put("a.txt", "two");
    });
    let plan = undo.plan(&undo.all()).unwrap();
    let restored = undo.restore(&plan, false, None).unwrap();
    assert!(project.work().join("d").is_symlink());
    for name in ["file", "run"] {
        let path = outside.join(name);
        assert_eq!(fs::read_to_string(&path).unwrap(), "not ours");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    assert_eq!(restored.blocked, ["d/file", "d/run"].map(PathBuf::from));
    assert_eq!(project.get("a.txt").unwrap(), "one\n");
}

#[test]
fn what_a_file_was_comes_back_in_the_place_of_what_is_no_file() {
    let project = Project::repository();
    project.put("run", "one");
    let run = project.work().join("run");
    fs::set_permissions(&run, Permissions::from_mode(0o755)).unwrap();
    symlink("a.txt", project.work().join("link")).unwrap();
    let before = project.files();
    let target = project.folder.path().join("target");
    fs::write(&target, "not ours").unwrap();
    let mut undo = project.undo();
    project.call(&mut undo, &[], || {
        project.remove("run");
        symlink(&target, &run).unwrap();
        project.remove("link");
        project.put("link", "a file");
    });
    back(&mut undo);
    assert_eq!(project.files(), before);
    assert_eq!(fs::read_to_string(&target).unwrap(), "not ours");
}
