//! What QEMU boots: a kernel, and an initial file system that mounts the guest's root.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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
    let (directory, _lock) = root.made_of("image", &key)?;
    if !directory.exists() {
        let modules = root.path().join("usr/lib/modules").join(root.version());
        make(root, &directory, &modules, Some(&modules.join("vmlinuz")))?;
    }
    Ok(Image {
        kernel: directory.join("vmlinux"),
        initrd: directory.join("initrd"),
        modules: None,
    })
}

/// A kernel that is built anew all the time: its initial file system is made for each run, and it is booted as it is.
fn of_user(root: &Root, kernel: &Path, modules: &Path) -> Result<Image> {
    let modules = modules_directory(modules)?;
    let kernel = kernel
        .canonicalize()
        .with_context(|| format!("--kernel {}", kernel.display()))?;
    let (directory, _lock) = root.made_of("image", "own")?;
    make(root, &directory, &modules, None)?;
    Ok(Image {
        kernel,
        initrd: directory.join("initrd"),
        modules: Some(modules),
    })
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

/// Makes the files of an image in `directory`, whole or not at all.
fn make(root: &Root, directory: &Path, modules: &Path, kernel: Option<&Path>) -> Result<()> {
    let new = directory.with_extension("new");
    for old in [&new, directory] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    fs::create_dir_all(new.join("modules"))?;
    fs::write(new.join("init"), INIT)?;
    if let Some(kernel) = kernel {
        fs::copy(kernel, new.join("bzImage"))?;
    }
    let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
    for (index, path) in in_order(&dependencies, &MODULES).into_iter().enumerate() {
        let name = path.rsplit('/').next().unwrap_or(path);
        fs::copy(
            modules.join(path),
            new.join(format!("modules/{index:02}-{name}")),
        )?;
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
