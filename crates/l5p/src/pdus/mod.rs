//! Protocols whose messages carry data that belongs into buffers: NVMe/TCP, and others of its kind. Their messages are called PDUs here.
//!
//! A protocol says by [`PduProtocol`] how its headers are read and written. What a NIC and a host do around them is the same for all:
//!
//! - [`Engine`] is the NIC's part: it finds out where data belong, and makes or checks digests, by the protocol's [`Rules`].
//! - [`Reader`] finds the PDUs of the stream that comes in, of which a NIC may have placed and checked some.
//! - [`Writer`] remembers the PDUs sent until TCP has acknowledged all of each (Autonomous NIC offloads §4.2).
//! - [`Coverage`] tells which bytes of a command's data have come.
//! - [`Resync`] tells a NIC that has lost its way where PDUs begin (Autonomous NIC offloads §4.3).

mod aside;
pub(crate) mod counters;
mod coverage;
pub(crate) mod engine;
mod protocol;
mod reader;
mod resync;
mod writer;

pub use aside::LatePdu;
pub use coverage::{Coverage, Refused};
pub use engine::{Engine, Judged, Rules};
pub use protocol::{Layout, MAX_FRONT, MAX_PADDING, PduProtocol};
pub use reader::{DataDigest, Event, Located, Next, Reader};
pub use resync::{Resync, ResyncAnswer};
pub use writer::Writer;
