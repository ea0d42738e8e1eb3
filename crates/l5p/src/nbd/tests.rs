use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;
use wire::nbd::{Chunk, ChunkType, Errno, Kind, Reply, Request};

use super::{Cookie, Engine, Framing, NbdError, Parameters, Pdu, Sender};
use crate::pdus::{Event, Next, PduProtocol, Reader};
use crate::{Direction, Integrity, Judgement, Layer5, Parameters as _, Placement, Walker};

const TAGS: u16 = 9;
const MAX_DATA: u32 = 1 << 20;

fn parameters(structured: bool) -> Parameters {
    Parameters {
        structured,
        tags: TAGS,
        max_data: MAX_DATA,
    }
}

fn framing(structured: bool) -> Framing {
    Framing {
        sender: Sender::Server,
        structured,
        max_data: MAX_DATA,
    }
}

fn cookie(tag: u16, generation: u16, low: u32) -> u64 {
    let cookie = Cookie {
        tag,
        generation,
        low,
    };
    cookie.to_bits()
}

fn chunk(done: bool, cookie: u64, content: ChunkType) -> Reply {
    Reply::Chunk(Chunk {
        done,
        cookie,
        content,
    })
}

/// A reply, and how many bytes follow its header.
fn replies(structured: bool) -> BoxedStrategy<(Reply, u32)> {
    let cookie = |tag, low| cookie(tag, 77, low);
    let failed = (0..TAGS, 1..200u32).prop_map(move |(tag, error)| {
        let cookie = cookie(tag, 5);
        (Reply::Simple { error, cookie }, 0)
    });
    if !structured {
        let good = (0..TAGS, 0..5000u32).prop_map(move |(tag, len)| {
            let reply = Reply::Simple {
                error: 0,
                cookie: cookie(tag, len),
            };
            (reply, len)
        });
        return prop_oneof![3 => good, 1 => failed].boxed();
    }
    let contents = prop_oneof![
        3 => (0..9000u64, 1..5000u32).prop_map(|(at, len)| {
            let offset = (5 << 32) + u64::from(u32::MAX) - 4000 + at;
            (ChunkType::Data { offset, len }, len)
        }),
        1 => Just((ChunkType::None, 0)),
        1 => any::<(u64, u32)>().prop_map(|(offset, len)| (ChunkType::Hole { offset, len }, 0)),
        1 => (1..200u32, 0..99u16).prop_map(|(error, message_len)| {
            let len = u32::from(message_len);
            (ChunkType::Error { error, message_len, len }, len)
        }),
    ];
    let chunks = (0..TAGS, any::<bool>(), contents);
    let chunks = chunks.prop_map(move |(tag, done, (content, behind))| {
        (chunk(done, cookie(tag, u32::MAX - 4000), content), behind)
    });
    prop_oneof![4 => chunks, 1 => failed].boxed()
}

fn streams() -> impl Strategy<Value = (bool, Vec<(Reply, u32)>, Vec<usize>)> {
    any::<bool>().prop_flat_map(|structured| {
        (
            Just(structured),
            vec(replies(structured), 1..12),
            vec(1..600usize, 1..9),
        )
    })
}

fn bytes_of(reply: &Reply, behind: u32) -> Vec<u8> {
    let mut bytes = reply.head().bytes().to_vec();
    bytes.extend((0..behind).map(|at| at as u8));
    bytes
}

/// The stream in pieces of these lengths, again and again.
fn pieces<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts = cuts.iter().cycle();
    let mut pieces = Vec::new();
    while let (false, Some(cut)) = (bytes.is_empty(), cuts.next()) {
        let (piece, rest) = bytes.split_at(bytes.len().min(*cut));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

proptest! {
    #[test]
    fn replies_are_followed_in_any_pieces((structured, replies, cuts) in streams()) {
        let stream: Vec<u8> = replies.iter().flat_map(|(reply, behind)| bytes_of(reply, *behind)).collect();
        let mut engine = Engine::new(&parameters(structured), Direction::Receive);
        let mut walker = Walker::new(0);
        let mut finished = 0;
        for piece in pieces(&stream, &cuts) {
            let mut output = vec![0; piece.len()];
            let walked = walker.advance(&mut engine, piece, &mut output[..]).unwrap();
            prop_assert_eq!(walked.integrity, Integrity::Good);
            prop_assert_eq!(&output[..], piece);
            finished += walked.messages_finished as usize;
        }
        prop_assert_eq!(finished, replies.len());
        prop_assert!(walker.at_boundary());

        let mut reader = Reader::new(framing(structured), SeqNum(7));
        let mut read = Vec::new();
        for mut piece in pieces(&stream, &cuts) {
            while !piece.is_empty() {
                let taken = match reader.next() {
                    Next::Data(range) => {
                        let len = range.len().min(piece.len());
                        reader.pass(len as u32, false);
                        len
                    }
                    _ => {
                        let (taken, event) = reader.take(piece, false).unwrap();
                        if let Some(Event::Header(pdu)) = event {
                            read.push(pdu);
                        }
                        taken
                    }
                };
                piece = &piece[taken..];
            }
        }
        let sent: Vec<Pdu> = replies.iter().map(|(reply, _)| Pdu::Reply(*reply)).collect();
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn no_reply_is_refused_before_it_is_whole((structured, replies, _) in streams()) {
        let engine = Engine::new(&parameters(structured), Direction::Receive);
        for (reply, behind) in replies {
            let bytes = bytes_of(&reply, behind);
            let header_len = reply.head().bytes().len().min(28);
            for len in 0..bytes.len().min(40) {
                let expected = match len < header_len {
                    true => Judgement::TooShort,
                    false => Judgement::Message { len: bytes.len() as u32 },
                };
                prop_assert_eq!(engine.judge(&bytes[..len]), expected);
            }
        }
    }

    #[test]
    fn parameters_are_read_as_they_were_written(structured in any::<bool>(), tags in any::<u16>(), max_data in 0..=1u32 << 29) {
        let parameters = Parameters { structured, tags, max_data };
        let mut bytes = [9; 8];
        parameters.encode(&mut bytes);
        prop_assert_eq!(Parameters::decode(&bytes), Some(parameters));
    }

    #[test]
    fn a_cookie_is_read_as_it_was_written(bits in any::<u64>()) {
        prop_assert_eq!(Cookie::from_bits(bits).to_bits(), bits);
    }
}

fn placement_of(structured: bool, reply: &Reply) -> Option<(u32, Option<Placement>)> {
    let mut engine = Engine::new(&parameters(structured), Direction::Receive);
    let head = reply.head();
    let len = engine.start(0, &head.bytes()[..head.bytes().len().min(28)])?;
    Some((len, engine.placement()))
}

#[test]
fn data_belong_where_the_cookie_says() {
    let placed = |from, len, at| {
        let (to, tag) = (from + len, 3);
        let placement = Placement { from, to, tag, at };
        Some((to, Some(placement)))
    };
    let simple = Reply::simple(cookie(3, 2, 4096), Ok(()));
    assert_eq!(placement_of(false, &simple), placed(16, 4096, 0));
    // Where reads are answered in chunks, only other requests are answered so.
    assert_eq!(placement_of(true, &simple), Some((16, None)));

    // The request was for what begins 100 bytes below a multiple of 4 GiB.
    let base = (7 << 32) - 100;
    let (offset, len) = (base + 300, 512);
    let content = ChunkType::Data { offset, len };
    let chunk = chunk(false, cookie(3, 2, base as u32), content);
    assert_eq!(placement_of(true, &chunk), placed(28, 512, 300));
    assert_eq!(placement_of(false, &chunk), None);
}

#[test]
fn what_no_request_can_have_led_to_is_no_header() {
    let cookie = |tag, low| cookie(tag, 0, low);
    let wrong_tag = Reply::simple(cookie(TAGS, 10), Ok(()));
    assert_eq!(placement_of(false, &wrong_tag), None);
    let too_long = Reply::simple(cookie(0, MAX_DATA + 1), Ok(()));
    assert_eq!(placement_of(false, &too_long), None);
    let refused = Reply::simple(cookie(0, MAX_DATA + 1), Err(Errno::Io));
    assert_eq!(placement_of(false, &refused), Some((16, None)));
    let text = ChunkType::Error {
        error: 5,
        message_len: 9,
        len: 5000,
    };
    let long_text = chunk(true, cookie(0, 0), text);
    assert_eq!(placement_of(true, &long_text), None);
}

#[test]
fn rules_that_are_broken_are_told() {
    let simple = framing(false);
    let none = chunk(true, 0, ChunkType::None);
    let refused = simple.begin(&none.head().bytes()[..16]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a structured reply, which was not agreed on"
    );
    let request = Request {
        kind: Kind::Write,
        fua: false,
        no_hole: false,
        do_not_fragment: false,
        fast_zero: false,
        cookie: 1,
        offset: 0,
        len: MAX_DATA + 1,
    };
    let requests = Framing {
        sender: Sender::Client,
        ..simple
    };
    let parsed = requests.parse(&28, &request.to_bytes());
    assert_eq!(parsed.unwrap_err(), NbdError::TooLong(MAX_DATA + 1));
    let parse_text = |len| {
        let text = ChunkType::Error {
            error: 5,
            message_len: 9,
            len,
        };
        let reply = chunk(true, 0, text);
        let header = reply.head().bytes().to_vec();
        framing(true).parse(&header.len(), &header)
    };
    // A string of the protocol's greatest length, and an offset.
    assert!(parse_text(4104).is_ok());
    assert_eq!(parse_text(4105).unwrap_err(), NbdError::TooLong(4105));
}
