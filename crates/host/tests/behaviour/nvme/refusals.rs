//! What a peer may not do, and what becomes of its data.

use std::time::Duration;

use super::rig::{Mode, Rig, STRIDE, c2h, command, response};
use crate::pair::{CLIENT, Connected as _, SERVER};
use host::nvme::{Digests, FatalError, FatalErrorStatus, Framing, Pdu};
use host::pdus::{DataDigest, PduData, PduError};
use host::{CloseReason, SocketError};
use sim::Fate;
use testkit::pattern;

const DIGESTS: Mode = Mode {
    digests: Digests::BOTH,
    ..Mode::PLAIN
};

/// Runs until each side has been told how the connection ended.
fn ends(rig: &mut Rig) -> [CloseReason; 2] {
    let mut ends = [None, None];
    for _ in 0..10_000 {
        for (at, end) in ends.iter_mut().enumerate() {
            if let Err(SocketError::Closed(reason)) = rig.receive(at) {
                end.get_or_insert(reason);
            }
        }
        if let [Some(client), Some(server)] = &ends {
            return [client.clone(), server.clone()];
        }
        if !rig.pair.step() {
            rig.pair.advance();
        }
    }
    panic!("not both have ended: {ends:?}");
}

#[test]
fn data_that_was_changed_fails_alone() {
    for (data_len, byte) in [(1000, 700), (200_000, 900)] {
        let mut rig = Rig::new(DIGESTS);
        let mut done = false;
        rig.pair.decide(move |from, _, frame| {
            if from == SERVER && frame.len() > byte && !std::mem::replace(&mut done, true) {
                flip(frame, byte);
            }
            Fate::Pass
        });
        rig.fill(SERVER, 0, &pattern(data_len));
        let slices = rig.slices(SERVER, 0, data_len as u32);
        rig.send(
            SERVER,
            &c2h(0, 0, data_len as u32),
            PduData::Slices(&slices),
        );
        rig.send(
            SERVER,
            &c2h(1, 0, data_len as u32),
            PduData::Slices(&slices),
        );
        rig.send(SERVER, &response(1), PduData::None);
        rig.run_until(|rig| rig.sides[CLIENT].log.headers.len() == 3);
        assert_eq!(
            rig.sides[CLIENT].log.ends,
            [DataDigest::Bad, DataDigest::Good]
        );
        assert!(rig.memory(CLIENT, STRIDE, data_len) == pattern(data_len));
        assert_eq!(rig.pair.counter(CLIENT, "NvmeTcpDigestErrors"), 1);
    }
}

#[test]
fn a_changed_header_ends_the_connection() {
    let mut rig = Rig::new(DIGESTS);
    let mut done = false;
    rig.pair.decide(move |from, _, frame| {
        if from == SERVER && frame.len() > 80 && !std::mem::replace(&mut done, true) {
            let at = frame.len() - 6;
            flip(frame, at);
        }
        Fate::Pass
    });
    rig.send(SERVER, &response(1), PduData::None);
    let [client, server] = ends(&mut rig);
    let CloseReason::Pdu(error) = client else {
        panic!("{client:?}");
    };
    let fatal = error.get::<Framing>().expect("an error of NVMe/TCP");
    assert_eq!(fatal.fes, FatalErrorStatus::HEADER_DIGEST);
    assert_eq!(server, CloseReason::PeerRefusedPdu(error));
    let log = &rig.sides[SERVER].log;
    assert!(matches!(log.headers[..], [Pdu::H2CTermReq(_)]));
    // The header that was refused, with its digest.
    assert_eq!(log.inline[0].len(), 28);
    assert_eq!(log.inline[0][0], 5);
}

#[test]
fn data_for_nobody_ends_the_connection_by_the_sinks_word() {
    for tls in [None, Some(host::Offload::Both)] {
        let mut rig = Rig::new(Mode { tls, ..DIGESTS });
        rig.sides[CLIENT].log.unknown = Some(3);
        let slices = rig.slices(SERVER, 0, 5000);
        rig.send_unread(SERVER, &c2h(3, 0, 5000), PduData::Slices(&slices));
        let [client, server] = ends(&mut rig);
        let error = PduError::of::<Framing>(FatalError::field(8));
        assert_eq!(client, CloseReason::Pdu(error.clone()), "{tls:?}");
        assert_eq!(server, CloseReason::PeerRefusedPdu(error), "{tls:?}");
        assert_eq!(rig.pair.counter(CLIENT, "NvmeTcpPdusRefused"), 1);
    }
}

#[test]
fn data_that_nobody_wants_is_thrown_away() {
    let mut rig = Rig::new(DIGESTS);
    rig.sides[CLIENT].log.discard = Some(3);
    rig.fill(SERVER, 0, &pattern(50_000));
    let slices = rig.slices(SERVER, 0, 50_000);
    rig.send(SERVER, &c2h(3, 0, 50_000), PduData::Slices(&slices));
    rig.send(SERVER, &c2h(2, 0, 50_000), PduData::Slices(&slices));
    rig.run_until(|rig| rig.sides[CLIENT].log.ends.len() == 2);
    assert_eq!(rig.sides[CLIENT].log.ends, [DataDigest::Good; 2]);
    assert!(
        rig.memory(CLIENT, 3 * STRIDE, 50_000)
            .iter()
            .all(|byte| *byte == 0)
    );
    assert!(rig.memory(CLIENT, 2 * STRIDE, 50_000) == pattern(50_000));
}

#[test]
fn pdus_need_a_socket_that_was_told_of_them() {
    let mut pair = crate::pair::hosts();
    let (client, _) = pair.connected(crate::pair::v4);
    let now = pair.now();
    let sent = pair
        .stack(CLIENT)
        .send_pdu::<Framing>(now, client, &command(0, 0), PduData::None);
    assert!(matches!(sent, Err(SocketError::Unsupported(_))), "{sent:?}");
    let mut log = super::rig::Log::default();
    let received = pair.stack(CLIENT).receive_pdus(now, client, &mut log);
    assert!(matches!(received, Err(SocketError::Unsupported(_))));
}

#[test]
fn a_socket_with_pdus_carries_nothing_else() {
    let mut rig = Rig::new(Mode::PLAIN);
    let (now, id) = (rig.pair.now(), rig.sides[CLIENT].id);
    let stack = rig.pair.stack(CLIENT);
    let results = [
        stack.write(now, id, b"bytes").map(|_| ()),
        stack.read(now, id, &mut [0; 9]).map(|_| ()),
        stack.read_chunk(now, id).map(|_| ()),
    ];
    for result in results {
        assert!(
            matches!(result, Err(SocketError::Unsupported(_))),
            "{result:?}"
        );
    }
}

#[test]
fn a_refused_term_req_is_not_answered_by_another() {
    let mut rig = Rig::new(DIGESTS);
    let header = [0; 200];
    // Longer than any.
    let request = wire::nvme::TermReq {
        error: FatalError::field(1),
        data_len: 200,
    };
    rig.send_unread(SERVER, &Pdu::C2HTermReq(request), PduData::Bytes(&header));
    let [client, server] = ends(&mut rig);
    let error = PduError::of::<Framing>(FatalError::field(4));
    assert_eq!(client, CloseReason::Pdu(error));
    assert_eq!(server, CloseReason::Graceful);
    assert!(rig.sides[SERVER].log.headers.is_empty());
}

#[test]
fn the_end_of_the_stream_is_told() {
    for tls in [None, Some(host::Offload::None)] {
        let mut rig = Rig::new(Mode { tls, ..DIGESTS });
        rig.send(SERVER, &response(1), PduData::None);
        rig.pair.run_for(Duration::from_millis(1));
        let server = rig.sides[SERVER].id;
        rig.pair.close(SERVER, server);
        rig.pair.run_for(Duration::from_millis(1));
        assert_eq!(rig.receive(CLIENT), Ok(1));
        assert_eq!(
            rig.receive(CLIENT),
            Err(SocketError::Closed(CloseReason::Graceful))
        );
    }
}

/// Changes a byte of a frame and its TCP checksum with it.
fn flip(frame: &mut [u8], at: usize) {
    let parsed = wire::packet::parse(frame).expect("TCP");
    frame[at] ^= 0x55;
    let (l4, end) = (
        parsed.l4_offset as usize,
        parsed.payload_offset as usize + parsed.payload_len as usize,
    );
    wire::tcp::fill_checksum(parsed.flow.src.0, parsed.flow.dst.0, &mut frame[l4..end]);
}
