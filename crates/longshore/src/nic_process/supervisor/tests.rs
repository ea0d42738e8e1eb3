use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::take_over::{Door, is_running, take_over};
use crate::control;
use attachment::listening::Listening;

fn directory(name: &str) -> PathBuf {
    let name = format!("longshore-nic-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
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
    let new = std::thread::spawn({
        let directory = directory.clone();
        move || take_over(&directory).unwrap().unwrap()
    });
    let successor = std::iter::repeat_with(|| door.successor())
        .inspect(|_| std::thread::sleep(Duration::from_millis(1)))
        .find_map(|successor| successor)
        .unwrap();
    drop(door);
    let giving = std::thread::spawn(move || {
        successor.give(&[rings.as_fd(), old.as_fd()]).unwrap();
        old.leave();
        rings.leave();
    });
    let (predecessor, mut listeners) = new.join().unwrap();
    assert!(!giving.is_finished(), "it waits until the new one is known");
    predecessor.release();
    giving.join().unwrap();
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
fn a_predecessor_that_can_not_be_reached_is_not_taken_for_none() {
    let directory = directory("unreachable");
    let file = directory.join("file");
    std::fs::write(&file, "").unwrap();
    let error = take_over(&file).expect_err("a file is no directory");
    assert!(error.to_string().contains("can't be reached"), "{error:#}");
    let door = Door::open(&directory).unwrap();
    let socket = std::fs::metadata(directory.join("supervisor")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    drop(door);
    assert!(take_over(&directory).unwrap().is_none());
    std::fs::remove_dir_all(directory).unwrap();
}
