//! What the supervisor and the worker tell each other, over a pair of sockets. Its end says that the other one has gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use attachment::passing;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair, sockopt,
};

/// The worker has opened all that it needs, and moves frames.
const SERVES: u8 = b's';
/// Along with it comes the worker's end of a channel to a control process.
const CHANNEL: u8 = b'c';
/// Along with it come the worker's ends of the channels to a gate, one for each host on rings.
const GATE: u8 = b'g';
/// Bytes on their way in one direction of a channel.
const CHANNEL_BYTES: usize = 1 << 20;

/// One end.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
}

/// What is heard.
#[derive(Debug)]
pub enum Heard {
    /// Nothing new.
    Nothing,
    /// By the supervisor: the worker serves.
    Serves,
    /// By the worker: a channel to a new control process.
    Channel(OwnedFd),
    /// By the worker: channels to a new gate, in the order of the hosts on rings.
    Gate(Vec<OwnedFd>),
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

impl Link {
    /// One end of a [`pair`].
    pub fn new(socket: OwnedFd) -> Link {
        Link { socket }
    }

    /// Says that the worker serves.
    pub fn tell_serves(&self) {
        // Without a supervisor there is none to tell.
        let _ = self.send(SERVES, &[]);
    }

    /// Gives the worker its end of a channel.
    pub fn give_channel(&self, channel: BorrowedFd<'_>) -> Result<(), Errno> {
        self.send(CHANNEL, &[channel])
    }

    /// Gives the worker its ends of the channels to a gate.
    pub fn give_gate(&self, channels: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.send(GATE, channels)
    }

    /// What has come. Does not wait.
    pub fn hear(&self) -> Heard {
        let (mut byte, mut came) = ([0], Vec::new());
        let take = |descriptor| came.push(descriptor);
        let received = passing::receive(self.as_fd(), &mut byte, RecvFlags::DONTWAIT, take);
        match (received, byte[0], came.pop()) {
            (Ok(1), SERVES, _) => Heard::Serves,
            (Ok(1), CHANNEL, Some(channel)) => Heard::Channel(channel),
            (Ok(1), GATE, Some(last)) => {
                came.push(last);
                Heard::Gate(came)
            }
            (Ok(0), ..) => Heard::End,
            (Err(Errno::AGAIN), ..) | (Ok(_), ..) => Heard::Nothing,
            (Err(_), ..) => Heard::End,
        }
    }

    fn send(&self, byte: u8, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        passing::send_with(self.as_fd(), &[byte], descriptors, SendFlags::DONTWAIT).map(|_| ())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
