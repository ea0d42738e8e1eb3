//! What is not taken over, and what gives way.

use std::time::Duration;

use wire::tcp::Flags;

use super::rig::{CAPACITY, Peer, Rig, UNA, bytes, flow, teardown};
use crate::accel::Handled;
use crate::config::NicConfig;
use crate::ring::{ErrorCode, Gather, RegionId, Slice};
use crate::switch::FunctionId;

/// Brings the connection of this port into TIME-WAIT.
fn rest(rig: &mut Rig, function: usize, port: u16) {
    let teardown = teardown(port);
    let mut peer = Peer::of(&teardown);
    rig.close_of(function, &teardown, &[]).expect("room");
    rig.sent();
    peer.ack = UNA + 1;
    let frame = peer.frame(Flags::FIN | Flags::ACK, &[]);
    assert_eq!(rig.deliver_to(function, &frame), Handled::Taken);
    rig.sent();
}

#[test]
fn a_flow_is_taken_over_once() {
    let mut rig = Rig::new();
    assert_eq!(rig.close(&teardown(1), &[]), Ok(()));
    assert_eq!(rig.close(&teardown(1), &[]), Err(ErrorCode::FlowExists));
    // Of another function, or another family, it is another.
    assert_eq!(rig.close_of(1, &teardown(1), &[]), Ok(()));
    let mut other = teardown(1);
    other.flow = flow(1, true);
    assert_eq!(rig.close(&other, &[]), Ok(()));
    assert_eq!(rig.counters().accel_closing_refused, 1);
    assert_eq!((rig.closing(), rig.room().closing), (3, CAPACITY - 3));
    assert_eq!(rig.sent().len(), 3);
}

#[test]
fn a_full_table_refuses_and_the_host_keeps_what_it_has() {
    let mut rig = Rig::limited(4, 1 << 20);
    for port in 1..=4 {
        assert_eq!(rig.close(&teardown(port), &bytes(500)), Ok(()));
    }
    let room = rig.room();
    assert_eq!(room.closing, 0);
    assert_eq!(
        rig.close(&teardown(5), &bytes(500)),
        Err(ErrorCode::TableFull)
    );
    assert_eq!(rig.room(), room, "nothing is kept of it");
    rig.sent();
    let handled = rig.deliver(&Peer::of(&teardown(5)).frame(Flags::ACK, &[]));
    assert_eq!(handled, Handled::Pass(None));
    // One ends: there is room for one.
    rig.deliver(&Peer::of(&teardown(2)).frame(Flags::RST, &[]));
    assert_eq!(rig.close(&teardown(5), &bytes(500)), Ok(()));
}

#[test]
fn full_packet_memory_refuses_what_does_not_fit() {
    let mut rig = Rig::limited(100, 4096);
    assert_eq!(rig.close(&teardown(1), &bytes(4000)), Ok(()));
    assert_eq!(rig.room().packet_memory, 0);
    assert_eq!(
        rig.close(&teardown(2), &bytes(1)),
        Err(ErrorCode::NoPacketMemory)
    );
    // A FIN takes no memory.
    assert_eq!(rig.close(&teardown(3), &[]), Ok(()));
    rig.sent();
    Peer::of(&teardown(1)).acknowledge(&mut rig, UNA + 1024);
    assert_eq!(rig.room().packet_memory, 1024);
    assert_eq!(rig.close(&teardown(2), &bytes(1024)), Ok(()));
}

#[test]
fn memory_that_is_not_registered_leaves_nothing_behind() {
    let mut rig = Rig::new();
    let mut gather = Gather::EMPTY;
    gather.push(Slice {
        offset: 0,
        len: 300,
        region: RegionId(9),
    });
    let refused = rig.close_with(0, &teardown(1), &gather);
    assert_eq!(refused, Err(ErrorCode::BadMemory));
    assert_eq!((rig.closing(), rig.room()), (0, Rig::new().room()));
    assert!(rig.accel.is_idle());
    assert!(rig.sent().is_empty());
}

#[test]
fn nothing_gives_way_to_what_is_refused() {
    let mut rig = Rig::limited(1, 1 << 20);
    rest(&mut rig, 0, 1);
    let mut gather = Gather::EMPTY;
    gather.push(Slice {
        offset: 0,
        len: 300,
        region: RegionId(9),
    });
    let refused = rig.close_with(0, &teardown(2), &gather);
    assert_eq!(refused, Err(ErrorCode::BadMemory));
    let mut first = Peer::of(&teardown(1));
    first.ack += 1;
    let frame = first.frame(Flags::FIN | Flags::ACK, &[]);
    assert_eq!(rig.deliver(&frame), Handled::Taken);
    rig.sent();
    assert_eq!(rig.close(&teardown(2), &bytes(300)), Ok(()));
    assert_eq!(rig.deliver(&frame), Handled::Pass(None));
}

#[test]
fn no_function_ends_the_time_wait_of_another_one() {
    let mut rig = Rig::limited(4, 1 << 20);
    for port in 1..=4 {
        rest(&mut rig, 1, port);
    }
    assert_eq!((rig.room().closing, rig.room_of(1).closing), (0, 4));
    assert_eq!(rig.close(&teardown(5), &[]), Err(ErrorCode::TableFull));
    assert_eq!(rig.accel.closing.used(FunctionId(1)).0, 4);
    assert_eq!(rig.close_of(1, &teardown(5), &[]), Ok(()));
    assert_eq!(rig.accel.closing.used(FunctionId(1)).0, 4);
    assert_eq!((rig.room().closing, rig.room_of(1).closing), (0, 3));
    // Their time goes by.
    rig.pass(Duration::from_secs(61));
    assert_eq!(rig.close(&teardown(6), &[]), Ok(()));
}

/// Those that rest give way, the oldest first.
#[test]
fn time_wait_gives_way_to_new_connections() {
    let mut rig = Rig::limited(4, 1 << 20);
    for port in 1..=4 {
        rest(&mut rig, 0, port);
        rig.pass(Duration::from_secs(1));
    }
    assert_eq!((rig.closing(), rig.room().closing), (4, 4));
    for port in 5..=7 {
        assert_eq!(rig.close(&teardown(port), &[]), Ok(()));
    }
    assert_eq!((rig.closing(), rig.room().closing), (4, 1));
    assert_eq!(rig.counters().accel_time_wait_overflow, 3);
    let mut fourth = Peer::of(&teardown(4));
    fourth.ack += 1;
    assert_eq!(
        rig.deliver(&fourth.frame(Flags::FIN | Flags::ACK, &[])),
        Handled::Taken
    );
    let mut third = Peer::of(&teardown(3));
    third.ack += 1;
    assert_eq!(
        rig.deliver(&third.frame(Flags::FIN | Flags::ACK, &[])),
        Handled::Pass(None)
    );
    // No other connection has their timers.
    rig.sent();
    for port in 5..=7 {
        Peer::of(&teardown(port)).acknowledge(&mut rig, UNA + 1);
    }
    assert!(rig.pass(Duration::from_secs(59)).is_empty());
    assert_eq!(rig.closing(), 4);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.closing(), 0);
}

#[test]
fn a_function_has_no_more_than_its_share() {
    let mut rig = Rig::with(NicConfig::new([7; 16]), |config| {
        config.closing = 2;
        config.packet_memory = 1024;
    });
    assert_eq!(rig.close(&teardown(1), &bytes(1024)), Ok(()));
    assert_eq!(
        rig.close(&teardown(2), &bytes(1)),
        Err(ErrorCode::NoPacketMemory)
    );
    assert_eq!(rig.close(&teardown(2), &[]), Ok(()));
    assert_eq!(rig.close(&teardown(3), &[]), Err(ErrorCode::TableFull));
    assert_eq!(rig.close_of(1, &teardown(1), &bytes(1024)), Ok(()));
    assert_eq!((rig.room().closing, rig.room_of(1).closing), (0, 1));
    rig.sent();
    // Its own give way to it, and no other's.
    rest(&mut rig, 1, 7);
    rig.deliver(&Peer::of(&teardown(2)).frame(Flags::RST, &[]));
    rest(&mut rig, 0, 8);
    assert_eq!(rig.close(&teardown(9), &[]), Ok(()));
    assert_eq!(rig.close(&teardown(10), &[]), Err(ErrorCode::TableFull));
    assert_eq!((rig.closing(), rig.room_of(1).closing), (4, 1));
}

/// The slot of a connection that was reset is free when its RST is out.
#[test]
fn a_connection_that_was_reset_is_gone_with_its_reset() {
    let mut rig = Rig::limited(1, 1 << 20);
    rig.close(&teardown(1), &bytes(100)).expect("room");
    rig.sent();
    rig.deliver(&Peer::of(&teardown(1)).frame(Flags::ACK, b"data"));
    assert_eq!(
        rig.close(&teardown(2), &bytes(100)),
        Err(ErrorCode::TableFull)
    );
    assert_eq!(rig.only().flags(), Flags::RST);
    assert_eq!(rig.close(&teardown(2), &bytes(100)), Ok(()));
    // One that ends while it waits for its turn sends nothing any more.
    rig.deliver(&Peer::of(&teardown(2)).frame(Flags::RST, &[]));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.closing(), 0);
}
