//! Modules without circles: each uses only those that are listed before it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Checks that the modules of a crate are `layers`, and that each uses only those before it. `manifest_dir` is the crate's directory; what is
/// only for its tests is not looked at.
///
/// # Panics
/// When it is not so: with every use that points the wrong way.
pub fn assert_layers(manifest_dir: &str, layers: &[&str]) {
    let src = Path::new(manifest_dir).join("src");
    let mut files = Vec::new();
    collect(&src, &mut files);
    let listed: BTreeSet<&str> = layers.iter().copied().collect();
    let found: BTreeSet<String> = files
        .iter()
        .filter_map(|file| layer_of(&src, file))
        .collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, listed, "the modules of {}", src.display());
    let place: BTreeMap<&str, usize> = layers.iter().copied().zip(0..).collect();
    let root = read(&src.join("lib.rs"));
    let names = reexports(&root, &place);
    let mut wrong = Vec::new();
    for file in &files {
        let Some(layer) = layer_of(&src, file) else {
            continue;
        };
        let is_top = file.parent() == Some(&src) || file.ends_with(format!("{layer}/mod.rs"));
        for used in uses(&read(file), is_top) {
            let used = place
                .get(used.as_str())
                .or_else(|| names.get(used.as_str()));
            if let Some(used) = used.filter(|used| **used > place[layer.as_str()]) {
                wrong.push(format!("{} uses {}", file.display(), layers[*used]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every file of the sources that is not only for tests.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        match stem {
            Some("tests") | None => {}
            _ if path.is_dir() => collect(&path, files),
            _ => files.push(path),
        }
    }
}

/// The module of the crate's root that a file is of.
fn layer_of(src: &Path, file: &Path) -> Option<String> {
    let inside = file.strip_prefix(src).expect("it is a source");
    let first = Path::new(inside.components().next()?.as_os_str());
    let layer = first.file_stem()?.to_str()?;
    (layer != "lib" && layer != "main").then(|| layer.to_owned())
}

/// A file without its comments.
fn read(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source");
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The modules that the root's names are from.
fn reexports(root: &str, place: &BTreeMap<&str, usize>) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for statement in root.split("use ").skip(1) {
        let path = statement.split(';').next().unwrap_or_default();
        let Some((module, rest)) = path.split_once("::") else {
            continue;
        };
        if let Some(at) = place.get(module.trim_start_matches("crate::")) {
            let last = rest.rsplit("::").next().unwrap_or_default();
            let each = last.trim_matches(['{', '}']).split(',').map(str::trim);
            names.extend(each.map(|name| (name.to_owned(), *at)));
        }
    }
    names
}

/// The first segments of all paths from the crate's root; in a module of the root (`is_top`), `super` is the root too.
fn uses(text: &str, is_top: bool) -> Vec<String> {
    let mut used = Vec::new();
    let prefixes: &[&str] = if is_top {
        &["crate::", "super::"]
    } else {
        &["crate::"]
    };
    for prefix in prefixes {
        for (at, _) in text.match_indices(prefix) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "_$:".contains(before)) {
                continue;
            }
            let rest = &text[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => used.extend(heads(group)),
                None => used.push(head(rest)),
            }
        }
    }
    used
}

/// The first segment of a path.
fn head(path: &str) -> String {
    let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
    path.chars().take_while(is_name).collect()
}

/// The first segments of the paths in a group, which goes on to its closing brace.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut begins) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' => begins = depth == 0,
            c if begins && !c.is_whitespace() => {
                heads.push(head(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    heads
}
