//! What QEMU boots: a kernel, and an initial file system that mounts the guest's root.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cache::Entry;
use super::options::Kernel;
use super::root::{self, Root};

const INIT: &str = include_str!("init.sh");
const SCRIPT: &str = include_str!("image.sh");
/// What mounts the root, unless it is built in.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// What QEMU boots.
#[derive(Debug)]
pub struct Image {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial file system.
    pub initrd: PathBuf,
    /// The kernel's modules, if they are not the root's.
    pub modules: Option<PathBuf>,
    /// Where the files are, which stay as long as this does.
    _entry: Entry,
}

impl Image {
    /// Debian's kernel, or the user's; with the initial file system, which is made if there is none yet.
    ///
    /// # Errors
    /// When it can't be made, or the user's modules are not there.
    pub fn prepare(root: &Root, options: &Kernel) -> Result<Image> {
        match (&options.kernel, &options.modules) {
            (Some(kernel), Some(modules)) => of_user(root, kernel, modules),
            _ => of_debian(root),
        }
    }
}

fn of_debian(root: &Root) -> Result<Image> {
    let mut hasher = DefaultHasher::new();
    (INIT, SCRIPT, MODULES).hash(&mut hasher);
    let key = format!("{}-{:016x}", root.version(), hasher.finish());
    let entry = root.made_of("image", &key)?;
    let directory = entry.path();
    if !directory.exists() {
        let modules = root.path().join("usr/lib/modules").join(root.version());
        let kernel = modules.join("vmlinuz");
        make(root, &entry, &files_of(&modules)?, Some(&kernel))?;
    }
    entry.share()?;
    Ok(Image {
        kernel: directory.join("vmlinux"),
        initrd: directory.join("initrd"),
        modules: None,
        _entry: entry,
    })
}

/// A kernel that is built anew all the time is booted as it is, with an initial file system of the modules as they are now.
fn of_user(root: &Root, kernel: &Path, modules: &Path) -> Result<Image> {
    let modules = modules_directory(modules)?;
    let kernel = kernel
        .canonicalize()
        .with_context(|| format!("--kernel {}", kernel.display()))?;
    let files = files_of(&modules)?;
    let mut hasher = DefaultHasher::new();
    (INIT, SCRIPT, &files).hash(&mut hasher);
    let entry = root.made_of("image", &format!("own-{:016x}", hasher.finish()))?;
    let directory = entry.path();
    if !directory.exists() {
        make(root, &entry, &files, None)?;
    }
    entry.share()?;
    Ok(Image {
        kernel,
        initrd: directory.join("initrd"),
        modules: Some(modules),
        _entry: entry,
    })
}

/// The modules that mount the root, by names that have them in their order.
fn files_of(modules: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
    let files = in_order(&dependencies, &MODULES).into_iter().enumerate();
    let read = |(index, path): (usize, &str)| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let file = modules.join(path);
        let bytes = fs::read(&file).with_context(|| format!("can't read {}", file.display()))?;
        Ok((format!("{index:02}-{name}"), bytes))
    };
    files.map(read).collect()
}

/// The directory of the version that has been installed in `given`.
fn modules_directory(given: &Path) -> Result<PathBuf> {
    let all = given.join("lib/modules");
    let version = root::only_entry(&all).map(|version| all.join(version));
    let found = [Some(given.to_owned()), version];
    let found = found
        .into_iter()
        .flatten()
        .find(|path| path.join("modules.dep").exists());
    let found = found.with_context(|| {
        format!(
            "--modules {} has no lib/modules/VERSION/modules.dep, or several; run: make modules_install INSTALL_MOD_PATH={0}",
            given.display()
        )
    })?;
    found
        .canonicalize()
        .with_context(|| format!("--modules {}", given.display()))
}

/// Makes the files of an image, whole or not at all.
fn make(
    root: &Root,
    entry: &Entry,
    modules: &[(String, Vec<u8>)],
    kernel: Option<&Path>,
) -> Result<()> {
    let (new, directory) = (entry.unfinished(), entry.path());
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(new.join("modules"))?;
    fs::write(new.join("init"), INIT)?;
    if let Some(kernel) = kernel {
        fs::copy(kernel, new.join("bzImage"))?;
    }
    for (name, bytes) in modules {
        fs::write(new.join("modules").join(name), bytes)?;
    }
    root::run(
        root.inside(&new, SCRIPT)?,
        "makes the guest's initial file system",
    )?;
    fs::rename(&new, directory).with_context(|| format!("can't make {}", directory.display()))
}

/// The files of modules, each behind those that it depends on, by the lines of `modules.dep`. What is not there may be built in.
fn in_order<'a>(dependencies: &'a str, names: &[&str]) -> Vec<&'a str> {
    let mut files: Vec<&str> = Vec::new();
    for name in names {
        let line = dependencies
            .lines()
            .find(|line| module_name(line).as_deref() == Some(*name));
        // The file is followed by what it depends on, each before what that depends on in turn.
        for word in line.unwrap_or_default().split_whitespace().rev() {
            let file = word.trim_end_matches(':');
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// The name of the module that a line of `modules.dep` is about, as the kernel has it.
fn module_name(line: &str) -> Option<String> {
    let (file, _) = line.split_once(':')?;
    let (name, _) = file.rsplit('/').next()?.split_once('.')?;
    Some(name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_behind_what_they_depend_on() {
        let dependencies = "kernel/fs/netfs/netfs.ko.xz:\n\
            kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
            kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
            kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
            kernel/drivers/virtio/virtio-pci.ko:\n";
        let wanted = [
            "kernel/drivers/virtio/virtio-pci.ko",
            "kernel/fs/netfs/netfs.ko.xz",
            "kernel/net/9p/9pnet.ko.xz",
            "kernel/net/9p/9pnet_virtio.ko.xz",
            "kernel/fs/9p/9p.ko.xz",
        ];
        assert_eq!(in_order(dependencies, &MODULES), wanted);
    }
}
