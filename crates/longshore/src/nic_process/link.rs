//! What the supervisor and its processes tell each other. The supervisor speaks over a socket, on which it takes nothing: a process that was taken over
//! could pass it descriptors there, and closing one may wait. The process speaks over a pipe, which carries bytes only. The end of either says that
//! the other one has gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use attachment::passing;
use rustix::io::{Errno, read, write};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair,
    sockopt,
};
use rustix::pipe::{PipeFlags, pipe_with};

/// The worker has opened all that it needs, and moves frames.
const SERVES: u8 = b's';
/// Along with it comes the worker's end of a channel to a control process.
const CHANNEL: u8 = b'c';
/// Along with it come the worker's ends of the channels to a gate, one for each host on rings.
const GATE: u8 = b'g';
/// Along with it come ends of the channels between the worker and the gate of virtual machines, one for each of these.
const GUESTS: u8 = b'v';
/// The worker is to say that it goes on.
const ASK: u8 = b'a';
/// It does.
const GOES_ON: u8 = b'o';
/// Bytes on their way in one direction of a channel.
const CHANNEL_BYTES: usize = 1 << 20;

/// The supervisor's end.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    pipe: OwnedFd,
}

/// The other end, of the process that the supervisor has started.
#[derive(Debug)]
pub struct Uplink {
    socket: OwnedFd,
    pipe: OwnedFd,
}

/// What is heard.
#[derive(Debug)]
pub enum Heard {
    /// Nothing new.
    Nothing,
    /// By the supervisor: the worker serves.
    Serves,
    /// By the supervisor: the worker goes on, all of its threads do.
    GoesOn,
    /// By the worker: it is to say that.
    Asked,
    /// By the worker: a channel to a new control process.
    Channel(OwnedFd),
    /// By the worker: channels to a new gate, in the order of the hosts on rings.
    Gate(Vec<OwnedFd>),
    /// By the worker and the gate of virtual machines: channels between them, in the order of these.
    Guests(Vec<OwnedFd>),
    /// The other one has gone.
    End,
}

/// Both ends of a pair that carries messages, with room for many.
///
/// # Errors
/// What the system gives.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for end in [&ends.0, &ends.1] {
        // Beyond what the system lets everybody have, where we may.
        if sockopt::set_socket_send_buffer_size_force(end, CHANNEL_BYTES).is_err() {
            sockopt::set_socket_send_buffer_size(end, CHANNEL_BYTES)?;
        }
    }
    Ok(ends)
}

/// Both ends.
///
/// # Errors
/// What the system gives.
pub fn link() -> Result<(Link, Uplink), Errno> {
    let (socket, theirs) = pair()?;
    shutdown(&socket, Shutdown::Read)?;
    let (pipe, says) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let uplink = Uplink::new(theirs, says);
    Ok((Link { socket, pipe }, uplink))
}

impl Link {
    /// The end of another supervisor, by its [descriptors](Self::descriptors).
    pub fn adopt(socket: OwnedFd, pipe: OwnedFd) -> Link {
        Link { socket, pipe }
    }

    /// What a successor has it by.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.pipe.as_fd()]
    }

    /// Gives the worker its end of a channel.
    ///
    /// # Errors
    /// What the system gives.
    pub fn give_channel(&self, channel: BorrowedFd<'_>) -> Result<(), Errno> {
        self.send(CHANNEL, &[channel])
    }

    /// Gives the worker its ends of the channels to a gate.
    ///
    /// # Errors
    /// What the system gives.
    pub fn give_gate(&self, channels: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.send(GATE, channels)
    }

    /// Gives the worker, or the gate of virtual machines, its ends of the channels between them.
    ///
    /// # Errors
    /// What the system gives.
    pub fn give_guests(&self, channels: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.send(GUESTS, channels)
    }

    /// Asks the worker whether it goes on.
    ///
    /// # Errors
    /// What the system gives.
    pub fn ask(&self) -> Result<(), Errno> {
        self.send(ASK, &[])
    }

    fn send(&self, byte: u8, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT;
        passing::send_with(self.socket.as_fd(), &[byte], descriptors, flags).map(|_| ())
    }

    /// What has come. Does not wait.
    pub fn hear(&self) -> Heard {
        let mut byte = [0];
        match read(&self.pipe, &mut byte) {
            Ok(1) if byte == [SERVES] => Heard::Serves,
            Ok(1) if byte == [GOES_ON] => Heard::GoesOn,
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Ok(0) | Err(_) => Heard::End,
        }
    }
}

impl Uplink {
    /// That of these descriptors.
    pub fn new(socket: OwnedFd, pipe: OwnedFd) -> Uplink {
        Uplink { socket, pipe }
    }

    /// What the process is started with.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.pipe.as_fd()]
    }

    /// Says that the worker serves.
    pub fn tell_serves(&self) {
        // Without a supervisor there is none to tell.
        let _ = write(&self.pipe, &[SERVES]);
    }

    /// Answers that the worker goes on.
    pub fn tell_goes_on(&self) {
        let _ = write(&self.pipe, &[GOES_ON]);
    }

    /// What has come. Does not wait.
    pub fn hear(&self) -> Heard {
        let (mut byte, mut came) = ([0], Vec::new());
        let take = |descriptor| came.push(descriptor);
        let received = passing::receive(self.as_fd(), &mut byte, RecvFlags::DONTWAIT, take);
        match (received, byte[0], came.pop()) {
            (Ok(1), CHANNEL, Some(channel)) => Heard::Channel(channel),
            (Ok(1), which @ (GATE | GUESTS), Some(last)) => {
                came.push(last);
                match which {
                    GATE => Heard::Gate(came),
                    _ => Heard::Guests(came),
                }
            }
            (Ok(1), ASK, None) => Heard::Asked,
            (Ok(0), ..) => Heard::End,
            (Err(Errno::AGAIN), ..) | (Ok(_), ..) => Heard::Nothing,
            (Err(_), ..) => Heard::End,
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl AsFd for Uplink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
