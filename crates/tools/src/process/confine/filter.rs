//! Which system calls a confined command may make: all but some.
//!
//! The list names what reaches other processes, the kernel or the machine, and what would undo or
//! get around the rest of the confinement. What needs a capability that a command never has is on it as
//! well: one lock more.

mod bpf;

use libc::sock_filter;

use bpf::{Answer, Answers, Case, Number, Test, argument, higher_half};

/// Which sockets a command may make.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sockets {
    /// Those of the internet protocols.
    pub(super) internet: bool,
    /// Those that are files.
    pub(super) unix: bool,
}

/// System calls that are refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // Files by other ways than their paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // Keys, which belong to the user and not to a process.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_syslog,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

/// Those of one architecture.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_nfsservctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[libc::SYS_kexec_file_load];

/// What the crate of system calls does not know everywhere; new numbers are the same on every machine.
const OPEN_TREE_ATTR: libc::c_long = 467;
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;

/// Among the flags with which a file is opened: one without a name, which can get one later.
const NAMELESS: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs();

/// The bit of the system calls of x32, which an x86-64 kernel may have beside its own.
const X32: Number = 0x4000_0000;

/// A filter of system calls.
pub(super) type Filter = Vec<sock_filter>;

/// Makes the filter.
///
/// # Errors
/// What this machine is, if its system calls are not known.
pub(super) fn program(sockets: Sockets) -> Result<Filter, String> {
    let machine = std::env::consts::ARCH;
    let architecture = architecture(machine)
        .ok_or_else(|| format!("no filter of system calls: those of {machine} are not known"))?;
    let refused = REFUSED.iter().chain(REFUSED_HERE).chain([&OPEN_TREE_ATTR]);
    let mut answers = Answers::all_allowed();
    refused.for_each(|call| set(&mut answers, *call, Answer::Error(libc::EPERM)));
    add_sockets(sockets, &mut answers);
    add_namespaces(&mut answers);
    add_set_id(&mut answers);
    add_missing(&mut answers);
    // Words put into another's terminal.
    let inputs = [libc::TIOCSTI, libc::TIOCLINUX];
    let inputs = inputs.map(|request| vec![argument(1).is(low(request))]);
    refuse(&mut answers, libc::SYS_ioctl, inputs);
    // The limits of another process.
    let other = argument(0).is_not(0);
    let limits = [argument(2).is_not(0), higher_half(2).is_not(0)];
    refuse(&mut answers, libc::SYS_prlimit64, limits.map(|are_set| vec![other, are_set]));
    Ok(answers.assemble(architecture))
}

/// Returns how the kernel names an architecture of 64 bits, the lowest byte first.
fn architecture(name: &str) -> Option<u32> {
    const BITS_64_LITTLE_ENDIAN: u32 = 0xc000_0000;
    let machine = match name {
        "x86_64" => libc::EM_X86_64,
        "aarch64" => libc::EM_AARCH64,
        "riscv64" => libc::EM_RISCV,
        _ => return None,
    };
    Some(BITS_64_LITTLE_ENDIAN | u32::from(machine))
}

/// What programs find missing on older kernels, and know how to do without, because their arguments cannot
/// be seen here; and all that x32 has.
fn add_missing(answers: &mut Answers) {
    let missing = || Answer::Error(libc::ENOSYS);
    set(answers, libc::SYS_clone3, missing());
    set(answers, libc::SYS_openat2, missing());
    if cfg!(target_arch = "x86_64") {
        answers.set(X32..=Number::MAX, missing());
    }
}

fn add_sockets(sockets: Sockets, answers: &mut Answers) {
    let mut families = vec![libc::AF_NETLINK];
    families.extend(sockets.internet.then_some([libc::AF_INET, libc::AF_INET6]).iter().flatten());
    families.extend(sockets.unix.then_some(libc::AF_UNIX));
    let family = argument(0);
    let others = families.iter().map(|known| family.is_not(known.unsigned_abs()));
    // Of the kernel itself it may ask what addresses and routes there are, which many programs do.
    let netlink = vec![
        family.is(libc::AF_NETLINK.unsigned_abs()),
        argument(2).is_not(libc::NETLINK_ROUTE.unsigned_abs()),
    ];
    refuse(answers, libc::SYS_socket, [others.collect(), netlink]);
    if !sockets.unix {
        // A pair of datagram sockets would do: each of them can still send to a file.
        let kind = argument(1).masked(0xf);
        let others = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(i32::unsigned_abs);
        refuse(answers, libc::SYS_socketpair, [others.map(|known| kind.is_not(known)).to_vec()]);
    }
}

fn add_namespaces(answers: &mut Answers) {
    let kinds = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    refuse(answers, libc::SYS_clone, [vec![argument(0).has(kinds.unsigned_abs())]]);
    // In `clone` this bit belongs to a signal.
    let kinds = kinds | libc::CLONE_NEWTIME;
    refuse(answers, libc::SYS_unshare, [vec![argument(0).has(kinds.unsigned_abs())]]);
}

/// Refuses files that lend the rights of their owner or group: made by root, they would outlive the
/// confinement.
fn add_set_id(answers: &mut Answers) {
    let set_id = |mode: Test| {
        [vec![mode.has(libc::S_ISUID)], vec![mode.has(libc::S_ISGID), mode.has(libc::S_IXGRP)]]
    };
    let set_id_if_new = |flags: Test, mode| {
        let is_new = flags.has(libc::O_CREAT.unsigned_abs() | NAMELESS);
        set_id(mode).map(|case| [vec![is_new], case].concat())
    };
    refuse(answers, libc::SYS_fchmod, set_id(argument(1)));
    refuse(answers, libc::SYS_fchmodat, set_id(argument(2)));
    refuse(answers, FCHMODAT2, set_id(argument(2)));
    refuse(answers, libc::SYS_mknodat, set_id(argument(2)));
    refuse(answers, libc::SYS_openat, set_id_if_new(argument(2), argument(3)));
    // A list of who may do what with a file can let a group execute it behind its mode. That there are none is
    // what programs know how to do with.
    let attributes = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, SETXATTRAT];
    attributes.iter().for_each(|call| set(answers, *call, Answer::Error(libc::EOPNOTSUPP)));
    #[cfg(target_arch = "x86_64")]
    {
        refuse(answers, libc::SYS_chmod, set_id(argument(1)));
        refuse(answers, libc::SYS_mknod, set_id(argument(1)));
        refuse(answers, libc::SYS_creat, set_id(argument(1)));
        refuse(answers, libc::SYS_open, set_id_if_new(argument(1), argument(2)));
    }
}

/// Refuses a call in some cases.
fn refuse(answers: &mut Answers, call: libc::c_long, cases: impl Into<Vec<Case>>) {
    set(answers, call, Answer::ErrorIn(libc::EPERM, cases.into()));
}

fn set(answers: &mut Answers, call: libc::c_long, answer: Answer) {
    let number = Number::try_from(call).unwrap_or(Number::MAX);
    answers.set(number..=number, answer);
}

/// The kernel looks at no more of the number of an `ioctl`.
fn low(request: libc::Ioctl) -> u32 {
    u32::try_from(request).unwrap_or(u32::MAX)
}
