use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::link;
use super::guests::descriptors;
use super::kept::Kept;
use super::process::Process;
use super::take_over::{Door, Left, Predecessor, Said, Successor, is_running, take_over};
use crate::control;
use crate::signals::Signals;
use attachment::listening::Listening;
use attachment::passing;
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

fn directory(name: &str) -> PathBuf {
    let name = format!("longshore-nic-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Both, once the old one has heard that the new one wants to take over.
fn meeting(
    directory: &Path,
    door: &Door,
    old: &[&Listening],
) -> (Successor, Predecessor, Vec<UnixListener>) {
    let (successor, left) = meeting_with(directory, door, old, &[]);
    (successor, left.predecessor, left.listeners)
}

/// The same with a gate of virtual machines.
fn meeting_with(
    directory: &Path,
    door: &Door,
    old: &[&Listening],
    guests: &[BorrowedFd<'_>],
) -> (Successor, Left) {
    let new = std::thread::spawn({
        let directory = directory.to_path_buf();
        move || take_over(&directory).unwrap().unwrap()
    });
    let successor = std::iter::repeat_with(|| door.successor())
        .inspect(|_| std::thread::sleep(Duration::from_millis(1)))
        .find_map(|successor| successor)
        .unwrap();
    let old: Vec<_> = old.iter().map(|listening| listening.as_fd()).collect();
    successor.give(&old, guests).unwrap();
    (successor, new.join().unwrap())
}

#[test]
fn a_successor_gets_the_control_socket_with_those_who_wait_there() {
    let directory = directory("take-over");
    assert!(take_over(&directory).unwrap().is_none(), "no NIC runs");
    let path = directory.join("control");
    let old = control::bind(&path, 0o600).unwrap();
    let of_rings = directory.join("rings");
    let rings = rings::Gate::listen(&of_rings).unwrap();
    let door = Door::open(&directory).unwrap();
    assert!(is_running(&directory));
    assert!(door.successor().is_none(), "one that asks nothing is none");
    let mut waits = UnixStream::connect(&path).unwrap();
    waits.write_all(b"hello").unwrap();
    let signals = Signals::block().unwrap();
    let (successor, predecessor, mut listeners) = meeting(&directory, &door, &[&rings, &old]);
    assert_eq!(predecessor.hear(), Said::Nothing, "it waits for a NIC");
    predecessor.tell_serves();
    successor.serves(signals.as_fd()).unwrap();
    drop(door);
    successor.release().unwrap();
    old.leave();
    rings.leave();
    assert_eq!(predecessor.hear(), Said::Released);
    assert!(path.exists(), "the path is the successor's");
    let adopted = Listening::adopt(listeners.pop().unwrap()).unwrap();
    let rings = Listening::adopt(listeners.pop().unwrap()).unwrap();
    assert_eq!(rings.path(), of_rings);
    assert_eq!(adopted.path(), path);
    let mut said = [0; 5];
    let mut stream = adopted.accept().unwrap();
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello");
    drop((adopted, rings));
    assert!(!path.exists() && !of_rings.exists());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_successor_that_ends_before_it_serves_has_taken_nothing_over() {
    let directory = directory("gives-up");
    let old = control::bind(&directory.join("control"), 0o600).unwrap();
    let door = Door::open(&directory).unwrap();
    let signals = Signals::block().unwrap();
    let (successor, predecessor, listener) = meeting(&directory, &door, &[&old]);
    drop((predecessor, listener));
    let error = successor.serves(signals.as_fd()).unwrap_err();
    assert!(error.to_string().contains("ended"), "{error:#}");
    let (successor, predecessor, listener) = meeting(&directory, &door, &[&old]);
    drop(successor);
    assert_eq!(predecessor.hear(), Said::Gone);
    drop((listener, old, door));
    std::fs::remove_dir_all(directory).unwrap();
}

/// Its worker has died just after it served.
#[test]
fn a_successor_that_takes_its_offer_back_has_the_nic_only_if_it_was_let_go_of() {
    let directory = directory("takes-back");
    let old = control::bind(&directory.join("control"), 0o600).unwrap();
    let door = Door::open(&directory).unwrap();
    let signals = Signals::block().unwrap();
    for is_released in [false, true] {
        let (successor, predecessor, listeners) = meeting(&directory, &door, &[&old]);
        predecessor.tell_serves();
        successor.serves(signals.as_fd()).unwrap();
        if is_released {
            successor.release().unwrap();
        }
        assert_eq!(predecessor.withdraw(), is_released);
        assert!(successor.release().is_err());
        drop(listeners);
    }
    drop((old, door));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_predecessor_that_can_not_be_reached_is_not_taken_for_none() {
    let directory = directory("unreachable");
    let file = directory.join("file");
    std::fs::write(&file, "").unwrap();
    let error = take_over(&file).expect_err("a file is no directory");
    assert!(error.to_string().contains("can't connect"), "{error:#}");
    let door = Door::open(&directory).unwrap();
    let socket = std::fs::metadata(directory.join("supervisor")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    drop(door);
    assert!(take_over(&directory).unwrap().is_none());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_successor_goes_on_with_the_gate_of_the_same_virtual_machines_only() {
    let directory = directory("guests");
    let old = control::bind(&directory.join("control"), 0o600).unwrap();
    let rings = rings::Gate::listen(&directory.join("machine")).unwrap();
    let door = Door::open(&directory).unwrap();
    for has_the_same in [true, false] {
        let mut gate = Command::new("sleep").arg("60").spawn().unwrap();
        let opened = pidfd_open(Pid::from_child(&gate), PidfdFlags::empty());
        let process = Process::adopt(opened.unwrap()).unwrap();
        let (link, gates_end) = link::link().unwrap();
        let kept = Kept::adopt("gate", process, link);
        let guests = descriptors(Some(&kept), [&rings].into_iter());
        let (successor, left) = meeting_with(&directory, &door, &[&rings, &old], &guests);
        assert!(successor.takes_guests());
        let here = [rings.path()];
        let sockets = here.into_iter().filter(|_| has_the_same);
        let its = left.guests.unwrap().keep(sockets);
        assert_eq!(its.is_some(), has_the_same);
        if let Some(mut its) = its {
            // The gate hears the new one when the old one has gone.
            drop(kept);
            let (_, link) = its.running.as_ref().unwrap();
            link.give_guests(&[rings.as_fd()]).unwrap();
            assert!(matches!(gates_end.hear(), link::Heard::Guests(_)));
            its.end(Instant::now());
            drop(its);
            assert!(matches!(gates_end.hear(), link::Heard::End));
        }
        assert!(!gate.wait().unwrap().success(), "it was killed");
    }
    drop((old, rings, door));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_supervisor_that_knows_of_no_gate_is_asked_for_its_sockets() {
    let directory = directory("older");
    let listener = UnixListener::bind(directory.join("supervisor")).unwrap();
    let older = std::thread::spawn(move || {
        // One that asks nothing only wants to know whether it runs.
        let next = || loop {
            let (mut stream, mut asked) = (listener.accept().unwrap().0, [0; 12]);
            if stream.read_exact(&mut asked).is_ok() {
                return (stream, asked);
            }
        };
        let (first, asked) = next();
        drop(first);
        let (second, then) = next();
        let asked = [asked, then];
        let (sockets, flags) = ([listener.as_fd()], SendFlags::empty());
        passing::send_with(second.as_fd(), b"g", &sockets, flags).unwrap();
        asked
    });
    let left = take_over(&directory).unwrap().unwrap();
    assert_eq!(left.listeners.len(), 1);
    assert!(left.guests.is_none());
    assert_eq!(
        older.join().unwrap(),
        [*b"take over 3\n", *b"take over 2\n"]
    );
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_successor_that_knows_of_no_gate_gets_the_sockets() {
    let directory = directory("newer");
    let old = control::bind(&directory.join("control"), 0o600).unwrap();
    let door = Door::open(&directory).unwrap();
    let mut stream = UnixStream::connect(directory.join("supervisor")).unwrap();
    stream.write_all(b"take over 2\n").unwrap();
    let successor = door.successor().unwrap();
    assert!(!successor.takes_guests());
    successor.give(&[old.as_fd()], &[]).unwrap();
    drop(successor);
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"g");
    drop((old, door));
    std::fs::remove_dir_all(directory).unwrap();
}
