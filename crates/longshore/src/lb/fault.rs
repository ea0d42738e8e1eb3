//! What is wrong with a server: why its health check, or a request's connection to it, has failed.

use std::fmt;
use std::time::{Duration, Instant};

use host::{CloseReason, SocketError, Stack};

/// What is wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection could be begun.
    Unreachable(SocketError),
    /// The connection has ended before there was an answer.
    Closed(CloseReason),
    /// There was no connection in that time.
    ConnectTimeout(Duration),
    /// There was a connection, and no response in that time.
    ResponseTimeout(Duration),
    /// The response has a status that the check does not accept.
    Status(u16),
    /// The response is not HTTP.
    Malformed,
}

impl Fault {
    /// Whether it says nothing of the server: this stack lacked something, or may have dropped the answer, `since` the
    /// server was asked.
    pub fn is_ours(&self, stack: &Stack, since: Instant) -> bool {
        match self {
            Fault::Unreachable(error) => error.is_shortage(),
            Fault::Closed(CloseReason::NoMemory) => true,
            Fault::ConnectTimeout(_)
            | Fault::ResponseTimeout(_)
            | Fault::Closed(CloseReason::TimedOut | CloseReason::Unreachable) => {
                stack.was_starved_since(since)
            }
            Fault::Closed(_) | Fault::Status(_) | Fault::Malformed => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreachable(error) => error.fmt(f),
            Fault::Closed(CloseReason::Graceful) => f.write_str("closed without a response"),
            Fault::Closed(reason) => reason.fmt(f),
            Fault::ConnectTimeout(time) => write!(f, "no connection within {time:?}"),
            Fault::ResponseTimeout(time) => write!(f, "no response within {time:?}"),
            Fault::Status(status) => write!(f, "HTTP status {status}"),
            Fault::Malformed => f.write_str("the response is not HTTP"),
        }
    }
}
