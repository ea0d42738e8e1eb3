//! The kernel's own answer whether a socket is ready is the truth.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{End, TLS_1_3, keyed, pattern};
use crate::{RECORD_TYPE_DATA, flusher};

fn is_readable(end: &End, within: Duration) -> bool {
    let mut polled = [PollFd::new(&end.socket, PollFlags::IN)];
    let time = Timespec::try_from(within).expect("a short time");
    poll(&mut polled, Some(&time)).expect("poll") == 1
}

const SOON: Duration = Duration::from_secs(2);
const NOT: Duration = Duration::from_millis(30);

#[test]
fn what_a_short_read_has_left_is_readable() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let data = pattern(5000);
    a.write(&data);
    let mut got = Vec::new();
    while got.len() < data.len() {
        assert!(
            is_readable(&b, SOON),
            "{} bytes are left",
            data.len() - got.len()
        );
        got.extend(b.receive(777, false, libc::MSG_DONTWAIT).expect("data").0);
    }
    assert_eq!(got, data);
    assert!(!is_readable(&b, NOT));
}

#[test]
fn an_error_behind_a_record_is_to_be_read_until_it_is_told() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let (c, d) = keyed(TLS_1_3, 51).expect("loopback");
    // A record as it goes over the wire, and a header of another version behind it.
    c.write(b"a record");
    let mut sent = vec![0; 200];
    let len = rustix::io::read(&d.socket, &mut sent[..]).expect("loopback");
    sent.truncate(len);
    sent.extend([23, 2, 3, 0, 100]);
    rustix::io::write(&a.socket, &sent).expect("loopback");
    assert_eq!(b.read_exactly(8), b"a record");
    let is_readable = || b.session.is_readable(b.socket.as_fd());
    assert!(is_readable());
    assert_eq!(b.receive(100, false, 0).err(), Some(Errno::INVAL));
    assert!(!is_readable());
}

#[test]
fn a_part_of_a_record_is_not_readable_once_it_was_looked_at() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let (c, d) = keyed(TLS_1_3, 51).expect("loopback");
    // A record as it goes over the wire, read off another connection with the same keys.
    c.write(b"a whole record");
    let mut record = [0; 200];
    let len = rustix::io::read(&d.socket, &mut record[..]).expect("loopback");
    for byte in &record[..len - 1] {
        rustix::io::write(&a.socket, &[*byte]).expect("loopback");
        assert!(is_readable(&b, SOON));
        assert_eq!(
            b.receive(100, false, libc::MSG_DONTWAIT).err(),
            Some(Errno::AGAIN)
        );
        assert!(!is_readable(&b, NOT / 10));
    }
    rustix::io::write(&a.socket, &record[len - 1..len]).expect("loopback");
    assert!(is_readable(&b, SOON));
    assert_eq!(b.read_exactly(14), b"a whole record");
}

/// `poll` asks: short records, and such as are longer than what is looked at first.
#[test]
fn a_record_is_there_with_its_last_byte() {
    for (len, piece) in [(1, 3), (300, 100), (480, 511), (5000, 700), (16_384, 1)] {
        let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
        let (c, d) = keyed(TLS_1_3, 51).expect("loopback");
        let content = pattern(len);
        c.write(&content);
        let mut record = vec![0; len + 5 + 1 + 16];
        rustix::net::recv(&d.socket, &mut record[..], RecvFlags::WAITALL).expect("loopback");
        // Of bytes one by one the first and the last ones are enough.
        let cuts = (1..record.len()).filter(|at| match piece {
            1 => *at < 9 || *at > record.len() - 9,
            _ => at % piece == 0,
        });
        let mut sent = 0;
        for cut in cuts.chain([record.len() - 1]) {
            rustix::io::write(&a.socket, &record[sent..cut]).expect("loopback");
            sent = cut;
            let _ = is_readable(&b, NOT / 10);
            let is_there = b.session.is_readable(b.socket.as_fd());
            assert!(!is_there, "{cut} of {} bytes", record.len());
        }
        rustix::io::write(&a.socket, &record[sent..]).expect("loopback");
        assert!(is_readable(&b, SOON));
        assert!(b.session.is_readable(b.socket.as_fd()), "{len}");
        assert_eq!(b.read_exactly(len), content);
    }
}

#[test]
fn those_who_hear_of_changes_only_are_woken() {
    let (a, _b) = keyed(TLS_1_3, 51).expect("loopback");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(&epoll, &a.socket, epoll::EventData::new_u64(1), flags).expect("epoll");
    let hears = |within: Duration| {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        let time = Timespec::try_from(within).expect("a short time");
        epoll::wait(&epoll, &mut events[..], Some(&time)).expect("epoll") == 1
    };
    assert!(hears(SOON), "it can be written to");
    assert!(!hears(NOT));
    flusher::wake_senders(a.session.cookie, a.socket.as_fd(), NOT);
    assert!(hears(SOON));
    assert!(!hears(NOT), "once");
}

/// One that waits for its NIC with its direction locked holds up no other's.
#[test]
fn a_session_that_is_busy_holds_up_no_record_of_another() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let (c, d) = keyed(TLS_1_3, 51).expect("loopback");
    for end in [&a, &c] {
        assert_eq!(end.send(b"more", RECORD_TYPE_DATA, libc::MSG_MORE), Ok(4));
    }
    let busy = a.session.sending();
    assert!(is_readable(&d, SOON));
    assert_eq!(d.read_exactly(4), b"more");
    assert!(!is_readable(&b, NOT));
    drop(busy);
    assert!(is_readable(&b, SOON));
    assert_eq!(b.read_exactly(4), b"more");
}

#[test]
fn a_session_that_is_busy_holds_up_nothing_that_found_no_room() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let (c, d) = keyed(TLS_1_3, 51).expect("loopback");
    let data = pattern(100_000);
    let [of_a, of_c] = [&a, &c].map(|end| {
        let mut accepted = 0;
        while let Ok(sent) = end.send(&data, RECORD_TYPE_DATA, libc::MSG_DONTWAIT) {
            accepted += sent;
        }
        accepted
    });
    let busy = a.session.sending();
    // The thread finds room in both sockets, and one of the sessions busy.
    let mut before = 0;
    while let Ok((data, _)) = b.receive(65_536, false, libc::MSG_DONTWAIT) {
        before += data.len();
    }
    assert!(before < of_a);
    d.socket.set_read_timeout(Some(SOON)).expect("a TCP socket");
    assert_eq!(d.read_exactly(of_c).len(), of_c);
    drop(busy);
    assert_eq!(b.read_exactly(of_a - before).len(), of_a - before);
    for end in [&a, &c] {
        assert_eq!(end.session.flush(end.socket.as_fd()), Ok(true));
    }
}

#[test]
fn the_library_looks_at_no_socket_by_a_descriptor_that_the_program_can_see() {
    let (a, _b) = keyed(TLS_1_3, 51).expect("loopback");
    a.write(b"from this descriptor");
    let own = a.session.own_descriptor().expect("it is open");
    let number = own.as_fd().as_raw_fd();
    assert!(crate::internal::is_internal(number), "{number}");
    drop(own);
    assert!(!crate::internal::is_internal(number));
}

#[test]
fn what_found_no_room_is_sent_without_another_call() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let data = pattern(100_000);
    let mut accepted = 0;
    // Until the socket is full.
    let sent = loop {
        match a.send(&data, RECORD_TYPE_DATA, libc::MSG_DONTWAIT) {
            Ok(sent) => accepted += sent,
            Err(error) => break error,
        }
    };
    assert_eq!(sent, Errno::AGAIN);
    let mut got = 0;
    while got < accepted {
        assert!(is_readable(&b, SOON), "{got} of {accepted}");
        got += b.read(65_536).expect("data").len();
    }
    assert_eq!(got, accepted);
    assert_eq!(a.session.flush(a.socket.as_fd()), Ok(true));
}

#[test]
fn a_closed_socket_sends_what_was_accepted() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let data = pattern(100_000);
    let mut accepted = 0;
    while let Ok(sent) = a.send(&data, RECORD_TYPE_DATA, libc::MSG_DONTWAIT) {
        accepted += sent;
    }
    a.session.finish(a.socket.as_fd());
    drop(a);
    let mut got = 0;
    loop {
        let more = b.read(65_536).expect("data").len();
        if more == 0 {
            break;
        }
        got += more;
    }
    assert_eq!(got, accepted);
}

#[test]
fn after_a_key_update_the_socket_is_not_readable_before_there_are_new_keys() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let new = super::keys(TLS_1_3, 51, 77, 0);
    assert_eq!(a.send(&[24, 0, 0, 1, 0], 22, 0), Ok(5));
    a.set(crate::TLS_TX, &new).expect("keys");
    a.write(b"new");
    b.receive(100, true, 0).expect("the update");
    assert!(!is_readable(&b, NOT));
    b.set(crate::TLS_RX, &new).expect("keys");
    assert!(is_readable(&b, SOON));
    assert_eq!(b.read_exactly(3), b"new");
}

#[test]
fn a_key_update_that_is_read_in_parts_is_readable_to_its_end() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    assert_eq!(a.send(&[24, 0, 0, 1, 0], 22, 0), Ok(5));
    b.receive(1, true, 0).expect("its first byte");
    assert!(is_readable(&b, SOON));
    let (rest, received) = b.receive(4, true, 0).expect("its rest");
    assert_eq!((&rest[..], received.ends_record), (&[0, 0, 1, 0][..], true));
    assert!(!is_readable(&b, NOT));
}

#[test]
fn a_call_that_waits_does_not_hold_up_one_that_does_not() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| b.read(100));
        std::thread::sleep(NOT);
        assert_eq!(
            b.receive(100, false, libc::MSG_DONTWAIT).err(),
            Some(Errno::AGAIN)
        );
        a.write(b"at last");
        assert_eq!(waits.join().expect("the reader"), Ok(b"at last".to_vec()));
    });
}

#[test]
fn a_read_waits_as_long_as_the_socket_says() {
    let (_a, b) = keyed(TLS_1_3, 51).expect("loopback");
    b.socket
        .set_read_timeout(Some(NOT))
        .expect("a socket option");
    let begun = std::time::Instant::now();
    assert_eq!(b.read(100), Err(Errno::AGAIN));
    assert!(begun.elapsed() >= NOT);
    assert_eq!(b.read(0).map(|data| data.len()), Ok(0));
}
