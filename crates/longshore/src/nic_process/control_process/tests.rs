use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{ClientError, Errno};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags};

use super::super::channel::{self, Header, Kind, MOST_BYTES};
use super::super::link;
use super::admission::Admission;
use super::calls::Calls;
use super::*;
use crate::control::{Answer, CounterGroup, Request, ask};

fn groups() -> Vec<CounterGroup> {
    vec![CounterGroup::new("nic", [("tx_packets", 5)])]
}

/// A control process's threads, before a worker that has counters and refuses the rest. Gives the path of the control socket.
fn start(name: &str) -> PathBuf {
    let (ours, workers) = link::pair().unwrap();
    std::thread::spawn(move || {
        let mut buffer = vec![0; MOST_BYTES];
        loop {
            let message =
                channel::receive(workers.as_fd(), &mut buffer, RecvFlags::empty()).unwrap();
            let (kind, payload) = match message.header.kind {
                Kind::Stat => (Kind::Counters, serde_json::to_vec(&groups()).unwrap()),
                Kind::Request => {
                    let refused = attachment::Answer::refused(Errno::SHUTDOWN);
                    (Kind::Answer, refused.to_bytes().to_vec())
                }
                _ => continue,
            };
            let header = Header {
                kind,
                ..message.header
            };
            channel::send(workers.as_fd(), header, &payload, None, SendFlags::empty()).unwrap();
        }
    });
    let name = format!("longshore-control-process-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let calls = Arc::new(Calls::new(ours).unwrap());
    let answers = Arc::clone(&calls);
    std::thread::spawn(move || answers.pass_answers_on());
    let acceptor = Acceptor {
        calls,
        owner: rustix::process::geteuid().as_raw(),
        examiner: SocketExaminer::new(["lo".to_owned()]).ok().map(Arc::new),
        admission: Admission::default(),
        pace: Pace::default(),
        closing: Closing::new().unwrap(),
    };
    std::thread::spawn(move || acceptor.accept(&listener));
    path
}

#[track_caller]
fn answers_at_once(path: &std::path::Path) {
    let begun = Instant::now();
    assert_eq!(ask(path, Request::Stat).unwrap(), Answer::Stat(groups()));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn clients_that_say_nothing_keep_no_others_out() {
    let path = start("idle");
    let idle: Vec<_> = (0..100)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    answers_at_once(&path);
    drop(idle);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_unread_answer_keeps_no_others_waiting() {
    let path = start("unread");
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_nonblocking(true).unwrap();
    // As much as it takes.
    while client.write(b"{\"command\":\"stat\"}\n").is_ok() {}
    answers_at_once(&path);
    std::fs::remove_file(path).unwrap();
}

/// A socket whose last close waits for 20 s, for its peer does not read.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    set_socket_linger(&socket, Some(Duration::from_secs(20))).unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    (socket, peer)
}

#[test]
fn a_descriptor_that_takes_long_to_close_keeps_no_others_waiting() {
    let path = start("linger");
    let mut peers = Vec::new();
    for _ in 0..16 {
        let (socket, peer) = lingering();
        let mut stream = UnixStream::connect(&path).unwrap();
        let line = b"{\"command\":\"stat\"}\n";
        // While those are answered this process lets go of the socket, so that the other side closes it.
        stream.write_all(&line.repeat(40)).unwrap();
        let fd = Some(socket.as_fd());
        attachment::passing::send(stream.as_fd(), line, fd, SendFlags::empty()).unwrap();
        std::thread::spawn(move || drop(socket));
        peers.push((stream, peer));
        answers_at_once(&path);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_user_may_have_as_many_connections_as_are_left_to_others_and_root_always_one() {
    let admission = Admission::default();
    let many = |uid| {
        let places = std::iter::from_fn(|| admission.admit(uid, false));
        places.collect::<Vec<_>>()
    };
    let first = many(1000);
    assert_eq!(first.len(), 504, "half of those without the reserve");
    let second = many(1001);
    assert_eq!(second.len(), 252);
    assert!(admission.admit(1000, false).is_none());
    drop(first);
    assert!(
        admission.admit(1000, false).is_some(),
        "there are places again"
    );
    let others: Vec<_> = (2000..3100).map(many).collect();
    assert!(admission.admit(5000, false).is_none(), "all are taken");
    assert!(admission.admit(0, true).is_some());
    drop((second, others));
}

#[test]
fn attachments_that_come_faster_than_they_may_wait_for_their_turn() {
    let path = start("pace");
    let slab = attachment::Slab::create(1).unwrap();
    let mut client = attachment::Client::connect(&path, Duration::from_secs(10)).unwrap();
    let begun = Instant::now();
    for _ in 0..568 {
        let refused = Err(ClientError::Refused(Errno::SHUTDOWN));
        assert_eq!(client.attach(&slab), refused);
    }
    // 504 at once, and 128 a second.
    assert!(
        begun.elapsed() > Duration::from_millis(450),
        "{:?}",
        begun.elapsed()
    );
    std::fs::remove_file(path).unwrap();
}
