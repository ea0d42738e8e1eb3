//! A NIC with functions whose hosts listen, and peers that speak to it by frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::ethernet::MacAddr;
use wire::packet::{self, Class};
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

use crate::accel::packet::{Addresses, room_for, write};
use crate::ring::accel::{Established, InstallListener, ListenRuleId, ListenerOptions};
use crate::ring::{
    ErrorCode, FunctionConfig, HostFunction, Packet, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use crate::{FrameMeta, Nic, NicConfig};

pub(super) const PEER: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);
const BUFFER: u32 = 2048;
const BUFFERS: u64 = 64;

pub(super) struct Rig {
    pub(super) nic: Nic,
    pub(super) now: Instant,
    pub(super) hosts: Vec<Host>,
}

pub(super) struct Host {
    pub(super) function: HostFunction,
    memory: Arc<Region>,
    region: RegionId,
}

/// What a host was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Established(Established),
    Packet(Vec<u8>),
    Refused(ErrorCode, u32),
}

pub(super) fn options() -> ListenerOptions {
    ListenerOptions {
        mss: 1460,
        window: 60_000,
        window_scale: Some(9),
        sack: true,
        backlog: 16,
        defer: false,
        hop_limit: 61,
    }
}

impl Rig {
    pub(super) fn new(functions: u8) -> Rig {
        Rig::with(functions, |_| ())
    }

    pub(super) fn with(functions: u8, change: impl FnOnce(&mut NicConfig)) -> Rig {
        let mut config = NicConfig::new([7; 16]);
        change(&mut config);
        let mut nic = Nic::new(config);
        let hosts = (0..functions).map(|number| {
            let (mut function, device) = function(FunctionConfig {
                send_entries: 64,
                receive_entries: 256,
                small_entries: BUFFERS as u32,
                large_entries: 4,
                ..FunctionConfig::new(mac(number))
            });
            nic.attach(device).unwrap();
            let memory = Arc::new(Region::anonymous((u64::from(BUFFER) * BUFFERS) as usize));
            let region = function.register(Arc::clone(&memory)).unwrap();
            for at in 0..BUFFERS {
                let offset = at * u64::from(BUFFER);
                let buffer = Slice {
                    offset,
                    len: BUFFER,
                    region,
                };
                assert!(function.queues[0].small.push(buffer));
            }
            let _ = function.queues[0].publish();
            Host {
                function,
                memory,
                region,
            }
        });
        let hosts = hosts.collect();
        Rig {
            nic,
            now: Instant::now(),
            hosts,
        }
    }

    /// A NIC with one function that listens on port 80 of all addresses of both families.
    pub(super) fn listening(options: ListenerOptions) -> Rig {
        let mut rig = Rig::new(1);
        rig.listen(0, 0, Ipv4Addr::UNSPECIFIED.into(), options);
        rig.listen(0, 1, Ipv6Addr::UNSPECIFIED.into(), options);
        rig
    }

    pub(super) fn listen(
        &mut self,
        host: usize,
        rule: u16,
        address: IpAddr,
        options: ListenerOptions,
    ) {
        let install = InstallListener {
            rule: ListenRuleId(rule),
            address,
            port: 80,
            options,
        };
        self.post(host, &SendDescriptor::InstallListener(&install));
    }

    pub(super) fn post(&mut self, host: usize, descriptor: &SendDescriptor<'_>) {
        let queue = &mut self.hosts[host].function.queues[0];
        queue.send.post(descriptor).unwrap();
        let _ = queue.publish();
        assert_eq!(self.sent(), Vec::<Vec<u8>>::new());
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// A frame comes from the wire.
    pub(super) fn receive(&mut self, frame: &[u8]) {
        self.nic.handle_frame(self.now, frame, FrameMeta::default());
        self.nic.flush(self.now);
    }

    /// Frames that the NIC sends now.
    pub(super) fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut out = [0; 2048];
        let mut frames = Vec::new();
        while let Some((len, meta)) = self.nic.poll_transmit(self.now, &mut out) {
            assert_eq!(meta, FrameMeta::default());
            frames.push(out[..len].to_vec());
        }
        self.nic.flush(self.now);
        frames
    }

    /// What a host has been told; its buffers go back to the NIC.
    pub(super) fn told(&mut self, host: usize) -> Vec<Told> {
        let Host {
            function,
            memory,
            region,
        } = &mut self.hosts[host];
        let queue = &mut function.queues[0];
        let mut told = Vec::new();
        while let Some(descriptor) = queue.recv.pop() {
            told.push(match descriptor {
                RecvDescriptor::Established(established) => Told::Established(established),
                RecvDescriptor::Packet(packet) => {
                    let frame = read(memory, &packet);
                    let buffer = Slice {
                        len: BUFFER,
                        region: *region,
                        offset: packet.buffer.offset,
                    };
                    assert!(queue.small.push(buffer));
                    Told::Packet(frame)
                }
                RecvDescriptor::Completion { error, tcpsn, .. } => Told::Refused(error, tcpsn.0),
                RecvDescriptor::AccelRoom(_) => continue,
                other => panic!("{other:?}"),
            });
        }
        let _ = queue.publish();
        told
    }

    /// The NIC's answer to a SYN, which is the only frame it sends.
    pub(super) fn answer(&mut self, syn: &[u8]) -> Header {
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

fn read(memory: &Region, packet: &Packet) -> Vec<u8> {
    let mut frame = vec![0; packet.buffer.len as usize];
    assert!(memory.read(packet.buffer.offset, &mut frame));
    frame
}

pub(super) fn parse(frame: &[u8]) -> packet::Parsed {
    match packet::classify(frame) {
        Class::Tcp(parsed) => parsed,
        other => panic!("{other:?}"),
    }
}

pub(super) fn mac(function: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, function])
}

/// A flow from a peer to port 80.
pub(super) fn flow(v6: bool, port: u16) -> FlowKey {
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

pub(super) fn frame(to: MacAddr, flow: &FlowKey, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; room_for(payload.len())];
    let addresses = Addresses {
        source: PEER,
        hop: to,
        flow,
        hop_limit: 64,
    };
    let nic = NicConfig::new([0; 16]);
    let mut header = *header;
    (header.src_port, header.dst_port) = (flow.src.1, flow.dst.1);
    let lens = (payload.len() as u32, 0);
    let (len, _) = write(&mut out, &nic, &addresses, &header, lens, |to| {
        to.copy_from_slice(payload);
        Some(())
    })
    .unwrap();
    out.truncate(len);
    out
}

/// A SYN as Linux sends it.
pub(super) fn syn(flow: &FlowKey) -> Header {
    Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq: SeqNum(0xffff_fff0),
        flags: Flags::SYN,
        window: 64_240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 1000, echo: 0 }),
            ..Options::default()
        },
        ..Header::default()
    }
}

/// What a peer sends that has got our SYN-ACK.
pub(super) fn ack(syn: &Header, answer: &Header) -> Header {
    Header {
        seq: syn.seq + 1,
        ack: answer.seq + 1,
        flags: Flags::ACK,
        options: Options {
            timestamps: answer.options.timestamps.map(|timestamps| Timestamps {
                val: 1001,
                echo: timestamps.val,
            }),
            ..Options::default()
        },
        ..*syn
    }
}
