//! How files look to confined commands: everything read-only, and some places otherwise.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};

use super::files::DEVICES;
use super::layout::{Kind, Layout, Piece};
use super::maker::failed;
use super::raw::{set_read_only, set_read_only_alone};

/// The folder in `/dev` from which empty files and folders are taken.
const EMPTY: &str = "/dev/.empty";

/// Arranges the mounts of this process, whose namespace must be its own.
pub(super) fn arrange(layout: &Layout) -> Result<(), String> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed("mounts stay shared"))?;
    // What is taken now keeps what it is when everything else becomes read-only.
    let opened: Vec<Option<OwnedFd>> =
        layout.pieces.iter().map(open_piece).collect::<Result<_, _>>()?;
    let devices: Vec<(PathBuf, OwnedFd)> =
        device_paths(layout).filter_map(|path| Some((path.clone(), taken(&path).ok()?))).collect();
    let everything = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC);
    let everything = everything.map_err(failed("/ cannot be opened"))?;
    set_read_only(everything.as_fd()).map_err(failed("/ cannot be made read-only"))?;
    make_devices(&devices)?;
    for (piece, tree) in layout.pieces.iter().zip(opened) {
        let tree = match tree {
            Some(tree) => tree,
            None => empty(piece.is_folder)?,
        };
        if !is_device(&piece.path) {
            attach(&tree, &piece.path)?;
        }
    }
    Ok(())
}

fn open_piece(piece: &Piece) -> Result<Option<OwnedFd>, String> {
    let named = |error| format!("{}: {error}", piece.path.display());
    match piece.kind {
        Kind::Writable | Kind::Passage => taken(&piece.path).map(Some).map_err(named),
        Kind::Protected => {
            let tree = taken(&piece.path).map_err(named)?;
            set_read_only(tree.as_fd()).map_err(named)?;
            Ok(Some(tree))
        }
        Kind::Hidden => Ok(None),
    }
}

/// Takes what is at a path, with what is mounted in it, to put it elsewhere; a link is not followed.
fn taken(path: &Path) -> rustix::io::Result<OwnedFd> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(CWD, path, how)
}

fn attach(tree: &OwnedFd, path: &Path) -> Result<(), String> {
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    let attached = move_mount(tree, "", CWD, path, how);
    attached.map_err(|error| format!("{} cannot be set apart: {error}", path.display()))
}

/// Keeps a name taken by what was put there for it, before a command is executed.
pub(super) fn take_name(path: &std::ffi::CStr) -> rustix::io::Result<()> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, path, how)?;
    set_read_only(tree.as_fd())?;
    move_mount(&tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn is_device(path: &Path) -> bool {
    path.starts_with("/dev")
}

/// The devices that commands have: those that do no harm, and those that may be written.
fn device_paths(layout: &Layout) -> impl Iterator<Item = PathBuf> {
    let asked = layout
        .pieces
        .iter()
        .filter(|piece| piece.kind == Kind::Writable && is_device(&piece.path) && !piece.is_folder);
    DEVICES.iter().map(PathBuf::from).chain(asked.map(|piece| piece.path.clone()))
}

/// Puts a small `/dev` in the place of the machine's, whose devices would be there for root.
fn make_devices(devices: &[(PathBuf, OwnedFd)]) -> Result<(), String> {
    let dev = fresh("tmpfs", &[("mode", "0755"), ("size", "256k")])?;
    attach(&dev, Path::new("/dev"))?;
    let made = || -> std::io::Result<()> {
        for folder in ["/dev/pts", "/dev/shm", EMPTY] {
            fs::create_dir(folder)?;
        }
        fs::DirBuilder::new().mode(0o555).create(format!("{EMPTY}/folder"))?;
        File::create(format!("{EMPTY}/file"))?;
        symlink("/proc/self/fd", "/dev/fd")?;
        symlink("/proc/self/fd/0", "/dev/stdin")?;
        symlink("/proc/self/fd/1", "/dev/stdout")?;
        symlink("/proc/self/fd/2", "/dev/stderr")?;
        symlink("pts/ptmx", "/dev/ptmx")?;
        for (path, _) in devices {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            File::create(path)?;
        }
        Ok(())
    };
    made().map_err(|error| format!("/dev cannot be filled: {error}"))?;
    for (path, device) in devices {
        attach(device, path)?;
    }
    let terminals = fresh("devpts", &[("ptmxmode", "0666"), ("mode", "0620")])?;
    attach(&terminals, Path::new("/dev/pts"))?;
    let shared = fresh("tmpfs", &[("mode", "1777")])?;
    attach(&shared, Path::new("/dev/shm"))?;
    set_read_only_alone(dev.as_fd()).map_err(failed("/dev stays writable"))
}

/// Makes a file system of its own.
fn fresh(kind: &str, options: &[(&str, &str)]) -> Result<OwnedFd, String> {
    let make = || {
        let system = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (name, value) in options {
            fsconfig_set_string(&system, *name, *value)?;
        }
        fsconfig_create(&system)?;
        fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID)
    };
    make().map_err(|error: rustix::io::Errno| format!("no {kind}: {error}"))
}

/// Returns something empty to lay over what is hidden.
fn empty(is_folder: bool) -> Result<OwnedFd, String> {
    let name = if is_folder { "folder" } else { "file" };
    let tree = taken(&Path::new(EMPTY).join(name)).map_err(failed("nothing is empty"))?;
    set_read_only(tree.as_fd()).map_err(failed("what is hidden stays writable"))?;
    Ok(tree)
}
