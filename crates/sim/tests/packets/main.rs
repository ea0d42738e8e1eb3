//! Packet scripts: what comes and what is called, and what must leave, and when. The page "Packet scripts" says how to write one.
//!
//! Each `*.pkt` here is a script. `PACKETS=name` runs those alone whose names have that in them.

mod bench;
mod flow;
mod run;
mod script;
mod segment;
mod text;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bench::Mode;
use script::Script;

/// Runs every script that holds in a mode; fails with what went wrong in each that does not.
fn check(mode: Mode) {
    let scripts = scripts();
    assert!(!scripts.is_empty(), "the scripts are there");
    let (mut ran, mut failures) = (0, String::new());
    for path in scripts {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(&path).expect("the script can be read");
        let result = Script::parse(&text).and_then(|script| {
            let applies = script.modes.contains(&mode);
            ran += usize::from(applies);
            if applies {
                run::run(&script, mode)
            } else {
                Ok(())
            }
        });
        if let Err(error) = result {
            let _ = writeln!(failures, "{name}:{error}");
        }
    }
    assert!(failures.is_empty(), "{ran} ran, {mode}:\n{failures}");
}

/// The scripts that are asked for, in order of their names.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packets");
    let wanted = std::env::var("PACKETS").unwrap_or_default();
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let is_wanted = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        path.extension().is_some_and(|extension| extension == "pkt") && stem.contains(&wanted)
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_wanted).collect();
    paths.sort();
    paths
}

#[test]
fn scripts_hold_where_the_host_runs_tcp() {
    check(Mode::Host);
}

#[test]
fn scripts_hold_where_the_nic_runs_connections() {
    check(Mode::Handoff);
}

#[test]
fn scripts_hold_where_the_nic_finishes_connections() {
    check(Mode::Teardown);
}

#[test]
fn a_failure_names_line_expectation_and_what_came() {
    let script = "# RFC 9293 §3.10.7.2\n0 call listen\n+0 < SYN 0 win 1000\n+0 > SYN,ACK 0 ack 2\n";
    let script = Script::parse(script).expect("it is well formed");
    let error = run::run(&script, Mode::Host).expect_err("the acknowledgment is wrong");
    let error = error.to_string();
    assert!(
        error.starts_with("4: expected > SYN,ACK 0 ack 2"),
        "{error}"
    );
    assert!(error.contains("came > SYN,ACK 0 ack 1"), "{error}");
}

#[test]
fn a_script_names_its_clause_and_uses_known_words() {
    for (script, expected) in [
        ("0 call listen\n", "1: the first line must"),
        ("# RFC 9293 §3.5\n0 call lisen\n", "2: no call `lisen`"),
        ("# RFC 9293 §3.5\n0 < SYN 0 wim 3\n", "2: `wim` is no field"),
        ("# RFC 9293 §3.5\nset mut 3\n", "2: no setting `mut`"),
        (
            "# RFC 9293 §3.5\nsoon call listen\n",
            "2: `soon` is no time",
        ),
    ] {
        let error = Script::parse(script).expect_err(script).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
