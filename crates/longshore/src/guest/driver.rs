//! The driver of the guest, `longshore.ko`: compiled from the source that this program has within, or that the user has.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::options::Kernel;
use super::root::{self, Root};

/// The files of `drivers`, by `build.rs`.
const SOURCE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/driver.rs"));
const MODULE: &str = "linux/longshore.ko";

/// Copies the module for the kernel to `to`, unless the kernel's own modules have it. `modules` are those of the user's kernel.
///
/// # Errors
/// When it does not compile, or there is nothing to compile it with.
pub fn prepare(root: &Root, options: &Kernel, modules: Option<&Path>, to: &Path) -> Result<()> {
    let copy = |module: &Path| {
        fs::copy(module, to).with_context(|| format!("can't copy {}", module.display()))?;
        Ok(())
    };
    let files = match &options.driver {
        Some(path) if path.is_file() => return copy(path),
        Some(path) => Some(files_of(path)?),
        None if modules.is_some_and(has_driver) => return Ok(()),
        None => None,
    };
    let built_in = || {
        SOURCE
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect()
    };
    let files: Vec<(String, String)> = files.unwrap_or_else(built_in);
    let mut hasher = DefaultHasher::new();
    (&files, modules.map(fs::canonicalize).transpose()?).hash(&mut hasher);
    let version = modules.map_or(root.version().into(), |path| {
        path.file_name().unwrap_or_default().to_string_lossy()
    });
    // This process's alone until the module is copied.
    let entry = root.made_of("driver", &format!("{version}-{:016x}", hasher.finish()))?;
    let directory = entry.path();
    // Against headers of the user's that may have changed it is compiled again: make sees what is to be done.
    if !directory.join(MODULE).exists() || modules.is_some() {
        for (name, text) in &files {
            write_if_new(&directory.join(name), text)?;
        }
        compile(root, directory, modules)?;
    }
    copy(&directory.join(MODULE))
}

/// Whether the driver is among the modules of a kernel.
fn has_driver(modules: &Path) -> bool {
    let listed = fs::read_to_string(modules.join("modules.dep")).unwrap_or_default();
    listed.contains("/longshore.ko")
}

/// The files of a driver's directory, and the header beside it.
fn files_of(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(directory).with_context(|| format!("--driver {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_source = name.ends_with(".c") && !name.ends_with(".mod.c") || name.ends_with(".h");
        if is_source || name == "Kbuild" || name == "Makefile" {
            files.push((format!("linux/{name}"), fs::read_to_string(&path)?));
        }
    }
    if !files.iter().any(|(name, _)| name == "linux/Kbuild") {
        bail!(
            "--driver {} has no Kbuild; give longshore.ko, or the directory drivers/linux",
            directory.display()
        );
    }
    let header = directory.join("../longshore.h");
    let text =
        fs::read_to_string(&header).with_context(|| format!("can't read {}", header.display()))?;
    files.push(("longshore.h".to_owned(), text));
    files.sort();
    Ok(files)
}

fn write_if_new(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a directory")?)?;
    fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}

fn compile(root: &Root, directory: &Path, modules: Option<&Path>) -> Result<()> {
    eprintln!("longshore: compiling the driver");
    let command = match modules {
        None => {
            let headers = format!("/usr/src/linux-headers-{}", root.version());
            root.inside(
                directory,
                &format!("make -s -j2 -C linux KDIR={headers} >&2"),
            )?
        }
        // By the compiler that has compiled the kernel.
        Some(modules) => {
            let headers = modules.join("build");
            if !headers.exists() {
                bail!(
                    "there is no {}, which has the headers of the kernel; make this link to where it was built, or give \
                     longshore.ko by --driver",
                    headers.display()
                );
            }
            let mut command = Command::new("make");
            command
                .args(["-s", "-j2", "-C"])
                .arg(directory.join("linux"));
            let mut headers_argument = std::ffi::OsString::from("KDIR=");
            headers_argument.push(headers.canonicalize()?);
            command.arg(headers_argument);
            command
        }
    };
    root::run(command, "compiles the driver").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_within_is_that_of_the_repository() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers/linux");
        let files = files_of(&directory).unwrap();
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        let within: Vec<_> = SOURCE.iter().map(|(name, _)| *name).collect();
        assert_eq!(within, names);
        for ((name, within), (_, text)) in SOURCE.iter().zip(&files) {
            assert!(within == text, "{name} has changed since this was built");
        }
    }

    #[test]
    fn a_directory_without_a_driver_is_refused() {
        let error = files_of(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert!(error.to_string().contains("has no Kbuild"), "{error}");
    }
}
