//! Sockets for tasks of [tokio](https://docs.rs/tokio): feature `tokio`.
//!
//! [`Net`] takes a [`Runtime`](crate::runtime::Runtime) and gives connections and listeners that any task may use; a [`TcpStream`] and a [`TlsStream`] are
//! [`AsyncRead`](::tokio::io::AsyncRead) and [`AsyncWrite`](::tokio::io::AsyncWrite), so that what works on tokio's own sockets works on them.
//!
//! ```
//! # use host::port::memory::{LinkConfig, link};
//! use host::runtime::Builder;
//! use host::tokio::Net;
//! use host::ListenOptions;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! # tokio.block_on(async {
//! # let (left, right) = link(LinkConfig { eventfd: true, ..LinkConfig::for_mtu(1500) });
//! let server = Net::start(Builder::new(["10.0.0.2/24".parse()?])?.on_port(right)?)?;
//! let client = Net::start(Builder::new(["10.0.0.1/24".parse()?])?.on_port(left)?)?;
//!
//! let listener = server.listen("10.0.0.2:7".parse()?, ListenOptions::default())?;
//! tokio::spawn(async move {
//!     let (mut stream, _peer) = listener.accept().await?;
//!     stream.write_all(b"hello").await
//! });
//!
//! let mut stream = client.connect("10.0.0.2:7".parse()?).await?;
//! let mut greeting = String::new();
//! stream.read_to_string(&mut greeting).await?;
//! assert_eq!(greeting, "hello");
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # What runs where
//! One task of the tokio runtime drives the stack. It sleeps until the NIC rings, a timer of the stack's is due, or a task has given its
//! sockets something to do; the NIC has a thread of its own, as ever. Reads and writes work on the stack at once, behind a lock that is
//! held for the call. The task holds that lock too, in turns of microseconds; when the NIC is in another process and has died, for as long
//! as it takes to reach the next one, 5 s at most.
//!
//! # What holds
//! - **Backpressure**: a write is taken as far as the send buffer has room, and pending beyond that.
//! - **Cancellation**: a future that is dropped has done nothing, or all that it could: a dropped `read` loses no byte, a dropped `accept` no connection.
//!   A dropped `connect` or `start_tls` closes its connection.
//! - **Dropping** a stream closes it: what was written is still sent, by the task that drives the stack, which goes on until the peer has it.
//!   [`Net::shutdown`] waits for that. If the peer has sent what was not read, it gets a reset.
//! - **Errors** are [`io::Error`](std::io::Error)s of the kinds that tokio's sockets give, with the [`SocketError`](crate::SocketError) inside.

mod driver;
mod listener;
mod net;
mod shared;
mod stream;
mod timer;
mod tls;
mod watched;

pub use listener::TcpListener;
pub use net::Net;
pub use stream::TcpStream;
pub use tls::TlsStream;

#[cfg(test)]
mod tests;
