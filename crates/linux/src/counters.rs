//! What a driver for Linux counts.

/// Defines [`Counters`] with its names, so that a counter can't be forgotten in a listing.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Every counter by its name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames that Linux has sent.
    tx_packets,
    /// Bytes of these.
    tx_bytes,
    /// Super-frames among them.
    tx_super_frames,
    /// Checksums that were made here, because only TCP's are made by the NIC.
    tx_csum_sw,
    /// Frames dropped because memory or the send ring was full.
    tx_dropped,
    /// Super-frames dropped because the NIC can't cut them, and checksums that can't be where they were said to be.
    tx_unsupported,
    /// Frames that the NIC has refused: larger than the wire's MTU, or from another address than the interface's.
    tx_refused,
    /// Connections that were fenced.
    tls_flows,
    /// Those of them that have ended.
    tls_flows_ended,
    /// Those that were reset: what came was not what their libraries had said, or these did not come back.
    tls_resets,
    /// Keys that were not taken, because there is too little memory to retain what would be sent under them.
    tls_refused_memory,
    /// SYNs and SYN-ACKs of sockets that Linux did not tell of, or was not asked about because there were too many: such connections have their
    /// records made in software.
    tls_untracked,
    /// Contexts that had to be brought to where a segment begins.
    tx_tls_ooo,
    /// Retransmissions whose bytes Linux had other than they were first. Sent was what they were first.
    tx_tls_source_changed,
    /// Segments of which the peer had the beginning, or all.
    tx_tls_stale,
    /// Segments dropped because what comes before them has not come.
    tx_tls_gap_dropped,
    /// Segments dropped, wholly or in part, because there was no room to retain or to post them.
    tx_tls_no_room,
    /// Segments dropped because the keys are not there, or because the NIC can't transform such.
    tx_tls_fenced_dropped,
    /// SYNs dropped that bear the addresses of a connection whose socket has not sent them.
    tx_tls_forged_syn,
    /// Segments that were no records.
    tx_tls_bad_records,
    /// Segments for Linux dropped because their library has not come back after a restart.
    rx_tls_orphan_dropped,
    /// Frames for Linux.
    rx_packets,
    /// Bytes of these.
    rx_bytes,
    /// Super-frames among them.
    rx_super_frames,
    /// Received frames whose bytes, or some of them, had gone to Linux in the other form: once decrypted and once as they came.
    rx_tls_second_copies,
    /// Received frames dropped because a program has not read what was told of those before.
    rx_tls_results_full,
    /// Decrypted frames dropped because their bytes had gone to Linux as they can't be told of.
    rx_tls_unfit,
    /// Times that decryption for a connection was stopped until its program has read on.
    rx_tls_paused,
    /// Received frames with bytes of PDUs that had gone to Linux before.
    rx_nvme_second_copies,
    /// Received frames of which could not be told what was placed, because a program has not read what was told before.
    rx_nvme_untold,
    /// Received frames dropped because a program has not read what was told of those before.
    rx_nvme_results_full,
    /// Times that placement for a connection was stopped until its program has read on.
    rx_nvme_paused,
    /// Connections whose libraries wanted data where there is no memory of theirs: nothing is placed for them any more.
    nvme_lies,
    /// Descriptors that no device of ours writes.
    driver_errors,
}
