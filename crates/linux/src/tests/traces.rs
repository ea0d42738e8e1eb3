//! What the driver does with the segments of programs, written down in `tests/traces`. Whatever changes it on purpose shows there what it does;
//! `LONGSHORE_WRITE=1` writes it anew.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use testkit::written;

use super::fenced_random::{case, run};

/// A line for each case, and all of the first ones.
#[test]
fn programs_of_all_kinds() {
    const WHOLE: usize = 3;
    let mut runner = TestRunner::deterministic();
    let mut lines = Vec::new();
    for number in 0..60 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        let mut program = case.program();
        program.trace = Some(Vec::new());
        run(&mut program, case).expect("it passes");
        let trace = program.trace.take().expect("it was traced");
        let counters = program
            .function
            .counters()
            .iter()
            .filter(|(_, count)| *count > 0);
        let counters: Vec<_> = counters
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let sum = written::sum_lines(&trace);
        lines.push(format!(
            "{} segments {sum:016x}, {}",
            trace.len(),
            counters.join(", ")
        ));
        if number < WHOLE {
            let name = format!("program_{number}");
            written::compare(
                env!("CARGO_MANIFEST_DIR"),
                &name,
                &written::shorten(trace, 60),
            );
        }
    }
    written::compare(env!("CARGO_MANIFEST_DIR"), "programs", &lines);
}
