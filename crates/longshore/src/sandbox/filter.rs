//! From a list of system calls to seccomp's filters.

use std::collections::BTreeMap;
use std::io;

use anyhow::{Context, Result};
use rustix::process::getpid;
use rustix::thread::secure_computing_mode;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::calls::{Allowed, Argument, Profile};

/// The filters of a profile, in the order of their installation.
///
/// The first has `clone3` answered as by a kernel that lacks it: its flags are in memory, which a filter does not see, and the C library goes
/// on with `clone`. The second lists what is allowed.
pub(super) fn compile(profile: Profile) -> Result<[BpfProgram; 2]> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).context("the processor")?;
    let missing = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let missing = SeccompFilter::new(
        missing,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    )?;
    let mut rules = BTreeMap::<i64, Vec<SeccompRule>>::new();
    profile.for_each(
        getpid().as_raw_nonzero().get(),
        |Allowed(call, arguments)| {
            let alternatives = rules.entry(call).or_default();
            if !arguments.is_empty() {
                let conditions = arguments.iter().map(condition);
                alternatives.push(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?);
            }
            Ok(())
        },
    )?;
    let allowed = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        arch,
    )?;
    Ok([missing.try_into()?, allowed.try_into()?])
}

/// Installs them for all threads.
///
/// # Errors
/// When the kernel refuses. One without seccomp is told of as a warning.
pub(super) fn install(filters: &[BpfProgram]) -> Result<()> {
    for filter in filters {
        if let Err(error) = apply_filter_all_threads(filter) {
            if !is_there(&error) {
                tracing::warn!("this kernel has no seccomp: all system calls stay allowed");
                return Ok(());
            }
            return Err(error).context("system calls can't be given up");
        }
    }
    Ok(())
}

/// Whether the kernel has seccomp, after installing a filter has failed.
fn is_there(error: &seccompiler::Error) -> bool {
    let seccompiler::Error::Seccomp(error) = error else {
        return true;
    };
    let lacks = [libc::EINVAL, libc::ENOSYS].map(Some);
    !lacks.contains(&io::Error::raw_os_error(error)) || secure_computing_mode().is_ok()
}

fn condition(argument: &Argument) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (at, operator, value) = match *argument {
        Argument::Is(at, value) => (at, SeccompCmpOp::Eq, value),
        Argument::Lacks(at, bits) => (at, SeccompCmpOp::MaskedEq(bits), 0),
        Argument::Has(at, bits) => (at, SeccompCmpOp::MaskedEq(bits), bits),
    };
    SeccompCondition::new(at, SeccompCmpArgLen::Dword, operator, value)
}
