//! The probes of the program as it was built, against the list in the code; and that list against its page and the scripts that use it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use probes::{ArgumentOf, CODES, CodeOf, PROBES, PROVIDER};

/// A note of SystemTap's, of type 3.
struct Note {
    location: u64,
    semaphore: u64,
    provider: String,
    name: String,
    arguments: Vec<String>,
}

/// The notes in the section: name's length, descriptor's, type, then both, each filled up to four bytes.
fn notes(elf: &ElfFile64) -> Vec<Note> {
    let section = elf.section_by_name(".note.stapsdt").expect("no probes");
    let (mut rest, mut notes) = (section.data().unwrap(), Vec::new());
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (name_len, len, kind) = (word(0), word(4), word(8));
        let start = 12 + name_len.next_multiple_of(4);
        assert_eq!((&rest[12..12 + name_len], kind), (&b"stapsdt\0"[..], 3));
        notes.push(note(&rest[start..start + len]));
        rest = &rest[start + len.next_multiple_of(4)..];
    }
    notes
}

/// Three addresses of eight bytes, and three strings.
fn note(descriptor: &[u8]) -> Note {
    let address = |at: usize| u64::from_le_bytes(descriptor[at..at + 8].try_into().unwrap());
    let strings = String::from_utf8(descriptor[24..].to_vec()).unwrap();
    let mut strings = strings.split('\0').map(str::to_owned);
    Note {
        location: address(0),
        semaphore: address(16),
        provider: strings.next().unwrap(),
        name: strings.next().unwrap(),
        arguments: strings
            .next()
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_program_has_every_probe_with_a_semaphore_and_its_arguments() {
    let file = fs::read(env!("CARGO_BIN_EXE_longshore")).unwrap();
    let elf: ElfFile64 = ElfFile64::parse(&*file).unwrap();
    let code = elf.section_by_name(".text").unwrap();
    let code = code.address()..code.address() + code.size();
    let notes = notes(&elf);
    for note in &notes {
        assert_eq!(note.provider, PROVIDER);
        assert!(note.semaphore != 0, "{}", note.name);
        assert!(code.contains(&note.location), "{} is no code", note.name);
        let probe = PROBES.iter().find(|probe| probe.name == note.name);
        let expected = probe.expect("an unknown probe").arguments.len();
        assert_eq!(note.arguments.len(), expected, "{}", note.name);
    }
    // Each is in one place.
    let mut found: Vec<&str> = notes.iter().map(|note| &*note.name).collect();
    let mut listed: Vec<&str> = PROBES.iter().map(|probe| probe.name).collect();
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

/// What the page has between its marks.
fn tables() -> String {
    let mut text = String::from("| probe | argument | type | |\n| --- | --- | --- | --- |\n");
    for probe in PROBES {
        writeln!(text, "| `{}` | | | {} |", probe.name, probe.meaning).unwrap();
        for (at, argument) in probe.arguments.iter().enumerate() {
            let ArgumentOf {
                name,
                kind,
                meaning,
            } = argument;
            writeln!(text, "| | `arg{at}` {name} | {kind} | {meaning} |").unwrap();
        }
    }
    text.push_str("\n| argument | value | |\n| --- | --- | --- |\n");
    for code in CODES {
        for (number, name, meaning) in code.values {
            let argument = format!("`{}` {}", code.probe, code.argument);
            writeln!(text, "| {argument} | {number} {name} | {meaning} |").unwrap();
        }
    }
    text
}

#[test]
fn the_page_has_the_list() {
    let page = fs::read_to_string(root().join("docs/probes.md")).unwrap();
    let tables = tables();
    assert!(
        page.contains(&tables),
        "docs/probes.md has other tables than these:\n{tables}"
    );
}

/// The names that a script has for the values of an argument.
fn names(script: &str, code: &CodeOf) -> Vec<(u8, String)> {
    let start = format!("@{}_{}[", code.probe, code.argument);
    let lines = script.lines().filter_map(|line| {
        let (number, name) = line.trim().strip_prefix(&start)?.split_once("] = \"")?;
        Some((number.parse().ok()?, name.strip_suffix("\";")?.to_owned()))
    });
    lines.collect()
}

#[test]
fn the_scripts_attach_to_probes_that_there_are_and_name_every_value() {
    let mut scripts = 0;
    for entry in fs::read_dir(root().join("packaging/bpftrace")).unwrap() {
        let path = entry.unwrap().path();
        let script = fs::read_to_string(&path).unwrap();
        let probes = script
            .lines()
            .filter_map(|line| line.strip_prefix("usdt:/usr/bin/longshore:longshore:"));
        for name in probes {
            assert!(
                PROBES.iter().any(|probe| probe.name == name),
                "{path:?}: {name}"
            );
        }
        for code in CODES {
            let used = format!("@{}_{}[", code.probe, code.argument);
            if script.contains(&used) {
                let all = code.values.iter();
                let all: Vec<_> = all.map(|(at, name, _)| (*at, (*name).to_owned())).collect();
                assert_eq!(names(&script, code), all, "{path:?}");
            }
        }
        scripts += 1;
    }
    assert_eq!(scripts, 2);
}
