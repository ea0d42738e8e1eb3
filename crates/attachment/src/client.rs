//! The library's side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use l5p::Direction;
use l5p::crypto::wipe;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    socket_with,
};
use wire::SeqNum;

use crate::memory::DataMemory;
use crate::message::{
    ANSWER_BYTES, ATTACH_LINE, ATTACHED_LINE, Answer, Keys, PduOffload, Request, SlotId,
};
use crate::passing;
use crate::peer::{self, Untrusted};
use crate::slab::Slab;

/// Why the NIC did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The NIC refused: that connection goes on in software.
    #[error("the NIC refused: {0}")]
    Refused(Errno),
    /// It is not there, or no longer: connect again. What it was asked for may have been done or not.
    #[error("no answer from the NIC's control socket: {0}; is `longshore nic` running?")]
    Gone(Errno),
    /// The listener's user may not have keys or descriptors. Nothing was sent.
    #[error("can't trust the NIC's control socket: {0}")]
    Untrusted(#[from] Untrusted),
}

/// A slab that a NIC has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSlab {
    /// Its number on the connection.
    pub number: u16,
    /// Tells the NIC from those that had its place before and will have it: what one was told of connections, another one does not know. 0 if it does not say.
    pub nic: u32,
}

/// A connection to a NIC. Its calls wait for the answer.
///
/// It belongs to one process: after a fork one of the two makes its own.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
}

impl Client {
    /// Connects to the control socket at `path`; no call waits longer than `timeout` for the NIC.
    ///
    /// # Errors
    /// [`ClientError::Gone`], with `EPROTO` if something else answers there; [`ClientError::Untrusted`].
    pub fn connect(path: &Path, timeout: Duration) -> Result<Client, ClientError> {
        let socket = dial(path, timeout).map_err(ClientError::Gone)?;
        Client::greet(socket)
    }

    /// Checks who listens at `path`, and sends nothing.
    ///
    /// # Errors
    /// [`ClientError::Gone`] if no process does, or none answers within `timeout`; [`ClientError::Untrusted`].
    pub fn check(path: &Path, timeout: Duration) -> Result<(), ClientError> {
        let socket = dial(path, timeout).map_err(ClientError::Gone)?;
        Ok(peer::check(&socket)?)
    }

    /// Makes a connected control socket an attachment.
    pub(crate) fn greet(socket: OwnedFd) -> Result<Client, ClientError> {
        peer::check(&socket)?;
        let client = Client { socket };
        client.attach_line().map_err(ClientError::Gone)?;
        Ok(client)
    }

    fn attach_line(&self) -> Result<(), Errno> {
        self.send(ATTACH_LINE.as_bytes(), None)?;
        let mut line = [0; ATTACHED_LINE.len()];
        self.receive(&mut line)?;
        match line == *ATTACHED_LINE.as_bytes() {
            true => Ok(()),
            false => Err(Errno::PROTO),
        }
    }

    /// Shares a slab. After a reconnect the same slab is shared again.
    ///
    /// # Errors
    /// `EINVAL` for a file that is no slab, `ENOSPC` when the NIC takes no more.
    pub fn attach(&mut self, slab: &Slab) -> Result<SharedSlab, ClientError> {
        let answer = self.ask(&Request::Attach, Some(slab.as_fd()))?;
        Ok(SharedSlab {
            number: answer.slab,
            nic: answer.tcpsn.0,
        })
    }

    /// Has the NIC make or open the records of a direction; gives the position from which the keys hold. Keys for a direction that has
    /// some take their place from there on.
    ///
    /// The socket is the connection's own, at a record's boundary: nothing else may be written to it, or read from it, meanwhile.
    ///
    /// # Errors
    /// `ENODEV` for a peer that is not behind the NIC; `EPERM` for a socket of another network namespace; `ENOTCONN`, `EINVAL`; `ESTALE` for
    /// a slot that has had another use since; `EBUSY` for one of another socket; `ENOSPC` when the NIC has no room; `ESHUTDOWN` when it is about to end.
    pub fn set_keys(&mut self, keys: Keys, socket: BorrowedFd<'_>) -> Result<SeqNum, ClientError> {
        let answer = self.ask(&Request::SetKeys(keys), Some(socket))?;
        Ok(answer.tcpsn)
    }

    /// From now on the library does that direction's records, by its request of this number ([`Keys::number`]); gives the position from which that holds.
    ///
    /// # Errors
    /// As for [`set_keys`](Self::set_keys), and `ENOENT` for a direction that has no keys.
    pub fn stop(
        &mut self,
        slot: SlotId,
        number: u32,
        direction: Direction,
        socket: BorrowedFd<'_>,
    ) -> Result<SeqNum, ClientError> {
        let request = Request::Stop {
            slot,
            direction,
            number,
        };
        let answer = self.ask(&request, Some(socket))?;
        Ok(answer.tcpsn)
    }

    /// The program has closed the socket of this cookie ([`Request::Release`]). The slot is free when the NIC says so in it: once no process has the
    /// socket, if the NIC knows of it.
    ///
    /// # Errors
    /// `ESTALE` for a slot that is not attached.
    pub fn release(&mut self, slot: SlotId, cookie: u64) -> Result<(), ClientError> {
        let request = Request::Release { slot, cookie };
        self.ask(&request, None).map(|_| ())
    }

    /// Shares memory that data may go to; gives its number on this connection.
    ///
    /// # Errors
    /// `EINVAL` for another kind of file, `ENOSPC` when the NIC has no room.
    pub fn add_memory(&mut self, memory: &DataMemory) -> Result<u16, ClientError> {
        let answer = self.ask(&Request::Memory, Some(memory.as_fd()))?;
        Ok(answer.slab)
    }

    /// Has the NIC place the data of PDUs and check their digests; gives the position of the first one, which is the next byte to be
    /// read. The peer must not send before this is answered.
    ///
    /// # Errors
    /// As for [`set_keys`](Self::set_keys).
    pub fn start_pdus(
        &mut self,
        pdus: PduOffload,
        socket: BorrowedFd<'_>,
    ) -> Result<SeqNum, ClientError> {
        let answer = self.ask(&Request::Pdus(pdus), Some(socket))?;
        Ok(answer.tcpsn)
    }

    /// Has the NIC look at what has changed in the slot's mappings. Those that have ended are
    /// [told](crate::pdus::Pdus::ended_mapping) soon afterwards.
    ///
    /// # Errors
    /// `ENODEV` for a slot that the NIC does not know.
    pub fn settle(&mut self, slot: SlotId) -> Result<(), ClientError> {
        self.ask(&Request::Settle { slot }, None).map(|_| ())
    }

    fn ask(
        &mut self,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<Answer, ClientError> {
        let mut bytes = request.to_bytes();
        let mut answer = [0; ANSWER_BYTES];
        let exchanged = self
            .send(&bytes, descriptor)
            .and_then(|()| self.receive(&mut answer));
        wipe(&mut bytes);
        let exchanged = exchanged.and_then(|()| Answer::from_bytes(&answer).ok_or(Errno::PROTO));
        let answer = exchanged.map_err(ClientError::Gone)?;
        answer.result.map_err(ClientError::Refused)?;
        Ok(answer)
    }

    fn send(&self, mut bytes: &[u8], mut descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let fd = self.socket.as_fd();
            let sent = passing::send(fd, bytes, descriptor.take(), SendFlags::empty())?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn receive(&self, bytes: &mut [u8]) -> Result<(), Errno> {
        let mut have = 0;
        while have < bytes.len() {
            let rest = &mut bytes[have..];
            match passing::receive(self.socket.as_fd(), rest, RecvFlags::empty(), drop)? {
                0 => return Err(Errno::CONNRESET),
                received => have += received,
            }
        }
        Ok(())
    }
}

/// A socket that is connected to `path`. No call on it waits longer than `timeout`, nor does this one for a place in the listener's queue, which a
/// process that is stopped does not empty.
///
/// # Errors
/// What the system gives; `EAGAIN` when there was no place in time.
pub fn dial(path: &Path, timeout: Duration) -> Result<OwnedFd, Errno> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    for which in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, which, Some(timeout))?;
    }
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

impl AsFd for Client {
    /// To be waited on: readable, without a call in progress, means that the NIC has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
