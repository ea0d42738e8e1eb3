//! What an NBD server says, whole and in pieces: the engine, the reader of replies, the handshake and the requests in flight must come to
//! the same end.

use l5p::nbd::{
    Engine, Framing, Handshake, HandshakeError, NbdError, Outcome, Parameters, Pdu, Requests,
    Sender,
};
use l5p::pdus::{Event, Next, Reader};
use l5p::{Direction, Integrity, Walker};
use wire::SeqNum;
use wire::nbd::{Kind, Request};

const TAGS: u16 = 4;
const MAX_DATA: u32 = 1 << 12;
/// Reads in flight are of this place, so that an input can name their cookies.
const OFFSET: u64 = 4096;

/// Bytes: what was agreed on, and the length of the pieces; the rest is the stream.
pub fn run(data: &[u8]) {
    let [choice, piece, stream @ ..] = data else {
        return;
    };
    let (structured, secures) = (choice & 1 != 0, choice & 2 != 0);
    let (all, piece) = (stream.len().max(1), usize::from(*piece).max(1));
    assert_eq!(
        walk(structured, stream, all),
        walk(structured, stream, piece)
    );
    assert_eq!(
        read(structured, stream, all),
        read(structured, stream, piece)
    );
    assert_eq!(greet(secures, stream, all), greet(secures, stream, piece));
}

/// Messages, and where a header was missed.
fn walk(structured: bool, stream: &[u8], piece: usize) -> (u32, Option<i64>) {
    let parameters = Parameters {
        structured,
        tags: TAGS,
        max_data: MAX_DATA,
    };
    let mut engine = Engine::new(&parameters, Direction::Receive);
    let mut walker = Walker::new(0);
    let mut finished = 0;
    for (n, input) in stream.chunks(piece).enumerate() {
        let mut output = vec![0; input.len()];
        match walker.advance(&mut engine, input, &mut output[..]) {
            Ok(walked) => {
                assert!(walked.integrity == Integrity::Good && output == input);
                finished += walked.messages_finished;
            }
            // How many messages of a piece came before what is none is not told.
            Err(refused) => return (walker.index() as u32, Some((n * piece) as i64 + refused.at)),
        }
    }
    (finished, None)
}

/// The replies that were read, what they said of reads in flight, and what was wrong.
fn read(structured: bool, stream: &[u8], piece: usize) -> (Vec<Pdu>, String, Option<NbdError>) {
    let framing = Framing {
        sender: Sender::Server,
        structured,
        max_data: MAX_DATA,
    };
    let mut reader = Reader::new(framing, SeqNum(0));
    let mut requests = Requests::new(TAGS, structured);
    for _ in 0..TAGS {
        requests.begin(Request {
            kind: Kind::Read,
            fua: false,
            no_hole: false,
            do_not_fragment: false,
            fast_zero: false,
            cookie: 0,
            offset: OFFSET,
            len: MAX_DATA,
        });
    }
    let (mut pdus, mut said) = (Vec::new(), String::new());
    let mut text = Vec::new();
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            let (taken, event) = match reader.next() {
                Next::Data(range) => {
                    let len = range.len().min(input.len());
                    text.extend(&input[..len]);
                    (len, reader.discard(&input[..len]))
                }
                _ => match reader.take(input, false) {
                    Ok(taken) => taken,
                    Err(error) => return (pdus, said, Some(error)),
                },
            };
            match event {
                Some(Event::Header(pdu)) => {
                    pdus.push(pdu);
                    text.clear();
                    if let Pdu::Reply(reply) = pdu {
                        match requests.handle_reply(&reply) {
                            Ok(incoming) => said += &format!("{incoming:?} "),
                            Err(error) => return (pdus, said, Some(error)),
                        }
                    }
                }
                Some(Event::End(_)) => requests.end(&text),
                None => {}
            }
            while let Some(ended) = requests.poll_ended() {
                said += &format!("{ended:?} ");
                requests.release(ended.tag);
            }
            input = &input[taken..];
        }
    }
    (pdus, said, None)
}

/// What came of a handshake, and what was answered.
fn greet(
    secures: bool,
    stream: &[u8],
    piece: usize,
) -> (Result<Option<Outcome>, HandshakeError>, Vec<u8>) {
    let mut handshake = Handshake::new("disk", secures);
    let (mut held, mut out) = (Vec::new(), Vec::new());
    for input in stream.chunks(piece) {
        held.extend(input);
        match handshake.advance(&held, &mut out) {
            Ok((used, None)) => drop(held.drain(..used)),
            Ok((_, outcome)) => return (Ok(outcome), out),
            Err(error) => return (Err(error), out),
        }
    }
    (Ok(None), out)
}
