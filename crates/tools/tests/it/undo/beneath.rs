//! Files are brought back in the folders of the project, whatever stands there by then.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use bowline_tools::undo::{Place, Undo};
use pretty_assertions::assert_eq;

use super::Project;

/// Makes a git that puts a link in the place of the folder `d` once something is read of what was
/// recorded, or written from it: as a command that goes on would.
fn swapping(project: &Project) -> PathBuf {
    let (work, outside) = (project.work(), project.folder.path().join("outside"));
    let script = format!(
        "#!/bin/sh\n/usr/bin/git \"$@\" || exit\ncase \"$*\" in *checkout-index*|*cat-file*)\n\
         cd '{}' && test -d d && mv d d.old && ln -s '{}' d;; esac\nexit 0\n",
        work.display(),
        outside.display()
    );
    let program = project.folder.path().join("git");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
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
    let place = Place { git: swapping(&project), ..project.place() };
    let mut undo = Undo::open(&project.folder.path().join("session"), &place).unwrap();
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
    super::back(&mut undo);
    assert_eq!(project.files(), before);
    assert_eq!(fs::read_to_string(&target).unwrap(), "not ours");
}
