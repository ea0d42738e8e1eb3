//! Connections in teardown and TIME-WAIT take as much memory as was said, and nothing is allocated per connection.

use std::net::Ipv4Addr;
use std::time::Duration;

use nic::ring::SendDescriptor;
use nic::ring::accel::Teardown;
use nic::{AccelConfig, Counters, NicConfig};
use testkit::accel::teardown;
use testkit::bare::{Rig, function_config, nic_config};
use testkit::fixtures::{HOST, PEER};
use testkit::{allocated_bytes, allocations, frames};
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum, ethernet, ipv4};

/// Bytes of a response.
const RESPONSE: u32 = 64;
/// Most connections at once, and the memory for them.
const CONNECTIONS: u32 = 256 << 10;
const MEMORY: usize = 64 << 20;
const PACKET_MEMORY: usize = 1 << 20;

struct Server {
    rig: Rig,
    out: [u8; 2048],
    frames: u32,
}

impl Server {
    fn new() -> Server {
        let nic = NicConfig {
            accel: AccelConfig {
                closing: CONNECTIONS,
                packet_memory: PACKET_MEMORY as u64,
                ..AccelConfig::default()
            },
            ..nic_config()
        };
        Server {
            rig: Rig::new(nic, function_config()),
            out: [0; 2048],
            frames: 0,
        }
    }

    /// The host closes a connection; the response and FIN go out.
    fn close(&mut self, number: u32) {
        let teardown = Teardown {
            ticket: number,
            ..teardown(flow(number), SeqNum(number), SeqNum(7))
        };
        let payload = [self.rig.slice(0, RESPONSE)];
        self.rig.post(&SendDescriptor::Teardown {
            teardown: &teardown,
            payload: &payload,
        });
        self.rig.host.publish();
        self.work();
    }

    /// The peer's ACK and FIN come in one; our ACK goes out.
    fn finish(&mut self, number: u32) {
        let flow = flow(number).reversed();
        let header = Header {
            ack: SeqNum(number) + RESPONSE + 1,
            flags: Flags::FIN | Flags::ACK,
            window: 500,
            options: Options {
                timestamps: Some(Timestamps { val: 3, echo: 2 }),
                ..Options::default()
            },
            ..frames::ack(&flow, SeqNum(7))
        };
        let mut frame = [0; MAX_TCP_HEADERS_LEN];
        let len = emit_tcp_headers(&mut frame, PEER, HOST, &flow, &header, 0, 64);
        ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..][..ipv4::HEADER_LEN]);
        self.rig.receive(&frame[..len]);
        self.work();
    }

    fn work(&mut self) {
        let (nic, now) = (&mut self.rig.nic, self.rig.now);
        while nic.poll_transmit(now, &mut self.out).is_some() {
            self.frames += 1;
        }
        nic.flush(now);
        while self.rig.host.pop(0).is_some() {}
        self.rig.host.publish();
    }

    fn pass(&mut self, span: Duration) {
        let end = self.rig.now + span;
        while let Some(due) = self.rig.nic.poll_timeout().filter(|due| *due <= end) {
            self.rig.now = self.rig.now.max(due);
            self.work();
        }
        self.rig.now = end;
    }

    fn counters(&self) -> Counters {
        self.rig.nic.counters()
    }
}

fn flow(number: u32) -> FlowKey {
    FlowKey {
        src: (Ipv4Addr::new(10, 0, 0, 1).into(), 80),
        dst: (
            Ipv4Addr::from_bits(0x0a01_0000 + (number >> 15)).into(),
            1024 + (number & 0x7fff) as u16,
        ),
    }
}

#[test]
fn nothing_is_allocated_per_connection() {
    let mut server = Server::new();
    let run = |server: &mut Server, numbers: std::ops::Range<u32>| {
        for number in numbers {
            server.close(number);
            if number % 3 == 0 {
                // What was lost is sent again.
                server.pass(Duration::from_millis(220));
            }
            server.finish(number);
        }
        server.pass(Duration::from_secs(61));
    };
    run(&mut server, 0..1000);
    let before = allocations();
    run(&mut server, 1000..2000);
    assert_eq!(allocations() - before, 0);
    let counters = server.counters();
    assert_eq!(
        (counters.accel_closing, counters.accel_closing_ended),
        (2000, 2000)
    );
    assert_eq!(counters.accel_closing_retrans, 667);
    assert_eq!(server.frames, 4667);
}

#[test]
fn a_quarter_million_connections_in_time_wait_take_64_mebibytes() {
    let mut server = Server::new();
    let before = allocated_bytes();
    for number in 0..CONNECTIONS {
        server.close(number);
        server.finish(number);
    }
    let taken = allocated_bytes() - before - PACKET_MEMORY;
    assert!(taken <= MEMORY, "{taken}");
    let counters = server.counters();
    assert_eq!(counters.accel_time_wait, u64::from(CONNECTIONS));
    assert_eq!(counters.accel_time_wait_overflow, 0);
    // Others take the place of the oldest, and nothing more.
    for number in CONNECTIONS..CONNECTIONS + 1000 {
        server.close(number);
        server.finish(number);
    }
    assert_eq!(server.counters().accel_time_wait_overflow, 1000);
    assert_eq!(allocated_bytes() - before - PACKET_MEMORY, taken);
    server.pass(Duration::from_secs(62));
    assert_eq!(
        server.counters().accel_closing_ended,
        u64::from(CONNECTIONS)
    );
}
