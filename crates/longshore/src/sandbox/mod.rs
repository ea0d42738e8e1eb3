//! What a process gives up before it deals with others: another identity, capabilities, and system calls that it does not need.

mod account;
mod calls;
mod files;
mod filter;
mod identity;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, geteuid, set_dumpable_behavior, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

pub use account::Account;
pub use calls::Profile;
pub use files::Files;
pub use identity::Identity;

/// Gives up all that the process does not need from here on: supplementary groups, group and user (if there is an `identity`), all
/// capabilities, core dumps and being traced, and every system call that `profile` does not list. Calls that it does not list fail with
/// `EPERM`. Threads that are started afterwards have no more than this one.
///
/// Without root, the user stays. A kernel without seccomp is told of as a warning.
///
/// # Errors
/// When there are threads already, for capabilities are a thread's, or the system refuses; the process must not go on then.
pub fn enter(profile: Profile, identity: Option<Identity>) -> Result<()> {
    enter_with_files(profile, identity, Files::default())
}

/// Does what [`enter`] does, and leaves some files within reach: a profile that opens files reaches no others.
///
/// # Errors
/// As there.
pub fn enter_with_files(
    profile: Profile,
    identity: Option<Identity>,
    files: Files<'_>,
) -> Result<()> {
    let threads = std::fs::read_dir("/proc/self/task").context("/proc/self/task")?;
    ensure!(
        threads.count() == 1,
        "privileges can't be given up once there are several threads"
    );
    let filters = filter::compile(profile)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).context("core dumps can't be ruled out")?;
    give_up_privileges(identity)?;
    set_no_new_privs(true).context("no_new_privs can't be set")?;
    // Behind the change of the user, which sets it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("reading the process's memory can't be ruled out")?;
    if profile == Profile::Server {
        files::confine(files)?;
    }
    filter::install(&filters)
}

/// Groups, user and capabilities.
fn give_up_privileges(identity: Option<Identity>) -> Result<()> {
    let has = capabilities(None)?.effective;
    if has.contains(CapabilitySet::SETGID) && may_set_groups() {
        set_thread_groups(&[]).context("supplementary groups can't be given up")?;
    }
    if has.contains(CapabilitySet::SETPCAP) {
        narrow_bounding_set()?;
    }
    if let Some(Identity { uid, gid }) = identity.filter(|_| geteuid().is_root()) {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_res_gid(gid, gid, gid).with_context(|| format!("group {gid}"))?;
        set_thread_res_uid(uid, uid, uid).with_context(|| format!("user {uid}"))?;
    }
    clear_ambient_capability_set().context("ambient capabilities can't be given up")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).context("capabilities can't be given up")?;
    ensure!(
        capabilities(None)? == none,
        "there are capabilities left after all were given up"
    );
    Ok(())
}

/// Not in a user namespace that its own user has made (user_namespaces(7)).
fn may_set_groups() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").map_or(true, |text| text.trim() != "deny")
}

/// No capability comes back by `execve`.
fn narrow_bounding_set() -> Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match remove_capability_from_bounding_set(capability) {
            // The kernel has no such capability.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => bail!("capability {bit} can't be given up: {error}"),
        }
    }
    Ok(())
}
