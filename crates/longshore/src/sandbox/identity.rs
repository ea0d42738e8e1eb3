//! The user that a service goes on as.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::ptr::null_mut;

use anyhow::{Context, Result, bail};
use rustix::process::{getegid, geteuid};

/// The account that is used when none is named, if there is one.
const USUAL: &str = "longshore";
/// The uids that systemd keeps for services without an account (`DynamicUser=`, systemd.exec(5)).
const DYNAMIC: RangeInclusive<u32> = 61184..=65519;
/// Bytes for the strings of an account.
const MOST_STRINGS: usize = 64 << 10;

/// As whom a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Identity {
    /// The account named `user`. Without a name: `longshore`, if there is such an account, otherwise a uid and gid of systemd's dynamic ones
    /// that no account has, the same each time for the same `instance`; in a user namespace that lacks these, this process's own.
    ///
    /// # Errors
    /// When there is no account of that name, or accounts can't be looked up.
    pub fn for_service(user: Option<&str>, instance: &str) -> Result<Identity> {
        if let Some(name) = user {
            return Identity::of_account(name);
        }
        match account(USUAL)? {
            Some(identity) => Ok(identity),
            None => dynamic(instance),
        }
    }

    /// The account of this name.
    ///
    /// # Errors
    /// When there is none, or accounts can't be looked up.
    pub fn of_account(name: &str) -> Result<Identity> {
        match account(name)? {
            Some(identity) => Ok(identity),
            None => bail!("no user {name}; give --user an existing one"),
        }
    }
}

fn dynamic(instance: &str) -> Result<Identity> {
    let mut hasher = DefaultHasher::new();
    instance.hash(&mut hasher);
    let count = u64::from(DYNAMIC.end() - DYNAMIC.start()) + 1;
    let first = hasher.finish() % count;
    if !is_mapped(DYNAMIC)? {
        return Ok(Identity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        });
    }
    for step in 0..count {
        let id = DYNAMIC.start() + ((first + step) % count) as u32;
        if is_free(id)? {
            return Ok(Identity { uid: id, gid: id });
        }
    }
    bail!("every uid from 61184 to 65519 has an account; name a user with --user")
}

/// Whether this process's user namespace has these numbers, both as users and as groups (user_namespaces(7)).
fn is_mapped(numbers: RangeInclusive<u32>) -> Result<bool> {
    let has = |path| -> Result<bool> {
        let text = std::fs::read_to_string(path).context(path)?;
        Ok(text.lines().any(|line| {
            let mut words = line
                .split_whitespace()
                .map(|word| word.parse().unwrap_or(0));
            let (first, _, count) = (words.next(), words.next(), words.next());
            let (first, count): (u64, u64) = (first.unwrap_or(0), count.unwrap_or(0));
            first <= u64::from(*numbers.start()) && u64::from(*numbers.end()) < first + count
        }))
    };
    Ok(has("/proc/self/uid_map")? && has("/proc/self/gid_map")?)
}

/// The account of this name, if there is one.
fn account(name: &str) -> Result<Option<Identity>> {
    let asked = CString::new(name).with_context(|| format!("{name:?} is no user's name"))?;
    let found = look_up(|entry, strings, found| {
        let (bytes, len) = (strings.as_mut_ptr(), strings.len());
        // SAFETY: `asked` ends with a zero; the others are what the call writes to, with their sizes.
        unsafe { libc::getpwnam_r(asked.as_ptr(), entry, bytes, len, found) }
    });
    found.with_context(|| format!("the user {name} can't be looked up"))
}

/// Whether there is neither a user nor a group with this number.
fn is_free(id: u32) -> Result<bool> {
    let user = look_up(|entry, strings, found| {
        let (bytes, len) = (strings.as_mut_ptr(), strings.len());
        // SAFETY: they are what the call writes to, with their sizes.
        unsafe { libc::getpwuid_r(id, entry, bytes, len, found) }
    });
    let user = user.with_context(|| format!("the uid {id} can't be looked up"))?;
    // SAFETY: asks for a number; the answer is only compared with null. No other thread asks for groups.
    let group = unsafe { libc::getgrgid(id) };
    Ok(user.is_none() && group.is_null())
}

/// Asks the system's databases by one of the functions that write to an entry, memory for its strings, and whether it was found.
fn look_up(
    ask: impl FnOnce(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<Identity>> {
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut strings = vec![0; MOST_STRINGS];
    let mut found = null_mut();
    let code = ask(entry.as_mut_ptr(), &mut strings, &mut found);
    match code {
        0 if found.is_null() => Ok(None),
        0 => {
            // SAFETY: the call has found an entry, so it has filled it.
            let entry = unsafe { entry.assume_init() };
            Ok(Some(Identity {
                uid: entry.pw_uid,
                gid: entry.pw_gid,
            }))
        }
        // What a database says that has no such entry (getpwnam_r(3)).
        libc::ENOENT | libc::ESRCH => Ok(None),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
