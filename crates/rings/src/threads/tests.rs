use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use rustix::net::{Shutdown, shutdown};

use super::*;
use crate::connection::Connection;

/// As a server starts and ends them.
#[test]
fn threads_end_with_their_server() {
    let path = std::env::temp_dir().join(format!("longshore-threads-{}", std::process::id()));
    let listening = UnixListener::bind(&path).unwrap();
    listening.set_nonblocking(true).unwrap();
    let door = Door::Listener(Arc::new(listening.try_clone().unwrap().into()));
    let threads = Threads::default();
    let serve = |place: &Place| drop(Connection::new(place.socket()).next());
    threads.listen(door, serve).unwrap();
    let silent: Vec<_> = (0..20)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    let shared = Arc::downgrade(&threads.0);
    shutdown(&listening, Shutdown::Both).unwrap();
    drop(listening);
    drop(threads);
    let start = Instant::now();
    while shared.upgrade().is_some() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(silent);
    std::fs::remove_file(path).unwrap();
}
