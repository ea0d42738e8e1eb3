//! `docs/device.md` and `drivers/longshore.h` say what the code does. `LONGSHORE_WRITE=1` has these tests write both anew.

mod header;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nic::ring::layout::constants;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file of the repository with what it is to be.
fn assert_is(path: &str, expected: &str) {
    let path = root().join(path);
    if std::env::var_os("LONGSHORE_WRITE").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let is = fs::read_to_string(&path).unwrap_or_default();
    let pairs = is.lines().zip(expected.lines()).enumerate();
    for (line, (is, expected)) in pairs {
        assert_eq!(
            is,
            expected,
            "line {} of {}; LONGSHORE_WRITE=1 writes it anew",
            line + 1,
            path.display()
        );
    }
    assert_eq!(is.lines().count(), expected.lines().count());
}

#[test]
fn the_header_declares_what_the_code_has() {
    assert_is("drivers/longshore.h", &header::text());
}

#[test]
fn the_page_has_every_field_where_the_code_has_it() {
    let page = fs::read_to_string(root().join("docs/device.md")).unwrap();
    assert_is("docs/device.md", &page::corrected(&page));
}

#[test]
fn the_page_has_every_error_with_its_number() {
    let page = fs::read_to_string(root().join("docs/device.md")).unwrap();
    for (_, names) in constants().iter().filter(|(group, _)| *group == "error") {
        for (name, value) in names {
            let named = format!("{value} `{name}`");
            assert!(page.contains(&named), "docs/device.md has no error {named}");
        }
    }
}

/// Its assertions hold too: they are about sizes and offsets.
#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn the_header_compiles() {
    let header = root().join("drivers/longshore.h");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .args(["-fsyntax-only", "-x", "c"])
        .arg(&header)
        .output();
    match compiled {
        Ok(compiled) => assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        ),
        Err(error) => eprintln!("skipped: no C compiler ({error})"),
    }
}
