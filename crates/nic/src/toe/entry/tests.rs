use super::*;

#[test]
fn a_connection_takes_little_memory() {
    assert!(size_of::<Entry>() <= 1536, "{} bytes", size_of::<Entry>());
}

#[test]
fn old_packets_count_less() {
    let start = Instant::now();
    let mut load = Load::default();
    load.add(start, 8);
    let now = load.now(start);
    assert_eq!(load.now(start + Load::HALF_LIFE), now / 2);
    assert_eq!(load.now(start + Load::HALF_LIFE * 40), 0);
    load.add(start + Load::HALF_LIFE, 4);
    assert_eq!(load.now(start + Load::HALF_LIFE), now);
}
