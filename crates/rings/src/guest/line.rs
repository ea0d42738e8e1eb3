//! The gate's end: what it asks the NIC for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use attachment::passing;
use nic::Features;
use nic::ring::FunctionConfig;
use rustix::io::{Errno, write};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, shutdown,
    socketpair,
};
use wire::ethernet::MacAddr;

use super::GuestRequest;
use crate::memory::is_guest_memory;
use crate::message::{Answer, Identity, Refusal, Request};
use crate::share::exchange;

/// How long an answer may take. The NIC answers at once, or has gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Part of a virtual machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where it is for the machine.
    pub address: u64,
    /// Where it is in its file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Whether the NIC may write to it.
    pub writable: bool,
}

/// The NIC's process has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the NIC's process has gone")]
pub struct Gone;

/// A line to the NIC for one VMM. When it is dropped, the function goes with all memory.
#[derive(Debug)]
pub struct Line {
    socket: OwnedFd,
}

/// The bells of a function that is there.
#[derive(Debug)]
pub struct Attached {
    /// The NIC's.
    bell: OwnedFd,
    /// One for each queue: what the NIC rings. Its end is that of the function.
    pub bells: Vec<OwnedFd>,
}

impl Attached {
    /// Has the NIC look at the rings.
    pub fn ring(&self) {
        // Full is rung often and not answered: it is as good as rung.
        let _ = write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Silences a queue's bell. False when the function has gone.
    pub fn silence(bell: BorrowedFd<'_>) -> bool {
        loop {
            match recv(bell, &mut [0; 64], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return true,
                Ok((1.., _)) | Err(Errno::INTR) => {}
                _ => return false,
            }
        }
    }
}

impl Line {
    /// A new line, by a [channel](crate::Gate::channel) to a server.
    ///
    /// # Errors
    /// When the NIC has gone, or the system refuses.
    pub fn open(channel: BorrowedFd<'_>) -> Result<Line, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, which, Some(PATIENCE))?;
        }
        passing::send(channel, &[0], Some(theirs.as_fd()), SendFlags::empty())?;
        Ok(Line { socket })
    }

    /// What the NIC offers, as words.
    ///
    /// # Errors
    /// When the NIC has gone.
    pub fn identity(&self) -> Result<Vec<u64>, Gone> {
        let mut words = Identity::default().words();
        for (at, to) in (0..).zip(&mut words) {
            match self.ask(GuestRequest::Plain(Request::Identify(at)), None)? {
                Ok((Answer::Identity { word, .. }, _)) => *to = word,
                _ => return Err(Gone),
            }
        }
        Ok(words.to_vec())
    }

    /// The address and the MTU of the function.
    ///
    /// # Errors
    /// When the NIC has gone.
    pub fn address(&self) -> Result<(MacAddr, u16), Gone> {
        match self.ask(GuestRequest::Address, None)? {
            Ok((Answer::SetUp { mac, mtu }, _)) => Ok((mac, mtu)),
            _ => Err(Gone),
        }
    }

    /// Adds memory, which is part of `file`.
    ///
    /// # Errors
    /// When the NIC has gone. A refusal is in the result: other files than those of tmpfs, too much memory, and what is mapped at the addresses already.
    pub fn map(&self, memory: Memory, file: BorrowedFd<'_>) -> Result<Result<(), Refusal>, Gone> {
        if !is_guest_memory(file) {
            return Ok(Err(Refusal::BadFile));
        }
        self.done(GuestRequest::Map(memory), Some(file))
    }

    /// Takes all memory between these addresses away. Answered when the NIC has let go of it.
    ///
    /// # Errors
    /// When the NIC has gone.
    pub fn unmap(&self, address: u64, len: u64) -> Result<(), Gone> {
        let done = self.done(GuestRequest::Unmap { address, len }, None)?;
        done.map_err(|_| Gone)
    }

    /// Adds a function, with a queue for each of these addresses of rings.
    ///
    /// # Errors
    /// When the NIC has gone. A refusal is in the result.
    pub fn set_up(
        &self,
        config: FunctionConfig,
        rings: &[u64],
    ) -> Result<Result<Attached, Refusal>, Gone> {
        for (queue, address) in (0..).zip(rings) {
            let address = *address;
            if let Err(refusal) = self.done(GuestRequest::Rings { queue, address }, None)? {
                return Ok(Err(refusal));
            }
        }
        let features = Features::from_bits(config.features.bits());
        let features = GuestRequest::Plain(Request::Features(features));
        if let Err(refusal) = self.done(features, None)? {
            return Ok(Err(refusal));
        }
        match self.ask(GuestRequest::Plain(Request::SetUp(config)), None)? {
            Err(refusal) => Ok(Err(refusal)),
            Ok((_, mut bells)) if bells.len() == 1 + usize::from(config.queues) => {
                let bell = bells.remove(0);
                Ok(Ok(Attached { bell, bells }))
            }
            Ok(_) => Err(Gone),
        }
    }

    /// Removes the function. Answered when the NIC touches nothing of it any more.
    ///
    /// # Errors
    /// When the NIC has gone.
    pub fn remove(&self) -> Result<(), Gone> {
        let done = self.done(GuestRequest::Remove, None)?;
        done.map_err(|_| Gone)
    }

    /// Has the NIC remove the function, whether it still answers or not.
    pub fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    fn done(
        &self,
        request: GuestRequest,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Result<(), Refusal>, Gone> {
        Ok(self.ask(request, file)?.map(|_| ()))
    }

    fn ask(
        &self,
        request: GuestRequest,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Result<(Answer, Vec<OwnedFd>), Refusal>, Gone> {
        let (bytes, like) = (request.to_bytes(), request.answered_like());
        match exchange(self.socket.as_fd(), &bytes, &like, file) {
            Ok((Answer::Refused(refusal), _)) => Ok(Err(refusal)),
            Ok(answered) => Ok(Ok(answered)),
            Err(_) => Err(Gone),
        }
    }
}
