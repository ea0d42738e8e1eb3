//! A connection of `h2`, polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};

use super::arrivals::Arrivals;
use super::pipe::{Blank, Data, End, Pipe};
use super::wakes::Wakes;

/// Requests that are answered at a time.
const STREAMS: u32 = 100;

/// Bytes of a stream that `h2` frames before any of them is sent.
pub const AHEAD: usize = 4 * Data::TURN;

/// What small frames of content may cost until they are read, at 256 bytes less their content each. What is read at a time has far less of them, as
/// has what a client sends before it hears that nothing more of its content is wanted.
const SMALL_FRAMES: usize = 4 << 20;

/// In which phase it is.
#[derive(Debug)]
pub enum Framing {
    /// What the client begins with has not come.
    Handshake(Box<Handshake<End, Blank>>),
    Open(Box<Connection<End, Blank>>),
    /// All is said.
    Closed,
}

/// What a client has done.
pub enum Incoming {
    Request(Box<http::Request<RecvStream>>, SendResponse<Blank>),
    /// The connection is over, and what there is to say of it is framed.
    Over {
        /// `h2` has found that the client floods us.
        is_flood: bool,
    },
}

impl Framing {
    /// One whose requests have heads of `head` bytes at most. `windows` are the bytes of content that a client may send before they are used: of
    /// a stream, and of all; otherwise those that a client knows before it is told (RFC 9113 §6.9.2).
    pub fn new(end: End, head: usize, windows: Option<[u32; 2]>) -> Framing {
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(head as u32)
            .data_frame_budget(SMALL_FRAMES)
            .max_send_buffer_size(AHEAD);
        if let Some([stream, all]) = windows {
            builder
                .initial_window_size(stream)
                .initial_connection_window_size(all);
        }
        Framing::Handshake(Box::new(builder.handshake(end)))
    }

    pub fn is_closed(&self) -> bool {
        matches!(self, Framing::Closed)
    }

    /// Takes what has come, and frames what is to be sent.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        if let Framing::Handshake(handshake) = self {
            match std::task::ready!(Pin::new(handshake).poll(context)) {
                Ok(connection) => *self = Framing::Open(Box::new(connection)),
                Err(error) => return self.over(Some(error)),
            }
        }
        let Framing::Open(connection) = self else {
            return Poll::Pending;
        };
        match std::task::ready!(connection.poll_accept(context)) {
            Some(Ok((request, respond))) => {
                Poll::Ready(Incoming::Request(Box::new(request), respond))
            }
            Some(Err(error)) => self.over(Some(error)),
            None => self.over(None),
        }
    }

    fn over(&mut self, error: Option<h2::Error>) -> Poll<Incoming> {
        *self = Framing::Closed;
        let is_flood = error.is_some_and(|error| {
            tracing::debug!("a connection of HTTP/2 ended: {error}");
            error.reason() == Some(Reason::ENHANCE_YOUR_CALM) && error.is_library()
        });
        Poll::Ready(Incoming::Over { is_flood })
    }

    /// Whether there is more to do than to wait for an event; `is_blocked` if frames wait for the socket.
    pub fn goes_on(
        &self,
        pipe: &mut Pipe,
        (wakes, arrivals): (&Wakes, &Arrivals),
        is_blocked: bool,
    ) -> bool {
        let may_send = !is_blocked && (pipe.has_output() || self.is_closed());
        // Each is asked: what was noted is taken.
        wakes.take_connection()
            | pipe.has_made_room()
            | arrivals.has_made_room(pipe.input_len())
            | may_send
    }

    /// Lets requests under way come to their end, and tells the client to send no others (RFC 9113 §6.8). False while that is not known to be
    /// a client of HTTP/2: it is to be called again then.
    pub fn drain(&mut self) -> bool {
        match self {
            Framing::Open(connection) => connection.graceful_shutdown(),
            Framing::Handshake(_) => return false,
            Framing::Closed => {}
        }
        true
    }

    /// Ends it: tells the client with GOAWAY which of its requests were looked at.
    pub fn end(&mut self, reason: Reason) {
        match self {
            Framing::Open(connection) => connection.abrupt_shutdown(reason),
            Framing::Handshake(_) | Framing::Closed => *self = Framing::Closed,
        }
    }
}
