//! What an iSCSI target says, whole and in pieces: the engine, and the reader with the session behind it, must come to the same end.

use l5p::iscsi::initiator::{
    Command, Config, Event as Happened, Incoming, Initiator, Outgoing, Transfer,
};
use l5p::iscsi::{Engine, Framing, Parameters, ProtocolError, Role};
use l5p::pdus::{DataDigest, Event, Next, Reader};
use l5p::{Direction, Walker};
use wire::SeqNum;
use wire::iscsi::Lun;

const TAGS: u16 = 4;
const MAX_DATA: u32 = 1 << 12;
/// Bytes of each command.
const LEN: u32 = 2048;

/// Bytes: what was agreed on, and the length of the pieces; the rest is the stream.
pub fn run(data: &[u8]) {
    let [choice, piece, stream @ ..] = data else {
        return;
    };
    let (all, piece) = (stream.len().max(1), usize::from(*piece).max(1));
    let digests = (choice & 1 != 0, choice & 2 != 0);
    assert_eq!(walk(digests, stream, all), walk(digests, stream, piece));
    let discovers = choice & 4 != 0;
    assert_eq!(talk(discovers, stream, all), talk(discovers, stream, piece));
}

/// Messages and how many checks failed, and where a header was missed.
fn walk(digests: (bool, bool), stream: &[u8], piece: usize) -> (u64, Option<i64>) {
    let parameters = Parameters {
        sender: Role::Target,
        header_digest: digests.0,
        data_digest: digests.1,
        tags: TAGS,
        max_data: MAX_DATA,
    };
    let mut engine = Engine::new(&parameters, Direction::Receive);
    let mut walker = Walker::new(0);
    for (n, input) in stream.chunks(piece).enumerate() {
        let mut output = vec![0; input.len()];
        match walker.advance(&mut engine, input, &mut output[..]) {
            Ok(_) => assert!(output == input),
            Err(refused) => return (walker.index(), Some((n * piece) as i64 + refused.at)),
        }
    }
    (walker.index(), None)
}

/// What a session made of the stream: what happened, what it said, and what was wrong.
fn talk(discovers: bool, stream: &[u8], piece: usize) -> (Vec<String>, Option<ProtocolError>) {
    let mut initiator = Initiator::new(Config {
        name: "iqn.2024-01.org.example:host".to_owned(),
        target: (!discovers).then(|| "iqn.2024-01.org.example:disk".to_owned()),
        lun: Lun::default(),
        isid: [0x80, 0, 0, 0, 0, 0],
        chap: None,
        header_digest: true,
        data_digest: true,
        depth: TAGS,
        max_data: MAX_DATA,
    });
    let mut reader = Reader::new(Framing::login(Role::Target), SeqNum(0));
    let mut said = Vec::new();
    let mut text = Vec::new();
    let mut is_inline = false;
    follow(&mut initiator, &mut reader, &mut said);
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            let (taken, event) = match reader.next() {
                Next::Data(range) => {
                    let len = range.len().min(input.len());
                    if is_inline {
                        text.extend(&input[..len]);
                    }
                    let mut to = vec![0; len];
                    (len, reader.copy(&input[..len], &mut to[..], false))
                }
                Next::Frame => match reader.take(input, false) {
                    Ok(taken) => taken,
                    Err(error) => return (said, Some(error)),
                },
                Next::Waiting => return (said, None),
            };
            let heard = match event {
                Some(Event::Header(pdu)) => {
                    text.clear();
                    initiator.handle_header(&pdu).map(|incoming| {
                        is_inline = incoming == Incoming::Inline;
                        if let Incoming::Data { tag, range } = incoming {
                            assert!(tag < TAGS && range.end <= LEN);
                        }
                    })
                }
                Some(Event::End(digest)) => {
                    let is_intact = matches!(digest, DataDigest::Good | DataDigest::None);
                    initiator.handle_end(is_intact, &text)
                }
                None => Ok(()),
            };
            if let Err(error) = heard {
                return (said, Some(error));
            }
            follow(&mut initiator, &mut reader, &mut said);
            input = &input[taken..];
        }
    }
    (said, None)
}

/// Does what the session says, and keeps commands in flight.
fn follow(initiator: &mut Initiator, reader: &mut Reader<Framing>, said: &mut Vec<String>) {
    while let Some(event) = initiator.poll_event() {
        said.push(format!("{event:?}"));
        match event {
            Happened::Negotiated(agreed) => reader.negotiated(agreed.incoming),
            Happened::Ready(_) => {
                for n in 0..TAGS {
                    initiator.submit(Command {
                        cdb: [0; 16],
                        transfer: match n % 2 {
                            0 => Transfer::Read,
                            _ => Transfer::Write,
                        },
                        len: LEN,
                        is_exact: true,
                    });
                }
            }
            Happened::Targets(_) | Happened::Ended(_) => {}
        }
    }
    while let Some(Outgoing { pdu, payload }) = initiator.poll_outgoing() {
        said.push(format!("{pdu:?} {payload:?}"));
    }
    while let Some(ended) = initiator.poll_ended() {
        said.push(format!("{ended:?}"));
        initiator.release(ended.tag);
    }
}
