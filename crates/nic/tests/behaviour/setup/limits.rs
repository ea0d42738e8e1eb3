//! Backlogs, budgets, and memory.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use testkit::bare::{BareHost, function_config};
use wire::tcp::Flags;

use super::rig::{Reported, Rig, ack, flow, mac, options, syn, to_host};
use nic::ring::accel::{ListenRuleId, ListenerOptions};
use nic::ring::{ErrorCode, FunctionConfig, SendDescriptor};

const ALL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether a peer with this port gets an answer to its SYN.
fn is_answered(rig: &mut Rig, port: u16) -> bool {
    let flow = flow(false, port);
    rig.receive(&to_host(&flow, &syn(&flow), &[]));
    !rig.sent().is_empty()
}

/// A peer connects; gives the first that it sends then.
fn connect(rig: &mut Rig, port: u16) -> Vec<u8> {
    let flow = flow(false, port);
    let (syn, answer) = rig.shake(&flow);
    to_host(&flow, &ack(&syn, &answer), b"data")
}

#[test]
fn with_a_full_backlog_syns_are_dropped_until_the_host_gives_credit() {
    let mut rig = Rig::listening(ListenerOptions {
        backlog: 2,
        ..options()
    });
    let late = connect(&mut rig, 7);
    for port in 1..=2 {
        let data = connect(&mut rig, port);
        rig.receive(&data);
        assert_eq!(rig.reported(0).len(), 2);
    }
    assert!(!is_answered(&mut rig, 3));
    assert_eq!(rig.reported(0), [], "nor does the host hear of it");
    assert_eq!(rig.nic.counters().accel_syns_backlog, 1);
    // A peer that has had an answer is reported: only the host knows whether it has room.
    rig.receive(&late);
    assert_eq!(rig.reported(0).len(), 2);
    let credit = |rule, credits| SendDescriptor::ListenerCredit {
        rule: ListenRuleId(rule),
        credits,
    };
    rig.post(0, &credit(0, 1));
    assert!(!is_answered(&mut rig, 3), "as many as the backlog wait");
    rig.post(0, &credit(0, 1));
    assert!(is_answered(&mut rig, 3));
    rig.post(0, &credit(5, 1));
    assert_eq!(
        rig.reported(0),
        [Reported::Refused(ErrorCode::NoListener, 5)]
    );
}

#[test]
fn a_connection_that_the_host_has_no_room_to_hear_of_costs_no_credit() {
    let mut rig = Rig::listening(ListenerOptions {
        backlog: 1,
        ..options()
    });
    let data = connect(&mut rig, 1);
    // 64 buffers, which the host does not give back yet.
    let other = flow(false, 9);
    let mut stranger = syn(&other);
    stranger.flags = Flags::RST;
    for _ in 0..64 {
        rig.receive(&to_host(&other, &stranger, &[]));
    }
    rig.receive(&data);
    assert_eq!(rig.nic.counters().accel_established, 0);
    assert_eq!(rig.reported(0).len(), 64);
    assert!(is_answered(&mut rig, 2));
    rig.receive(&data);
    assert_eq!(rig.reported(0).len(), 2);
    assert!(!is_answered(&mut rig, 2));
}

#[test]
fn beyond_the_budget_syns_are_the_hosts() {
    let mut rig = Rig::with(1, |config| config.accel.setups_per_second = Some(10));
    rig.listen(0, 0, ALL, options());
    let answered = |rig: &mut Rig| (0..5).filter(|port| is_answered(rig, 100 + port)).count();
    assert_eq!(answered(&mut rig), 1);
    assert_eq!(rig.reported(0).len(), 4);
    rig.wait(Duration::from_millis(100));
    assert_eq!(answered(&mut rig), 1);
    assert_eq!(rig.nic.counters().accel_syns_over_budget, 8);
}

#[test]
fn answers_that_find_no_memory_are_lost() {
    let mut rig = Rig::with(1, |config| config.accel.egress_bytes = 1024);
    rig.listen(0, 0, ALL, options());
    for port in 1..=100 {
        let flow = flow(false, port);
        rig.receive(&to_host(&flow, &syn(&flow), &[]));
    }
    let sent = rig.sent().len() as u64;
    assert!((8..=13).contains(&sent), "{sent} answers in 1024 bytes");
    let counters = rig.nic.counters();
    assert_eq!(counters.accel_syn_acks, sent);
    assert_eq!(counters.accel_egress_full, 100 - sent);
    assert_eq!(counters.accel_tx_packets, sent);
    assert_eq!(rig.reported(0), []);
}

#[test]
fn bad_rules_are_refused() {
    let mut rig = Rig::listening(options());
    rig.listen(0, 1, ALL, options());
    rig.listen(0, 256, Ipv4Addr::LOCALHOST.into(), options());
    let rule = ListenRuleId(9);
    rig.post(0, &SendDescriptor::RemoveListener { rule });
    assert_eq!(
        rig.reported(0),
        [
            Reported::Refused(ErrorCode::ListenerExists, 1),
            Reported::Refused(ErrorCode::TableFull, 256),
            Reported::Refused(ErrorCode::NoListener, 9),
        ]
    );
}

#[test]
fn an_answer_does_not_leave_once_its_function_has_gone() {
    let answered = || {
        let mut rig = Rig::listening(options());
        let flow = flow(false, 5000);
        rig.receive(&to_host(&flow, &syn(&flow), &[]));
        assert_eq!(rig.nic.counters().accel_syn_acks, 1);
        rig
    };
    let mut rig = answered();
    let gone = rig.hosts[0].id;
    assert!(rig.nic.reset_function(gone));
    assert_eq!(rig.sent(), Vec::<Vec<u8>>::new());

    let mut rig = answered();
    assert!(rig.nic.detach(gone));
    let config = FunctionConfig {
        mac: mac(7),
        ..function_config()
    };
    let next = BareHost::attach(&mut rig.nic, config);
    assert_eq!(next.id, gone, "its place was free");
    assert_eq!(rig.sent(), Vec::<Vec<u8>>::new());
    let counters = rig.nic.function_counters(next.id).expect("attached");
    assert_eq!((counters.tx_packets, counters.accel_tx_packets), (0, 0));
}
