//! Runs a fuzz target over its stored inputs, for the tests of the crate that it belongs to.

use std::path::Path;

/// Calls `run` with the contents of each file in `fuzz/corpus/<target>`, in the order of their names.
///
/// # Panics
/// If there are none, or `run` does; then the file's name has been printed.
pub fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(&corpus)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", corpus.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| entry.expect("a directory entry").path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "no inputs in {}", corpus.display());
    for input in inputs {
        println!("{}", input.display());
        run(&std::fs::read(&input).expect("a readable input"));
    }
}
