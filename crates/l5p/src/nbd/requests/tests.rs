use proptest::collection::vec;
use proptest::prelude::*;
use wire::nbd::{Chunk, ChunkType, Errno, Kind, Reply, Request};

use super::{Ended, Incoming, RequestError, Requests};
use crate::nbd::{Cookie, NbdError};

fn request(kind: Kind, offset: u64, len: u32) -> Request {
    Request {
        kind,
        fua: false,
        no_hole: false,
        do_not_fragment: false,
        fast_zero: false,
        cookie: 0,
        offset,
        len,
    }
}

fn chunk(cookie: u64, done: bool, content: ChunkType) -> Reply {
    Reply::Chunk(Chunk {
        done,
        cookie,
        content,
    })
}

const BASE: u64 = (9 << 32) - 1000;

proptest! {
    #[test]
    fn a_read_is_whole_when_its_chunks_are_in_any_order(lens in vec((1u32..900, any::<bool>()), 1..20), order in any::<u64>()) {
        let len = lens.iter().map(|(len, _)| len).sum();
        let mut requests = Requests::new(4, true);
        let (tag, sent) = requests.begin(request(Kind::Read, BASE, len)).unwrap();
        let mut chunks = Vec::new();
        let mut at = 0;
        for (len, hole) in lens {
            chunks.push((at, len, hole));
            at += len;
        }
        let count = chunks.len();
        chunks.rotate_left((order % count as u64) as usize);
        for (n, (at, len, hole)) in chunks.into_iter().enumerate() {
            prop_assert_eq!(requests.poll_ended(), None);
            let offset = BASE + u64::from(at);
            let content = match hole {
                true => ChunkType::Hole { offset, len },
                false => ChunkType::Data { offset, len },
            };
            let expected = match hole {
                true => Incoming::Zeroes { tag, at, len },
                false => Incoming::Data { tag, at, len },
            };
            let again = chunk(sent.cookie, false, content);
            prop_assert_eq!(requests.handle_reply(&chunk(sent.cookie, n + 1 == count, content)), Ok(expected));
            if !hole {
                prop_assert_eq!(requests.poll_ended(), None);
                requests.end(&[]);
            }
            if n + 1 < count {
                // Bytes that came do not come again.
                let outside = NbdError::Outside { cookie: sent.cookie, offset };
                prop_assert_eq!(requests.handle_reply(&again), Err(outside));
            }
        }
        prop_assert_eq!(requests.poll_ended(), Some(Ended { tag, result: Ok(()) }));
        requests.release(tag);
        prop_assert_eq!(requests.in_use(), 0);
    }
}

#[test]
fn a_read_by_a_simple_reply_has_its_length_in_the_cookie() {
    let mut requests = Requests::new(1, false);
    let (tag, sent) = requests.begin(request(Kind::Read, BASE, 512)).unwrap();
    assert_eq!(Cookie::from_bits(sent.cookie).low, 512);
    assert_eq!(requests.begin(request(Kind::Flush, 0, 0)), None);
    let reply = Reply::simple(sent.cookie, Ok(()));
    let data = Incoming::Data {
        tag,
        at: 0,
        len: 512,
    };
    assert_eq!(requests.handle_reply(&reply), Ok(data));
    requests.end(&[]);
    assert_eq!(
        requests.poll_ended(),
        Some(Ended {
            tag,
            result: Ok(())
        })
    );
    requests.release(tag);
    // The tag's next owner has another cookie.
    let (_, next) = requests.begin(request(Kind::Write, 0, 512)).unwrap();
    assert_ne!(next.cookie, sent.cookie);
    let stale = requests.handle_reply(&reply);
    assert_eq!(stale, Err(NbdError::UnknownCookie(sent.cookie)));
    let done = Reply::simple(next.cookie, Ok(()));
    assert_eq!(requests.handle_reply(&done), Ok(Incoming::Nothing));
    assert!(requests.poll_ended().is_some());
}

#[test]
fn errors_come_with_their_words() {
    let mut requests = Requests::new(2, true);
    let (tag, sent) = requests.begin(request(Kind::Read, 0, 512)).unwrap();
    let content = ChunkType::Error {
        error: 5,
        message_len: 8,
        len: 16,
    };
    let reply = chunk(sent.cookie, true, content);
    assert_eq!(requests.handle_reply(&reply), Ok(Incoming::Text));
    requests.end(b"bad disk\0\0\0\0\0\0\0\x07");
    let Some(Ended { result, .. }) = requests.poll_ended() else {
        panic!("it has ended");
    };
    assert_eq!(
        result.unwrap_err().to_string(),
        "input/output error: bad disk"
    );
    requests.release(tag);
    let (tag, sent) = requests.begin(request(Kind::Write, 0, 512)).unwrap();
    let reply = Reply::simple(sent.cookie, Err(Errno::NoSpace));
    assert_eq!(requests.handle_reply(&reply), Ok(Incoming::Nothing));
    let error = RequestError {
        number: 28,
        message: String::new(),
    };
    let ended = Ended {
        tag,
        result: Err(error),
    };
    assert_eq!(requests.poll_ended(), Some(ended));
}

#[test]
fn what_does_not_fit_its_request_ends_the_connection() {
    let read = || {
        let mut requests = Requests::new(2, true);
        let (_, sent) = requests.begin(request(Kind::Read, BASE, 512)).unwrap();
        (requests, sent.cookie)
    };
    for (offset, len) in [
        (BASE - 1, 4),
        (BASE + 510, 4),
        (BASE + (1 << 32), 4),
        (BASE, 0),
        (u64::MAX, 4),
    ] {
        let (mut requests, cookie) = read();
        let reply = chunk(cookie, false, ChunkType::Hole { offset, len });
        let outside = NbdError::Outside { cookie, offset };
        assert_eq!(requests.handle_reply(&reply), Err(outside));
    }
    let (mut requests, cookie) = read();
    let unfinished = chunk(cookie, true, ChunkType::None);
    let mismatch = Err(NbdError::Mismatch(cookie));
    assert_eq!(requests.handle_reply(&unfinished), mismatch);
    let (mut requests, cookie) = read();
    let simple = Reply::simple(cookie, Ok(()));
    let mismatch = Err(NbdError::Mismatch(cookie));
    assert_eq!(requests.handle_reply(&simple), mismatch);
}
