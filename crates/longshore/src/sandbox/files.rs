//! Which files a process reaches by their paths from here on, by Landlock.

use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};

/// What of Landlock is asked for; an older kernel gives what it has.
const VERSION: ABI = ABI::V6;

/// Directories that are left, with all that is below them. What is open already stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// To read files from.
    pub read: Option<BorrowedFd<'a>>,
    /// To read files again from whose names are known.
    pub read_again: &'a [BorrowedFd<'a>],
    /// To remove files from.
    pub remove: Option<BorrowedFd<'a>>,
}

/// Confines this thread, and those that it starts, to `files`. That a kernel has no Landlock is told as a warning.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn confine(files: Files<'_>) -> Result<()> {
    let read = files.read.map(|directory| {
        let access = AccessFs::ReadFile | AccessFs::ReadDir;
        (directory, access)
    });
    let again = files.read_again.iter();
    let again = again.map(|directory| (*directory, BitFlags::from(AccessFs::ReadFile)));
    let remove = files
        .remove
        .map(|directory| (directory, BitFlags::from(AccessFs::RemoveFile)));
    let failed = "access to files can't be given up";
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))
        .and_then(|rules| rules.scope(Scope::from_all(VERSION)))
        .and_then(Ruleset::create)
        .context(failed)?;
    for (directory, access) in read.into_iter().chain(again).chain(remove) {
        rules = rules
            .add_rule(PathBeneath::new(directory, access))
            .context(failed)?;
    }
    let status = rules.restrict_self().context(failed)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        tracing::warn!("this kernel has no Landlock: all files stay within reach");
    }
    Ok(())
}
