//! SYNs of the host's own, of a flow that the NIC finishes.

use testkit::accel::teardown;
use testkit::fixtures::{HOST, PEER};
use testkit::frames::{self, from_peer, headers};
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header, Timestamps};

use super::*;
use nic::ring::{ErrorCode, RecvDescriptor, RegionId, SendDescriptor, SendFlags, Slice};

const OURS: SeqNum = SeqNum(1001);
const THEIRS: SeqNum = SeqNum(5001);

/// Has the NIC finish the connection of the rig's flow, whose FIN it sends.
fn close(rig: &mut Rig) {
    let closing = teardown(rig.flow, OURS, THEIRS);
    rig.post(&SendDescriptor::Teardown {
        teardown: &closing,
        payload: &[],
    });
    assert_eq!(rig.segments().len(), 1);
}

/// The peer's FIN, which acknowledges ours; it is answered by the NIC.
fn finish(rig: &mut Rig) {
    let flow = rig.flow.reversed();
    let mut fin = Header {
        ack: OURS + 1,
        flags: Flags::FIN | Flags::ACK,
        ..frames::ack(&flow, THEIRS)
    };
    fin.options.timestamps = Some(Timestamps { val: 1, echo: 2 });
    rig.receive(&from_peer(&flow, &fin, &[]));
    let answers = rig.segments();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0.tcp.flags, Flags::ACK);
}

fn syn(rig: &Rig, from: MacAddr) -> Vec<u8> {
    headers(from, PEER, &rig.flow, &frames::syn(&rig.flow, SeqNum(7), 1))
}

fn send<'a>(
    header: &'a [u8],
    mss: u16,
    flags: SendFlags,
    payload: &'a [Slice],
) -> SendDescriptor<'a> {
    SendDescriptor::Send {
        header,
        mss,
        context: None,
        flags,
        payload,
    }
}

/// Of what was refused: where, and why.
fn refusals(rig: &mut Rig) -> Vec<(SeqNum, ErrorCode)> {
    let taken = rig.host.take().into_iter();
    let refused = taken.filter_map(|descriptor| match descriptor {
        RecvDescriptor::Completion { tcpsn, error, .. } => Some((tcpsn, error)),
        _ => None,
    });
    refused.collect()
}

#[test]
fn a_syn_that_is_refused_ends_no_time_wait() {
    let mut rig = plain();
    close(&mut rig);
    finish(&mut rig);
    rig.host.take();
    let ours = syn(&rig, HOST);
    let foreign = syn(&rig, PEER);
    let elsewhere = [Slice {
        region: RegionId(99),
        ..rig.slice(0, 10)
    }];
    let long = [rig.slice(0, 3000)];
    for (header, mss, flags, payload, why) in [
        (
            &ours,
            0,
            SendFlags::CHECKSUM,
            &elsewhere,
            ErrorCode::BadMemory,
        ),
        (&ours, 0, SendFlags::NONE, &elsewhere, ErrorCode::BadMemory),
        (&ours, 0, SendFlags::CHECKSUM, &long, ErrorCode::TooLarge),
        (
            &ours,
            1000,
            SendFlags::CHECKSUM,
            &long,
            ErrorCode::BadHeader,
        ),
        (
            &foreign,
            0,
            SendFlags::CHECKSUM,
            &[rig.slice(0, 10)],
            ErrorCode::BadHeader,
        ),
    ] {
        rig.post(&send(header, mss, flags, payload));
        assert_eq!(rig.frames(), []);
        assert_eq!(refusals(&mut rig), [(SeqNum(7), why)]);
        assert_eq!(rig.counters().accel_curr_closing, 1, "{why:?}");
        finish(&mut rig);
    }
    rig.post(&send(&ours, 0, SendFlags::CHECKSUM, &[]));
    assert_eq!(rig.segments().len(), 1);
    assert_eq!(rig.counters().accel_time_wait_reused, 1);
    assert_eq!(rig.counters().accel_curr_closing, 0);
}

#[test]
fn a_syn_that_its_host_has_made_whole_is_one_too() {
    let mut rig = plain();
    close(&mut rig);
    let flow = rig.flow;
    let whole = frames::frame(HOST, PEER, &flow, &frames::syn(&flow, SeqNum(7), 1), &[]);
    rig.post(&send(&whole, 0, SendFlags::NONE, &[]));
    assert_eq!(rig.frames(), []);
    assert_eq!(refusals(&mut rig), [(SeqNum(7), ErrorCode::FlowExists)]);
    finish(&mut rig);
    rig.post(&send(&whole, 0, SendFlags::NONE, &[]));
    let sent = rig.frames();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, whole, "as it is");
    assert_eq!(rig.counters().accel_time_wait_reused, 1);
}
