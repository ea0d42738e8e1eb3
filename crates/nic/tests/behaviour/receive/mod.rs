//! The receive side as a host sees it: frames in, descriptors and buffers out.

mod merging;
mod offload;
mod placement;
mod refusals;
mod rss;
mod stacked;

use l5p::Layers;
use l5p::tls::{Algorithm, CryptoInfo, Version};
use nic::ring::ContextId;
use testkit::bare::{Delivered, Rig, function_config, nic_config};
use testkit::fixtures::{self, MSS};
use testkit::frames::{self, from_peer};
use testkit::pdus::{Kind, data};
use wire::tcp::{Header, Timestamps};
use wire::{FlowKey, SeqNum};

/// From this port of the peer.
fn flow(port: u16) -> FlowKey {
    fixtures::flow(port).reversed()
}

fn filled() -> Rig {
    Rig::filled(nic_config(), function_config())
}

/// A segment's header: an ACK with timestamps.
fn segment(flow: &FlowKey, seq: SeqNum) -> Header {
    let mut header = frames::ack(flow, seq);
    header.options.timestamps = Some(Timestamps { val: 10, echo: 20 });
    header
}

/// A segment comes, whose checksums the NIC looks at.
fn arrive(rig: &mut Rig, flow: &FlowKey, header: &Header, payload: &[u8]) {
    rig.receive_unchecked(&from_peer(flow, header, payload));
}

/// Keys in the middle of a connection.
fn keys(algorithm: Algorithm, version: Version) -> CryptoInfo {
    CryptoInfo {
        sequence: 5,
        ..fixtures::crypto((version, algorithm))
    }
}

fn aes() -> CryptoInfo {
    keys(Algorithm::Aes128Gcm, Version::Tls13)
}

fn offload(rig: &mut Rig, context: u32, flow: &FlowKey, first: SeqNum, crypto: &CryptoInfo) {
    rig.offload(ContextId(context), flow, first, &Layers::of(crypto));
}

/// Where packets of a stream that is sent whole begin and end.
fn packets(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len)
        .step_by(MSS)
        .map(move |from| (from, (from + MSS).min(len)))
}

/// The payloads of packets in a row.
fn payloads(delivered: &[Delivered]) -> Vec<u8> {
    let payloads = delivered.iter().map(|packet| packet.payload());
    payloads.collect::<Vec<_>>().concat()
}

/// Data of NVMe/TCP, each PDU with a tag of its own.
fn one_each(tags: u16, len: u32) -> Vec<Kind> {
    (0..tags).map(|tag| data(tag, 0, len)).collect()
}
