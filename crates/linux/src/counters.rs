//! What a driver for Linux counts.

/// Defines [`Counters`] with its names, so that no listing misses a counter. Each has one line of documentation, which `longshore stat --explain` shows.
macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Counters of one function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: u64,)*
        }

        impl Counters {
            /// What each counter counts, in one sentence, by its name.
            pub const EXPLANATIONS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), $doc),)*];

            /// Every counter by its name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames that Linux sent.
    tx_packets,
    /// Bytes of the frames in tx_packets.
    tx_bytes,
    /// Super-frames in tx_packets, for the NIC to segment.
    tx_super_frames,
    /// Checksums computed in software: the NIC computes only TCP's.
    tx_csum_sw,
    /// Frames dropped because memory or the send ring was full.
    tx_dropped,
    /// Frames dropped: super-frames that the NIC can't segment, or bad checksum offsets.
    tx_unsupported,
    /// Frames that the NIC refused: above the wire's MTU, or not from the interface's address.
    tx_refused,
    /// TLS connections fenced: only data of their programs goes out on them.
    tls_flows,
    /// Connections in tls_flows that ended.
    tls_flows_ended,
    /// Connections in tls_flows reset: the data did not match, or the library did not come back.
    tls_resets,
    /// TLS keys refused for lack of memory to retain what is sent with them.
    tls_refused_memory,
    /// Sockets opened that the driver could not look up; their TLS stays in software.
    tls_untracked,
    /// Times that a TLS context was moved to where a segment begins.
    tx_tls_ooo,
    /// Retransmissions with changed bytes; the driver sent the original ones.
    tx_tls_source_changed,
    /// Segments that the peer already had, in part or completely.
    tx_tls_stale,
    /// Segments dropped because the data before them is missing.
    tx_tls_gap_dropped,
    /// Segments dropped, at least in part, for lack of room to retain or to post them.
    tx_tls_no_room,
    /// Segments dropped: the keys are missing, or the NIC can't encrypt them.
    tx_tls_fenced_dropped,
    /// SYNs dropped that carry a connection's addresses but are not from its socket.
    tx_tls_forged_syn,
    /// Segments that do not hold valid TLS records.
    tx_tls_bad_records,
    /// Segments dropped because their library has not reconnected after a restart.
    rx_tls_orphan_dropped,
    /// Frames passed to Linux.
    rx_packets,
    /// Bytes of the frames in rx_packets.
    rx_bytes,
    /// Super-frames in rx_packets, merged from several frames.
    rx_super_frames,
    /// Frames with bytes that Linux already has in the other form, decrypted or encrypted.
    rx_tls_second_copies,
    /// Frames dropped because a program has not read earlier decryption results.
    rx_tls_results_full,
    /// Decrypted frames dropped because Linux already has their bytes undecrypted.
    rx_tls_unfit,
    /// Times that decryption for a connection paused until its program reads on.
    rx_tls_paused,
    /// Frames with bytes of PDUs that Linux already has.
    rx_nvme_second_copies,
    /// Frames whose placement could not be reported: the program has not read earlier results.
    rx_nvme_untold,
    /// Frames dropped because a program has not read earlier placement results.
    rx_nvme_results_full,
    /// Times that placement for a connection paused until its program reads on.
    rx_nvme_paused,
    /// Connections without placement because their library named memory that is not its own.
    nvme_lies,
    /// Invalid completions from the NIC.
    driver_errors,
}
