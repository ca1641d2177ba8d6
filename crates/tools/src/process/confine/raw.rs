//! System calls that no crate makes safe.
#![expect(
    unsafe_code,
    reason = "mount_setattr and landlock_restrict_self have no safe wrapper that takes a descriptor \
              made elsewhere, and seccomp has none; and unshare is unsafe for what it does to files, \
              which is not asked of it"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::thread::UnshareFlags;

/// Makes a mount, with all that is mounted in it, read-only.
pub(super) fn set_read_only(mount: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set_mount_read_only(mount, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE)
}

/// Makes a mount read-only, and not what is mounted in it.
pub(super) fn set_read_only_alone(mount: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set_mount_read_only(mount, libc::AT_EMPTY_PATH)
}

fn set_mount_read_only(mount: BorrowedFd<'_>, how: libc::c_int) -> rustix::io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a C string, and the kernel reads the structure in its given size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            how,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(result).map(drop)
}

/// Returns the version of Landlock; 0 if there is none.
pub(super) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no structure.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    u32::try_from(result).unwrap_or(0)
}

/// Tells whether system calls can be filtered.
pub(super) fn has_filters() -> bool {
    const IS_ACTION_AVAILABLE: u32 = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads the one number.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, IS_ACTION_AVAILABLE, 0_u32, &raw const action) };
    result == 0
}

/// Puts the calling thread and what it starts under rules.
pub(super) fn restrict(rules: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: it reads nothing but its two numbers.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0_u32) };
    checked(result).map(drop)
}

/// Filters the system calls of the calling thread and of what it starts, which must not get new privileges.
pub(super) fn install(filter: &[libc::sock_filter]) -> rustix::io::Result<()> {
    let length = u16::try_from(filter.len()).map_err(|_| rustix::io::Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads the program, which is as long as it says, and writes nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, &raw const program)
    };
    checked(result).map(drop)
}

/// Moves this process, which has only one thread, into namespaces of its own.
pub(super) fn unshare(namespaces: UnshareFlags) -> rustix::io::Result<()> {
    let namespaces = namespaces.difference(UnshareFlags::FILES);
    // SAFETY: the table of files stays shared.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }
}

fn checked(result: libc::c_long) -> rustix::io::Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    Err(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::INVAL))
}
