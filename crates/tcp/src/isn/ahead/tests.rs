//! What is remembered, and for how long.

use super::*;

fn flow(port: u16) -> FlowKey {
    let ip = |last| std::net::Ipv4Addr::new(10, 0, 0, last).into();
    FlowKey {
        src: (ip(1), 80),
        dst: (ip(2), port),
    }
}

#[test]
fn what_is_ahead_is_remembered_until_the_clock_has_passed_it() {
    let now = Instant::now();
    let isns = Generator::new(now, [1; 16]);
    let mut ahead = Ahead::new([2; 16]);
    let end = isns.initial(now, &flow(1)).seq + 250_000;
    ahead.note(now, &isns, &flow(1), end);
    assert_eq!(ahead.used(now, &flow(2)), None);
    let almost = now + Duration::from_millis(999);
    assert_eq!(ahead.used(almost, &flow(1)), Some(end));
    let later = now + Duration::from_millis(1001);
    assert_eq!(ahead.used(later, &flow(1)), None);
    assert!(isns.initial(later, &flow(1)).seq.after(end));
}

#[test]
fn what_is_behind_the_clock_and_what_is_over_takes_no_memory() {
    let now = Instant::now();
    let isns = Generator::new(now, [1; 16]);
    let mut ahead = Ahead::new([2; 16]);
    ahead.note(now, &isns, &flow(1), isns.initial(now, &flow(1)).seq);
    assert!(ahead.flows.is_empty());
    for port in 0..10_000 {
        let then = now + Duration::from_millis(port.into());
        let end = isns.initial(then, &flow(port)).seq + 25_000;
        ahead.note(then, &isns, &flow(port), end);
    }
    assert!(ahead.flows.len() <= 2 * SWEEP, "{}", ahead.flows.len());
}
