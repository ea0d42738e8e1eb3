//! What outlives the worker: a directory, and which interfaces it has made.

mod directory;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use directory::Directory;

/// How often it is tried to get the lock.
const TRY: Duration = Duration::from_millis(20);
/// How the names of files begin that say which interfaces we have made.
const MARKER: &str = "made-";

/// A directory that one worker at a time has.
#[derive(Debug)]
pub struct State {
    directory: Directory,
    lock: File,
}

impl State {
    /// Where it is unless the command line says otherwise: in memory, as plaintext is to be.
    pub fn default_directory(name: &str) -> PathBuf {
        let own = Path::new("/run/longshore").join(name);
        let shared = Path::new("/dev/shm/longshore");
        // Anybody may make the shared one first, which is not used then: nobody but root can make the other. That is gone on with if it was begun with.
        if is_memory(Path::new("/run")) || own.exists() {
            return own;
        }
        match Directory::open(shared) {
            Ok(_) => shared.join(name),
            Err(error) => {
                tracing::warn!("can't use {}: {error:#}", shared.display());
                own
            }
        }
    }

    /// Makes the directory unless it is there, and locks it. `patience`: how long to wait for another process that has it, and may be about to end.
    ///
    /// # Errors
    /// When it can't be made, others could have changed it, or another process has it.
    pub fn open(directory: PathBuf, patience: Duration) -> Result<State> {
        let shown = directory.display();
        let bad = |error: anyhow::Error| {
            anyhow!(
                "can't use the state directory {shown}: {error:#}; give --state an absolute path that only you and root can write to"
            )
        };
        let directory = Directory::open(&directory).map_err(bad)?;
        let mut lock = directory.create("lock").map_err(bad)?;
        if !locks(&lock, patience)
            .with_context(|| format!("can't lock the state directory {shown}"))?
        {
            let mut holder = String::new();
            let _ = lock.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => String::new(),
                process => format!(" (process {process})"),
            };
            bail!(
                "a running `longshore nic`{holder} has the state directory {shown}; choose another --state"
            );
        }
        note_holder(&lock);
        if !is_tmpfs(rustix::fs::fstatfs(directory.as_fd())) {
            tracing::warn!(
                "{shown} is on a disk, and will hold plaintext; give --state a directory on a tmpfs"
            );
        }
        Ok(State { directory, lock })
    }

    /// The directory that the process which started this one has opened and locked: as long as one of the two lives, no other has it.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn inherited(directory: &Path, lock: OwnedFd) -> Result<State> {
        Ok(State {
            directory: Directory::open(directory)?,
            lock: lock.into(),
        })
    }

    /// Lets another process have the directory: no worker may have it any more.
    ///
    /// # Errors
    /// What the system gives.
    pub fn unlock(&self) -> Result<(), Errno> {
        flock(&self.lock, FlockOperation::Unlock)
    }

    /// Whether the directory is this process's alone: again, if it was [unlocked](Self::unlock) and no other process has it now. Does not wait.
    ///
    /// # Errors
    /// What the system gives.
    pub fn is_locked(&self) -> Result<bool> {
        let is_locked = locks(&self.lock, Duration::ZERO)?;
        if is_locked {
            note_holder(&self.lock);
        }
        Ok(is_locked)
    }

    /// What holds the lock, to be passed on.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Remembers that we have made an interface.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn note_made(&self, interface: &str) -> Result<()> {
        self.directory.create(&marker(interface))?;
        Ok(())
    }

    /// Whether we have made an interface, in this process or in one before it.
    pub fn has_made(&self, interface: &str) -> bool {
        let found = self.directory.find(&marker(interface));
        found.is_ok_and(|found| found.is_some())
    }

    /// The interfaces that we have made, in this process or in one before it.
    pub fn made(&self) -> Vec<String> {
        let mut files = self.directory.names().unwrap_or_else(|error| {
            tracing::warn!("can't list {}: {error}", self.directory.path().display());
            Vec::new()
        });
        files.sort();
        let names = files.iter().filter_map(|file| file.strip_prefix(MARKER));
        let made = names.filter(|name| self.has_made(name));
        made.map(str::to_owned).collect()
    }

    /// Forgets an interface that is not there any more.
    pub fn forget(&self, interface: &str) {
        self.directory.remove(&marker(interface));
    }

    /// The Ethernet address that an interface had when we made it first. One that is made again gets it again: neighbours remember it.
    pub fn address(&self, interface: &str) -> Option<[u8; 6]> {
        let mut file = self.directory.find(&address_file(interface)).ok()??;
        let mut address = [0; 6];
        file.read_exact(&mut address).ok()?;
        Some(address)
    }

    /// Remembers an interface's Ethernet address.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn note_address(&self, interface: &str, address: [u8; 6]) -> Result<()> {
        let name = address_file(interface);
        let written: Result<(), io::Error> = self.directory.create(&name)?.write_all(&address);
        written.with_context(|| {
            let path = self.directory.path().join(&name);
            format!("can't write {}", path.display())
        })
    }

    /// The file with what must be known of the connections behind an interface; an empty one if it is missing.
    ///
    /// # Errors
    /// When it is not ours alone, or can't be made.
    pub fn connections(&self, interface: &str) -> Result<OwnedFd> {
        let file = self.directory.create(&format!("connections-{interface}"))?;
        Ok(file.into())
    }
}

fn marker(interface: &str) -> String {
    format!("{MARKER}{interface}")
}

fn address_file(interface: &str) -> String {
    format!("address-{interface}")
}

/// Writes down which process has the lock, for messages. A file system that is full keeps no NIC from running.
fn note_holder(lock: &File) {
    let holder = format!("{}\n", std::process::id());
    if lock.write_all_at(holder.as_bytes(), 0).is_ok() {
        let _ = lock.set_len(holder.len() as u64);
    }
}

/// Locks a file for as long as it is open. False when another process has it locked still after so long.
fn locks(file: &File, patience: Duration) -> Result<bool, Errno> {
    let begun = Instant::now();
    let mut tells = begun + Duration::from_secs(1);
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => {
                if tells < Instant::now() {
                    let _ = writeln!(
                        io::stderr(),
                        "longshore: waiting for the old NIC, which finishes its connections"
                    );
                    tells += patience;
                }
                std::thread::sleep(TRY);
            }
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a directory is on a tmpfs.
fn is_memory(directory: &Path) -> bool {
    is_tmpfs(rustix::fs::statfs(directory))
}

fn is_tmpfs(system: Result<rustix::fs::StatFs, Errno>) -> bool {
    /// `TMPFS_MAGIC` of `linux/magic.h`.
    const TMPFS: i64 = 0x0102_1994;
    system.is_ok_and(|system| system.f_type == TMPFS)
}
