//! Which system calls a confined command may make: all but some.
//!
//! The list names what reaches other processes, the kernel or the machine, and what would undo or
//! get around the rest of the confinement. What needs a capability that a command never has is on it as
//! well: one lock more.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

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

/// The first number of the system calls of x32, which an x86-64 kernel may have beside its own.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Makes the filter.
pub(super) fn program(sockets: Sockets) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let always = REFUSED.iter().chain(REFUSED_HERE).chain([&OPEN_TREE_ATTR]);
    rules.extend(always.map(|call| (*call, Vec::new())));
    add_sockets(sockets, &mut rules)?;
    add_namespaces(&mut rules)?;
    add_set_id(&mut rules)?;
    let eq = SeccompCmpOp::Eq;
    // Words put into another's terminal.
    let inputs = [libc::TIOCSTI, libc::TIOCLINUX];
    let inputs = inputs.map(|request| rule([on(1, eq.clone(), request)?]));
    rules.insert(libc::SYS_ioctl, inputs.into_iter().collect::<Result<_, _>>()?);
    // The limits of another process.
    let other = rule([on(0, SeccompCmpOp::Ne, 0_u64)?, wide(2, SeccompCmpOp::Ne, 0)?])?;
    rules.insert(libc::SYS_prlimit64, vec![other]);
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let here = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, here)?;
    let mut program = unknown();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Result<T, E = seccompiler::BackendError> = std::result::Result<T, E>;

fn add_sockets(sockets: Sockets, rules: &mut Rules) -> Result<()> {
    use SeccompCmpOp::{Eq, Ne};
    let mut families = vec![libc::AF_NETLINK];
    families.extend(sockets.internet.then_some([libc::AF_INET, libc::AF_INET6]).iter().flatten());
    families.extend(sockets.unix.then_some(libc::AF_UNIX));
    let others = families.into_iter().map(|family| on(0, Ne, family.unsigned_abs()));
    let others = SeccompRule::new(others.collect::<Result<_>>()?)?;
    // Of the kernel itself it may ask what addresses and routes there are, which many programs do.
    let netlink = rule([
        on(0, Eq, libc::AF_NETLINK.unsigned_abs())?,
        on(2, Ne, libc::NETLINK_ROUTE.unsigned_abs())?,
    ])?;
    rules.insert(libc::SYS_socket, vec![others, netlink]);
    if !sockets.unix {
        // A pair of datagram sockets would do: each of them can still send to a file.
        let [stream, packets] = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(i32::unsigned_abs);
        const KIND: SeccompCmpOp = SeccompCmpOp::MaskedEq(0xf);
        let kinds = (0..=0xf).filter(|kind| *kind != stream && *kind != packets);
        let kinds = kinds.map(|kind| rule([on(1, KIND, kind)?]));
        rules.insert(libc::SYS_socketpair, kinds.collect::<Result<_>>()?);
    }
    Ok(())
}

fn add_namespaces(rules: &mut Rules) -> Result<()> {
    let kinds = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let any = || {
        let each = kinds.iter().map(|kind| rule([has(0, kind.unsigned_abs())?]));
        each.collect::<Result<Vec<_>>>()
    };
    rules.insert(libc::SYS_clone, any()?);
    let mut any = any()?;
    // In `clone` this bit belongs to a signal.
    any.push(rule([has(0, libc::CLONE_NEWTIME.unsigned_abs())?])?);
    rules.insert(libc::SYS_unshare, any);
    Ok(())
}

/// Refuses files that lend the rights of their owner or group: made by root, they would outlive the
/// confinement.
fn add_set_id(rules: &mut Rules) -> Result<()> {
    let modes = |at: u8, with: &[SeccompCondition]| -> Result<Vec<SeccompRule>> {
        let user = [with, &[has(at, libc::S_ISUID)?]].concat();
        let group = [with, &[has(at, libc::S_ISGID)?, has(at, libc::S_IXGRP)?]].concat();
        Ok(vec![SeccompRule::new(user)?, SeccompRule::new(group)?])
    };
    let makes = |at: u8| has(at, libc::O_CREAT.unsigned_abs());
    rules.insert(libc::SYS_fchmod, modes(1, &[])?);
    rules.insert(libc::SYS_fchmodat, modes(2, &[])?);
    rules.insert(FCHMODAT2, modes(2, &[])?);
    rules.insert(libc::SYS_mknodat, modes(2, &[])?);
    rules.insert(libc::SYS_openat, modes(3, &[makes(2)?])?);
    #[cfg(target_arch = "x86_64")]
    {
        rules.insert(libc::SYS_chmod, modes(1, &[])?);
        rules.insert(libc::SYS_mknod, modes(1, &[])?);
        rules.insert(libc::SYS_creat, modes(1, &[])?);
        rules.insert(libc::SYS_open, modes(2, &[makes(1)?])?);
    }
    Ok(())
}

fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule> {
    SeccompRule::new(conditions.into())
}

fn on(argument: u8, op: SeccompCmpOp, value: impl Into<u64>) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value.into())
}

fn wide(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, op, value)
}

fn has(argument: u8, bit: u32) -> Result<SeccompCondition> {
    on(argument, SeccompCmpOp::MaskedEq(bit.into()), bit)
}

/// The beginning of the filter: what programs find missing on older kernels, and know how to do
/// without, because their arguments cannot be seen here.
fn unknown() -> BpfProgram {
    let statement = |code: u32, k: u32| {
        let code = u16::try_from(code).unwrap_or_default();
        sock_filter { code, jt: 0, jf: 0, k }
    };
    let jump = |code: u32, k: u32, jf: u8| sock_filter { jf, ..statement(code, k) };
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    // The number of the system call comes first in what a filter sees.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    for call in [libc::SYS_clone3, libc::SYS_openat2] {
        program.push(jump(equals, number(call), 1));
        program.push(statement(libc::BPF_RET | libc::BPF_K, missing));
    }
    #[cfg(target_arch = "x86_64")]
    {
        program.push(jump(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32, 1));
        program.push(statement(libc::BPF_RET | libc::BPF_K, missing));
    }
    program
}
