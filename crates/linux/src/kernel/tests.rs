//! Real sockets, on the loopback interface of a network namespace of the test's own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use attachment::{Errno, Examine};
use wire::FlowKey;

use super::{KernelSockets, SocketExaminer, connections_through, options};
use crate::sockets::{SocketPhase, Sockets};

/// Runs a test in a namespace of its own, if this process may make one.
fn in_namespace(test: fn()) {
    let thread = std::thread::spawn(move || {
        // SAFETY: it moves this thread alone, which ends with the test.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("left out: no network namespace without CAP_SYS_ADMIN");
            return;
        }
        let up = std::process::Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.is_ok_and(|status| status.success()), "iproute2 is there");
        test();
    });
    thread.join().unwrap();
}

fn examiner() -> SocketExaminer {
    SocketExaminer::new(["lo".to_owned()]).unwrap()
}

fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let theirs = listener.accept().unwrap().0;
    (ours, theirs)
}

#[test]
fn positions_are_those_of_what_was_written_and_read() {
    in_namespace(|| {
        let mut linux = examiner();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (mut ours, mut theirs) = pair(address);
            let mut examine = |socket: &TcpStream| linux.examine(socket.as_fd(), 7).unwrap();
            let (client, server) = (examine(&ours), examine(&theirs));
            let flow = FlowKey::new(ours.local_addr().unwrap(), ours.peer_addr().unwrap());
            assert_eq!((client.flow, client.tenant), (flow, 7));
            assert_eq!(client.acknowledged, 1, "its SYN");
            assert_eq!(server.acknowledged, 0);
            assert_eq!((client.received, server.received), (0, 0));
            assert_eq!((client.unacknowledged, client.unread), (0, 0));

            ours.write_all(&[1; 1000]).unwrap();
            theirs.write_all(&[2; 300]).unwrap();
            let mut read = [0; 1000];
            theirs.read_exact(&mut read).unwrap();
            ours.read_exact(&mut read[..100]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let after = examine(&ours);
            let sent = after.acknowledged + u64::from(after.unacknowledged);
            assert_eq!(sent, client.acknowledged + 1000);
            assert_eq!((after.received, after.unread), (300, 200));
            assert_eq!(after.cookie, client.cookie);
            assert!(!after.reordered);
            let later = after.timestamp.unwrap() - client.timestamp.unwrap();
            assert!((50..5000).contains(&later), "{later} ms");
            assert_eq!(examine(&theirs).received, 1000);
        }
    });
}

#[test]
fn no_call_of_another_thread_is_disturbed_by_a_look() {
    in_namespace(|| {
        let mut linux = examiner();
        let (ours, mut theirs) = pair("127.0.0.1:0");
        let first = linux.examine(ours.as_fd(), 0).unwrap();
        // More than there is room for: there is always something in both queues.
        // Buffers of a given size do not grow; Linux still makes room for a moment by what it moves.
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 64 << 10).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&theirs, 64 << 10).unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(&[2; 50_000]).unwrap();
        while (&ours).write(&[1; 10]).is_ok() {
            while (&ours).write(&[1; 4096]).is_ok() {}
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::scope(|scope| {
            let calls = scope.spawn(|| {
                let mut bytes = [0; 10];
                for _ in 0..3000 {
                    assert_eq!(ours.peek(&mut bytes).unwrap(), 10);
                    assert_eq!(bytes, [2; 10]);
                    (&ours).read_exact(&mut bytes).unwrap();
                    assert_eq!(bytes, [2; 10]);
                    // Linux may still make room for some.
                    if let Err(error) = (&ours).write(&[1; 10]) {
                        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    }
                }
            });
            while !calls.is_finished() {
                let facts = linux.examine(ours.as_fd(), 0).unwrap();
                assert!(facts.unacknowledged > 0 && facts.received > first.received);
            }
        });
    });
}

#[test]
fn a_socket_has_gone_when_it_is_closed_and_has_nothing_left_to_send() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (mut ours, theirs) = pair("127.0.0.1:0");
        let facts = examiner().examine(ours.as_fd(), 0).unwrap();
        let here = [(facts.flow, facts.cookie)];
        assert_eq!(
            sockets.bound(),
            Ok(here.to_vec()),
            "examined ones are bound"
        );
        assert!(!sockets.is_gone(&facts.flow, facts.cookie));
        let other = facts.cookie + 1;
        assert!(sockets.is_gone(&facts.flow, other), "another one is there");
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[7; 4096]).is_ok() {}
        drop(ours);
        assert!(!sockets.is_gone(&facts.flow, facts.cookie), "data wait");
        drop(theirs);
        std::thread::sleep(Duration::from_millis(50));
        assert!(sockets.is_gone(&facts.flow, facts.cookie));
    });
}

#[test]
fn sockets_that_are_not_behind_the_interface_are_refused() {
    in_namespace(|| {
        let mut linux = examiner();
        let (ours, _theirs) = pair("127.0.0.1:0");
        let mut elsewhere = SocketExaminer::new([]).unwrap();
        let refused = elsewhere.examine(ours.as_fd(), 0);
        assert_eq!(refused, Err(Errno::NODEV));
        let missing = SocketExaminer::new(["longshore-none".to_owned()]);
        assert_eq!(missing.err(), Some(Errno::NODEV));
        linux.namespace += 1;
        let refused = linux.examine(ours.as_fd(), 0);
        assert_eq!(refused, Err(Errno::PERM));
        linux.namespace -= 1;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = linux.examine(listener.as_fd(), 0);
        assert_eq!(refused, Err(Errno::NOTCONN));
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let refused = linux.examine(datagrams.as_fd(), 0);
        assert_eq!(refused, Err(Errno::INVAL));
        let file = std::fs::File::open("/dev/null").unwrap();
        let refused = linux.examine(file.as_fd(), 0);
        assert_eq!(refused, Err(Errno::NOTSOCK));
    });
}

#[test]
fn a_connection_is_known_until_both_ends_have_all() {
    in_namespace(|| {
        let mut linux = examiner();
        let (ours, mut theirs) = pair("127.0.0.1:0");
        let mut has_ended = || {
            let facts = linux.examine(ours.as_fd(), 0);
            facts.map(|facts| facts.peer_has_ended)
        };
        assert_eq!(has_ended(), Ok(false));
        theirs.write_all(&[1; 100]).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        eventually(|| has_ended() == Ok(true));
        // Unacknowledged, and both have said that they send nothing more.
        ours.set_nonblocking(true).unwrap();
        while (&ours).write(&[7; 4096]).is_ok() {}
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(has_ended(), Ok(true));
        drop(theirs);
        eventually(|| has_ended() == Err(Errno::NOTCONN));
    });
}

#[test]
fn what_is_between_two_addresses_is_reported_with_how_far_it_is() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (ours, _theirs) = pair("127.0.0.1:0");
        let flow = FlowKey::new(ours.local_addr().unwrap(), ours.peer_addr().unwrap());
        let found = sockets.look_up(&flow).unwrap().unwrap();
        assert_eq!(found.phase, SocketPhase::Synchronized);
        assert_eq!(Ok(found.cookie), options::cookie(ours.as_fd()));
        // A listener has no connection.
        let other = FlowKey {
            dst: (flow.dst.0, 9),
            ..flow.reversed()
        };
        assert_eq!(sockets.look_up(&other), Ok(None));
    });
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "not within 10 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interface_that_is_not_there_is_told() {
    assert_eq!(
        KernelSockets::new("longshore-none").unwrap_err(),
        Errno::NODEV
    );
}

#[test]
fn connections_through_an_interface_are_counted_until_they_are_over() {
    in_namespace(|| {
        let loopback = KernelSockets::new("lo").unwrap().interface();
        let through = || connections_through(loopback).unwrap();
        assert_eq!(through(), 0);
        let (ours, theirs) = pair("127.0.0.1:0");
        let other = pair("[::1]:0");
        assert_eq!(through(), 4, "both ends of each");
        assert_eq!(connections_through(u32::MAX), Ok(0));
        // A FIN is acknowledged a little later.
        let wait_for = |count: usize| {
            let until = Instant::now() + Duration::from_secs(5);
            while through() != count {
                assert!(Instant::now() < until, "{} through it", through());
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        drop(other);
        wait_for(2);
        drop(ours);
        wait_for(1);
        drop(theirs);
        wait_for(0);
    });
}
