//! What makes the blocks of a namespace these ones: the same after a restart with the same files, and of no other blocks.
//!
//! A host that reconnects trusts the identifiers of a namespace. They must not stay when other blocks come in its place.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, anyhow};

use super::options::Backing;
use crate::nvme::identity::machine_id;

/// Where the kernel describes block devices, by their numbers.
const DEVICES: &str = "/sys/dev/block";
/// What names a whole disk, wherever it is plugged in.
const NAMES: [&str; 6] = [
    "wwid",
    "device/wwid",
    "dm/uuid",
    "md/uuid",
    "serial",
    "device/serial",
];

/// What identifies the blocks, for a hash.
///
/// # Errors
/// When the file can't be looked at, or there are no random numbers.
pub(super) fn identity_of(backing: &Backing) -> Result<Vec<u8>> {
    let path = match backing {
        // What was in memory is gone after a restart.
        Backing::Memory(_) => {
            let mut random = vec![0; 32];
            aws_lc_rs::rand::fill(&mut random)
                .map_err(|_| anyhow!("the system has no random numbers"))?;
            return Ok(random);
        }
        Backing::Path(path) => path,
    };
    let identity = of_path(path).with_context(|| format!("can't look at {}", path.display()))?;
    let machine = machine_id().unwrap_or_default();
    Ok(format!("{identity} on machine {machine}").into_bytes())
}

fn of_path(path: &Path) -> std::io::Result<String> {
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    if metadata.file_type().is_block_device() {
        let device = metadata.rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let described = fs::canonicalize(Path::new(DEVICES).join(format!("{major}:{minor}")));
        let named = described.ok().and_then(|described| of_device(&described));
        return Ok(named.unwrap_or_else(|| format!("device {}", path.display())));
    }
    // Another file may get the path, and after that even the number; the number of its file system's device may be another after a reboot.
    let born = metadata.created().ok();
    let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    Ok(format!(
        "file {} inode {} of {:?}",
        path.display(),
        metadata.ino(),
        born.unwrap_or_default()
    ))
}

/// The device that the kernel describes in this directory, if it has a name that is its own.
fn of_device(described: &Path) -> Option<String> {
    let read = |directory: &Path, name: &str| {
        let value = fs::read(directory.join(name)).ok()?;
        let value = String::from_utf8_lossy(value.trim_ascii()).into_owned();
        (!value.is_empty()).then_some(value)
    };
    if let Some(file) = read(described, "loop/backing_file") {
        let file = of_path(&PathBuf::from(&file)).unwrap_or(file);
        let offset = read(described, "loop/offset").unwrap_or_default();
        return Some(format!("loop {file} from {offset}"));
    }
    if read(described, "partition").is_some() {
        let (disk, start) = (of_device(described.parent()?)?, read(described, "start")?);
        return Some(format!("partition from {start} of {disk}"));
    }
    let name = NAMES.iter().find_map(|name| read(described, name))?;
    Some(format!("disk {name}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A directory that goes away with the test.
    pub(in crate::nvme::target) struct Scratch(PathBuf);

    impl Scratch {
        pub(in crate::nvme::target) fn new(name: &str) -> Scratch {
            let name = format!("longshore-backing-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        pub(in crate::nvme::target) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn devices_have_the_names_of_their_disks() {
        let directory = Scratch::new("sysfs");
        let (disk, partition) = (directory.path(), directory.path().join("sda1"));
        fs::create_dir(&partition).unwrap();
        assert_eq!(of_device(disk), None);
        fs::write(disk.join("serial"), " \n").unwrap();
        assert_eq!(of_device(disk), None);
        fs::write(disk.join("wwid"), "eui.0123\n").unwrap();
        assert_eq!(of_device(disk).unwrap(), "disk eui.0123");
        fs::write(partition.join("partition"), "1\n").unwrap();
        fs::write(partition.join("start"), "2048\n").unwrap();
        let expected = "partition from 2048 of disk eui.0123";
        assert_eq!(of_device(&partition).unwrap(), expected);
    }

    #[test]
    fn another_file_at_the_same_path_is_another() {
        let directory = Scratch::new("renamed");
        let path = directory.path().join("disk.img");
        let of = || {
            fs::write(&path, [0; 4096]).unwrap();
            identity_of(&Backing::Path(path.clone())).unwrap()
        };
        let first = of();
        assert_eq!(of(), first);
        fs::rename(&path, directory.path().join("kept.img")).unwrap();
        assert_ne!(of(), first);
    }
}
