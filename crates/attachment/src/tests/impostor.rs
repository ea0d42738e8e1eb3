//! Somebody else listens where the NIC's control socket is expected.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_uid;

use crate::peer::Untrusted;
use crate::{Client, ClientError};

const STRANGER: u32 = 4711;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A control socket of another user's. Linux has users by threads.
fn stranger(path: PathBuf) -> UnixListener {
    let listens = thread::spawn(move || {
        set_thread_uid(Uid::from_raw(STRANGER)).expect("root may");
        UnixListener::bind(path).expect("a directory that everybody may write to")
    });
    listens.join().expect("a socket")
}

#[test]
fn another_user_who_listens_at_the_control_socket_gets_nothing() {
    if !geteuid().is_root() {
        return eprintln!("skipped: only root can be another user");
    }
    let directory = std::env::temp_dir().join(format!("attachment.{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    let path = directory.join("nic.sock");
    let listener = stranger(path.clone());
    let untrusted = ClientError::Untrusted(Untrusted::User {
        uid: STRANGER,
        own: 0,
    });
    assert_eq!(Client::connect(&path, TIMEOUT).unwrap_err(), untrusted);
    assert_eq!(Client::check(&path, TIMEOUT), Err(untrusted));
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let read = stream.read_to_end(&mut got);
        assert!(
            read.is_ok_and(|len| len == 0),
            "nothing is sent to a stranger"
        );
    }
    listener.set_nonblocking(true).unwrap();
    let more = listener.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock));
    std::fs::remove_dir_all(directory).unwrap();
}
