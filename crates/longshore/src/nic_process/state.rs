//! What outlives the worker: a directory, and which interfaces it has made.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A directory that one worker at a time has.
#[derive(Debug)]
pub struct State {
    directory: PathBuf,
    _lock: File,
}

impl State {
    /// Where it is unless the command line says otherwise: in memory, as plaintext is to be.
    pub fn default_directory(tap: &str) -> PathBuf {
        let base = match is_memory(Path::new("/run")) {
            true => "/run/longshore",
            false => "/dev/shm/longshore",
        };
        Path::new(base).join(tap)
    }

    /// Makes the directory unless it is there, and locks it.
    ///
    /// # Errors
    /// When it can't be made or another process has it.
    pub fn open(directory: PathBuf) -> Result<State> {
        let shown = directory.display();
        let advice = "give --state a directory that you may write";
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .with_context(|| format!("the state directory {shown} can't be made; {advice}"))?;
        let lock = File::create(directory.join("lock"))
            .with_context(|| format!("the state directory {shown} can't be written; {advice}"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                bail!(
                    "a running `longshore nic` has the state directory {shown}; give --state another one"
                )
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("the state directory {shown} can't be locked"));
            }
        }
        if !is_memory(&directory) {
            tracing::warn!(
                "{shown} is on a disk, and so is plaintext that peers have not acknowledged; give --state a directory on a tmpfs"
            );
        }
        Ok(State {
            directory,
            _lock: lock,
        })
    }

    /// Remembers that we have made an interface.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn note_made(&self, interface: &str) -> Result<()> {
        let path = self.marker(interface);
        fs::write(&path, []).with_context(|| format!("{} can't be written", path.display()))
    }

    /// Whether we have made an interface, in this process or in one before it.
    pub fn has_made(&self, interface: &str) -> bool {
        self.marker(interface).exists()
    }

    /// Forgets an interface that is not there any more.
    pub fn forget(&self, interface: &str) {
        let _ = fs::remove_file(self.marker(interface));
    }

    /// The Ethernet address that an interface had when we made it first. One that is made again gets it again: neighbours remember it.
    pub fn address(&self, interface: &str) -> Option<[u8; 6]> {
        fs::read(self.address_file(interface)).ok()?.try_into().ok()
    }

    /// Remembers an interface's Ethernet address.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn note_address(&self, interface: &str, address: [u8; 6]) -> Result<()> {
        let path = self.address_file(interface);
        fs::write(&path, address).with_context(|| format!("{} can't be written", path.display()))
    }

    fn address_file(&self, interface: &str) -> PathBuf {
        self.directory.join(format!("address-{interface}"))
    }

    /// The file with what must be known of the connections behind an interface.
    pub fn connections(&self, interface: &str) -> PathBuf {
        self.directory.join(format!("connections-{interface}"))
    }

    fn marker(&self, interface: &str) -> PathBuf {
        self.directory.join(format!("made-{interface}"))
    }
}

/// Whether a directory is on a tmpfs.
fn is_memory(directory: &Path) -> bool {
    /// `TMPFS_MAGIC` of `linux/magic.h`.
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(directory).is_ok_and(|system| system.f_type == TMPFS)
}
