use wire::nbd::{Kind, OPTION_MAGIC, option};

use super::super::memory::Memory;
use super::*;

/// Both ends of a connection, of which neither waits.
fn connected() -> (UnixStream, Client) {
    let (peer, stream) = UnixStream::pair().unwrap();
    for end in [&peer, &stream] {
        end.set_nonblocking(true).unwrap();
    }
    (peer, Client::new(stream))
}

/// An option without data.
fn option_bytes(kind: u32) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes
}

/// The export by the oldest option, without zeroes behind it.
pub fn handshake() -> Vec<u8> {
    let flags = 3u32.to_be_bytes();
    [&flags[..], &option_bytes(option::EXPORT_NAME)].concat()
}

pub fn request(kind: Kind, len: u32) -> Request {
    Request {
        kind,
        fua: false,
        no_hole: false,
        do_not_fragment: false,
        fast_zero: false,
        cookie: 7,
        offset: 0,
        len,
    }
}

#[test]
fn a_write_that_was_read_ahead_fills_its_blocks_in_order() {
    const BLOCK: u32 = 4096;
    let export = Export::of_a_mebibyte();
    let (mut peer, mut client) = connected();
    client.flush().unwrap();
    let len = 5 * BLOCK;
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let write = request(Kind::Write, len);
    let sent = [&handshake()[..], &write.to_bytes(), &data].concat();
    peer.write_all(&sent).unwrap();
    let brought = client.poll(&export).unwrap();
    assert!(matches!(brought, Brought::Request(request) if request == write));
    let (memory, mut blocks) = (Memory::of_blocks(BLOCK, 5), Vec::new());
    assert!(memory.take(len, &mut blocks));
    client.receive_into(write, blocks);
    let Brought::Write(_, blocks) = client.poll(&export).unwrap() else {
        panic!("all of it is there");
    };
    // SAFETY: there are no commands.
    let parts = blocks.iter().map(|(block, _)| unsafe { block.bytes() });
    assert!(parts.flatten().eq(&data));
}

#[test]
fn what_a_client_sends_stays_with_it_while_it_takes_no_answers() {
    let export = Export::of_a_mebibyte();
    let flush = request(Kind::Flush, 0).to_bytes();
    let list = option_bytes(option::LIST);
    let handshake = handshake();
    for (first, again) in [(&[0, 0, 0, 3][..], &list[..]), (&handshake[..], &flush[..])] {
        let (mut peer, mut client) = connected();
        client.flush().unwrap();
        peer.write_all(first).unwrap();
        let many = again.repeat(4096);
        let (mut at, mut most) = (0, 0);
        for _ in 0..2000 {
            at = (at + peer.write(&many[at..]).unwrap_or(0)) % many.len();
            while let Brought::Request(request) = client.poll(&export).unwrap() {
                client.reply(&Answer::simple(request.cookie, Ok(())), Vec::new());
            }
            client.flush().unwrap();
            most = most.max(client.output.len());
        }
        assert!(client.is_behind());
        assert!(most <= MOST_ANSWERS, "{most}");
        let full = peer.write(&many[at..]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }
}
