use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::take_over::{Door, Predecessor, Said, Successor, is_running, take_over};
use crate::control;
use crate::signals::Signals;
use attachment::listening::Listening;

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
    let new = std::thread::spawn({
        let directory = directory.to_path_buf();
        move || take_over(&directory).unwrap().unwrap()
    });
    let successor = std::iter::repeat_with(|| door.successor())
        .inspect(|_| std::thread::sleep(Duration::from_millis(1)))
        .find_map(|successor| successor)
        .unwrap();
    let old: Vec<_> = old.iter().map(|listening| listening.as_fd()).collect();
    successor.give(&old).unwrap();
    let (predecessor, listeners) = new.join().unwrap();
    (successor, predecessor, listeners)
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
