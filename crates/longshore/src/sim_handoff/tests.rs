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
        (vec!["--seeds", "3"], "--paper"),
        (vec!["--paper", "--shard", "1/2"], "--output"),
        (vec!["--paper", "--shard", "3/2"], "as 1/8"),
    ] {
        let error = parse(&arguments).expect_err("a wrong command line");
        assert!(error.contains(said), "{said} in {error}");
    }
}

/// What a shell hands to `longshore`, where this is a function that prints it.
fn command_of(script: &str, environment: &[(&str, &str)]) -> super::Options {
    let script = script.replace("exec longshore", "longshore");
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            &format!("longshore() {{ printf '%s\\n' \"$@\"; }}\n{script}"),
        ])
        .envs(environment.iter().copied())
        .output()
        .expect("a shell");
    let printed = String::from_utf8(output.stdout).expect("text");
    let arguments: Vec<&str> = printed.lines().collect();
    assert_eq!(arguments[..2], ["sim", "handoff"]);
    parse(&arguments[2..]).expect("a good command line")
}

#[test]
fn the_tasks_of_the_cluster_jobs_are_all_shards_each_with_a_file_of_its_own() {
    let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    let read = |name: &str| std::fs::read_to_string(format!("{packaging}/{name}")).expect("a file");
    let slurm = read("simulation.sbatch");
    let kubernetes = read("simulation-job.yaml");
    assert!(slurm.contains("#SBATCH --array=1-8\n"));
    assert!(kubernetes.contains("completions: 8\n"));
    let line = kubernetes
        .lines()
        .find_map(|line| line.trim().strip_prefix("- exec "));
    let pod = line
        .map(|line| format!("exec {line}"))
        .expect("the command of a pod");
    let mut files = std::collections::BTreeSet::new();
    for index in 0..8 {
        let (from_0, from_1) = (index.to_string(), (index + 1).to_string());
        for command in [
            command_of(&slurm, &[("SLURM_ARRAY_TASK_ID", &from_1)]),
            command_of(&pod, &[("JOB_COMPLETION_INDEX", &from_0)]),
        ] {
            let shard = command.shard.map(|shard| shard.to_string());
            assert_eq!(shard, Some(format!("{from_1}/8")));
            assert_eq!(command.seeds, 20);
            files.insert(command.output);
        }
    }
    assert_eq!(files.len(), 16);
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
