//! What the NIC counts. Names follow Linux and mlx5 where one exists.

/// Defines [`Counters`] with its names, so that a counter can't be forgotten in a listing.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a function, or of all together.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
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
    /// Frames given to the wire or to another function; a frame to be cut by the port counts once.
    tx_packets,
    /// Bytes of these frames.
    tx_bytes,
    /// `Send`s that were cut into more than one packet, by the NIC or by the port.
    tx_tso_packets,
    /// Payload bytes of these.
    tx_tso_bytes,
    /// Frames whose checksum the NIC made.
    tx_csum_full,
    /// Frames whose checksum was left to the port.
    tx_csum_partial,
    /// Frames that went to another function of this NIC.
    tx_loopback_packets,
    /// Descriptors answered with an error completion.
    tx_errors,
    /// Transmit contexts created.
    tx_tls_ctx,
    /// Transmit contexts destroyed.
    tx_tls_del,
    /// Frames with encrypted payload.
    tx_tls_encrypted_packets,
    /// Encrypted payload bytes.
    tx_tls_encrypted_bytes,
    /// Recoveries: the host sent out of sequence.
    tx_tls_ooo,
    /// Of these, the ones that needed nothing of the record before them, and left the context where it was.
    tx_tls_aside,
    /// Slices of message prefixes read for recovery.
    tx_tls_dump_packets,
    /// Bytes of these.
    tx_tls_dump_bytes,
    /// Bytes passed through an engine to recover its state.
    tx_tls_resync_bytes,
    /// Retransmissions proved to be what was sent first.
    tx_tls_verified,
    /// Retransmissions refused because the source has changed.
    tx_tls_source_changed,
    /// Packets dropped because their context was elsewhere in the stream.
    tx_tls_drop_no_sync_data,
    /// Packets dropped because they named a context that there is not.
    tx_tls_drop_bypass_req,
    /// Transmit contexts created that digest PDUs.
    tx_nvmeotcp_sk_add,
    /// Transmit contexts destroyed that digested PDUs.
    tx_nvmeotcp_sk_del,
    /// Frames whose payload passed a context that digests PDUs.
    tx_nvmeotcp_digest_packets,
    /// Payload bytes of these.
    tx_nvmeotcp_digest_bytes,
    /// Recoveries of such contexts: the host sent a digest, or what comes behind it, out of sequence.
    tx_nvmeotcp_ooo,
    /// Bytes read to recover the digest of the PDU in progress.
    tx_nvmeotcp_resync_bytes,
    /// Packets dropped because their context was elsewhere in the stream; those that are encrypted count as TLS's.
    tx_nvmeotcp_drop_no_sync_data,
    /// Frames received for this function.
    rx_packets,
    /// Bytes of these frames.
    rx_bytes,
    /// Frames for none of the NIC's functions.
    rx_no_function,
    /// Frames dropped because the host had given no buffer that holds them.
    rx_out_of_buffer,
    /// Frames dropped because the receive ring was full.
    rx_ring_full,
    /// Buffers thrown away because they were not in the host's writable memory, or too small for the packet.
    rx_bad_buffer,
    /// Frames dropped because their headers made no sense: the sum of the next four.
    rx_malformed,
    /// Of these, those that end before a header, or a length in it, does.
    rx_malformed_truncated,
    /// Those with a length that contradicts another one.
    rx_malformed_length,
    /// Those with an impossible TCP option.
    rx_malformed_option,
    /// Those with a wrong version or value.
    rx_malformed_value,
    /// Frames whose checksums were right.
    rx_csum_ok,
    /// Frames dropped because their checksums were wrong.
    rx_csum_bad,
    /// Packets passed up that were made of several.
    rx_lro_packets,
    /// Payload bytes of these.
    rx_lro_bytes,
    /// Receive contexts created.
    rx_tls_ctx,
    /// Receive contexts destroyed.
    rx_tls_del,
    /// Packets decrypted.
    rx_tls_decrypted_packets,
    /// Payload bytes of these.
    rx_tls_decrypted_bytes,
    /// Of the packets decrypted, those that came late into a record whose header was known.
    rx_tls_decrypted_late_packets,
    /// Packets passed up as they came because an integrity value in them was wrong.
    rx_tls_err,
    /// Packets searched for a header.
    rx_tls_resync_req_pkt,
    /// Searches begun.
    rx_tls_resync_req_start,
    /// Searches that found a header and asked the host.
    rx_tls_resync_req_end,
    /// Headers found that were not asked about, or whose question the stream made void.
    rx_tls_resync_req_skip,
    /// Answers after which the offload resumed.
    rx_tls_resync_res_ok,
    /// Answers that sent the context back to search.
    rx_tls_resync_res_retry,
    /// Answers that came too late to be of use.
    rx_tls_resync_res_skip,
    /// Times that data was missing inside a record and the offload went on without the host (Autonomous NIC offloads, Figure 8b).
    rx_tls_resumed,
    /// Searches that ended without the host, because the missing header came.
    rx_tls_resumed_late_header,
    /// NVMe/TCP receive contexts created.
    rx_nvmeotcp_sk_add,
    /// Those that could not be.
    rx_nvmeotcp_sk_add_fail,
    /// NVMe/TCP receive contexts destroyed.
    rx_nvmeotcp_sk_del,
    /// Buffers mapped.
    rx_nvmeotcp_ddp_setup,
    /// Buffers that could not be.
    rx_nvmeotcp_ddp_setup_fail,
    /// Buffers unmapped.
    rx_nvmeotcp_ddp_teardown,
    /// Data PDUs of which nothing was placed because their tag was not mapped or their data not inside the buffer, or were
    /// there already; and packets of PDUs whose tag was unmapped meanwhile.
    rx_nvmeotcp_drop,
    /// Headers found that the host was asked about.
    rx_nvmeotcp_resync,
    /// Packets of which data were placed.
    rx_nvmeotcp_packets,
    /// Bytes placed.
    rx_nvmeotcp_bytes,
    /// Packets whose PDU bytes are covered by digests, all of which held.
    rx_nvmeotcp_digest_packets,
    /// Payload bytes of these.
    rx_nvmeotcp_digest_bytes,
    /// Packets in which a digest was wrong, or a header none.
    rx_nvmeotcp_digest_err,
    /// Of the packets covered, those that came late into a PDU whose header was known.
    rx_nvmeotcp_late_packets,
    /// Times that data was missing inside a PDU and the offload went on without the host (Autonomous NIC offloads, Figure 8b).
    rx_nvmeotcp_resumed,
    /// Searches that ended without the host, because the missing header came.
    rx_nvmeotcp_resumed_late_header,
    /// Packets searched for a header.
    rx_nvmeotcp_resync_pkt,
    /// Searches begun.
    rx_nvmeotcp_resync_start,
    /// Headers found that were not asked about, or whose question the stream made void.
    rx_nvmeotcp_resync_skip,
    /// Answers after which the offload resumed.
    rx_nvmeotcp_resync_res_ok,
    /// Answers that sent the context back to search.
    rx_nvmeotcp_resync_res_retry,
    /// Answers that came too late to be of use.
    rx_nvmeotcp_resync_res_skip,
    /// Frames that the NIC made by itself; `tx_packets` has them too.
    accel_tx_packets,
    /// Frames lost because the memory for them was full.
    accel_egress_full,
    /// Listening rules installed.
    accel_listeners,
    /// SYNs to a listening rule.
    accel_syns,
    /// Of these, those answered with a cookie.
    accel_syn_acks,
    /// Those passed to the host because a cookie can't serve them.
    accel_syns_to_host,
    /// Those passed to the host because there were too many in a second.
    accel_syns_over_budget,
    /// Those dropped because too many connections wait to be accepted.
    accel_syns_backlog,
    /// Packets passed up with a good cookie.
    accel_established,
    /// Pure ACKs with a good cookie that were kept back until data comes.
    accel_acks_deferred,
    /// Packets that looked as if they brought a cookie, and did not.
    accel_cookies_failed,
    /// Connections taken over for their teardown.
    accel_closing,
    /// Connections that were not.
    accel_closing_refused,
    /// Packets received for connections in teardown or TIME-WAIT.
    accel_closing_rx_packets,
    /// Packets sent for them.
    accel_closing_tx_packets,
    /// Of these, those that were sent before.
    accel_closing_retrans,
    /// Their retransmission and window-probe timers that fired.
    accel_closing_timeouts,
    /// Those that ended in good order, or by the peer's RST.
    accel_closing_ended,
    /// Those that were reset: the peer sent data, or did not answer.
    accel_closing_aborted,
    /// Those that have entered TIME-WAIT.
    accel_time_wait,
    /// Those whose TIME-WAIT was cut short by a new connection of the same flow (RFC 6191).
    accel_time_wait_reused,
    /// Those whose TIME-WAIT was cut short because the table was full.
    accel_time_wait_overflow,
    /// Splices made.
    accel_splices,
    /// Splices that were not.
    accel_splices_refused,
    /// Splices ended by both FINs.
    accel_splices_finished,
    /// Splices ended by a RST.
    accel_splices_reset,
    /// Splices ended because nothing came.
    accel_splices_idle,
    /// Splices given back to their host.
    accel_splices_taken_back,
    /// Packets forwarded from one connection of a splice to the other.
    accel_splice_packets,
    /// Payload bytes of these.
    accel_splice_bytes,
    /// Segments of spliced flows that were not forwarded: not acceptable, or out of hops.
    accel_splice_dropped,
    /// Challenge ACKs sent for some of these (RFC 5961).
    accel_splice_challenges,
    /// Reports of too big packets of spliced flows that quote nothing that is on its way (RFC 5927 §4.1).
    accel_splice_stale_errors,
    /// Connections that the NIC runs now.
    toe_connections,
    /// Most connections that it runs, as its load allows (Soft_limit).
    toe_soft_limit,
    /// Connections handed off.
    toe_handoffs,
    /// Those that were not: the NIC runs none.
    toe_refused_unsupported,
    /// Those that were not because it has no memory for more (Hard_limit, or the function's quota).
    toe_refused_limit,
    /// Those that were not because it has too much to do (Soft_limit).
    toe_refused_load,
    /// Those that were not because the NIC owned the flow already, or their number was in use.
    toe_refused_owned,
    /// Those that were not because their control block was wrong.
    toe_refused_tcb,
    /// Those that were not because they were not held any more.
    toe_refused_not_held,
    /// Those begun that the host took back before it offered them.
    toe_cancelled,
    /// Those begun that the host did not offer in time.
    toe_hold_expired,
    /// Connections given back because the host asked for them.
    toe_restored_asked,
    /// Those given back because they loaded the NIC most.
    toe_restored_load,
    /// Those given back because what they were to send was refused.
    toe_restored_transmit,
    /// Connections that ended on the NIC; the next counts some of them too.
    toe_closed,
    /// Those that went back to the host for their TIME-WAIT.
    toe_time_wait,
    /// Packets received for connections that the NIC runs or is about to run.
    toe_rx_packets,
    /// Payload bytes of these that TCP has taken.
    toe_rx_bytes,
    /// Those dropped because the queue of NIC packets was full.
    toe_rx_queue_full,
    /// Those that wait in it now.
    toe_rx_queue_len,
    /// Those passed to the host because the NIC does not run their connection after all, or no longer.
    toe_rx_to_host,
    /// Segments given to the transmit side; one may be cut into several packets.
    toe_tx_segments,
    /// Packets sent for these.
    toe_tx_packets,
    /// Payload bytes of these.
    toe_tx_bytes,
    /// Of the segments, those of which some was sent before.
    toe_tx_retrans,
    /// Segments whose context was elsewhere: the host was asked to bring it there.
    toe_tx_recoveries,
    /// Commands carried out.
    toe_commands,
    /// Commands for connections that the NIC runs no more.
    toe_stale_commands,
    /// Commands that were refused.
    toe_bad_commands,
    /// Descriptors and packets that found their context in NIC memory.
    context_hits,
    /// Those whose context had to be fetched.
    context_misses,
    /// Payload bytes read from host memory.
    pcie_payload_tx,
    /// Integrity values written back into sources that may change.
    pcie_icv_writeback,
    /// Payload and header bytes written to host memory.
    pcie_payload_rx,
    /// Bytes of descriptors and completions, both ways.
    pcie_descriptors,
    /// Bytes read for transmit recovery.
    pcie_recovery,
    /// Bytes of contexts read back into NIC memory.
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
