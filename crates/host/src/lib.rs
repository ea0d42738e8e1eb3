//! A TCP/IP stack in user space, with sockets, TLS and NVMe/TCP, on a network card made of software that does TLS records, PDUs and whole
//! connections for it.
//!
//! # When to use it
//! - To put a host with an address of its own on a wire, from within a program: for tests, appliances, network functions, research.
//! - To serve or fetch over TLS, or to read and write NVMe/TCP, with a core of its own for encryption, digests and placement, so that the
//!   thread of the application pays for little more than plain TCP.
//! - To test a protocol on two stacks in one process, over a wire that loses and reorders what a test says.
//!
//! # When not
//! - For ordinary sockets: those of the operating system need no second stack, no core for a NIC, and no address of their own.
//! - Where no core is to spare: the NIC is a thread, and what it takes off the host it takes itself.
//! - For UDP: beside TCP the stack speaks only ARP, NDP and ICMP.
//!
//! # The picture
//! ```text
//!   thread of the application                            thread `nic`
//!   ┌─────────────────────────────────────────┐  rings,  ┌─────────────────────────────┐
//!   │ your program ─▶ Stack: sockets, TLS,    │  shared  │ nic::Nic: encrypts, decrypts│
//!   │              ◀─ PDUs, TCP, the driver   │◀────────▶│ places, segments ◀─▶ Port   │◀─▶ wire
//!   └─────────────────────────────────────────┘  memory  └─────────────────────────────┘
//! ```
//! The wire is a link in memory, which needs no privileges; a TAP interface, which needs CAP_NET_ADMIN or one that was made for the user; or a
//! network interface by AF_PACKET or AF_XDP, which need CAP_NET_RAW and more. The NIC may also be another process
//! ([`runtime::Builder::on_nic`]), which needs none.
//!
//! # A first program
//! Two hosts with a wire in memory between them. A stack on a TAP differs in one call: [`on_tap("ls0")`](runtime::Builder::on_tap).
//!
//! ```
//! use std::time::Instant;
//!
//! use host::port::memory::{LinkConfig, link};
//! use host::runtime::Builder;
//! use host::{Event, ListenOptions, SocketError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The eventfds wake NICs that sleep.
//! let (left, right) = link(LinkConfig { eventfd: true, ..LinkConfig::for_mtu(1500) });
//! let mut client = Builder::new(["10.0.0.1/24".parse()?])?.on_port(left)?;
//! let mut server = Builder::new(["10.0.0.2/24".parse()?])?.on_port(right)?;
//!
//! let listener = server.stack().listen("10.0.0.2:7".parse()?, ListenOptions::default())?;
//! let id = client.stack().connect(Instant::now(), "10.0.0.2:7".parse()?)?;
//!
//! let mut greeting = Vec::new();
//! loop {
//!     let now = Instant::now();
//!     server.poll(now)?;
//!     while let Some(event) = server.stack().poll_event() {
//!         if let Event::Accepted(_) = event {
//!             while let Some(accepted) = server.stack().accept(listener) {
//!                 server.stack().write(now, accepted, b"hello")?;
//!                 // What was written is still sent.
//!                 server.stack().close(now, accepted)?;
//!             }
//!         }
//!     }
//!     client.poll(now)?;
//!     let mut buffer = [0; 64];
//!     match client.stack().read(now, id, &mut buffer) {
//!         Ok(0) => break,
//!         Ok(len) => greeting.extend_from_slice(&buffer[..len]),
//!         Err(SocketError::NotConnected | SocketError::WouldBlock) => {}
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! assert_eq!(greeting, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! A program with one stack sleeps in [`Runtime::wait`](runtime::Runtime::wait) when [`poll`](runtime::Runtime::poll) had nothing to do. The package's
//! examples are whole programs: `echo_server`, `https_client`, `nvme_read`, and `async_https_client` on tokio.
//!
//! # The poll contract
//! [`Stack`] does no I/O of its own, reads no clock and never blocks; `now` is always a parameter, and never goes back.
//!
//! 1. Commands ([`Stack::connect`], [`Stack::write`], [`Stack::read`], …) may be given at any time. They change
//!    sockets and mark them for transmission; nothing is posted to the NIC before the next [`Stack::poll`].
//! 2. [`Stack::poll`] takes in what the NIC has put on the receive rings, runs the timers that are due, and posts
//!    what the connections have to send, as far as the send ring has room. It answers whether anything was done.
//! 3. [`Stack::poll_event`] gives what the application should look at, until it gives `None`. Readiness is
//!    edge-triggered: an event is given again only after a call has answered [`SocketError::WouldBlock`].
//! 4. [`Stack::poll_timeout`] says when to call [`Stack::poll`] again if the NIC has nothing new before.
//!
//! Order of a loop: `poll`, `poll_event` until `None` with commands in between, `poll` again while it made
//! progress, then sleep until the doorbell or `poll_timeout`. [`runtime`] does all of it but the events.
//!
//! # What is where
//! | to | see |
//! | --- | --- |
//! | get a stack with its NIC on a wire | [`runtime::Builder`] |
//! | run it, sleep, put it under an event loop of another kind | [`runtime::Runtime`] |
//! | connect, listen, read, write, close | [`Stack`], [`Event`], [`ListenOptions`] |
//! | put TLS on a connection | [`Stack::start_tls`], [`TlsRole`], [`Offload`]; configurations from [`handshake`] |
//! | send files and memory without a copy, read in place | [`Stack::send_slices`], [`memory`], [`Stack::read_chunk`], [`Stack::read_chunks`] |
//! | get HTTP content that the NIC decompresses, have what is received searched for patterns | [`http`], [`pattern`] |
//! | read and write blocks, or serve them | [`nvme::initiator`], [`nvme::target`], [`nvme::store`] |
//! | have the NIC open, close, join or run connections | [`Accel`], [`Stack::splice`], [`handoff`] |
//! | use sockets in tasks of tokio | `host::tokio`, with feature `tokio` |
//! | see connections, counters, cycles | [`Stack::sockets`], [`Stack::counters`], [`Meter`] |
//! | lose frames, or capture them | [`port::impair`], [`port::capture`] |
//!
//! The crates whose types are in these calls are re-exported: [`handshake`], [`l5p`], [`nic`], [`port`], [`rustls`], [`tcp`], [`wire`].
//!
//! # Features
//! None is on by default. `tokio` adds `host::tokio`; nothing else changes by it.
//!
//! # Platforms
//! Linux. It is tested on x86-64; elsewhere the [`Meter`] counts nanoseconds in place of cycles. TLS handshakes are rustls's, ciphers are aws-lc's.
//!
//! # Errors
//! Calls on a socket give a [`SocketError`], connections end with a [`CloseReason`]; both can be matched on, both say in words what to do, and both
//! turn into [`std::io::Error`]s of the kinds that the system's own sockets give. Where the NIC refuses or forgets something, the host does
//! it in software: that is no error, and [`Stack::info`] tells. [`runtime::Runtime`]'s calls fail only when the port has: then the stack is over.
//!
//! # Threads
//! A [`Stack`] belongs to one thread at a time, to which it may be moved, and locks nothing. The NIC has a thread of its own, or takes turns with the
//! stack on one ([`RuntimeConfig::own_thread`](runtime::RuntimeConfig::own_thread)). Both look for work for 30 µs, and then sleep until the other rings. A
//! [`ReadChunk`] may be dropped, and a [`Doorbell`](runtime::Doorbell) rung, on any thread. More cores are used by more stacks, each with its
//! own addresses.
//!
//! # What it costs
//! Cycles of the host's core, on an AMD EPYC (Zen 3 with VAES). `docs/benchmarks.md` of the repository says how they are measured, and `longshore bench`
//! repeats that on your machine; the NIC's own cycles are not in them.
//!
//! | what | cycles | measured by |
//! | --- | --- | --- |
//! | a byte received over plain TCP | 0.15, of which the copy is 0.11 | `longshore bench tls` |
//! | a TLS record of 16 KiB whose bytes the NIC has decrypted, copies apart | 580 | same |
//! | software TLS against TLS on the NIC, per byte, sent and received | 5.4 and 5.5 times as many | same |
//! | a short connection with one request, by the host alone; with the NIC's help | 11,700–13,800; 2,600 | `longshore bench short` |
//! | a request of 4 KiB, by the host alone; on a connection that the NIC runs | 7,060; 4,240 | `longshore bench handoff` |
//!
//! In steady state no call allocates per packet. A stack uses at most [`StackConfig::memory`], 128 MiB unless told
//! otherwise, for packets and payload, of which pages that are never used cost nothing; a connection takes 1.4 KB beside its buffers, and its TLS session more.

mod config;
mod counters;
mod deadlines;
mod device;
mod driver;
mod error;
mod events;
mod info;
mod keyed;
mod layer5;
mod link;
mod messages;
mod offload;
mod probing;
mod socket;
mod stack;
mod stream;
mod tls;
mod transport;

pub mod disk;
pub mod handoff;
pub mod http;
pub mod iscsi;
pub mod memory;
pub mod meter;
pub mod nbd;
pub mod nvme;
pub mod pattern;
pub mod pdus;
pub mod runtime;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use config::{Accel, AccelError, Cidr, CidrError, Dad, ListenOptions, Shard, StackConfig};
pub use counters::counter_explanations;
pub use error::{CloseReason, SocketError};
pub use events::{Event, LegProgress, ListenerId, SocketId};
pub use events::{SpliceEnd, SpliceHandle, SpliceOptions, SpliceRefused, SpliceReport};
pub use handoff::{Handoff, HandoffRefused};
pub use info::{Holder, SocketInfo, SocketMemory};
pub use messages::Messages;
pub use meter::{Component, Meter, read_cycles};

pub use stack::Stack;
pub use stream::{ReadChunk, ReadChunks};
pub use tls::{Offload, OffloadState, TlsInfo, TlsRole};

// What programs name in calls of this crate, at the versions that it was built with.
pub use {handshake, l5p, nic, port, rustls, tcp, wire};

#[cfg(test)]
mod tests;
