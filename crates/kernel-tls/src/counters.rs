//! Counters by the names of `/proc/net/tls_stat`, and of what went through.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// A counter's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Sockets that were given keys to send with.
    TlsTxSw,
    /// Sockets that were given keys to receive with.
    TlsRxSw,
    /// Records that could not be opened.
    TlsDecryptError,
    /// New keys to send with.
    TlsTxRekeyOk,
    /// New keys to receive with.
    TlsRxRekeyOk,
    /// Keys that could not be taken in the place of others.
    TlsTxRekeyError,
    /// Keys that could not be taken in the place of others.
    TlsRxRekeyError,
    /// Key updates of the peer.
    TlsRxRekeyReceived,
    /// Records sent.
    TxRecords,
    /// Bytes of content sent.
    TxBytes,
    /// Records received.
    RxRecords,
    /// Bytes of content received.
    RxBytes,
}

const NAMES: [&str; 12] = [
    "TlsTxSw",
    "TlsRxSw",
    "TlsDecryptError",
    "TlsTxRekeyOk",
    "TlsRxRekeyOk",
    "TlsTxRekeyError",
    "TlsRxRekeyError",
    "TlsRxRekeyReceived",
    "tx_records",
    "tx_bytes",
    "rx_records",
    "rx_bytes",
];

/// All counters; a program and its children may share them in a file.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters([AtomicU64; NAMES.len()]);

static OWN: Counters = Counters([const { AtomicU64::new(0) }; NAMES.len()]);
static SHARED: AtomicPtr<Counters> = AtomicPtr::new(std::ptr::null_mut());

/// The counters of this process, or those that it shares.
pub fn counters() -> &'static Counters {
    // SAFETY: null, or what `share` was given.
    unsafe { SHARED.load(Acquire).as_ref() }.unwrap_or(&OWN)
}

impl Counters {
    /// Bytes of all of them.
    pub const LEN: usize = size_of::<Counters>();

    /// From now on [`counters`] gives these.
    pub fn share(&'static self) {
        SHARED.store(std::ptr::from_ref(self).cast_mut(), Release);
    }

    /// Counts.
    pub fn add(&self, counter: Counter, by: u64) {
        self.0[counter as usize].fetch_add(by, Relaxed);
    }

    /// A counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Relaxed)
    }

    /// All with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES
            .iter()
            .zip(&self.0)
            .map(|(name, value)| (*name, value.load(Relaxed)))
    }

    /// Reads counters that a program has left in a file, in the order of [`iter`](Self::iter).
    pub fn from_bytes(bytes: &[u8]) -> Counters {
        let counters = Counters::default();
        for (value, bytes) in counters.0.iter().zip(bytes.chunks_exact(8)) {
            value.store(
                u64::from_ne_bytes(bytes.try_into().expect("8 bytes")),
                Relaxed,
            );
        }
        counters
    }
}
