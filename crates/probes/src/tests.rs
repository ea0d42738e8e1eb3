use std::net::SocketAddr;

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn no_argument_is_computed_while_no_tracer_is_attached() {
    packet_drop(&|| panic!("no tracer is attached"));
}

#[test]
fn a_flow_has_its_addresses_in_text_and_a_number_of_its_own() {
    let (v4, v6) = (
        "10.9.0.2:443",
        "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0]:65535",
    );
    let flow = Flow::new(address(v4), address(v6));
    assert_eq!(
        format!("{:?} {:?}", flow.local, flow.remote),
        format!("{v4:?} {v6:?}")
    );
    assert_eq!(flow.number, Flow::new(address(v4), address(v6)).number);
    assert_ne!(flow.number, Flow::new(address(v6), address(v4)).number);
}

#[test]
fn values_are_of_arguments_that_there_are_and_have_a_number_each() {
    for code in CODES {
        let probe = PROBES
            .iter()
            .find(|probe| probe.name == code.probe)
            .unwrap();
        assert!(
            probe
                .arguments
                .iter()
                .any(|argument| argument.name == code.argument),
            "{code:?}"
        );
        let numbers: Vec<u8> = code.values.iter().map(|(number, ..)| *number).collect();
        assert_eq!(
            numbers,
            (1..=numbers.len() as u8).collect::<Vec<u8>>(),
            "{code:?}"
        );
    }
}

#[test]
fn a_probe_has_no_more_arguments_than_a_tracer_reads() {
    // bpftrace names arg0 to arg9.
    assert!(PROBES.iter().all(|probe| probe.arguments.len() <= 10));
}
