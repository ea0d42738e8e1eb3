use clap::Parser as _;

use super::Command;
use crate::cli::{self, Cli};

fn parse(arguments: &[&str]) -> Result<super::Options, String> {
    let command_line = ["longshore", "sim", "handoff"].iter().chain(arguments);
    let cli = Cli::try_parse_from(command_line).map_err(|error| error.to_string())?;
    match cli.command {
        cli::Command::Sim {
            command: Command::Handoff(options),
        } => Ok(options),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn the_options_name_a_configuration() {
    let options = parse(&[
        "--workload",
        "specweb99-static",
        "--nic-connections",
        "256",
        "--host-first",
        "--load-control",
        "--selection",
        "t20",
        "--nic-mips",
        "600",
        "--seed",
        "7",
    ])
    .expect("a good command line");
    let config = options.config();
    assert_eq!(config.to_string(), "S-256-P-L-T20-600");
    assert_eq!(config.seed, 7);
}

#[test]
fn a_wrong_command_line_says_what_to_do() {
    for (arguments, said) in [
        (vec!["--workload", "web"], "take worldcup, ibm"),
        (vec!["--selection", "lifo"], "take off, fcfs, predict"),
        (vec!["--paper", "--nic-mips", "600"], "cannot be used with"),
        (vec!["--active-restore"], "--load-control"),
        (vec!["--nic-mips", "0"], "10..=100000"),
    ] {
        let error = parse(&arguments).expect_err("a wrong command line");
        assert!(error.contains(said), "{said} in {error}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_run() {
    let options = parse(&["--report", "/nowhere/at/all.html"]).expect("a good command line");
    let error = options
        .wanted()
        .check()
        .expect_err("there is no such place");
    assert!(
        error.to_string().contains("make it, or name another place"),
        "{error}"
    );
}
