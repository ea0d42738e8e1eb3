//! Many connections through one function.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{Answer, Direction, Errno, Slab, SlotRef, SlotRequest};
use l5p::tls::{ContentType, Writer};
use nic::{Nic, NicConfig};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use super::program::{CIPHERS, keys};
use super::rig::{OURS, OneSocket, PEER, SECRET, Socket, segment};
use crate::{Config, LinuxFunction, State, StateConfig};

const CONNECTIONS: u32 = 10_000;
const ISN: u32 = 5000;

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

/// A function for so many connections, and so many bytes of what they retain; and its Linux.
fn function(now: Instant, nic: &mut Nic, flows: u32, retain: u64) -> (LinuxFunction, OneSocket) {
    let config = Config::default();
    let (host, device) = nic::ring::function(config.function(OURS));
    nic.attach(device).unwrap();
    // One tenant may have as many as are left.
    let flows = 2 * flows;
    let state = State::in_memory(StateConfig { flows, retain }).unwrap();
    let linux = OneSocket(Arc::default());
    let sockets = Box::new(linux.clone());
    let function = LinuxFunction::new(now, host, &config, &state, sockets, SECRET).unwrap();
    (function, linux)
}

/// Opens a connection and gives its keys.
fn offload(
    now: Instant,
    nic: &mut Nic,
    (function, linux): &mut (LinuxFunction, OneSocket),
    slab: &Arc<Slab>,
    number: u32,
) -> Answer {
    let first = (SeqNum(ISN), SeqNum(1));
    let socket = Socket::new(flow(number), u64::from(number), first);
    *linux.0.lock().unwrap() = Some(socket);
    linux.open(nic, function, now);
    set_keys(now, function, slab, &socket, Direction::Transmit)
}

fn set_keys(
    now: Instant,
    function: &mut LinuxFunction,
    slab: &Arc<Slab>,
    socket: &Socket,
    direction: Direction,
) -> Answer {
    let (index, generation) = slab.claim().unwrap();
    let order = SlotRequest::SetKeys {
        slot: SlotRef::new(slab, index, generation).unwrap(),
        direction,
        info: keys(CIPHERS[3], 0),
        resume: None,
        socket: socket.facts(),
    };
    function.handle_slot_request(now, &order)
}

#[test]
fn keys_are_refused_when_there_is_no_memory_for_a_record_of_theirs() {
    let now = Instant::now();
    let mut nic = Nic::new(NicConfig::new([7; 16]));
    let mut function = function(now, &mut nic, 100, 1 << 20);
    let slab = Arc::new(Slab::create(101).unwrap());
    let mut refused = 0;
    for number in 0..100 {
        let answer = offload(now, &mut nic, &mut function, &slab, number);
        if answer.result == Err(Errno::NOSPC) {
            refused += 1;
        } else {
            assert_eq!((answer.result, refused), (Ok(()), 0), "connection {number}");
        }
    }
    // Three quarters of the memory are this tenant's, and a record may have 18 KiB.
    assert_eq!(100 - refused, (768 << 10) / (18 << 10));
    assert_eq!(function.0.counters().tls_refused_memory, refused);
    // The other direction has none, and is taken.
    let (function, linux) = &mut function;
    let last = linux.with(|socket| *socket);
    let answer = set_keys(now, function, &slab, &last, Direction::Receive);
    assert_eq!(answer.result, Ok(()));
}

/// Of the driver and of the NIC.
#[test]
fn a_connection_takes_little_memory_beside_what_is_retained() {
    let began = Instant::now();
    let mut nic = Nic::new(NicConfig::new([7; 16]));
    let mut function = function(began, &mut nic, CONNECTIONS, 256 << 20);
    let slab = Arc::new(Slab::create(CONNECTIONS).unwrap());
    let record = {
        let writer = Writer::new(keys(CIPHERS[3], 0));
        let layout = writer.record_layout(ContentType::APPLICATION_DATA, 1000);
        [layout.header(), &[7; 1000], layout.trailer()].concat()
    };
    let mut out = vec![0; 70_000];
    let mut sent = 0;
    let before = testkit::allocated_bytes();
    for number in 0..CONNECTIONS {
        let now = began + Duration::from_micros(100) * number;
        let answer = offload(now, &mut nic, &mut function, &slab, number);
        assert_eq!(answer.result, Ok(()), "connection {number}");
        let (frame, meta) = segment((OURS, PEER), &flow(number), ISN, Flags::ACK, &record, 1400);
        function.0.handle_frame(now, &frame, meta);
        function.0.publish();
        while nic.poll_transmit(now, &mut out).is_some() {
            sent += 1;
        }
        nic.flush(now);
        function.0.publish();
    }
    assert_eq!(sent, CONNECTIONS);
    assert_eq!(function.0.connections(), CONNECTIONS as usize);
    assert_eq!(function.0.counters().tx_tls_no_room, 0);
    let each = (testkit::allocated_bytes() - before) / CONNECTIONS as usize;
    assert!(each < 1200, "{each} bytes for each connection");
}
