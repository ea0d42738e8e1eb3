//! Sockets at paths, and those who were there first.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::listen;

use crate::listening::{Listening, Unusable};
use crate::{Errno, dial};

/// A directory of the test's own.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("longshore-listening-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_socket_is_at_no_moment_for_more_users_than_it_is_meant_for() {
    let directory = Directory::new("mode");
    let path = directory.0.join("socket");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = 0u32;
            while !over.load(Ordering::Relaxed) {
                if let Ok(metadata) = fs::symlink_metadata(&path) {
                    seen |= metadata.permissions().mode() & 0o777;
                }
            }
            seen
        });
        for _ in 0..3000 {
            drop(Listening::bind(&path).unwrap());
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(watcher.join().unwrap(), 0o600);
    });
}

#[test]
fn a_socket_for_all_is_for_all_whatever_the_umask() {
    let directory = Directory::new("all");
    let path = directory.0.join("socket");
    let listening = Listening::bind_with_mode(&path, 0o666).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let _client = UnixStream::connect(&path).unwrap();
    listening.accept().unwrap();
}

#[test]
fn only_a_socket_without_a_listener_is_replaced() {
    let directory = Directory::new("stale");
    let path = directory.0.join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let listening = Listening::bind(&path).unwrap();
    assert!(matches!(Listening::bind(&path), Err(Unusable::InUse)));
    drop(listening);
    assert!(!path.exists());

    let precious = directory.0.join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, &path).unwrap();
    assert!(matches!(Listening::bind(&path), Err(Unusable::NotASocket)));
    assert!(precious.exists());
}

#[test]
fn one_that_has_taken_the_place_stays() {
    let directory = Directory::new("successor");
    let path = directory.0.join("socket");
    let first = Listening::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _second = Listening::bind(&path).unwrap();
    drop(first);
    assert!(path.exists());
}

#[test]
fn a_directory_that_all_may_write_to_is_refused_unless_it_is_sticky() {
    let directory = Directory::new("shared");
    let path = directory.0.join("socket");
    fs::set_permissions(&directory.0, Permissions::from_mode(0o777)).unwrap();
    let Err(Unusable::Refused(error)) = Listening::bind(&path) else {
        panic!("it is accepted");
    };
    assert!(error.to_string().contains("other users"), "{error}");
    fs::set_permissions(&directory.0, Permissions::from_mode(0o1777)).unwrap();
    Listening::bind(&path).unwrap();
}

#[test]
fn a_directory_of_another_group_is_refused_if_that_may_write_to_it() {
    let directory = Directory::new("group");
    let path = directory.0.join("socket");
    fs::set_permissions(&directory.0, Permissions::from_mode(0o775)).unwrap();
    drop(Listening::bind(&path).unwrap());
    // Only root can give it away.
    if std::os::unix::fs::chown(&directory.0, None, Some(54_321)).is_ok() {
        assert!(matches!(Listening::bind(&path), Err(Unusable::Refused(_))));
        fs::set_permissions(&directory.0, Permissions::from_mode(0o755)).unwrap();
        Listening::bind(&path).unwrap();
    }
}

#[test]
fn a_mode_is_set_of_the_socket_and_of_nothing_in_its_place() {
    let directory = Directory::new("swapped");
    let (path, other) = (directory.0.join("socket"), directory.0.join("other"));
    let listening = Listening::bind(&path).unwrap();
    listening.set_mode(0o660).unwrap();
    fs::write(&other, "").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    assert!(listening.set_mode(0o666).is_err());
    assert_eq!(
        fs::metadata(&other).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn nobody_waits_longer_than_it_likes_for_a_place_in_a_queue_that_is_full() {
    let directory = Directory::new("full");
    let path = directory.0.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    listen(&listener, 0).unwrap();
    let _first = dial(&path, Duration::from_secs(10)).unwrap();
    let (begun, patience) = (Instant::now(), Duration::from_millis(100));
    assert_eq!(dial(&path, patience).unwrap_err(), Errno::AGAIN);
    assert!(begun.elapsed() >= patience);
}
