//! Linux's documentation of kernel TLS (`networking/tls`), sentence by sentence, on real sockets through the preloaded library.
//!
//! The program runs itself again with the library loaded before it; there each case calls the C library's functions. Cases are named by what the
//! documentation says. One line per case.

/// What a section tries, under the name that a case has.
macro_rules! cases {
    ($($name:literal: $case:ident,)*) => {
        pub const CASES: &[crate::Case] = &[$(($name, $case)),*];
    };
}

mod control;
mod descriptors;
#[path = "../../../kernel-tls/tests/keys/mod.rs"]
mod keys;
mod past;
mod readiness;
mod receiving;
mod rekey;
mod sending;
mod setup;
mod sockets;
mod statistics;
mod symbols;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a case is called, and what it does.
type Case = (&'static str, fn());

const PRELOADED: &str = "LONGSHORE_KTLS_TEST";

fn main() -> ExitCode {
    if std::env::var_os(PRELOADED).is_none() {
        return preloaded();
    }
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let sections = [
        setup::CASES,
        sending::CASES,
        receiving::CASES,
        control::CASES,
        readiness::CASES,
        rekey::CASES,
        statistics::CASES,
        descriptors::CASES,
        past::CASES,
        symbols::CASES,
    ];
    let mut failed = 0;
    for (name, case) in sections.into_iter().flatten() {
        if !only.is_empty() && !only.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        match std::panic::catch_unwind(case) {
            Ok(()) => println!("ok - {name}"),
            Err(_) => {
                failed += 1;
                println!("not ok - {name}");
            }
        }
    }
    ExitCode::from(u8::from(failed > 0))
}

/// Runs this program with the library: the one beside the program `LONGSHORE`, or else one that is built first.
fn preloaded() -> ExitCode {
    let own = std::env::current_exe().expect("this program's path");
    let library = match std::env::var_os("LONGSHORE") {
        Some(longshore) => PathBuf::from(longshore).with_file_name("libktls.so"),
        None => build(&own),
    };
    assert!(library.is_file(), "no library at {}", library.display());
    let counters = statistics::File::create();
    let status = Command::new(own)
        .args(std::env::args_os().skip(1))
        .env("LD_PRELOAD", library)
        .env(PRELOADED, "1")
        .env(statistics::VARIABLE, counters.path())
        .status()
        .expect("this program");
    ExitCode::from(u8::from(!status.success()))
}

/// Builds the library with the profile that this program is built with, and tells its path.
fn build(own: &Path) -> PathBuf {
    let profile = own
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps");
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--package",
        "longshore-ktls",
        "--target-dir",
    ]);
    build.arg(profile.parent().expect("the target directory"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo").success(), "it builds");
    profile.join("libktls.so")
}
