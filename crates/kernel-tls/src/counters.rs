//! Counters by the names of `/proc/net/tls_stat`, and of what went through.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $name:literal,)*) => {
        /// A counter's place.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $($(#[$doc])* $counter,)*
        }

        const NAMES: &[&str] = &[$($name),*];
    };
}

counters! {
    /// Sockets that were given keys to send with.
    TlsTxSw = "TlsTxSw",
    /// Sockets that were given keys to receive with.
    TlsRxSw = "TlsRxSw",
    /// Records that could not be opened.
    TlsDecryptError = "TlsDecryptError",
    /// New keys to send with.
    TlsTxRekeyOk = "TlsTxRekeyOk",
    /// New keys to receive with.
    TlsRxRekeyOk = "TlsRxRekeyOk",
    /// Keys that could not be taken in the place of others.
    TlsTxRekeyError = "TlsTxRekeyError",
    /// Keys that could not be taken in the place of others.
    TlsRxRekeyError = "TlsRxRekeyError",
    /// Key updates of the peer.
    TlsRxRekeyReceived = "TlsRxRekeyReceived",
    /// Records sent.
    TxRecords = "tx_records",
    /// Bytes of content sent.
    TxBytes = "tx_bytes",
    /// Records received.
    RxRecords = "rx_records",
    /// Bytes of content received.
    RxBytes = "rx_bytes",
    /// Sockets whose records the NIC makes, from the keys that they were given.
    TlsTxDevice = "TlsTxDevice",
    /// Records of those sent that the NIC makes.
    TxDeviceRecords = "tx_device_records",
    /// Bytes of content in them.
    TxDeviceBytes = "tx_device_bytes",
    /// Bytes of content in them that went from a file's pages without a copy.
    TxZerocopyBytes = "tx_zerocopy_bytes",
    /// Sockets whose records the NIC refused to make.
    TxDeviceRefused = "tx_device_refused",
    /// Sockets that a NIC took on again after its restart.
    TxDeviceResumed = "tx_device_resumed",
    /// Sockets whose records we make again because the NIC asked for it.
    TxDeviceStopped = "tx_device_stopped",
    /// Sockets whose records the NIC opens, from the keys that they were given.
    TlsRxDevice = "TlsRxDevice",
    /// Records of those received that the NIC has opened.
    RxDeviceRecords = "rx_device_records",
    /// Records that it has opened in part.
    RxDevicePartialRecords = "rx_device_partial_records",
    /// Records of which it was not known which copy of some bytes the kernel has kept, and that had the right tag with one of them.
    RxDeviceEitherRecords = "rx_device_either_records",
    /// Sockets whose records the NIC refused to open.
    RxDeviceRefused = "rx_device_refused",
    /// Questions of the NIC's where a record begins.
    TlsRxDeviceResync = "TlsRxDeviceResync",
    /// Directions of sockets for which no NIC could be reached.
    NicUnreachable = "nic_unreachable",
}

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

impl Counter {
    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl Counters {
    /// Bytes of all of them.
    pub const LEN: usize = size_of::<Counters>();

    /// From now on [`counters()`] gives these.
    pub fn share(&'static self) {
        SHARED.store(std::ptr::from_ref(self).cast_mut(), Release);
    }

    /// Counts.
    pub fn add(&self, counter: Counter, by: u64) {
        self.0[counter as usize].fetch_add(by, Relaxed);
    }

    /// Counts one; true if it is the first.
    pub(crate) fn add_first(&self, counter: Counter) -> bool {
        self.0[counter as usize].fetch_add(1, Relaxed) == 0
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
