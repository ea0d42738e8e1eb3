//! A NIC with functions whose hosts listen, and peers that speak to it by frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use nic::ring::accel::{Established, InstallListener, ListenRuleId, ListenerOptions};
use nic::ring::{ErrorCode, FunctionConfig, RecvDescriptor, SendDescriptor};
use nic::{FrameMeta, Nic, NicConfig};
use testkit::accel::listener;
use testkit::bare::{BareHost, drain, function_config, nic_config};
use testkit::fixtures::PEER;
use testkit::frames;
use wire::ethernet::MacAddr;
use wire::packet::{self, Class};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

pub struct Rig {
    pub nic: Nic,
    pub now: Instant,
    pub hosts: Vec<BareHost>,
}

/// What was reported to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    Established(Established),
    Packet(Vec<u8>),
    Refused(ErrorCode, u32),
}

pub fn options() -> ListenerOptions {
    ListenerOptions {
        window: 60_000,
        backlog: 16,
        defer: false,
        hop_limit: 61,
        ..listener()
    }
}

impl Rig {
    pub fn new(functions: u8) -> Rig {
        Rig::with(functions, |_| ())
    }

    pub fn with(functions: u8, change: impl FnOnce(&mut NicConfig)) -> Rig {
        let mut config = nic_config();
        change(&mut config);
        let mut nic = Nic::new(config);
        let hosts = (0..functions).map(|number| {
            let config = FunctionConfig {
                mac: mac(number),
                small_entries: 64,
                ..function_config()
            };
            let mut host = BareHost::attach(&mut nic, config);
            host.fill(64, 0);
            host
        });
        Rig {
            hosts: hosts.collect(),
            nic,
            now: Instant::now(),
        }
    }

    /// A NIC with one function that listens on port 80 of all addresses of both families.
    pub fn listening(options: ListenerOptions) -> Rig {
        let mut rig = Rig::new(1);
        rig.listen(0, 0, Ipv4Addr::UNSPECIFIED.into(), options);
        rig.listen(0, 1, Ipv6Addr::UNSPECIFIED.into(), options);
        rig
    }

    pub fn listen(&mut self, host: usize, rule: u16, address: IpAddr, options: ListenerOptions) {
        let install = InstallListener {
            rule: ListenRuleId(rule),
            address,
            port: 80,
            options,
        };
        self.post(host, &SendDescriptor::InstallListener(&install));
    }

    pub fn post(&mut self, host: usize, descriptor: &SendDescriptor<'_>) {
        self.hosts[host].post(descriptor);
        self.hosts[host].publish();
        assert_eq!(self.sent(), Vec::<Vec<u8>>::new());
    }

    pub fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// A frame comes from the wire.
    pub fn receive(&mut self, frame: &[u8]) {
        self.nic.handle_frame(self.now, frame, FrameMeta::default());
        self.nic.flush(self.now);
    }

    /// Frames that the NIC sends now.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        let frames = drain(&mut self.nic, self.now).into_iter();
        let frames = frames.map(|(frame, meta)| {
            assert_eq!(meta, FrameMeta::default());
            frame
        });
        let frames = frames.collect();
        self.nic.flush(self.now);
        frames
    }

    /// What was reported to a host; its buffers go back to the NIC.
    pub fn reported(&mut self, host: usize) -> Vec<Reported> {
        let host = &mut self.hosts[host];
        let reported = host
            .take()
            .into_iter()
            .filter_map(|descriptor| match descriptor {
                RecvDescriptor::Established(established) => {
                    Some(Reported::Established(established))
                }
                RecvDescriptor::Packet(_) => {
                    let packet = host.read(descriptor).expect("a packet");
                    Some(Reported::Packet(packet.bytes))
                }
                RecvDescriptor::Completion { error, tcpsn, .. } => {
                    Some(Reported::Refused(error, tcpsn.0))
                }
                RecvDescriptor::AccelRoom(_) => None,
                other => panic!("{other:?}"),
            });
        let reported = reported.collect();
        host.fill(64, 0);
        reported
    }

    /// A peer's SYN, and the NIC's answer to it.
    pub fn shake(&mut self, flow: &FlowKey) -> (Header, Header) {
        let syn = syn(flow);
        let answer = self.answer(&to_host(flow, &syn, &[]));
        (syn, answer)
    }

    /// The NIC's answer to a SYN, which is the only frame it sends.
    pub fn answer(&mut self, syn: &[u8]) -> Header {
        self.receive(syn);
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "one SYN-ACK");
        let parsed = parse(&sent[0]);
        assert!(parsed.verify_checksums(&sent[0]));
        assert_eq!(parsed.tcp.flags, Flags::SYN | Flags::ACK);
        assert_eq!(sent[0][..6], PEER.0);
        assert_eq!(parsed.flow.reversed(), parse(syn).flow);
        parsed.tcp
    }
}

pub fn parse(frame: &[u8]) -> packet::Parsed {
    match packet::classify(frame) {
        Class::Tcp(parsed) => parsed,
        other => panic!("{other:?}"),
    }
}

pub fn mac(function: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, function])
}

/// A flow from a peer to port 80.
pub fn flow(v6: bool, port: u16) -> FlowKey {
    if v6 {
        let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into();
        FlowKey {
            src: (address(9), port),
            dst: (address(1), 80),
        }
    } else {
        FlowKey {
            src: (Ipv4Addr::new(10, 0, 0, 9).into(), port),
            dst: (Ipv4Addr::new(10, 0, 0, 1).into(), 80),
        }
    }
}

pub fn frame(to: MacAddr, flow: &FlowKey, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut header = *header;
    (header.src_port, header.dst_port) = (flow.src.1, flow.dst.1);
    frames::frame(PEER, to, flow, &header, payload)
}

/// As [`frame`], to the first host.
pub fn to_host(flow: &FlowKey, header: &Header, payload: &[u8]) -> Vec<u8> {
    frame(mac(0), flow, header, payload)
}

/// A SYN as Linux sends it.
pub fn syn(flow: &FlowKey) -> Header {
    frames::syn(flow, SeqNum(0xffff_fff0), 1000)
}

/// What a peer sends that has got our SYN-ACK.
pub fn ack(syn: &Header, answer: &Header) -> Header {
    frames::established(syn, answer, 1001)
}
