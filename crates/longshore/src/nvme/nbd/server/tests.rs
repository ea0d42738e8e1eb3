use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::super::client::tests::{handshake, request};
use super::*;

/// A server whose commands are not submitted, and a client of it that has sent these requests.
fn with_requests(name: &str, requests: &[Request]) -> (Server, UnixStream) {
    let name = format!("longshore-{}-{name}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let export = Export {
        most_data: 4096,
        ..Export::of_a_mebibyte()
    };
    let memory = Memory::of_blocks(4096, 8);
    let mut server = Server::new(listen(&path).unwrap(), export, memory).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    let mut sent = handshake();
    sent.extend(requests.iter().flat_map(Request::to_bytes));
    stream.write_all(&sent).unwrap();
    while server.serve_ready().unwrap() {}
    (server, stream)
}

#[test]
fn a_client_that_has_gone_is_let_go_while_its_requests_are_under_way() {
    let (mut server, stream) = with_requests("gone", &[request(Kind::Read, 4096)]);
    assert!(server.is_busy());
    drop(stream);
    let turns = (0..10).take_while(|_| server.serve_ready().unwrap());
    assert!(turns.count() < 10, "nothing is left to do");
    assert!(server.is_busy(), "the read is still under way");
    assert!(server.clients.iter().all(|slot| slot.client.is_none()));
}

#[test]
fn a_client_that_takes_no_answers_leaves_memory_for_others() {
    let under_way = |server: &Server| server.jobs.iter().flatten().count();
    let read = request(Kind::Read, 4096);
    let (mut server, _stopped) = with_requests("share", &[read; 8]);
    assert_eq!(under_way(&server), 4);
    let name = format!("longshore-{}-share.sock", std::process::id());
    let mut other = UnixStream::connect(std::env::temp_dir().join(name)).unwrap();
    let sent = [handshake(), read.to_bytes().to_vec()].concat();
    other.write_all(&sent).unwrap();
    while server.serve_ready().unwrap() {}
    assert_eq!(under_way(&server), 5);
}

#[test]
fn requests_that_were_read_ahead_are_answered_when_there_is_room_for_answers_again() {
    let refused = request(Kind::Unknown(9), 0);
    let (mut server, mut stream) = with_requests("behind", &[refused; 3000]);
    stream.set_nonblocking(true).unwrap();
    let (mut answers, mut bytes) = (0, vec![0; 1000]);
    // The handshake's greeting, and the export by the oldest option.
    let expected = 18 + 10 + 3000 * 16;
    for _ in 0..10_000 {
        answers += stream.read(&mut bytes).unwrap_or(0);
        while server.serve_ready().unwrap() {}
    }
    assert_eq!(answers, expected);
}
