//! A NIC that goes, and comes back or does not.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{ATTACHED_LINE, Answer, Connection, Examine, Registry, SocketFacts, Tenant};
use rustix::event::{PollFd, PollFlags, poll};

use super::*;

/// Where a NIC listens.
struct Control {
    path: PathBuf,
    listener: UnixListener,
}

/// No socket comes along.
struct NoSockets;

impl Examine for NoSockets {
    fn examine(&mut self, _socket: BorrowedFd<'_>, _tenant: u32) -> Result<SocketFacts, Errno> {
        Err(Errno::NOTSOCK)
    }
}

impl Control {
    fn new() -> Control {
        let name = format!("kernel-nvme-test.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        Control { path, listener }
    }

    /// The next connection.
    fn accept(&self) -> UnixStream {
        self.listener.accept().unwrap().0
    }

    /// Has a NIC answer on the next connection until its other end, or `stream`, is closed.
    fn serve(&self) -> UnixStream {
        let stream = self.accept();
        let kept = stream.try_clone().unwrap();
        std::thread::spawn(move || answer(stream));
        kept
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(stream: UnixStream) {
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(1, &stream);
    reader.read_line(&mut line).unwrap();
    (&stream).write_all(ATTACHED_LINE.as_bytes()).unwrap();
    let mut connection = Connection::new(OwnedFd::from(stream));
    let (mut registry, mut tenant) = (Registry::default(), Tenant::default());
    loop {
        let _ = poll(&mut [PollFd::new(&connection, PollFlags::IN)], None);
        match connection.poll_request() {
            Ok(Some(incoming)) => {
                let answer = incoming.answer(0, &mut NoSockets, |admitted| {
                    registry.answer(&mut tenant, admitted, |_| Answer::refused(Errno::NODEV))
                });
                let _ = connection.answer(answer);
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

#[test]
fn a_nic_that_accepts_a_connection_and_does_not_answer_holds_nothing_up() {
    let control = Control::new();
    let memory = Arc::new(Memory::new(1 << 20).unwrap());
    let (mut nic, first) = std::thread::scope(|scope| {
        let first = scope.spawn(|| control.serve());
        let nic = Nic::attach(&control.path, &memory).unwrap();
        (nic, first.join().unwrap())
    });
    let mut now = Instant::now();
    assert!(!nic.is_another(now, &memory) && nic.is_there());
    first.shutdown(std::net::Shutdown::Both).unwrap();
    let mut look = |nic: &mut Nic| {
        now += LOOK;
        let began = Instant::now();
        let is_another = nic.is_another(now, &memory);
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(1), "it has waited {waited:?}");
        is_another
    };
    assert!(!look(&mut nic) && !nic.is_there());
    let silent = control.accept();
    for _ in 0..3 {
        assert!(!look(&mut nic) && !nic.is_there());
    }
    assert!(nic.poll_timeout().is_some(), "it looks again");
    drop(silent);
    let tried = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        look(&mut nic);
        control.listener.set_nonblocking(true).unwrap();
        let Ok((stream, _)) = control.listener.accept() else {
            return false;
        };
        stream.set_nonblocking(false).unwrap();
        std::thread::spawn(move || answer(stream));
        true
    });
    assert!(tried, "it tries again");
    let is_another = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        look(&mut nic)
    });
    assert!(is_another && nic.is_there());
}
