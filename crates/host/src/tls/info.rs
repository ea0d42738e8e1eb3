//! A TLS session's figures, as `ss -ti` shows them.

use super::Offload;

/// Whether one direction of a TLS session is offloaded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadState {
    /// Not asked for.
    Software,
    /// The NIC has a context for it.
    Device,
    /// Asked for, but the NIC has no room for a context or gave it up: software does it.
    FellBack,
}

/// The TLS session of a socket.
#[derive(Clone, Debug)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// Name of the AEAD, such as `AES-128-GCM`.
    pub cipher: &'static str,
    /// What the application asked for.
    pub asked: Offload,
    /// The state of transmit.
    pub transmit: OffloadState,
    /// The state of receive.
    pub receive: OffloadState,
    /// Records sent.
    pub records_sent: u64,
    /// Records received of which the NIC decrypted all.
    pub records_full: u64,
    /// Records received of which the NIC decrypted a part.
    pub records_partial: u64,
    /// Records received that software decrypted.
    pub records_none: u64,
    /// The NIC's questions whether there is a record at a sequence number.
    pub resync_requests: u64,
    /// Key updates done, of both directions.
    pub key_updates: u32,
}
