//! What a command does to itself before it is executed.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, LinkNameSpaceType, capabilities,
    clear_ambient_capability_set, configure_capability_in_ambient_set, move_into_link_name_space,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

use super::filter::Filter;
use super::{mounts, raw};
use crate::guard::ResourceLimits;

/// The way of one command into its confinement.
#[derive(Debug)]
pub(in crate::process) struct Way {
    /// The namespaces it joins, in this order.
    pub(super) spaces: Vec<(Arc<OwnedFd>, LinkNameSpaceType)>,
    /// Names it takes there, so that nothing can be made or moved there.
    pub(super) names: Vec<CString>,
    pub(super) cwd: CString,
    pub(super) limits: Vec<(Resource, u64)>,
    /// The capabilities it keeps.
    pub(super) keeps: CapabilitySet,
    /// Whether it has capabilities to give up.
    pub(super) may_drop: bool,
    pub(super) rules: Arc<OwnedFd>,
    pub(super) filter: Arc<Filter>,
}

impl Way {
    /// Goes the way. Neither allocates nor takes a lock.
    pub(in crate::process) fn go(&self) -> io::Result<()> {
        for (space, kind) in &self.spaces {
            move_into_link_name_space(space.as_fd(), Some(*kind))?;
        }
        for name in &self.names {
            mounts::take_name(name)?;
        }
        // The folder it was in before is one of the mounts that it has left.
        rustix::process::chdir(self.cwd.as_c_str())?;
        for (resource, most) in &self.limits {
            let limit = Rlimit { current: Some(*most), maximum: Some(*most) };
            setrlimit(*resource, limit)?;
        }
        if self.may_drop {
            drop_capabilities(self.keeps)?;
        }
        set_no_new_privs(true)?;
        raw::restrict(self.rules.as_fd())?;
        raw::install(&self.filter)?;
        Ok(())
    }
}

/// Returns the capabilities that a confined command keeps: of root those by which it may write its own
/// files whoever owns them, where what it may write is said otherwise; nobody else has any.
pub(super) fn keeps(has_mounts: bool) -> CapabilitySet {
    match (rustix::process::geteuid().is_root(), has_mounts) {
        (true, true) => CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER,
        (true, false) => CapabilitySet::DAC_OVERRIDE,
        (false, _) => CapabilitySet::empty(),
    }
}

/// Tells whether this process has what it takes to give up capabilities for good. One that has not has
/// none that it could keep.
pub(super) fn may_drop() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETPCAP))
}

/// Gives up capabilities so that no program brings them back.
fn drop_capabilities(keeps: CapabilitySet) -> rustix::io::Result<()> {
    let has = capabilities(None)?;
    let keeps = keeps.intersection(has.permitted);
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { inheritable: keeps, ..has })?;
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if keeps.contains(capability) {
            configure_capability_in_ambient_set(capability, true)?;
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Those are all that this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    // Root is nobody in particular from here on.
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    set_capabilities(
        None,
        CapabilitySets { effective: keeps, permitted: keeps, inheritable: keeps },
    )
}

/// Returns the limits a command sets for itself, none higher than what holds already.
pub(super) fn limits(limits: &ResourceLimits) -> Vec<(Resource, u64)> {
    // What a program leaves behind when it dies holds what it had in memory.
    let all = [
        (Resource::Core, Some(0)),
        (Resource::As, limits.memory),
        (Resource::Nproc, limits.processes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
        (Resource::Cpu, limits.cpu_seconds),
    ];
    let lower = |(resource, most): (Resource, Option<u64>)| {
        let held = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        most.map(|most| (resource, most.min(held)))
    };
    all.into_iter().filter_map(lower).collect()
}
