//! A protocol of PDUs that the stack has never heard of: headers of any length, data that is padded to words, a PDU that says why the
//! connection ends.

use std::time::Duration;

use handshake::Options;
use l5p::ProtocolId;
use l5p::crc32c::Crc32c;
use l5p::pdus::{Layout, MAX_FRONT};

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, lossy, region, slice, v4};
use host::nvme::{self, Role};
use host::pdus::{DataDigest, Destination, Framings, PduData, PduError, PduProtocol, PduSink};
use host::{CloseReason, Offload, SocketError, SocketId};
use testkit::pattern;

/// The one set of rules.
#[derive(Clone, Copy, Debug)]
struct Notes;

/// A header: what kind, how many bytes of remarks it has, and how much data follows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Note {
    kind: u8,
    remarks: u8,
    data_len: u32,
}

const NOTE: u8 = 1;
const REFUSAL: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("no note is of kind {0}")]
struct WrongKind(u8);

impl PduProtocol for Notes {
    type Pdu = Note;
    type Prelude = (u8, u8);
    type Error = WrongKind;

    const ID: ProtocolId = ProtocolId(0);
    const NAME: &'static str = "notes";
    const PRELUDE_LEN: usize = 2;

    fn begin(&self, prelude: &[u8]) -> Result<(u8, u8), WrongKind> {
        match prelude[0] {
            NOTE | REFUSAL => Ok((prelude[0], prelude[1])),
            other => Err(WrongKind(other)),
        }
    }

    fn header_len(&self, (_, remarks): &(u8, u8)) -> usize {
        6 + usize::from(*remarks)
    }

    fn parse(&self, prelude: &(u8, u8), header: &[u8]) -> Result<(Note, Layout), WrongKind> {
        let (kind, remarks) = *prelude;
        let data_len = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
        let note = Note {
            kind,
            remarks,
            data_len,
        };
        Ok((note, self.layout_of(&note)))
    }

    fn layout_of(&self, note: &Note) -> Layout {
        let header_len = 6 + u32::from(note.remarks);
        Layout {
            header_len,
            data_start: header_len,
            data_len: note.data_len,
            padding: note.data_len.next_multiple_of(4) - note.data_len,
            data_digest: note.data_len > 0,
        }
    }

    fn emit(&self, note: &Note, front: &mut [u8; MAX_FRONT]) -> Layout {
        front[..2].copy_from_slice(&[note.kind, note.remarks]);
        front[2..6].copy_from_slice(&note.data_len.to_le_bytes());
        self.layout_of(note)
    }

    fn no_room(note: &Note) -> WrongKind {
        WrongKind(note.kind)
    }

    fn refusal(&self, _: &WrongKind, header: &[u8]) -> Option<Note> {
        Some(Note {
            kind: REFUSAL,
            remarks: 0,
            data_len: header.len() as u32,
        })
    }

    fn termination(note: &Note) -> Option<WrongKind> {
        (note.kind == REFUSAL).then_some(WrongKind(REFUSAL))
    }
}

const RULES: Framings<Notes> = Framings {
    incoming: Notes,
    outgoing: Notes,
};

/// Keeps what comes.
#[derive(Default)]
struct Log {
    headers: Vec<Note>,
    data: Vec<(DataDigest, Vec<u8>)>,
}

impl PduSink<Notes> for Log {
    fn header(&mut self, note: &Note) -> Result<Destination<'_>, WrongKind> {
        self.headers.push(*note);
        Ok(Destination::Inline)
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), WrongKind> {
        self.data.push((digest, data.to_vec()));
        Ok(())
    }
}

fn note(remarks: u8, data_len: usize) -> Note {
    Note {
        kind: NOTE,
        remarks,
        data_len: data_len as u32,
    }
}

/// A pair of hosts, and a connection of which the client's side carries notes, and the server's if `both`.
fn connected(tls: Option<Offload>, both: bool) -> (Pair, SocketId, SocketId) {
    let mut pair = hosts();
    let (client, server) = match tls {
        Some(offload) => pair.secured(&Options::default(), [offload; 2]),
        None => pair.connected(v4),
    };
    let now = pair.now();
    let sides = [(CLIENT, client), (SERVER, server)];
    for (at, id) in sides.into_iter().take(1 + usize::from(both)) {
        pair.stack(at)
            .start_pdus(now, id, RULES)
            .expect("connected");
    }
    (pair, client, server)
}

/// Sends a note from the client, waiting for room.
fn send(pair: &mut Pair, client: SocketId, note: &Note, data: PduData<'_>) {
    let mut sent = Err(SocketError::WouldBlock);
    pair.run_until(Duration::from_secs(600), |pair| {
        let now = pair.now();
        sent = pair
            .stack(CLIENT)
            .send_pdu::<Notes>(now, client, note, data);
        sent != Err(SocketError::WouldBlock)
    });
    assert_eq!(sent, Ok(()));
}

#[test]
fn padded_data_arrives_with_its_digest_plain_and_in_records() {
    for tls in [None, Some(Offload::None), Some(Offload::Both)] {
        let (mut pair, client, server) = connected(tls, true);
        pair.decide(lossy(CLIENT, 0.02, 0.02, 7));
        let memory = pattern(50_000);
        let region = pair.stack(CLIENT).register(region(&memory), "memory");
        let region = region.expect("an id");
        let lens = [0, 1, 2, 3, 4, 5, 999, 16_385, 40_001];
        for (at, len) in lens.into_iter().enumerate() {
            let header = note(at as u8 * 20, len);
            let slice = slice(region, 9, len as u32);
            let slices = [slice];
            let in_place = PduData::Slices(if len > 0 { &slices } else { &[] });
            send(&mut pair, client, &header, in_place);
            send(
                &mut pair,
                client,
                &header,
                PduData::Bytes(&memory[9..9 + len]),
            );
        }
        let mut log = Log::default();
        let arrived = pair.run_until(Duration::from_secs(600), |pair| {
            let (now, stack) = (pair.now(), &mut pair.stack(SERVER));
            stack
                .receive_pdus(now, server, &mut log)
                .expect("connected");
            log.data.len() == 2 * (lens.len() - 1)
        });
        assert!(arrived, "{tls:?}");
        let headers = lens.iter().enumerate();
        let headers = headers.flat_map(|(at, len)| [note(at as u8 * 20, *len); 2]);
        assert!(log.headers.into_iter().eq(headers), "{tls:?}");
        let data = lens.iter().skip(1).flat_map(|len| [*len; 2]);
        let data = data.map(|len| (DataDigest::Good, memory[9..9 + len].to_vec()));
        assert!(log.data.into_iter().eq(data), "{tls:?}");
    }
}

#[test]
fn what_is_sent_has_zeros_for_padding_and_a_digest_over_them() {
    let (mut pair, client, server) = connected(None, false);
    send(&mut pair, client, &note(1, 5), PduData::Bytes(b"notes"));
    let mut sent = vec![NOTE, 1, 5, 0, 0, 0, 0];
    sent.extend_from_slice(b"notes\0\0\0");
    sent.extend(Crc32c::of(b"notes\0\0\0").to_le_bytes());
    let mut read = Vec::new();
    pair.run_until(Duration::from_secs(60), |pair| {
        let (now, mut buffer) = (pair.now(), [0; 99]);
        if let Ok(len) = pair.stack(SERVER).read(now, server, &mut buffer) {
            read.extend_from_slice(&buffer[..len]);
        }
        read.len() >= sent.len()
    });
    assert_eq!(read, sent);
}

#[test]
fn a_broken_rule_is_told_in_the_words_of_the_protocol() {
    let (mut pair, client, server) = connected(None, false);
    let now = pair.now();
    let written = pair.stack(SERVER).write(now, server, &[9, 0]);
    assert_eq!(written, Ok(2));
    let mut log = Log::default();
    let mut end = None;
    pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now();
        end = pair.stack(CLIENT).receive_pdus(now, client, &mut log).err();
        end.is_some()
    });
    let error = PduError::of::<Notes>(WrongKind(9));
    let end = end.expect("the header is wrong");
    assert_eq!(end, SocketError::Closed(CloseReason::Pdu(error.clone())));
    let text = CloseReason::Pdu(error).to_string();
    assert_eq!(
        text,
        "the peer sent a PDU that breaks notes: no note is of kind 9"
    );
    let mut told = Vec::new();
    pair.run_until(Duration::from_secs(60), |pair| {
        let (now, mut buffer) = (pair.now(), [0; 99]);
        if let Ok(len) = pair.stack(SERVER).read(now, server, &mut buffer) {
            told.extend_from_slice(&buffer[..len]);
        }
        told.len() >= 14
    });
    // The header that was refused, padded.
    assert_eq!(told[..10], [REFUSAL, 0, 2, 0, 0, 0, 9, 0, 0, 0]);
}

#[test]
fn a_socket_has_one_protocol_of_pdus() {
    let (mut pair, client, _) = connected(None, true);
    let now = pair.now();
    let again = pair
        .stack(CLIENT)
        .start_pdus(now, client, nvme::opening(Role::Host));
    assert!(matches!(again, Err(SocketError::Unsupported(_))));
    let term = wire::nvme::TermReq {
        error: nvme::FatalError::field(1),
        data_len: 0,
    };
    let of_another = nvme::Pdu::H2CTermReq(term);
    let sent =
        pair.stack(CLIENT)
            .send_pdu::<nvme::Framing>(now, client, &of_another, PduData::None);
    assert!(matches!(sent, Err(SocketError::Unsupported(_))), "{sent:?}");
    let sent = pair
        .stack(CLIENT)
        .send_pdu::<Notes>(now, client, &note(0, 0), PduData::None);
    assert_eq!(sent, Ok(()));
}
