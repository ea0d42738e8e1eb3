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
        let _ = self.send(SERVES, None);
    }

    /// Gives the worker its end of a channel.
    pub fn give_channel(&self, channel: BorrowedFd<'_>) -> Result<(), Errno> {
        self.send(CHANNEL, Some(channel))
    }

    /// What has come. Does not wait.
    pub fn hear(&self) -> Heard {
        let (mut byte, mut descriptor) = ([0], None);
        let received = passing::receive(self.as_fd(), &mut byte, RecvFlags::DONTWAIT, |came| {
            descriptor = Some(came);
        });
        match (received, byte[0], descriptor) {
            (Ok(1), SERVES, _) => Heard::Serves,
            (Ok(1), CHANNEL, Some(channel)) => Heard::Channel(channel),
            (Ok(0), ..) => Heard::End,
            (Err(Errno::AGAIN), ..) | (Ok(_), ..) => Heard::Nothing,
            (Err(_), ..) => Heard::End,
        }
    }

    fn send(&self, byte: u8, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        passing::send(self.as_fd(), &[byte], descriptor, SendFlags::DONTWAIT).map(|_| ())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
