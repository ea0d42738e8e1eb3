//! Ten thousand connections through one function.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use attachment::{Direction, Errno, Order, Slab, SlotRef};
use l5p::tls::{ContentType, Writer};
use nic::{Nic, NicConfig};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use super::program::{CIPHERS, keys, some_file};
use super::rig::{OURS, PEER, segment};
use crate::{Config, LinuxFunction, SocketFacts, Sockets, State, StateConfig};

const CONNECTIONS: u32 = 10_000;
const ISN: u32 = 5000;

/// A socket for each question.
#[derive(Debug, Default)]
struct Many(u32);

fn flow(number: u32) -> FlowKey {
    FlowKey {
        src: (
            Ipv4Addr::from_bits(0x0a00_0001 + (number >> 14)).into(),
            443,
        ),
        dst: (
            Ipv4Addr::from_bits(0x0a09_0001).into(),
            1024 + (number & 0x3fff) as u16,
        ),
    }
}

impl Sockets for Many {
    fn examine(&mut self, _: BorrowedFd<'_>) -> Result<SocketFacts, Errno> {
        self.0 += 1;
        Ok(SocketFacts {
            flow: flow(self.0 - 1),
            cookie: u64::from(self.0),
            write: SeqNum(ISN),
            unacknowledged: SeqNum(ISN),
            read: SeqNum(1),
            receive_next: SeqNum(1),
            reordered: false,
            peer_has_ended: false,
        })
    }

    fn is_gone(&mut self, _: &FlowKey, _: u64) -> bool {
        false
    }
}

#[test]
fn a_connection_takes_less_than_a_kilobyte_beside_what_is_retained() {
    let now = Instant::now();
    let mut nic = Nic::new(NicConfig::new([7; 16]));
    let config = Config::default();
    let (host, device) = nic::ring::function(config.function(OURS));
    nic.attach(device).unwrap();
    let sizes = StateConfig {
        flows: CONNECTIONS,
        retain: 32 << 20,
    };
    let state = State::in_memory(sizes).unwrap();
    let sockets = Box::new(Many::default());
    let mut function = LinuxFunction::new(now, host, &config, &state, sockets);
    let slab = Arc::new(Slab::create(CONNECTIONS).unwrap());
    let record = {
        let writer = Writer::new(keys(CIPHERS[3], 0));
        let layout = writer.record_layout(ContentType::APPLICATION_DATA, 1000);
        [layout.header(), &[7; 1000], layout.trailer()].concat()
    };
    let mut out = vec![0; 70_000];
    let mut sent = 0;
    let mut turn = |function: &mut LinuxFunction| {
        function.publish();
        while nic.poll_transmit(now, &mut out).is_some() {
            sent += 1;
        }
        nic.flush(now);
        function.publish();
    };
    for number in 0..CONNECTIONS {
        let (index, generation) = slab.claim().unwrap();
        let order = Order::SetKeys {
            slot: SlotRef::new(&slab, index, generation).unwrap(),
            direction: Direction::Transmit,
            info: keys(CIPHERS[3], 0),
            resume: None,
            socket: some_file(),
        };
        let answer = function.handle_order(now, &order);
        assert_eq!(answer.result, Ok(()), "connection {number}");
        let (frame, meta) = segment((OURS, PEER), &flow(number), ISN, Flags::ACK, &record, 1400);
        function.handle_frame(now, &frame, meta);
        turn(&mut function);
    }
    assert_eq!(sent, CONNECTIONS);
    assert_eq!(function.connections(), CONNECTIONS as usize);
    assert_eq!(function.counters().tx_tls_no_room, 0);
    let each = function.connection_bytes() / CONNECTIONS as usize;
    assert!(each < 1024, "{each} bytes for each connection");
}
