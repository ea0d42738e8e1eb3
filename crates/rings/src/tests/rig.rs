//! A NIC with one socket, and what a host does, right or wrong.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    socket_with,
};
use wire::ethernet::MacAddr;

use attachment::passing;

use crate::message::{ANSWER_BYTES, Answer, Request};
use crate::{Limits, Server};

/// The NIC has packets of others to carry.
const TURN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(20);

pub const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// A path of its own, where nothing is.
pub fn path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("longshore-rings-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Small rings.
pub fn config() -> FunctionConfig {
    FunctionConfig {
        send_entries: 64,
        command_entries: 64,
        receive_entries: 64,
        small_entries: 64,
        large_entries: 8,
        contexts: 16,
        ..FunctionConfig::new(MacAddr::ZERO)
    }
}

pub struct Rig {
    pub nic: Nic,
    pub server: Server,
    /// Of another host.
    other: Option<Server>,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Rig {
        Rig {
            nic: Nic::new(NicConfig::new([3; 16])),
            server: Server::bind(&path(), MAC, limits).expect("a free path"),
            other: None,
        }
    }

    /// One turn of the data thread. A turn must not take long, whatever hosts do.
    pub fn turn(&mut self) {
        let start = Instant::now();
        for server in [&mut self.server].into_iter().chain(&mut self.other) {
            server.poll(&mut self.nic);
            self.nic
                .take_wakeups(|function, queue| server.ring(function, queue));
        }
        self.nic.flush(start);
        let took = start.elapsed();
        assert!(took < TURN, "the data thread waited {took:?}");
    }

    /// Turns until something has come.
    pub fn until<T>(&mut self, mut come: impl FnMut(&Rig) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.turn();
            if let Some(value) = come(self) {
                return value;
            }
            assert!(Instant::now() < deadline, "it does not come");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Turns until the function of a host that goes has gone.
    pub fn leave(&mut self, host: Raw) {
        drop(host);
        self.until(|rig| rig.server.function().is_none().then_some(()));
        let others = self.other.iter().filter_map(Server::function).count();
        assert_eq!(self.nic.functions().count(), others);
    }

    /// A socket that is connected.
    pub fn dial(&self) -> Raw {
        Rig::dial_at(&self.server)
    }

    fn dial_at(server: &Server) -> Raw {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(server.path()).unwrap()).unwrap();
        Raw {
            socket,
            bells: Vec::new(),
        }
    }

    /// Sends a request, lets the NIC do it, and gives its answer. `None` when it has hung up.
    pub fn ask(
        &mut self,
        raw: &Raw,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Option<Answer> {
        raw.send(&request.to_bytes(), descriptor);
        self.until(|_| raw.answer(request))
    }

    /// A host that has the function.
    pub fn host(&mut self) -> Raw {
        self.set_up(self.dial(), MAC)
    }

    /// A host that has the function of another socket of the same NIC.
    pub fn host_of_another_socket(&mut self) -> Raw {
        let mac = MacAddr([2, 0, 0, 0, 0, 10]);
        let other = Server::bind(&path(), mac, Limits::default()).expect("a free path");
        let raw = Rig::dial_at(self.other.insert(other));
        self.set_up(raw, mac)
    }

    fn set_up(&mut self, mut raw: Raw, mac: MacAddr) -> Raw {
        let rings = rings();
        let request = Request::SetUp(config());
        raw.send(&request.to_bytes(), Some(rings.as_fd()));
        let (answer, bells) = self.until(|_| raw.receive(&request));
        let mtu = 1500;
        assert_eq!(answer, Some(Answer::SetUp { mac, mtu }));
        raw.bells = bells;
        raw
    }
}

/// Memory for the rings of [`config`].
pub fn rings() -> OwnedFd {
    crate::memory::create(config().block_bytes() as u64).unwrap()
}

/// A memfd of so many bytes with these seals.
pub fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&file, len).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

/// A host's socket, for a host that sends what it likes; with its bell and the NIC's, if it has got them.
pub struct Raw {
    pub socket: OwnedFd,
    pub bells: Vec<OwnedFd>,
}

impl Raw {
    pub fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) {
        let flags = SendFlags::DONTWAIT;
        // The NIC may have hung up.
        let _ = passing::send(self.socket.as_fd(), bytes, descriptor, flags);
    }

    /// The answer, or `Some(None)` when the NIC has hung up; `None` as long as nothing comes.
    pub fn answer(&self, to: &Request) -> Option<Option<Answer>> {
        self.receive(to).map(|(answer, _)| answer)
    }

    fn receive(&self, to: &Request) -> Option<(Option<Answer>, Vec<OwnedFd>)> {
        let (mut bytes, mut came) = ([0; ANSWER_BYTES], Vec::new());
        let take = |descriptor| came.push(descriptor);
        let received = passing::receive(self.socket.as_fd(), &mut bytes, RecvFlags::DONTWAIT, take);
        match received {
            Ok(ANSWER_BYTES) => Some((Answer::from_bytes(&bytes, to), came)),
            Err(Errno::AGAIN) => None,
            _ => Some((None, Vec::new())),
        }
    }
}
