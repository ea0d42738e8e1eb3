//! A NIC that goes, and comes back or does not.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use attachment::{
    ATTACHED_LINE, Answer, Connection, Examine, Registry, SlotRequest, SocketFacts, Tenant,
};
use l5p::nvme::Role;
use rustix::event::{PollFd, PollFlags, poll};
use wire::FlowKey;

use super::*;

/// Where a NIC listens.
struct Control {
    path: PathBuf,
    listener: UnixListener,
}

/// Any file is a connection.
struct AnySocket;

impl Examine for AnySocket {
    fn examine(&mut self, _socket: BorrowedFd<'_>, _tenant: u32) -> Result<SocketFacts, Errno> {
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        Ok(SocketFacts {
            tenant: 0,
            interface: 1,
            flow: FlowKey {
                src: (addresses[0], 1000),
                dst: (addresses[1], 4420),
            },
            cookie: 7,
            acknowledged: 1,
            unacknowledged: 0,
            received: 0,
            unread: 0,
            window: 65_535,
            reordered: false,
            peer_has_ended: false,
            timestamp: None,
        })
    }
}

/// A NIC, which goes on over connections.
type Device = Arc<Mutex<Registry>>;

impl Control {
    fn new() -> Control {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kernel-nvme-test.{}.{number}", std::process::id());
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
    fn serve(&self, device: &Device) -> UnixStream {
        let stream = self.accept();
        let kept = stream.try_clone().unwrap();
        let device = Arc::clone(device);
        std::thread::spawn(move || answer(stream, &device));
        kept
    }

    /// Attaches to this NIC.
    fn attach(&self, device: &Device, memory: &Memory) -> (Nic, UnixStream) {
        std::thread::scope(|scope| {
            let stream = scope.spawn(|| self.serve(device));
            let nic = Nic::attach(&self.path, memory).unwrap();
            (nic, stream.join().unwrap())
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(stream: UnixStream, device: &Device) {
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(1, &stream);
    reader.read_line(&mut line).unwrap();
    (&stream).write_all(ATTACHED_LINE.as_bytes()).unwrap();
    let mut connection = Connection::new(OwnedFd::from(stream));
    let mut tenant = Tenant::default();
    loop {
        let _ = poll(&mut [PollFd::new(&connection, PollFlags::IN)], None);
        match connection.poll_request() {
            Ok(Some(incoming)) => {
                let mut registry = device.lock().unwrap();
                let answer = incoming.answer(0, &mut AnySocket, |admitted| {
                    registry.answer(&mut tenant, admitted, |order| carry_out(&order))
                });
                drop(registry);
                let _ = connection.answer(answer);
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Takes all connections, and ends them at once.
fn carry_out(order: &SlotRequest) -> Answer {
    if let SlotRequest::Release { slot, .. } = order {
        slot.slot().free(slot.generation());
    }
    Answer::at(SeqNum(1))
}

#[test]
fn a_nic_that_accepts_a_connection_and_does_not_answer_holds_nothing_up() {
    let control = Control::new();
    let memory = Arc::new(Memory::new(1 << 20).unwrap());
    let (mut nic, first) = control.attach(&Device::default(), &memory);
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
        std::thread::spawn(move || answer(stream, &Device::default()));
        true
    });
    assert!(tried, "it tries again");
    let is_another = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        look(&mut nic)
    });
    assert!(is_another && nic.is_there());
}

#[test]
fn slots_of_connections_that_end_while_the_nic_is_away_are_free_once_it_or_another_one_is_there() {
    let parameters = Parameters {
        sender: Role::Controller,
        header_digest: false,
        data_digest: true,
        alignment: 4,
        max_pdu: 1 << 20,
        commands: 8,
    };
    for is_same in [true, false] {
        let (control, device) = (Control::new(), Device::default());
        let memory = Arc::new(Memory::new(1 << 20).unwrap());
        let (mut nic, first) = control.attach(&device, &memory);
        let (socket, _peer) = UnixStream::pair().unwrap();
        let started = nic.start(parameters, socket.as_fd());
        let (name, _) = started.expect("it helps");
        first.shutdown(std::net::Shutdown::Both).unwrap();
        let mut now = Instant::now() + LOOK;
        assert!(!nic.is_another(now, &memory) && !nic.is_there());
        nic.release(name);
        assert!(nic.is_in_use(name), "it may write there still");

        let device = if is_same { device } else { Device::default() };
        let _second = control.serve(&device);
        let is_another = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            now += LOOK;
            nic.is_another(now, &memory) || nic.is_there()
        });
        assert!(is_another);
        assert!(!nic.is_in_use(name), "the same NIC: {is_same}");
    }
}
