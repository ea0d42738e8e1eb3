//! Where the preloaded library is.

use std::ffi::OsString;
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
pub fn preload(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
