//! The server on Linux, as well as it can be written with epoll: the accepting call waits for the first request
//! (TCP_DEFER_ACCEPT), which is read at once; a connection is given to epoll only if more is to come on it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anyhow::Context as _;
use host::read_cycles;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::bench::exchange::Messages;

/// Events of a turn at most.
const EVENTS: usize = 256;
/// Connections that wait to be accepted at most: what Linux allows by default.
const BACKLOG: i32 = 4096;

/// A server on Linux's sockets.
pub struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    transactions_per_connection: u32,
    /// By their file descriptors.
    connections: Vec<Option<Connection>>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    verified: bool,
    aside: u64,
}

struct Connection {
    socket: OwnedFd,
    interest: Option<epoll::EventFlags>,
    /// Transactions done.
    transactions: u32,
    /// Bytes of the request that came.
    received: usize,
    /// Bytes of the response that are sent.
    sent: usize,
    key: u16,
}

/// What a connection waits for.
enum Wants {
    Event(epoll::EventFlags),
    Nothing,
}

impl Server {
    /// A server at that address.
    ///
    /// # Errors
    /// When the address can't be listened on.
    pub fn listen(
        address: SocketAddr,
        messages: &Messages,
        transactions_per_connection: u32,
    ) -> anyhow::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&listener, true)?;
        // Accepted sockets inherit it.
        sockopt::set_tcp_nodelay(&listener, true)?;
        defer_accept(&listener).context("TCP_DEFER_ACCEPT")?;
        rustix::net::bind(&listener, &address).with_context(|| format!("{address}"))?;
        rustix::net::listen(&listener, BACKLOG)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(listener.as_raw_fd() as u64);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            transactions_per_connection,
            connections: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; messages.request_len()],
            verified: true,
            aside: 0,
        })
    }

    /// Whether every request was the right one.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// Does what there is to do. Answers the cycles that the check of the bytes took; nothing if there was nothing to do.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn run(&mut self, messages: &Messages) -> anyhow::Result<Option<u64>> {
        self.aside = 0;
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        if epoll::wait(&self.epoll, room, Some(&at_once)).context("epoll_wait")? == 0 {
            return Ok(None);
        }
        for at in 0..self.events.len() {
            let fd = self.events[at].data.u64() as usize;
            if fd == self.listener.as_raw_fd() as usize {
                self.accept(messages)?;
            } else {
                self.serve(messages, fd)?;
            }
        }
        Ok(Some(self.aside))
    }

    fn accept(&mut self, messages: &Messages) -> anyhow::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            let socket = match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error).context("Linux can't accept a connection"),
            };
            let fd = socket.as_raw_fd() as usize;
            if self.connections.len() <= fd {
                self.connections.resize_with(fd + 1, || None);
            }
            self.connections[fd] = Some(Connection {
                socket,
                interest: None,
                transactions: 0,
                received: 0,
                sent: 0,
                key: 0,
            });
            self.serve(messages, fd)?;
        }
    }

    fn serve(&mut self, messages: &Messages, fd: usize) -> anyhow::Result<()> {
        let Some(connection) = &mut self.connections[fd] else {
            return Ok(());
        };
        let mut check = Check {
            buffer: &mut self.buffer,
            verified: &mut self.verified,
            aside: &mut self.aside,
        };
        let wants = connection.serve(messages, &mut check, self.transactions_per_connection)?;
        let flags = match wants {
            Wants::Nothing => {
                self.connections[fd] = None;
                return Ok(());
            }
            Wants::Event(flags) => flags,
        };
        let data = epoll::EventData::new_u64(fd as u64);
        let socket = connection.socket.as_fd();
        match connection.interest.replace(flags) {
            Some(before) if before == flags => {}
            Some(_) => epoll::modify(&self.epoll, socket, data, flags)?,
            None => epoll::add(&self.epoll, socket, data, flags)?,
        }
        Ok(())
    }
}

/// Where requests are read to, and their check, whose cycles do not count.
struct Check<'a> {
    buffer: &'a mut [u8],
    verified: &'a mut bool,
    aside: &'a mut u64,
}

impl Connection {
    /// Reads a request as far as it is there, and answers it once it is whole.
    fn serve(
        &mut self,
        messages: &Messages,
        check: &mut Check<'_>,
        last: u32,
    ) -> anyhow::Result<Wants> {
        while self.received < messages.request_len() {
            let room = &mut check.buffer[self.received..];
            let len = match rustix::net::recv(&self.socket, room, RecvFlags::empty()) {
                Ok((0, _)) => anyhow::bail!("the client closed before its last request"),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(Wants::Event(epoll::EventFlags::IN)),
                Err(error) => return Err(error).context("a read of Linux's server failed"),
            };
            let start = read_cycles();
            let piece = &check.buffer[self.received..self.received + len];
            *check.verified &= messages.take_request(&mut self.key, self.received, piece);
            *check.aside += read_cycles() - start;
            self.received += len;
        }
        let response = messages.response(self.key);
        while self.sent < response.len() {
            let rest = &response[self.sent..];
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(len) => self.sent += len,
                Err(Errno::AGAIN) => return Ok(Wants::Event(epoll::EventFlags::OUT)),
                Err(error) => return Err(error).context("a write of Linux's server failed"),
            }
        }
        self.transactions += 1;
        (self.received, self.sent, self.key) = (0, 0, 0);
        Ok(if self.transactions == last {
            Wants::Nothing
        } else {
            Wants::Event(epoll::EventFlags::IN)
        })
    }
}

/// Seconds for which Linux waits for the first request of a connection.
const DEFERRED: libc::c_int = 10;

fn defer_accept(listener: &OwnedFd) -> std::io::Result<()> {
    let seconds = DEFERRED;
    // SAFETY: the option takes an integer, whose address and size are given.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
