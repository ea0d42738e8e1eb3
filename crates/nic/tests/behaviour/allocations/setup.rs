//! Connection setup keeps nothing of half-open connections: whatever number of SYNs comes, the NIC's memory does not grow, and
//! nothing is allocated per connection handed up.

use std::net::Ipv4Addr;
use std::time::Duration;

use nic::ring::accel::{InstallListener, ListenRuleId};
use nic::ring::{FunctionConfig, RecvDescriptor, SendDescriptor};
use testkit::accel::listener;
use testkit::bare::{Rig, function_config, nic_config};
use testkit::fixtures::{HOST, PEER};
use testkit::{allocations, frames};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::tcp::Header;
use wire::{FlowKey, SeqNum, ethernet, ipv4};

const RULE: ListenRuleId = ListenRuleId(0);

struct Server {
    rig: Rig,
    out: [u8; 2048],
    established: u32,
}

impl Server {
    fn new() -> Server {
        let function = FunctionConfig {
            small_entries: 64,
            ..function_config()
        };
        let mut rig = Rig::new(nic_config(), function);
        rig.host.fill(64, 0);
        rig.post(&SendDescriptor::InstallListener(&InstallListener {
            rule: RULE,
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 80,
            options: listener(),
        }));
        let mut server = Server {
            rig,
            out: [0; 2048],
            established: 0,
        };
        server.work();
        server
    }

    /// Gives the NIC a segment, and the SYN-ACK to it.
    fn receive(&mut self, flow: &FlowKey, header: &Header, payload: u32) -> Option<Header> {
        let mut frame = [0; MAX_TCP_HEADERS_LEN + 64];
        let headers = packet::emit_tcp_headers(&mut frame, PEER, HOST, flow, header, payload, 64);
        ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..][..ipv4::HEADER_LEN]);
        let len = headers + payload as usize;
        self.rig.receive(&frame[..len]);
        let (len, _) = self.rig.nic.poll_transmit(self.rig.now, &mut self.out)?;
        let parsed = packet::parse(&self.out[..len]).unwrap();
        assert_eq!(parsed.flow, flow.reversed());
        Some(parsed.tcp)
    }

    /// Ends a batch: the host takes what has come and gives back what it took.
    fn work(&mut self) {
        self.rig.nic.flush(self.rig.now);
        let mut credits = 0;
        while let Some(descriptor) = self.rig.host.pop(0) {
            match descriptor {
                RecvDescriptor::Established(established) => {
                    assert_eq!((established.rule, established.mss), (RULE, 1460));
                    credits += 1;
                }
                RecvDescriptor::Packet(_) | RecvDescriptor::AccelRoom(_) => {}
                other => panic!("{other:?}"),
            }
        }
        self.established += credits;
        if credits > 0 {
            let rule = RULE;
            self.rig
                .post(&SendDescriptor::ListenerCredit { rule, credits });
        }
        self.rig.host.fill(64, 0);
        self.rig.work();
        self.rig.nic.flush(self.rig.now);
    }
}

fn flow(client: u32) -> FlowKey {
    FlowKey {
        src: (
            Ipv4Addr::from_bits(0x0a80_0000 + (client >> 8)).into(),
            1024 + (client & 255) as u16,
        ),
        dst: (Ipv4Addr::new(10, 0, 0, 1).into(), 80),
    }
}

fn syn(client: u32) -> Header {
    let seq = SeqNum(client.wrapping_mul(0x9e37_79b9));
    frames::syn(&flow(client), seq, client)
}

/// A flood from forged addresses: every SYN is answered, and nothing is kept.
#[test]
fn a_flood_of_syns_allocates_nothing() {
    let mut server = Server::new();
    let mut before = 0;
    for client in 0..100_000 {
        if client == 1000 {
            before = allocations();
        }
        assert!(server.receive(&flow(client), &syn(client), 0).is_some());
        if client % 1000 == 0 {
            // So that periods pass too.
            server.rig.now += Duration::from_secs(3);
            server.work();
        }
    }
    assert_eq!(allocations() - before, 0);
    assert_eq!(server.rig.nic.counters().accel_syn_acks, 100_000);
    assert_eq!(server.established, 0);
}

#[test]
fn connections_are_set_up_without_allocating() {
    let mut server = Server::new();
    let mut before = 0;
    for client in 0..20_000 {
        if client == 1000 {
            before = allocations();
        }
        let (flow, syn) = (flow(client), syn(client));
        let answer = server.receive(&flow, &syn, 0).unwrap();
        let ack = frames::established(&syn, &answer, client + 1);
        assert_eq!(server.receive(&flow, &ack, 0), None);
        assert_eq!(server.receive(&flow, &ack, 20), None);
        if client % 16 == 0 {
            server.work();
        }
    }
    server.work();
    assert_eq!(allocations() - before, 0);
    let counters = server.rig.nic.counters();
    assert_eq!(server.established, 20_000);
    assert_eq!(counters.accel_acks_deferred, 20_000);
    assert_eq!(counters.accel_syns_backlog, 0);
}
