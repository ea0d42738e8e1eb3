//! Real sockets, on the loopback interface of a network namespace of the test's own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use attachment::Errno;
use wire::FlowKey;

use super::{KernelSockets, options};
use crate::sockets::Sockets;

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

fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let theirs = listener.accept().unwrap().0;
    (ours, theirs)
}

#[test]
fn positions_are_those_of_what_was_written_and_read() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (mut ours, mut theirs) = pair(address);
            let before = sockets.examine(ours.as_fd()).unwrap();
            let flow = FlowKey::new(ours.local_addr().unwrap(), ours.peer_addr().unwrap());
            assert_eq!(before.flow, flow);
            assert_eq!(before.unacknowledged, before.write);
            assert_eq!(before.read, before.receive_next);

            ours.write_all(&[1; 1000]).unwrap();
            theirs.write_all(&[2; 300]).unwrap();
            let mut read = [0; 1000];
            theirs.read_exact(&mut read).unwrap();
            ours.read_exact(&mut read[..100]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let after = sockets.examine(ours.as_fd()).unwrap();
            assert_eq!(after.write, before.write + 1000);
            assert_eq!(after.receive_next, before.receive_next + 300);
            assert_eq!(after.read, before.read + 100);
            assert_eq!(after.cookie, before.cookie);
            assert!(!after.reordered);
            let again = sockets.examine_again(ours.as_fd(), Some(after.read));
            assert_eq!(again, Ok(after));
            let other = sockets.examine(theirs.as_fd()).unwrap();
            assert_eq!((other.read, other.write), (after.write, after.receive_next));

            // Nothing of it has changed for the program.
            theirs.write_all(&[3; 500]).unwrap();
            ours.read_exact(&mut read[..700]).unwrap();
            assert_eq!(&read[200..700], &[3; 500]);
            assert_eq!(options::reuse(ours.as_fd()), Ok(0));
            assert_eq!(
                options::reuse(theirs.as_fd()),
                Ok(1),
                "listeners of std's have it"
            );
        }
    });
}

/// In repair mode what one thread receives fails, is seen in the wrong queue, or what it sends goes there.
#[test]
fn a_second_look_disturbs_no_call_of_another_thread() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (ours, mut theirs) = pair("127.0.0.1:0");
        let first = sockets.examine(ours.as_fd()).unwrap();
        // More than there is room for: there is always something in both queues.
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(&[2; 50_000]).unwrap();
        while (&ours).write(&[1; 4096]).is_ok() {}
        std::thread::scope(|scope| {
            let calls = scope.spawn(|| {
                let mut bytes = [0; 10];
                for _ in 0..3000 {
                    assert_eq!(ours.peek(&mut bytes).unwrap(), 10);
                    assert_eq!(bytes, [2; 10]);
                    (&ours).read_exact(&mut bytes).unwrap();
                    assert_eq!(bytes, [2; 10]);
                    let sent = (&ours).write(&[1; 10]);
                    assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
                }
            });
            while !calls.is_finished() {
                let facts = sockets.examine_again(ours.as_fd(), Some(first.read));
                assert!(facts.unwrap().write.after(first.write));
            }
        });
    });
}

#[test]
fn a_socket_that_a_dead_nic_has_left_in_repair_mode_is_taken_out_of_it() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (mut ours, mut theirs) = pair("127.0.0.1:0");
        let facts = sockets.examine(ours.as_fd()).unwrap();
        std::mem::forget(options::Repair::begin(ours.as_fd()).unwrap());
        let again = sockets.examine_again(ours.as_fd(), Some(facts.read));
        assert_eq!(again, Ok(facts));
        ours.write_all(b"goes on").unwrap();
        let mut read = [0; 7];
        theirs.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"goes on");
    });
}

#[test]
fn a_socket_has_gone_when_it_is_closed_and_has_nothing_left_to_send() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (mut ours, theirs) = pair("127.0.0.1:0");
        let facts = sockets.examine(ours.as_fd()).unwrap();
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
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (ours, _theirs) = pair("127.0.0.1:0");
        sockets.index += 7;
        let refused = sockets.examine(ours.as_fd());
        assert_eq!(refused, Err(Errno::NODEV));
        sockets.index -= 7;
        sockets.namespace += 1;
        let refused = sockets.examine(ours.as_fd());
        assert_eq!(refused, Err(Errno::PERM));
        sockets.namespace -= 1;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = sockets.examine(listener.as_fd());
        assert_eq!(refused, Err(Errno::NOTCONN));
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let refused = sockets.examine(datagrams.as_fd());
        assert_eq!(refused, Err(Errno::INVAL));
        let file = std::fs::File::open("/dev/null").unwrap();
        let refused = sockets.examine(file.as_fd());
        assert_eq!(refused, Err(Errno::NOTSOCK));
    });
}

#[test]
fn a_connection_is_known_until_both_ends_have_all() {
    in_namespace(|| {
        let mut sockets = KernelSockets::new("lo").unwrap();
        let (ours, mut theirs) = pair("127.0.0.1:0");
        let has_ended = |sockets: &mut KernelSockets| {
            let facts = sockets.examine(ours.as_fd());
            facts.map(|facts| facts.peer_has_ended)
        };
        assert_eq!(has_ended(&mut sockets), Ok(false));
        theirs.write_all(&[1; 100]).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        eventually(|| has_ended(&mut sockets) == Ok(true));
        // Unacknowledged, and both have said that they send nothing more.
        ours.set_nonblocking(true).unwrap();
        while (&ours).write(&[7; 4096]).is_ok() {}
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(has_ended(&mut sockets), Ok(true));
        drop(theirs);
        eventually(|| has_ended(&mut sockets) == Err(Errno::NOTCONN));
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
