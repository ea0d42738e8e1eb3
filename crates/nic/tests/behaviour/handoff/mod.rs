//! Connections that are handed off to the device and come back, against a peer that is a plain `tcp::Connection`, over a link
//! that loses, doubles and reorders: the same bytes and the same ends as if they had never been handed off.

mod bare;
mod contexts;
mod fairness;
mod host;
mod hostile;
mod never_lost;
mod refusals;
mod spreading;
mod world;

/// Cases of a property, `PROPTEST_CASES` when that is set.
fn cases(cases: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(cases);
    proptest::test_runner::Config {
        cases,
        ..Default::default()
    }
}
