use clap::{CommandFactory as _, Parser as _};

use super::printed::times;
use crate::cli::Cli;

/// The command lines of a help text, with those that a backslash continues joined.
fn command_lines(help: &str) -> Vec<String> {
    let joined = help.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let lines = lines.map(|line| line.trim_start_matches("sudo ").to_owned());
    lines
        .filter(|line| line.starts_with("longshore "))
        .collect()
}

fn check_examples(command: &clap::Command, count: &mut usize) {
    let help = command.get_after_help().map(ToString::to_string);
    for line in help.iter().flat_map(|help| help.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for line in help.iter().flat_map(|help| command_lines(help)) {
        let words = line.split(['|', '>']).next().unwrap_or_default();
        if let Err(error) = Cli::try_parse_from(words.split_whitespace()) {
            panic!("{line}: {error}");
        }
        *count += 1;
    }
    for inner in command.get_subcommands() {
        check_examples(inner, count);
    }
}

#[test]
fn examples_of_what_measures_and_shows_parse_and_fit_a_terminal() {
    let cli = Cli::command();
    for name in ["demo", "bench", "sim", "stat", "ss"] {
        let mut count = 0;
        let command = cli.find_subcommand(name).expect("a subcommand");
        check_examples(command, &mut count);
        assert!(count > 0, "{name} has no examples");
    }
}

#[test]
fn sizes_on_the_command_line_have_suffixes() {
    for line in [
        "longshore demo --bytes 1G",
        "longshore bench tls --bytes 1G --record-bytes 4K --message-bytes 1M",
        "longshore bench nvme --io-bytes 64K --working-set 256M --bytes 1G",
        "longshore bench short --request-bytes 1K --response-bytes 1M",
        "longshore bench proxy --message-bytes 16K",
        "longshore bench handoff --file-bytes 16K",
        "longshore bench linux --file-bytes 1M",
    ] {
        if let Err(error) = Cli::try_parse_from(line.split(' ')) {
            panic!("{line}: {error}");
        }
    }
    let error = Cli::try_parse_from(["longshore", "bench", "tls", "--record-bytes", "17K"]);
    let error = error.expect_err("it is too much").to_string();
    assert!(
        error.contains("17 KiB is not between 512 bytes and 16 KiB"),
        "{error}"
    );
}

#[test]
fn ratios_in_sentences_have_two_digits_or_three() {
    for (ratio, text) in [
        (0.974, "0.97 times"),
        (1.996, "2.0 times"),
        (5.41, "5.4 times"),
        (21.3, "21 times"),
    ] {
        assert_eq!(times(ratio), text);
    }
}
