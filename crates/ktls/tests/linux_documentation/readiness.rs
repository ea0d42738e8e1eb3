//! `poll`, `select` and `epoll`: a socket is readable when a whole record is there, an end or an error.

mod sets;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::sockets::*;
use sets::{long_set, set_of_all_there_may_be, short_set};

cases! {
    "poll and ppoll tell of whole records": by_poll,
    "select and pselect tell of whole records, and leave the sets of others as they are": by_select,
    "select writes no more of a short set than its descriptors": short_set,
    "select reads no more of a set than there are descriptors": set_of_all_there_may_be,
    "select takes a set with more descriptors than the C library's": long_set,
    "epoll tells of whole records, whatever its triggers": by_epoll,
    "epoll with data that is not the descriptor": by_data,
    "epoll with data that several descriptors have": by_shared_data,
    "EPOLLONESHOT that is set anew while another thread waits": changed_while_waiting,
    "a descriptor that was closed does not stand for the next one": closed_and_opened,
    "a dup2 that fails leaves what waits in an epoll as it is": failed_dup2,
    "the end is told behind a part of a record": ended,
    "waiting ends when its time is over": as_long_as_it_says,
    "waiting that began before the first TLS socket was there ends when its time is over": in_another_program,
    "a server that receives what it was told of does not hang": a_server,
}

const WORDS: &[u8] = b"eight by";
const SOON: i32 = 30_000;
const NOT: i32 = 10;

/// A record as it goes over the wire, under keys like those that [`receiver`] has.
fn record() -> Vec<u8> {
    let other = Pair::plain();
    other.sends(&keys(TLS_1_3, 51, 1));
    send(other.a(), WORDS, 0).unwrap();
    other.wire()
}

fn receiver() -> Pair {
    let pair = Pair::plain();
    pair.receives(&keys(TLS_1_3, 51, 1));
    pair
}

/// `waits` tells whether a descriptor is readable, within so many milliseconds. It is so only with the last byte of a record.
fn tells_whole_records(waits: &dyn Fn(i32, i32) -> bool) {
    let record = record();
    for step in [1, 3, 7, record.len() - 1] {
        let pair = receiver();
        assert!(!waits(pair.b(), 0));
        for part in record[..record.len() - 1].chunks(step) {
            pair.put(part);
            assert!(!waits(pair.b(), NOT / 5), "{step}");
        }
        pair.put(&record[record.len() - 1..]);
        assert!(waits(pair.b(), SOON), "{step}");
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
        assert!(!waits(pair.b(), 0));
        // Nor is what has been received, and a bad header is told.
        pair.put(&[1; 20]);
        assert!(waits(pair.b(), SOON));
    }
}

fn polled(fd: i32, timeout: i32) -> bool {
    let events = libc::POLLIN;
    let mut polled = [libc::pollfd {
        fd,
        events,
        revents: 0,
    }];
    // SAFETY: an entry, borrowed for the call.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), 1, timeout) };
    assert_eq!(ready == 1, polled[0].revents & libc::POLLIN != 0);
    ready == 1
}

fn time(milliseconds: i32) -> libc::timespec {
    libc::timespec {
        tv_sec: (milliseconds / 1000).into(),
        tv_nsec: (milliseconds % 1000 * 1_000_000).into(),
    }
}

fn by_poll() {
    tells_whole_records(&polled);
    tells_whole_records(&|fd, timeout| {
        let (events, time) = (libc::POLLIN, time(timeout));
        let mut polled = [libc::pollfd {
            fd,
            events,
            revents: 0,
        }];
        // SAFETY: an entry and a time, borrowed for the call.
        unsafe { libc::ppoll(polled.as_mut_ptr(), 1, &time, std::ptr::null()) == 1 }
    });
    // What else is to be told is.
    let pair = receiver();
    pair.put(&record()[..9]);
    let events = libc::POLLIN | libc::POLLOUT;
    let mut polled = libc::pollfd {
        fd: pair.b(),
        events,
        revents: 0,
    };
    // SAFETY: an entry, borrowed for the call.
    assert_eq!(unsafe { libc::poll(&mut polled, 1, SOON) }, 1);
    assert_eq!(polled.revents, libc::POLLOUT);
}

fn set_of(fds: &[i32]) -> libc::fd_set {
    // SAFETY: all zeros are an empty set, and the numbers are small.
    unsafe {
        let mut set = std::mem::zeroed();
        fds.iter().for_each(|fd| libc::FD_SET(*fd, &mut set));
        set
    }
}

fn by_select() {
    let none = std::ptr::null_mut;
    tells_whole_records(&|fd, timeout| {
        let mut time = libc::timeval {
            tv_sec: (timeout / 1000).into(),
            tv_usec: (timeout % 1000 * 1000).into(),
        };
        let mut set = set_of(&[fd]);
        // SAFETY: a set and a time, borrowed for the call.
        let ready = unsafe { libc::select(fd + 1, &mut set, none(), none(), &mut time) };
        // SAFETY: as above.
        assert_eq!(ready == 1, unsafe { libc::FD_ISSET(fd, &set) });
        ready == 1
    });
    tells_whole_records(&|fd, timeout| {
        let (mut set, time) = (set_of(&[fd]), time(timeout));
        // SAFETY: a set and a time, borrowed for the call.
        unsafe { libc::pselect(fd + 1, &mut set, none(), none(), &time, std::ptr::null()) == 1 }
    });
    // Another descriptor, whose turn comes while it waits.
    let (pair, plain) = (receiver(), Pair::plain());
    pair.put(&record()[..9]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            plain.put(b"x");
        });
        let mut set = set_of(&[pair.b(), plain.b()]);
        let most = pair.b().max(plain.b()) + 1;
        // SAFETY: a set, borrowed for the call.
        unsafe {
            assert_eq!(
                libc::select(most, &mut set, none(), none(), std::ptr::null_mut()),
                1
            );
            assert!(!libc::FD_ISSET(pair.b(), &set) && libc::FD_ISSET(plain.b(), &set));
        }
    });
}

/// An `epoll`.
struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: a new descriptor, which is ours.
        Epoll(unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) })
    }

    fn control(&self, operation: i32, fd: i32, flags: i32, data: u64) {
        let events = (libc::EPOLLIN | flags) as u32;
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: an event, borrowed for the call.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) };
        assert_eq!(done, 0);
    }

    fn add(&self, fd: i32, flags: i32, data: u64) {
        self.control(libc::EPOLL_CTL_ADD, fd, flags, data);
    }

    /// The data of the events that there are within so many milliseconds.
    fn wait(&self, timeout: i32) -> Vec<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        // SAFETY: room for as many events.
        let count =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 8, timeout) };
        let events = &events[..usize::try_from(count).unwrap()];
        events.iter().map(|event| event.u64).collect()
    }
}

fn by_epoll() {
    let record = record();
    for flags in [
        0,
        libc::EPOLLET,
        libc::EPOLLONESHOT,
        libc::EPOLLET | libc::EPOLLONESHOT,
    ] {
        for step in [1, 7, record.len() - 1] {
            let (pair, epoll) = (receiver(), Epoll::new());
            epoll.add(pair.b(), flags, pair.b() as u64);
            for part in record[..record.len() - 1].chunks(step) {
                pair.put(part);
                assert!(epoll.wait(NOT / 5).is_empty(), "{flags:#x} {step}");
            }
            pair.put(&record[record.len() - 1..]);
            assert_eq!(epoll.wait(SOON), [pair.b() as u64], "{flags:#x} {step}");
            assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
            assert!(epoll.wait(0).is_empty());
        }
    }
}

fn by_data() {
    let record = record();
    let (one, other, epoll) = (receiver(), receiver(), Epoll::new());
    epoll.add(one.b(), 0, 1 << 40);
    epoll.add(other.b(), 0, 2 << 40);
    one.put(&record[..20]);
    other.put(&record[..20]);
    assert!(epoll.wait(NOT).is_empty());
    epoll.control(libc::EPOLL_CTL_MOD, other.b(), libc::EPOLLET, 3 << 40);
    assert!(epoll.wait(NOT).is_empty());
    other.put(&record[20..]);
    assert_eq!(epoll.wait(SOON), [3 << 40]);
}

fn by_shared_data() {
    let record = record();
    // The latter gets other data, or is closed, and its number is another socket's.
    for closes in [false, true] {
        let (plain, first, second, epoll) = (Pair::plain(), receiver(), receiver(), Epoll::new());
        epoll.add(plain.b(), 0, 7);
        epoll.add(first.b(), 0, 7);
        let tls = if closes {
            // SAFETY: two numbers.
            assert_eq!(unsafe { libc::dup2(second.b(), first.b()) }, first.b());
            epoll.add(first.b(), 0, 9);
            &second
        } else {
            epoll.control(libc::EPOLL_CTL_MOD, first.b(), 0, 9);
            &first
        };
        plain.put(b"x");
        assert_eq!(epoll.wait(SOON), [7], "{closes}");
        plain.wire();
        tls.put(&record[..20]);
        assert!(epoll.wait(NOT).is_empty());
        tls.put(&record[20..]);
        assert_eq!(epoll.wait(SOON), [9]);
    }
    // Both have it: an event of either is told.
    let (plain, tls, epoll) = (Pair::plain(), receiver(), Epoll::new());
    epoll.add(plain.b(), 0, 7);
    epoll.add(tls.b(), 0, 7);
    plain.put(b"x");
    assert_eq!(epoll.wait(SOON), [7]);
    plain.wire();
    tls.put(&record);
    assert_eq!(epoll.wait(SOON), [7]);
}

/// A thread that finds a part of a record sets the kernel's registration anew, but never over one that is newer.
fn changed_while_waiting() {
    let other = Pair::plain();
    other.sends(&keys(TLS_1_3, 51, 1));
    send(other.a(), &[7; 12_000], 0).unwrap();
    let record = other.wire();
    let (pair, epoll) = (receiver(), Epoll::new());
    epoll.add(pair.b(), libc::EPOLLONESHOT, 0);
    let information = format!("/proc/self/fdinfo/{}", epoll.0.as_raw_fd());
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                epoll.wait(NOT);
            }
        });
        let mut kept = true;
        for (byte, data) in record[..record.len() - 1].iter().zip(1_u64..) {
            pair.put(&[*byte]);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_nanos(data % 200 * 300) {}
            epoll.control(libc::EPOLL_CTL_MOD, pair.b(), libc::EPOLLONESHOT, data);
            std::thread::sleep(Duration::from_micros(20));
            let registered = std::fs::read_to_string(&information).unwrap();
            kept &= registered.contains(&format!("data: {data:16x} "));
        }
        ends.store(true, Ordering::Relaxed);
        assert!(kept, "a newer registration was overwritten");
    });
}

fn closed_and_opened() {
    let record = record();
    let epoll = Epoll::new();
    let first = receiver();
    epoll.add(first.b(), 0, 7);
    drop(first);
    let second = receiver();
    epoll.add(second.b(), 0, 7);
    second.put(&record[..20]);
    assert!(epoll.wait(NOT).is_empty());
    second.put(&record[20..]);
    assert_eq!(epoll.wait(SOON), [7]);
}

fn failed_dup2() {
    let (pair, epoll) = (receiver(), Epoll::new());
    epoll.add(pair.b(), 0, 7);
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::dup2(9999, pair.b()) }, -1);
    pair.put(&record()[..20]);
    assert!(epoll.wait(NOT).is_empty());
}

fn ended() {
    let (pair, epoll) = (receiver(), Epoll::new());
    epoll.add(pair.b(), libc::EPOLLET, 7);
    pair.put(&record()[..20]);
    assert!(!polled(pair.b(), NOT) && epoll.wait(0).is_empty());
    pair.a.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(polled(pair.b(), SOON));
    assert_eq!(epoll.wait(SOON), [7]);
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"");
}

fn as_long_as_it_says() {
    let (pair, epoll) = (receiver(), Epoll::new());
    epoll.add(pair.b(), 0, 7);
    let record = record();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in &record[..10] {
                pair.put(&[*byte]);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let waits: [&dyn Fn() -> bool; 2] =
            [&|| polled(pair.b(), 50), &|| !epoll.wait(50).is_empty()];
        for wait in waits {
            let begun = Instant::now();
            assert!(!wait());
            let waited = begun.elapsed();
            assert!((50..30_000).contains(&waited.as_millis()), "{waited:?}");
        }
    });
}

/// The same program again, for one case before any TLS socket.
fn in_another_program() {
    const INNER: &str = "LONGSHORE_KTLS_TEST_INNER";
    if std::env::var_os(INNER).is_some() {
        return began_before();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("waiting that began before")
        .env(INNER, "1")
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

fn began_before() {
    let (pair, epoll) = (Pair::plain(), Epoll::new());
    epoll.add(pair.b(), 0, 7);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| epoll.wait(1000));
        std::thread::sleep(Duration::from_millis(50));
        // It gets no whole record for long after that time, and the test ends all the same.
        pair.receives(&keys(TLS_1_3, 51, 1));
        let record = record();
        pair.put(&record[..20]);
        while !waits.is_finished() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        pair.put(&record[20..]);
        assert!(waits.join().unwrap().is_empty());
    });
}

fn a_server() {
    let (one, other) = (receiver(), receiver());
    let record = record();
    one.put(&record[..20]);
    other.put(&record);
    let events = libc::POLLIN;
    let mut fds = [one.b(), other.b()].map(|fd| libc::pollfd {
        fd,
        events,
        revents: 0,
    });
    // SAFETY: two entries, borrowed for the call.
    assert_eq!(unsafe { libc::poll(fds.as_mut_ptr(), 2, SOON) }, 1);
    for ready in fds.iter().filter(|fd| fd.revents != 0) {
        assert_eq!(recv(ready.fd, 100, 0).unwrap(), WORDS);
    }
}
