use std::process::{Command as Process, Stdio};

use clap::Parser;

use super::*;

/// Every command with its full name.
fn commands() -> Vec<(String, Command)> {
    fn collect(command: &Command, name: &str, all: &mut Vec<(String, Command)>) {
        all.push((name.to_owned(), command.clone()));
        for inner in command.get_subcommands() {
            if !inner.is_hide_set() && inner.get_name() != "help" {
                collect(inner, &format!("{name} {}", inner.get_name()), all);
            }
        }
    }
    let mut all = Vec::new();
    let mut command = Cli::command();
    command.build();
    collect(&command, "longshore", &mut all);
    all
}

fn notes(command: &Command) -> String {
    command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// The lines that call longshore, as a shell joins them; without `sudo`, `&`, redirections and what a pipe leads to.
fn examples(command: &Command) -> Vec<String> {
    let joined = notes(command).replace("\\\n", " ");
    let calls = joined.lines().filter_map(|line| {
        let line = line
            .trim()
            .trim_start_matches("sudo ")
            .trim_end_matches(" &");
        let line = line.split([';', '|', '>', '#']).next()?.trim();
        line.starts_with("longshore ").then(|| line.to_owned())
    });
    calls.collect()
}

#[test]
fn every_example_of_the_help_can_be_pasted() {
    for (name, command) in commands() {
        for line in examples(&command) {
            let words = shell_words(&line);
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{name}: {line}\n{error}");
            }
        }
    }
}

#[test]
fn every_command_without_subcommands_has_an_example() {
    for (name, command) in commands() {
        assert!(
            command.has_subcommands() || !examples(&command).is_empty(),
            "{name} has no example"
        );
    }
}

#[test]
fn examples_fit_a_terminal_and_break_lines_as_a_shell_does() {
    for (name, command) in commands() {
        let notes = notes(&command);
        let mut lines = notes.lines().peekable();
        while let Some(line) = lines.next() {
            assert!(
                line.chars().count() <= 100,
                "{name}: wider than 100: {line}"
            );
            let next = lines.peek().copied().unwrap_or_default();
            let goes_on = next.trim_start().starts_with("--");
            assert!(
                !goes_on || line.ends_with('\\'),
                "{name}: no backslash: {line}"
            );
        }
    }
}

#[test]
fn every_command_has_a_man_page_that_groff_takes() {
    let directory = std::env::temp_dir().join(format!("longshore-man-{}", std::process::id()));
    man(&ManOptions {
        directory: directory.clone(),
    })
    .unwrap();
    for (name, _) in commands() {
        let path = directory.join(format!("{}.1", name.replace(' ', "-")));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(".SH NAME"), "{name}");
        let groff = Process::new("groff")
            .args(["-k", "-man", "-Tutf8", "-ww", "-z"])
            .arg(&path)
            .stdout(Stdio::null())
            .output();
        // It is not on every machine.
        if let Ok(told) = groff {
            let told = String::from_utf8_lossy(&told.stderr);
            assert!(told.is_empty(), "{name}: {told}");
        }
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn every_shell_gets_completions() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "longshore", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(
            script.contains("nvme") && script.contains("--peer-ip") | script.contains("peer-ip")
        );
    }
}

/// Splits as a shell does, quotes removed.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut any) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (None, '\'' | '"') => (quote, any) = (Some(c), true),
            (Some(open), _) if open == c => quote = None,
            (None, ' ') => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            _ => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}
