//! What the NIC counts. Names follow Linux and mlx5 where one exists.

/// Defines [`Counters`] with its names, so that no listing misses a counter. Each has one line of documentation, which `longshore stat --explain` shows.
macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Counters of a function, or of all together.
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

            /// Adds another set of counters.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Frames sent to the wire or to another function; a frame that the port segments counts once.
    tx_packets,
    /// Bytes of the frames in tx_packets.
    tx_bytes,
    /// Sends cut into more than one packet, by the NIC or by the port (TSO).
    tx_tso_packets,
    /// Payload bytes of the sends in tx_tso_packets.
    tx_tso_bytes,
    /// Frames whose checksum the NIC computed.
    tx_csum_full,
    /// Frames whose checksum the NIC left to the port.
    tx_csum_partial,
    /// Frames sent to another function of this NIC.
    tx_loopback_packets,
    /// Transmit descriptors completed with an error.
    tx_errors,
    /// TLS transmit contexts created.
    tx_tls_ctx,
    /// TLS transmit contexts destroyed.
    tx_tls_del,
    /// Frames whose payload the NIC encrypted.
    tx_tls_encrypted_packets,
    /// Payload bytes that the NIC encrypted.
    tx_tls_encrypted_bytes,
    /// Sends out of sequence, after which the NIC recovered the TLS context.
    tx_tls_ooo,
    /// Recoveries in tx_tls_ooo that read nothing back and left the context in place.
    tx_tls_aside,
    /// Reads of the beginning of a TLS record for recovery.
    tx_tls_dump_packets,
    /// Bytes read by tx_tls_dump_packets.
    tx_tls_dump_bytes,
    /// Bytes passed through a cipher to recover its state.
    tx_tls_resync_bytes,
    /// Retransmissions that the NIC proved equal to the first transmission.
    tx_tls_verified,
    /// Retransmissions that the NIC refused because their source memory had changed.
    tx_tls_source_changed,
    /// Packets dropped because their TLS context was at another place in the stream.
    tx_tls_drop_no_sync_data,
    /// Packets dropped because their TLS context does not exist.
    tx_tls_drop_bypass_req,
    /// NVMe/TCP transmit contexts created; they compute data digests.
    tx_nvmeotcp_sk_add,
    /// NVMe/TCP transmit contexts destroyed.
    tx_nvmeotcp_sk_del,
    /// Frames whose payload passed an NVMe/TCP context.
    tx_nvmeotcp_digest_packets,
    /// Payload bytes of the frames in tx_nvmeotcp_digest_packets.
    tx_nvmeotcp_digest_bytes,
    /// Sends out of sequence, after which the NIC recovered the NVMe/TCP context.
    tx_nvmeotcp_ooo,
    /// Bytes read to recover the digest of the current PDU.
    tx_nvmeotcp_resync_bytes,
    /// Packets without TLS dropped because their NVMe/TCP context was elsewhere in the stream.
    tx_nvmeotcp_drop_no_sync_data,
    /// Frames received for the host, or for every host of the NIC together.
    rx_packets,
    /// Bytes of the frames in rx_packets.
    rx_bytes,
    /// Frames received that are for no function of the NIC.
    rx_no_function,
    /// Frames dropped because the host had posted no buffer large enough.
    rx_out_of_buffer,
    /// Frames dropped because the receive ring was full.
    rx_ring_full,
    /// Receive buffers discarded: outside the host's writable memory, or too small for the packet.
    rx_bad_buffer,
    /// Frames dropped for bad headers: the sum of the next four.
    rx_malformed,
    /// Frames dropped because they end inside a header or before a length in it.
    rx_malformed_truncated,
    /// Frames dropped because two lengths in their headers contradict each other.
    rx_malformed_length,
    /// Frames dropped for an impossible TCP option.
    rx_malformed_option,
    /// Frames dropped for a wrong version or value in a header.
    rx_malformed_value,
    /// Frames received with correct checksums.
    rx_csum_ok,
    /// Frames dropped for a wrong checksum.
    rx_csum_bad,
    /// Packets passed to the host that the NIC merged from several (LRO).
    rx_lro_packets,
    /// Payload bytes of the packets in rx_lro_packets.
    rx_lro_bytes,
    /// TLS receive contexts created.
    rx_tls_ctx,
    /// TLS receive contexts destroyed.
    rx_tls_del,
    /// Packets decrypted.
    rx_tls_decrypted_packets,
    /// Payload bytes decrypted.
    rx_tls_decrypted_bytes,
    /// Packets decrypted that arrived late, inside a record whose header was known.
    rx_tls_decrypted_late_packets,
    /// Packets passed up undecrypted because an authentication tag in them was wrong.
    rx_tls_err,
    /// Packets searched for a TLS record header.
    rx_tls_resync_req_pkt,
    /// Searches for a record header started.
    rx_tls_resync_req_start,
    /// Searches that found a record header, which the NIC asked the host to confirm.
    rx_tls_resync_req_end,
    /// Record headers found but not asked about, or whose question the stream made obsolete.
    rx_tls_resync_req_skip,
    /// Answers of the host after which decryption resumed.
    rx_tls_resync_res_ok,
    /// Answers of the host that sent the context back to searching.
    rx_tls_resync_res_retry,
    /// Answers of the host that came too late to matter.
    rx_tls_resync_res_skip,
    /// Gaps inside a record after which decryption resumed without asking the host.
    rx_tls_resumed,
    /// Searches ended without the host because the missing record header arrived.
    rx_tls_resumed_late_header,
    /// NVMe/TCP receive contexts created.
    rx_nvmeotcp_sk_add,
    /// NVMe/TCP receive contexts that the NIC could not create.
    rx_nvmeotcp_sk_add_fail,
    /// NVMe/TCP receive contexts destroyed.
    rx_nvmeotcp_sk_del,
    /// Buffers mapped for direct data placement.
    rx_nvmeotcp_ddp_setup,
    /// Buffers that the NIC could not map for placement.
    rx_nvmeotcp_ddp_setup_fail,
    /// Buffers unmapped from placement.
    rx_nvmeotcp_ddp_teardown,
    /// Data PDUs not placed: tag not mapped, data outside the buffer, or data already there.
    rx_nvmeotcp_drop,
    /// PDU headers found that the NIC asked the host to confirm.
    rx_nvmeotcp_resync,
    /// Packets with data that the NIC placed in a buffer.
    rx_nvmeotcp_packets,
    /// Bytes that the NIC placed in buffers.
    rx_nvmeotcp_bytes,
    /// Packets whose PDU digests were all correct.
    rx_nvmeotcp_digest_packets,
    /// Payload bytes of the packets in rx_nvmeotcp_digest_packets.
    rx_nvmeotcp_digest_bytes,
    /// Packets with a wrong digest or an invalid PDU header.
    rx_nvmeotcp_digest_err,
    /// Packets checked that arrived late, inside a PDU whose header was known.
    rx_nvmeotcp_late_packets,
    /// Gaps inside a PDU after which the offload resumed without asking the host.
    rx_nvmeotcp_resumed,
    /// Searches ended without the host because the missing PDU header arrived.
    rx_nvmeotcp_resumed_late_header,
    /// Packets searched for a PDU header.
    rx_nvmeotcp_resync_pkt,
    /// Searches for a PDU header started.
    rx_nvmeotcp_resync_start,
    /// PDU headers found but not asked about, or whose question the stream made obsolete.
    rx_nvmeotcp_resync_skip,
    /// Answers of the host after which the NVMe/TCP offload resumed.
    rx_nvmeotcp_resync_res_ok,
    /// Answers of the host that sent the NVMe/TCP context back to searching.
    rx_nvmeotcp_resync_res_retry,
    /// Answers of the host that came too late for the NVMe/TCP offload.
    rx_nvmeotcp_resync_res_skip,
    /// Frames that the NIC sent on its own; tx_packets includes them.
    accel_tx_packets,
    /// Frames of the NIC's own that it lost because their memory was full.
    accel_egress_full,
    /// Listening rules installed.
    accel_listeners,
    /// SYNs received for a listening rule.
    accel_syns,
    /// SYNs that the NIC answered with a SYN cookie.
    accel_syn_acks,
    /// SYNs passed to the host because a SYN cookie can't serve them.
    accel_syns_to_host,
    /// SYNs passed to the host because too many arrived in one second.
    accel_syns_over_budget,
    /// SYNs dropped because too many connections wait to be accepted.
    accel_syns_backlog,
    /// Packets with a valid SYN cookie passed to the host: new connections.
    accel_established,
    /// Pure ACKs with a valid cookie that the NIC holds until data arrives.
    accel_acks_deferred,
    /// Packets that should carry a SYN cookie but carry a wrong one.
    accel_cookies_failed,
    /// Connections whose teardown the NIC took over.
    accel_closing,
    /// Connections whose teardown the NIC refused.
    accel_closing_refused,
    /// Packets received for connections in teardown or TIME-WAIT.
    accel_closing_rx_packets,
    /// Packets sent for connections in teardown or TIME-WAIT.
    accel_closing_tx_packets,
    /// Retransmissions among accel_closing_tx_packets.
    accel_closing_retrans,
    /// Retransmission and window-probe timers that fired for connections in teardown.
    accel_closing_timeouts,
    /// Teardowns that ended with both FINs acknowledged, or with the peer's RST.
    accel_closing_ended,
    /// Teardowns that the NIC ended with a RST: the peer sent data or did not answer.
    accel_closing_aborted,
    /// Connections that entered TIME-WAIT on the NIC.
    accel_time_wait,
    /// TIME-WAITs cut short by a new connection of the same flow (RFC 6191).
    accel_time_wait_reused,
    /// TIME-WAITs cut short because the table was full.
    accel_time_wait_overflow,
    /// Splices installed: two connections joined in the NIC.
    accel_splices,
    /// Splices that the NIC refused.
    accel_splices_refused,
    /// Splices that ended with both FINs.
    accel_splices_finished,
    /// Splices that ended with a RST.
    accel_splices_reset,
    /// Splices that ended because they were idle too long.
    accel_splices_idle,
    /// Splices returned to their host.
    accel_splices_taken_back,
    /// Packets forwarded from one connection of a splice to the other.
    accel_splice_packets,
    /// Payload bytes of the packets in accel_splice_packets.
    accel_splice_bytes,
    /// Segments of splices not forwarded: outside the window, or TTL exhausted.
    accel_splice_dropped,
    /// Challenge ACKs sent for segments in accel_splice_dropped (RFC 5961).
    accel_splice_challenges,
    /// ICMP packet-too-big messages for splices ignored: they quote nothing in flight (RFC 5927).
    accel_splice_stale_errors,
    /// Connections that the NIC runs now.
    toe_connections,
    /// Connections that the NIC accepts at its current load (Soft_limit).
    toe_soft_limit,
    /// Connections handed off to the NIC.
    toe_handoffs,
    /// Handoffs refused because this NIC runs no connections.
    toe_refused_unsupported,
    /// Handoffs refused for lack of NIC memory (Hard_limit, or the function's quota).
    toe_refused_limit,
    /// Handoffs refused because the NIC is busy (Soft_limit).
    toe_refused_load,
    /// Handoffs refused because the NIC already runs the flow, or the number is in use.
    toe_refused_owned,
    /// Handoffs refused for an invalid control block.
    toe_refused_tcb,
    /// Handoffs refused because the NIC no longer held the flow's packets.
    toe_refused_not_held,
    /// Handoffs that the host cancelled before it offered the connection.
    toe_cancelled,
    /// Handoffs that expired because the host offered the connection too late.
    toe_hold_expired,
    /// Connections returned because the host asked for them.
    toe_restored_asked,
    /// Connections returned because they loaded the NIC most.
    toe_restored_load,
    /// Connections returned because the NIC refused what they were to send.
    toe_restored_transmit,
    /// Connections that ended on the NIC, those of toe_time_wait included.
    toe_closed,
    /// Connections returned to the host for their TIME-WAIT.
    toe_time_wait,
    /// Packets received for connections that the NIC runs or is about to run.
    toe_rx_packets,
    /// Payload bytes of toe_rx_packets that TCP accepted.
    toe_rx_bytes,
    /// Packets of NIC connections dropped because their queue was full.
    toe_rx_queue_full,
    /// Packets of NIC connections in the queue now.
    toe_rx_queue_len,
    /// Queued packets passed to the host because the NIC does not run their connection.
    toe_rx_to_host,
    /// Segments that NIC connections gave to the transmit side; one may become several packets.
    toe_tx_segments,
    /// Packets sent for the segments in toe_tx_segments.
    toe_tx_packets,
    /// Payload bytes of the segments in toe_tx_segments.
    toe_tx_bytes,
    /// Segments in toe_tx_segments with bytes sent before.
    toe_tx_retrans,
    /// Segments for which the NIC asked the host to recover the context.
    toe_tx_recoveries,
    /// Commands of the host executed for NIC connections.
    toe_commands,
    /// Commands ignored because the NIC no longer runs their connection.
    toe_stale_commands,
    /// Commands refused as invalid.
    toe_bad_commands,
    /// Descriptors and packets whose context was in NIC memory.
    context_hits,
    /// Descriptors and packets whose context was fetched from host memory.
    context_misses,
    /// Payload bytes read from host memory over PCIe.
    pcie_payload_tx,
    /// Bytes of authentication tags written back to source memory that may change.
    pcie_icv_writeback,
    /// Payload and header bytes written to host memory over PCIe.
    pcie_payload_rx,
    /// Bytes of descriptors and completions, both directions.
    pcie_descriptors,
    /// Bytes read again for transmit recovery.
    pcie_recovery,
    /// Bytes of contexts fetched into NIC memory.
    pcie_context_fetch,
    /// Bytes of contexts evicted from NIC memory.
    pcie_context_writeback,
}

/// Counters of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounters {
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes of these.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of these.
    pub rx_bytes: u64,
}
