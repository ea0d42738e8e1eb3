use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use attachment::passing;
use rustix::net::SendFlags;
use rustix::net::sockopt::set_socket_linger;

use super::*;

/// A connection in which a socket is on its way whose last close waits for 20 s, for its peer does not read; and what must stay open for that.
fn lingering() -> (UnixStream, (UnixStream, TcpStream)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    set_socket_linger(&socket, Some(Duration::from_secs(20))).unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    let (ours, theirs) = UnixStream::pair().unwrap();
    passing::send(
        theirs.as_fd(),
        b"x",
        Some(socket.as_fd()),
        SendFlags::empty(),
    )
    .unwrap();
    socket.set_nonblocking(false).unwrap();
    (ours, (theirs, peer))
}

fn is_closed(mut stream: &UnixStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        // What was not read is a reset.
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn sockets_that_linger_are_closed_soon_however_many_one_user_has() {
    let closing = Closing::with_room(8, 64).unwrap();
    let begun = Instant::now();
    let (streams, kept): (Vec<_>, Vec<_>) = (0..32).map(|_| lingering()).unzip();
    for stream in streams {
        closing.close(1000, stream).unwrap();
    }
    let (other, theirs) = UnixStream::pair().unwrap();
    closing.close(1001, other).unwrap();
    assert!(is_closed(&theirs), "another user has threads left");
    for (theirs, _) in &kept {
        assert!(is_closed(theirs));
    }
    let all_are_closed = || closing.shared.lock().shares.left() == 8;
    while !all_are_closed() && begun.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(all_are_closed(), "they linger for {:?}", begun.elapsed());
}

#[test]
fn a_user_without_a_thread_gets_the_next_one_that_has_closed_another_users() {
    let closing = Closing::with_room(1, 64).unwrap();
    let (streams, kept): (Vec<_>, Vec<_>) = (0..4).map(|_| lingering()).unzip();
    for stream in streams {
        closing.close(1000, stream).unwrap();
    }
    let (other, theirs) = UnixStream::pair().unwrap();
    closing.close(1001, other).unwrap();
    assert!(is_closed(&theirs));
    for (theirs, _) in &kept {
        assert!(is_closed(theirs));
    }
}

#[test]
fn a_connection_for_which_there_is_no_room_is_refused() {
    let closing = Closing::with_room(0, 1).unwrap();
    let stream = || UnixStream::pair().unwrap().0;
    assert_eq!(closing.close(1000, stream()), Ok(()));
    assert_eq!(closing.close(1000, stream()), Err(Full));
}
