//! Records of a peer that no stack of ours sends.

use std::time::Duration;

use l5p::crc32c::Crc32c;
use l5p::tls::ContentType;
use nic::ring::{InnerPlace, Slice};
use testkit::pattern;
use wire::SeqNum;
use wire::nvme::{C2HData, ICResp, Phase};

use super::digests::Side;
use super::pair::{CLIENT, Fate, Pair, SERVER};
use crate::driver::Place;
use crate::layer5::Outgoing;
use crate::nvme::{Digests, Framing, Negotiated, Pdu, PduOffload, Role};
use crate::pdus::DataDigest;
use crate::tls::Session;
use crate::{CloseReason, Offload, OffloadState, SocketError, SocketId};

/// An inner content type that makes what is before it the record's content type and padding (RFC 8446 §5.2).
const PADDED: ContentType = ContentType(0);

/// The server's session, to send records of any kind.
fn with_session<R>(
    pair: &mut Pair,
    server: SocketId,
    f: impl FnOnce(&mut Session, &mut Outgoing<'_>) -> R,
) -> R {
    let now = pair.now;
    let transport = pair.stack(SERVER).transport_mut();
    let socket = transport.sockets.get_mut(server).expect("an open socket");
    let (session, _, mut out) = socket.parts(now, &mut transport.device);
    let result = f(session.expect("TLS"), &mut out);
    transport.mark_ready(server);
    result
}

/// Sends a record that means nothing: user_canceled (RFC 8446 §6.1), in `len` bytes.
fn cancel(session: &mut Session, len: usize, out: &mut Outgoing<'_>) {
    let mut content = vec![1, 90, ContentType::ALERT.0];
    content.resize(len, 0);
    session.write_record(PADDED, &content, out).expect("room");
}

/// A KeyUpdate in a record of `len` bytes, and the new keys from the next record on.
fn update_keys(session: &mut Session, len: usize, out: &mut Outgoing<'_>) {
    let post_handshake = session.post_handshake.as_mut().expect("keys of its own");
    let update = post_handshake.key_update(false).expect("TLS 1.3");
    let mut content = [&update.message[..], &[ContentType::HANDSHAKE.0]].concat();
    content.resize(len, 0);
    session.write_record(PADDED, &content, out).expect("room");
    session.leave_transmit(out.send.end(), out.counters);
    session.writer.rekey(update.keys);
    session.begin_transmit(out);
}

/// A NewSessionTicket (RFC 8446 §4.6.1) with `len` bytes that only its sender understands.
fn ticket(len: u16) -> Vec<u8> {
    let mut body = vec![0, 0, 100, 0, 1, 2, 3, 4, 1, 0];
    body.extend(len.to_be_bytes());
    body.resize(body.len() + usize::from(len), 7);
    body.extend([0, 0]);
    let head = ((4 << 24) | body.len() as u32).to_be_bytes();
    [&head[..], &body].concat()
}

const AGREED: Negotiated = Negotiated {
    digests: Digests::BOTH,
    hpda: 0,
    cpda: 0,
    max_pdu: 2 << 20,
    commands: 16,
    offload: PduOffload::ALL,
};

/// A PDU as the server sends it.
fn pdu_bytes(framing: &Framing, pdu: &Pdu, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    let len = pdu.emit(framing, &mut bytes);
    bytes.truncate(len);
    if framing.phase == Phase::Established {
        bytes.extend(Crc32c::of(&bytes).to_le_bytes());
        bytes.extend(data);
        bytes.extend(Crc32c::of(data).to_le_bytes());
    }
    bytes
}

/// Bytes of data in a PDU.
const LEN: u32 = 60_000;

/// A PDU with data for tag 0.
fn c2h(data: &[u8]) -> Vec<u8> {
    let pdu = Pdu::C2HData(C2HData {
        cccid: 0,
        data_offset: 0,
        data_len: LEN,
        last: true,
        success: false,
    });
    let framing = AGREED.seen_by(Role::Controller).framings.outgoing;
    pdu_bytes(&framing, &pdu, data)
}

/// The client reads PDUs in TLS that the server writes as bytes.
struct Reading {
    pair: Pair,
    client: Side,
    server: SocketId,
}

impl Reading {
    fn new(offload: PduOffload) -> Reading {
        let mut pair = Pair::new();
        let (client, server) = pair.secure();
        let client = Side::start(&mut pair, CLIENT, client);
        let mut reading = Reading {
            pair,
            client,
            server,
        };
        let response = Pdu::ICResp(ICResp {
            pfv: 0,
            cpda: 0,
            digests: AGREED.digests,
            max_h2c_data: 1 << 20,
        });
        let opening = crate::nvme::opening(Role::Controller).outgoing;
        reading.write(&pdu_bytes(&opening, &response, &[]));
        reading.run_until(|client| client.sink.headers == 1);
        let agreed = Negotiated { offload, ..AGREED };
        let (now, id) = (reading.pair.now, reading.client.id);
        let stack = reading.pair.stack(CLIENT);
        let negotiated = stack.pdus_negotiated(now, id, agreed.seen_by(Role::Host));
        negotiated.expect("between PDUs");
        reading
    }

    /// The server goes on under new keys, which the client has taken.
    fn change_keys(&mut self) {
        with_session(&mut self.pair, self.server, |session, out| {
            update_keys(session, 6, out);
        });
        let (id, sink) = (self.client.id, &mut self.client.sink);
        let came = self.pair.run_until(Duration::from_secs(1), |pair| {
            let now = pair.now;
            let received = pair.stack(CLIENT).receive_pdus(now, id, sink);
            received.expect("connected");
            pair.counter(CLIENT, "TlsRxRekeyOk") == 1
        });
        assert!(came);
    }

    fn write(&mut self, bytes: &[u8]) {
        let now = self.pair.now;
        let written = self.pair.stack(SERVER).write(now, self.server, bytes);
        assert_eq!(written, Ok(bytes.len()));
    }

    /// Maps the client's memory to tag 0. False when the NIC does not place.
    fn map(&mut self) -> bool {
        let whole = Slice {
            region: self.client.sink.region,
            offset: 0,
            len: LEN,
        };
        let id = self.client.id;
        self.pair.stack(CLIENT).map_buffer(id, 0, &[whole])
    }

    fn memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN as usize];
        assert!(self.client.memory.read(0, &mut bytes));
        bytes
    }

    fn run_until(&mut self, mut done: impl FnMut(&Side) -> bool) {
        let client = &mut self.client;
        let came = self.pair.run_until(Duration::from_secs(60), |pair| {
            let (now, id) = (pair.now, client.id);
            let received = pair.stack(CLIENT).receive_pdus(now, id, &mut client.sink);
            received.expect("connected");
            done(client)
        });
        assert!(came, "nothing has come for long");
    }
}

/// What the server sends between two records of a PDU.
type Other = fn(&mut Session, &mut Outgoing<'_>);

#[test]
fn long_records_that_are_not_data_may_come_in_the_middle_of_placed_data() {
    let others: [Other; 3] = [
        |session, out| update_keys(session, 4096, out),
        |session, out| {
            let written = session.write_record(ContentType::HANDSHAKE, &ticket(2048), out);
            written.expect("room");
        },
        |session, out| cancel(session, 4096, out),
    ];
    for (n, other) in others.into_iter().enumerate() {
        for offload in [PduOffload::NONE, PduOffload::ALL] {
            let mut reading = Reading::new(offload);
            assert_eq!(reading.map(), offload.placement);
            let data = pattern(LEN as usize);
            let bytes = c2h(&data);
            let (first, second) = bytes.split_at(9000);
            reading.write(first);
            with_session(&mut reading.pair, reading.server, other);
            reading.write(second);
            reading.run_until(|client| client.sink.ends == [DataDigest::Good]);
            assert!(reading.memory() == data, "{n}, {offload:?}");
            let placed = reading.pair.counter(CLIENT, "NvmeTcpRxBytesPlaced");
            assert_eq!(placed > 0, offload.placement, "{n}");
        }
    }
}

#[test]
fn what_a_context_placed_before_it_failed_is_read_under_new_keys() {
    let mut reading = Reading::new(PduOffload::ALL);
    assert!(reading.map());
    let data = pattern(LEN as usize);
    let bytes = c2h(&data);
    // What follows the new keys is one record.
    let (first, second) = bytes.split_at(bytes.len() - 16_000);
    reading.write(first);
    reading.run_until(|client| client.sink.headers == 2);
    reading.pair.run_for(Duration::from_millis(5));
    let id = reading.client.id;
    let (now, sink) = (reading.pair.now, &mut reading.client.sink);
    let received = reading.pair.stack(CLIENT).receive_pdus(now, id, sink);
    received.expect("connected");
    with_session(&mut reading.pair, reading.server, |session, out| {
        update_keys(session, 6, out);
    });
    reading.write(second);
    let end = with_session(&mut reading.pair, reading.server, |_, out| out.send.end());
    // Until the record ends the NIC takes it for one under the old keys.
    lose(&mut reading.pair, end - 1, u32::MAX);
    reading.pair.run_for(Duration::from_millis(5));
    let transport = reading.pair.stack(CLIENT).transport_mut();
    let socket = transport.sockets.get_mut(id).expect("open");
    let context = socket.placing_context().expect("a context");
    socket.context_failed(context, &mut transport.device);
    reading.pair.wire = Box::new(|_, _| Fate::Pass);
    reading.run_until(|client| client.sink.ends == [DataDigest::Good]);
    assert!(reading.memory() == data);
}

#[test]
fn no_context_begins_between_messages_once_the_application_has_turned_it_off() {
    let mut reading = Reading::new(PduOffload::ALL);
    assert!(reading.map());
    let data = pattern(LEN as usize);
    let bytes = c2h(&data);
    let (first, second) = bytes.split_at(9000);
    reading.write(first);
    // In the middle of a message: the next context is to begin at the next one.
    reading.change_keys();
    let id = reading.client.id;
    let now = reading.pair.now;
    let stack = reading.pair.stack(CLIENT);
    stack.set_offload(now, id, Offload::Tx).expect("TLS");
    reading.write(second);
    reading.write(&c2h(&data));
    reading.run_until(|client| client.sink.ends == [DataDigest::Good; 2]);
    let info = reading.pair.stack(CLIENT).info(id).expect("open");
    assert_eq!(info.tls.expect("TLS").receive, OffloadState::Software);
}

/// The next context does TLS alone as long as it begins inside of a message, and would be given up for an answer about PDUs.
#[test]
fn a_context_gets_no_answer_to_what_the_former_one_has_asked_about_pdus() {
    let mut reading = Reading::new(PduOffload::ALL);
    let data = pattern(LEN as usize);
    let bytes = c2h(&data);
    let (first, second) = bytes.split_at(9000);
    reading.write(first);
    reading.run_until(|client| client.sink.headers == 2);
    let tcpsn = with_session(&mut reading.pair, reading.server, |_, out| out.send.end());
    let transport = reading.pair.stack(CLIENT).transport_mut();
    let socket = transport.sockets.get_mut(reading.client.id).expect("open");
    let context = socket.placing_context().expect("a context");
    let inner = Some(InnerPlace {
        layer: 1,
        offset: 0,
    });
    transport.handle_resync_request(context, Place { tcpsn, inner });
    reading.change_keys();
    let id = reading.client.id;
    reading.pair.run_for(Duration::from_millis(5));
    assert_eq!(reading.pair.counter(CLIENT, "NvmeTcpRxDeviceResync"), 1);
    assert_eq!(reading.pair.counter(CLIENT, "DriverErrors"), 0);
    let info = reading.pair.stack(CLIENT).info(id).expect("open");
    assert_eq!(info.tls.expect("TLS").receive, OffloadState::Device);
    reading.write(second);
    reading.run_until(|client| client.sink.ends == [DataDigest::Good]);
    assert!(reading.memory() == data);
}

/// A peer that changes its keys again and again and sends nothing under them ends the connection, with the NIC and without.
#[test]
fn records_without_data_do_not_justify_key_updates() {
    let others: [Other; 2] = [
        |session, out| cancel(session, 3, out),
        |session, out| {
            let written = session.write_record(ContentType::APPLICATION_DATA, &[], out);
            written.expect("room");
        },
    ];
    for (n, other) in others.into_iter().enumerate() {
        for offload in [Offload::None, Offload::Both] {
            let mut pair = Pair::new();
            let (client, server) = pair.secure();
            let now = pair.now;
            let set = pair.stack(CLIENT).set_offload(now, client, offload);
            set.expect("TLS");
            let mut ended = None;
            let mut updates = 0;
            while ended.is_none() && updates < 50 {
                updates += 1;
                with_session(&mut pair, server, |session, out| {
                    update_keys(session, 6, out);
                });
                for _ in 0..2 {
                    pair.run_for(Duration::from_millis(5));
                    let now = pair.now;
                    match pair.stack(CLIENT).read(now, client, &mut [0; 99]) {
                        Err(SocketError::WouldBlock) => {}
                        read => ended = ended.or(Some(read)),
                    }
                    if ended.is_none() {
                        with_session(&mut pair, server, other);
                    }
                }
            }
            let Some(Err(SocketError::Closed(CloseReason::Tls { what, .. }))) = ended else {
                panic!("{n}, {offload:?}: {ended:?} after {updates}");
            };
            assert_eq!(updates, 33, "{n}, {offload:?}: {what}");
            let expected = l5p::tls::Violation::TooManyKeyUpdates(33);
            assert_eq!(what, expected.to_string());
            // All records were authentic.
            assert_eq!(pair.counter(CLIENT, "TlsDecryptError"), 0);
            assert_eq!(pair.counter(CLIENT, "TlsRxRekeyError"), 1);
        }
    }
}

/// Loses frames of the server's that have the byte at this position, so many times.
fn lose(pair: &mut Pair, position: SeqNum, mut times: u32) {
    pair.wire = Box::new(move |from, frame| {
        // IPv4, and TCP with timestamps.
        const TCP: usize = 34;
        let payload = frame.len().saturating_sub(TCP + 32) as u32;
        if from != SERVER || payload == 0 || times == 0 {
            return Fate::Pass;
        }
        let seq = frame[TCP + 4..TCP + 8].try_into().expect("four bytes");
        if !position.is_within(SeqNum(u32::from_be_bytes(seq)), payload) {
            return Fate::Pass;
        }
        times -= 1;
        Fate::Drop
    });
}
