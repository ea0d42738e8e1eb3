//! Puts the source of the Linux driver into the program, for `longshore guest` to compile it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The driver's directory, and what of the directory above it is the driver's too.
const DIRECTORY: &str = "linux";
const HEADER: &str = "longshore.h";

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let drivers = variable("CARGO_MANIFEST_DIR").join("drivers");
    println!(
        "cargo::rerun-if-changed={}",
        drivers.join(DIRECTORY).display()
    );
    println!("cargo::rerun-if-changed={}", drivers.join(HEADER).display());
    let mut names = vec![HEADER.to_owned()];
    for file in fs::read_dir(drivers.join(DIRECTORY))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if is_source(&name) {
            names.push(format!("{DIRECTORY}/{name}"));
        }
    }
    names.sort();
    fs::write(
        variable("OUT_DIR").join("driver.rs"),
        table(&drivers, &names),
    )
}

/// Not what a build has left there.
fn is_source(name: &str) -> bool {
    let is_made = name.ends_with(".mod.c");
    !is_made
        && (matches!(name, "Kbuild" | "Makefile") || name.ends_with(".c") || name.ends_with(".h"))
}

/// A Rust expression: each file's name with its content.
fn table(drivers: &Path, names: &[String]) -> String {
    let mut text = String::from("&[\n");
    for name in names {
        let _ = writeln!(text, "({name:?}, include_str!({:?})),", drivers.join(name));
    }
    text.push(']');
    text
}
