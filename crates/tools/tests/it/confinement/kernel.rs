//! System calls that would undo the confinement, or get around it.

use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;

use super::cell::Cell;

#[tokio::test]
async fn system_calls_that_reach_further_are_refused() {
    let calls = [
        ("mount", libc::SYS_mount),
        ("umount", libc::SYS_umount2),
        ("pivot_root", libc::SYS_pivot_root),
        ("chroot", libc::SYS_chroot),
        ("move_mount", libc::SYS_move_mount),
        ("open_tree", libc::SYS_open_tree),
        ("fsopen", libc::SYS_fsopen),
        ("fspick", libc::SYS_fspick),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("setns", libc::SYS_setns),
        ("ptrace", libc::SYS_ptrace),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("kcmp", libc::SYS_kcmp),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("keyctl", libc::SYS_keyctl),
        ("bpf", libc::SYS_bpf),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("kexec_load", libc::SYS_kexec_load),
        ("init_module", libc::SYS_init_module),
        ("finit_module", libc::SYS_finit_module),
        ("delete_module", libc::SYS_delete_module),
        ("reboot", libc::SYS_reboot),
        ("swapon", libc::SYS_swapon),
        ("acct", libc::SYS_acct),
        ("settimeofday", libc::SYS_settimeofday),
        ("clock_settime", libc::SYS_clock_settime),
        ("sethostname", libc::SYS_sethostname),
        ("quotactl", libc::SYS_quotactl),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("syslog", libc::SYS_syslog),
        ("process_madvise", libc::SYS_process_madvise),
        ("fsconfig", libc::SYS_fsconfig),
        ("fsmount", libc::SYS_fsmount),
        ("open_tree_attr", 467),
        ("quotactl_fd", libc::SYS_quotactl_fd),
        ("kexec_file_load", libc::SYS_kexec_file_load),
        ("swapoff", libc::SYS_swapoff),
        ("setdomainname", libc::SYS_setdomainname),
        ("vhangup", libc::SYS_vhangup),
    ];
    for cell in Cell::all() {
        let numbers: Vec<String> = calls.iter().map(|(_, number)| number.to_string()).collect();
        let script = format!(
            "for number in [{}]:\n    try:\n        syscall(number, 0, 0, 0, 0, 0)\n        print('done')\n    except OSError as error:\n        print(errno.errorcode[error.errno])",
            numbers.join(", ")
        );
        let told = cell.errno(&script).await;
        let told: Vec<&str> = told.lines().collect();
        for ((name, _), told) in calls.iter().zip(told) {
            assert_eq!(told, "EPERM", "{}: {name}", cell.kind);
        }
    }
}

#[tokio::test]
async fn no_namespace_is_made_or_joined() {
    let kinds =
        [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
    for cell in Cell::all() {
        for kind in kinds {
            let unshare = format!("syscall({}, {kind})", libc::SYS_unshare);
            assert_eq!(cell.errno(&unshare).await, "EPERM", "{}: {kind:x}", cell.kind);
            let clone = format!("syscall({}, {kind} | 17, 0, 0, 0, 0)", libc::SYS_clone);
            assert_eq!(cell.errno(&clone).await, "EPERM", "{}: {kind:x}", cell.kind);
        }
        let clone3 = format!("syscall({}, 0, 0)", libc::SYS_clone3);
        assert_eq!(cell.errno(&clone3).await, "ENOSYS");
        for way in [
            "unshare -Ur true",
            "unshare -Urm mount -t tmpfs none .",
            "nsenter -t 1 -m true",
            "nsenter -t $PPID -m true",
            "nsenter --user=/proc/self/ns/user true",
            "mount -o remount,rw,bind /",
            "mount --bind . /etc",
            "umount .",
            "umount -l /dev",
            "chroot . true",
        ] {
            cell.bash(way).await.is_kept();
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn the_numbers_of_other_tables_are_no_way_round() {
    for cell in Cell::all() {
        let getpid = 0x4000_0000 + libc::SYS_getpid;
        assert_eq!(cell.errno(&format!("syscall({getpid})")).await, "ENOSYS", "{}", cell.kind);
        // The 32-bit gate: `mov eax, 20; int 0x80; ret` must not come back.
        let script = "import ctypes, mmap\n\
            code = mmap.mmap(-1, 4096, prot=7)\n\
            code.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n\
            at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n\
            print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())";
        let ran = cell.python(script).await;
        assert!(ran.signal.is_some() || ran.text.contains("-"), "{}: {ran:?}", cell.kind);
    }
}

#[tokio::test]
async fn no_words_are_put_into_a_terminal() {
    for cell in Cell::all() {
        for request in [libc::TIOCSTI, libc::TIOCLINUX] {
            let call = format!("fcntl.ioctl(0, {request}, b'x')");
            assert_eq!(cell.errno(&call).await, "EPERM", "{}", cell.kind);
        }
    }
}

#[tokio::test]
async fn nothing_gives_back_what_was_given_up() {
    let keeps = |kind: &str| match (rustix::process::geteuid().is_root(), kind) {
        (true, "as it is") => 0xb_u64,
        (true, "without namespaces") => 0x2,
        _ => 0,
    };
    for cell in Cell::all() {
        let status = cell.bash("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status").await;
        for line in status.is_done().lines() {
            let (name, value) = line.split_once(":\t").unwrap();
            match name {
                "NoNewPrivs" => assert_eq!(value, "1"),
                "Seccomp" => assert_eq!(value, "2"),
                // An ordinary user cannot narrow what it could get, and cannot get any of it.
                "CapBnd" if cell.kind == "without namespaces" && keeps(cell.kind) == 0 => {}
                _ => {
                    let value = u64::from_str_radix(value, 16).unwrap();
                    assert_eq!(value, keeps(cell.kind), "{}: {line}", cell.kind);
                }
            }
        }
    }
}

#[tokio::test]
async fn programs_that_lend_rights_lend_none() {
    let Some(cell) = Cell::ordinary() else { return };
    let program = cell.outside("id", "");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(cell.bash("../id -u; ../id -g").await.is_done(), "65534\n65534");
}

#[tokio::test]
async fn a_personality_may_be_chosen() {
    for cell in Cell::all() {
        cell.bash("setarch -R true").await.is_done();
    }
}
