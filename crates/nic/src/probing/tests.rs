use probes::CODES;

use super::*;

#[test]
fn a_drop_is_counted_by_the_counter_that_its_reason_names() {
    let reasons = CODES.iter().find(|code| code.probe == "packet_drop");
    let names = reasons.unwrap().values.iter().map(|(_, name, _)| *name);
    for (reason, name) in DropReason::ALL.iter().zip(names) {
        let mut counters = Counters::default();
        drop_packet(&mut counters, NO_FUNCTION, *reason);
        let mut expected = vec![name];
        if name.starts_with("rx_malformed_") {
            expected.insert(0, "rx_malformed");
        }
        let counted: Vec<_> = counters.iter().filter(|(_, count)| *count > 0).collect();
        let expected: Vec<_> = expected.iter().map(|name| (*name, 1)).collect();
        assert_eq!(counted, expected);
    }
}
