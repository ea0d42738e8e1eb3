//! Connections with TLS on them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::TcpStream;
use crate::SocketInfo;

/// A connection with a TLS session on it: reads and writes carry plaintext. [`TcpStream::start_tls`] makes one.
///
/// A peer that closes without close_notify gives an error of kind [`UnexpectedEof`](io::ErrorKind::UnexpectedEof), for what was read may be cut short.
/// Each write makes at least one record: a [`BufWriter`](https://docs.rs/tokio/1/tokio/io/struct.BufWriter.html) around it makes better ones of small writes.
#[derive(Debug)]
pub struct TlsStream {
    stream: TcpStream,
}

impl TlsStream {
    pub(super) fn new(stream: TcpStream) -> TlsStream {
        TlsStream { stream }
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr()
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.stream.peer_addr()
    }

    /// See [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.stream.set_nodelay(nodelay)
    }

    /// What `ss -ti` would say of it; [`SocketInfo::tls`] says what the NIC does.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn info(&self) -> io::Result<SocketInfo> {
        self.stream.info()
    }

    /// The application protocol that the handshake has agreed on (RFC 7301).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.stream.alpn()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
