//! Where the preloaded library is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const NAME: &str = "libktls.so";

/// The library that came with this program.
pub fn find() -> Result<PathBuf> {
    let program = std::env::current_exe().context("can't find this program's own path")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = [
        beside.join(NAME),
        beside.join("../lib/longshore").join(NAME),
    ];
    for place in &places {
        if place.is_file() {
            return check(place);
        }
    }
    bail!(
        "no {NAME} at {} or {}; build it with `cargo build --release --package longshore-ktls`, or give its path \
         with --library",
        places[0].display(),
        places[1].display()
    );
}

/// The absolute path of a library.
pub fn check(path: &Path) -> Result<PathBuf> {
    path.canonicalize()
        .with_context(|| format!("can't use the library {}", path.display()))
}

/// The libraries to be preloaded: ours before those that are already.
///
/// # Errors
/// When the path has what the dynamic linker would take for something else (ld.so(8)): a space or a colon separates libraries, and a dollar sign may begin
/// the name of a directory of its own.
pub fn preload(library: &Path) -> Result<OsString> {
    let path = library.as_os_str();
    if path.as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        bail!(
            "can't preload {}: its path has a space, a colon or a dollar sign; copy the library elsewhere and name it with --library",
            library.display()
        );
    }
    let mut all = path.to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    Ok(all)
}
