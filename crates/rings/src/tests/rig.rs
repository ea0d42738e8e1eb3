//! A NIC with one socket, and what a host does, right or wrong.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    socket_with,
};
use wire::ethernet::MacAddr;

use attachment::passing;

use crate::message::{ANSWER_BYTES, Answer, Request};
use crate::{Limits, Server};

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
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Rig {
        Rig {
            nic: Nic::new(NicConfig::new([3; 16])),
            server: Server::bind(&path(), MAC, limits).expect("a free path"),
        }
    }

    pub fn poll(&mut self) {
        self.server.poll(&mut self.nic);
    }

    /// A socket that is connected.
    pub fn dial(&self) -> Raw {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(self.server.path()).unwrap()).unwrap();
        Raw { socket }
    }

    /// Sends a request, lets the NIC do it, and gives its answer. `None` when it has hung up.
    pub fn ask(
        &mut self,
        raw: &Raw,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Option<Answer> {
        raw.send(&request.to_bytes(), descriptor);
        self.poll();
        raw.answer(request)
    }

    /// A host that has the function.
    pub fn host(&mut self) -> Raw {
        let raw = self.dial();
        let rings = rings();
        let answer = self.ask(&raw, &Request::SetUp(config()), Some(rings.as_fd()));
        assert!(matches!(
            answer,
            Some(Answer::SetUp {
                mac: MAC,
                mtu: 1500
            })
        ));
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

/// A host's socket, for a host that sends what it likes.
pub struct Raw {
    socket: OwnedFd,
}

impl Raw {
    pub fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) {
        let flags = SendFlags::DONTWAIT;
        // The NIC may have hung up.
        let _ = passing::send(self.socket.as_fd(), bytes, descriptor, flags);
    }

    pub fn answer(&self, to: &Request) -> Option<Answer> {
        let mut bytes = [0; ANSWER_BYTES];
        let came = passing::receive(self.socket.as_fd(), &mut bytes, RecvFlags::DONTWAIT, drop);
        match came {
            Ok(ANSWER_BYTES) => Answer::from_bytes(&bytes, to),
            _ => None,
        }
    }
}
