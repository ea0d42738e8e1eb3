//! HTTP responses whose content is compressed (RFC 9110 §8.4.1), decompressed on their way up (Autonomous NIC offloads §3.1, §7).
//!
//! What becomes of compressed bytes is longer than they are, so it can't take their place in the stream. The stream passes as it is, and
//! what the NIC has made of it goes into buffers that the host has mapped beforehand:
//!
//! ```text
//!  stream    ──┬────────────────────────────────▶ the packet, as it came, and notes on it
//!              └▶ Engine: head, chunks, content ─▶ mapped buffers: bytes 0.. of the decoded content, around and around
//! ```
//!
//! The state of a decompressor is not known in the middle of what was compressed. So the engine goes on as long as no byte is missing,
//! from the first byte of a response on, and then no more. The host keeps what was compressed ([`Content`]), up to
//! [`MAX_KEPT`] bytes; where the NIC has missed something, it decodes all of that by software, and gives what it had not given yet.
//!
//! Each packet has two notes: of the engine's first byte in it, how many bytes of the response came before; and behind its last, how many
//! bytes of decoded content there are. What is true of all packets from the first on, as TCP has taken them, is true of the content.

mod coding;
mod content;
mod content_error;
mod engine;
#[cfg(test)]
mod fixture;
mod protocol;
mod response;
mod response_error;

pub use crate::windows::WINDOW;
pub use coding::{Coding, Damaged, Decoder};
pub use content::{Content, MAX_KEPT, MadeBy, Sink};
pub use content_error::ContentError;
pub use engine::Engine;
pub use protocol::Parameters;
pub use response::{Download, Progress, ResponseHead};
pub use response_error::ResponseError;

/// What notes say.
mod code {
    /// The first byte taken; how many bytes of the response came before it.
    pub const BEGIN: u32 = 0;
    /// Behind the last byte taken; how many bytes of content were decoded so far. More is to come.
    pub const END: u32 = 1;
    /// The same, and the content may end here.
    pub const WHOLE: u32 = 2;
}

/// The largest window of zstd that an engine takes, as a power of 2: that of the levels that servers use.
const NIC_WINDOW: u32 = 21;
/// The largest window that software takes, likewise (RFC 9659 §3).
const HOST_WINDOW: u32 = 23;
