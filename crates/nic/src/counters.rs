//! What the NIC counts. Names follow Linux and mlx5 where one exists. What it counts of layer-5 protocols it counts of each in the same
//! way; the protocols have names for that ([`l5p::Protocol::COUNTERS`]).

use l5p::{Event, PROTOCOLS, ProtocolId};

/// Defines [`Counters`] with its names, so that no listing misses a counter. Each has one line of documentation, which `longshore stat --explain` shows.
macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Counters of a function, or of all together.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: u64,)*
            /// What is counted of each layer-5 protocol.
            pub l5: L5Counters,
        }

        impl Counters {
            /// What each counter counts, in one sentence, by its name.
            pub fn explanations() -> impl Iterator<Item = (&'static str, &'static str)> {
                let own = [$((stringify!($name), $doc),)*];
                own.into_iter().chain(L5Counters::explanations())
            }

            /// Every counter by its name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                let own = [$((stringify!($name), self.$name),)*];
                own.into_iter().chain(self.l5.iter())
            }

            /// Adds another set of counters.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
                self.l5.add(&other.l5);
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
    /// Packets dropped because their context does not exist, or is of another flow.
    tx_drop_no_context,
    /// Frames received for the host, or for every host of the NIC together.
    rx_packets,
    /// Bytes of the frames in rx_packets.
    rx_bytes,
    /// Frames received that are for no function of the NIC.
    rx_no_function,
    /// Multicast frames not received because the host has not asked for their group.
    rx_filtered,
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
    /// Frames dropped on purpose, by `longshore fault`.
    rx_fault_dropped,
    /// Contexts refused on purpose, by `longshore fault`.
    contexts_fault_refused,
    /// Frames received with correct checksums.
    rx_csum_ok,
    /// Frames dropped for a wrong checksum.
    rx_csum_bad,
    /// Packets passed to the host that the NIC merged from several (LRO).
    rx_lro_packets,
    /// Payload bytes of the packets in rx_lro_packets.
    rx_lro_bytes,
    /// Frames that the NIC sent on its own; tx_packets includes them.
    accel_tx_packets,
    /// Frames that it made or forwarded, lost because their memory was full.
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
    /// Connections in teardown or TIME-WAIT on the NIC now.
    accel_curr_closing,
    /// Bytes of NIC memory that hold what peers of connections in teardown have not acknowledged now.
    accel_curr_packet_memory,
    /// Splices in the NIC now, those counted that have ended less than two seconds ago.
    accel_curr_splices,
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

/// What is counted of each layer-5 protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct L5Counters([[u64; Event::COUNT]; PROTOCOLS.len()]);

impl Default for L5Counters {
    fn default() -> Self {
        L5Counters([[0; Event::COUNT]; PROTOCOLS.len()])
    }
}

impl L5Counters {
    /// What was counted of this protocol.
    #[must_use]
    pub fn get(&self, protocol: ProtocolId, event: Event) -> u64 {
        self.0[protocol.index()][event as usize]
    }

    #[inline]
    pub(crate) fn count(&mut self, protocol: ProtocolId, event: Event, count: u64) {
        self.0[protocol.index()][event as usize] += count;
    }

    fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = self.0;
        PROTOCOLS.iter().zip(counts).flat_map(|(protocol, counts)| {
            let named = protocol.counters.iter();
            named.map(move |counter| (counter.name, counts[counter.event as usize]))
        })
    }

    fn explanations() -> impl Iterator<Item = (&'static str, &'static str)> {
        let named = PROTOCOLS.iter().flat_map(|protocol| protocol.counters);
        named.map(|counter| (counter.name, counter.explanation))
    }

    fn add(&mut self, other: &L5Counters) {
        let counts = self.0.iter_mut().flatten();
        for (count, more) in counts.zip(other.0.iter().flatten()) {
            *count += more;
        }
    }
}

impl Counters {
    /// The counter of this name.
    ///
    /// # Panics
    /// When no counter has that name.
    #[must_use]
    pub fn named(&self, name: &str) -> u64 {
        let found = self.iter().find(|(known, _)| *known == name);
        found
            .unwrap_or_else(|| panic!("no counter is named {name}"))
            .1
    }
}
