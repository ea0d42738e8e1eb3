//! TLS between a client and a server that have agreed on keys before.

use anyhow::Context as _;
use host::{Offload, SocketId};
use sim::Suite;

use super::messages::Messages;
use crate::bench::turn::Talk;

/// Whose end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Who has opened it.
    Client,
    /// Who has accepted it.
    Server,
}

/// Starts TLS at one end of a connection, offloaded both ways. Keys are of the client's address and port, and differ from one
/// connection to the next.
///
/// # Errors
/// When the connection does not stand.
pub fn secure(
    talk: &mut Talk<'_, Messages>,
    socket: SocketId,
    suite: Suite,
    end: End,
) -> anyhow::Result<()> {
    let info = talk.stack.info(socket).context("a connection of ours")?;
    let client = match end {
        End::Client => info.local,
        End::Server => info.remote,
    };
    let [request, response] = [0, 1].map(|way| suite.keys(u64::from(client.port()) << 1 | way));
    let (transmit, receive) = match end {
        End::Client => (request, response),
        End::Server => (response, request),
    };
    let installed = talk
        .stack
        .install_tls(talk.now, socket, transmit, receive, Offload::Both);
    installed.context("TLS on a connection")
}
