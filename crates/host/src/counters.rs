//! The counters of the stack, named as in Linux where it has them.

use l5p::{HostEvent, PROTOCOLS, ProtocolId};

/// Defines [`Counters`] with its names. Each has one line of documentation, which `longshore stat --explain` shows.
macro_rules! counters {
    ($(#[doc = $doc:literal] $field:ident = $name:literal,)*) => {
        /// Counters of one stack.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counters {
            $(#[doc = $doc] pub $field: u64,)*
            /// Of each protocol in the list.
            pub protocols: OfProtocols,
        }

        /// The stack's own counters: name and explanation.
        const EXPLANATIONS: &[(&str, &str)] = &[$(($name, $doc),)*];

        impl Counters {
            /// Every counter with its name, always in this order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$(($name, self.$field)),*].into_iter().chain(self.protocols.iter())
            }
        }
    };
}

/// What each counter of a stack counts, in one sentence, by its name.
pub fn counter_explanations() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = PROTOCOLS.iter().flat_map(|info| info.host_counters);
    let of_protocols = names.map(|name| (name.name, name.explanation));
    let own = EXPLANATIONS.iter().chain(&MEMORY_GAUGES);
    own.copied().chain(of_protocols)
}

/// What a stack tells of its memory beside what it counts, in the order of [`Stack::counters`](crate::Stack::counters).
pub(crate) const MEMORY_GAUGES: [(&str, &str); 7] = [
    (
        "MemLevel",
        "How short memory for packets and payload is: 0 free, 1 pressure, 2 exhausted.",
    ),
    (
        "MemLimit",
        "Bytes of memory for packets and payload that the stack may use.",
    ),
    ("MemPosted", "Bytes of it that the NIC has to receive into."),
    ("MemReceived", "Bytes of it that hold what was received."),
    (
        "MemQueued",
        "Bytes of it that hold what is sent and not acknowledged yet.",
    ),
    (
        "MemControl",
        "Bytes of it taken for handshakes, control connections and what must not wait.",
    ),
    (
        "MemResident",
        "Bytes of it that were used and not given back to the system.",
    ),
];

impl Counters {
    /// Counts what TCP has to tell.
    #[cold]
    pub fn count(&mut self, counted: tcp::Counted) {
        match counted {
            tcp::Counted::Timeout => self.tcp_timeouts += 1,
            tcp::Counted::SpuriousTimeout => self.tcp_spurious_rtos += 1,
            tcp::Counted::BlackHole => self.tcp_mtup_fail += 1,
            tcp::Counted::PathRaised => self.tcp_mtup_success += 1,
            tcp::Counted::CongestionExperienced => self.ip_in_ce += 1,
        }
    }
}

/// What is counted of the messages of each protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfProtocols([[u64; HostEvent::COUNT]; PROTOCOLS.len()]);

impl OfProtocols {
    /// Counts `count` of an event.
    #[inline]
    pub fn add(&mut self, protocol: ProtocolId, event: HostEvent, count: u64) {
        self.0[protocol.index()][event as usize] += count;
    }

    /// Those that have a name, by protocol.
    fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        PROTOCOLS.iter().zip(&self.0).flat_map(|(info, counts)| {
            let names = info.host_counters.iter();
            names.map(|name| (name.name, counts[name.event as usize]))
        })
    }
}

counters! {
    /// TLS sessions that encrypt in software now.
    tls_curr_tx_sw = "TlsCurrTxSw",
    /// TLS sessions that decrypt in software now.
    tls_curr_rx_sw = "TlsCurrRxSw",
    /// TLS sessions that the NIC encrypts now.
    tls_curr_tx_device = "TlsCurrTxDevice",
    /// TLS sessions that the NIC decrypts now.
    tls_curr_rx_device = "TlsCurrRxDevice",
    /// TLS sessions opened with software encryption.
    tls_tx_sw = "TlsTxSw",
    /// TLS sessions opened with software decryption.
    tls_rx_sw = "TlsRxSw",
    /// TLS sessions opened with encryption by the NIC.
    tls_tx_device = "TlsTxDevice",
    /// TLS sessions opened with decryption by the NIC.
    tls_rx_device = "TlsRxDevice",
    /// TLS records that failed authentication.
    tls_decrypt_error = "TlsDecryptError",
    /// Questions of the NIC whether a TLS record begins at a given place.
    tls_rx_device_resync = "TlsRxDeviceResync",
    /// Transmit key updates.
    tls_tx_rekey_ok = "TlsTxRekeyOk",
    /// Transmit key updates that failed.
    tls_tx_rekey_error = "TlsTxRekeyError",
    /// Receive key updates.
    tls_rx_rekey_ok = "TlsRxRekeyOk",
    /// Receive key updates that failed.
    tls_rx_rekey_error = "TlsRxRekeyError",
    /// KeyUpdate messages received.
    tls_rx_rekey_received = "TlsRxRekeyReceived",
    /// TLS records framed for the NIC to encrypt.
    tls_tx_records_device = "TlsTxRecordsDevice",
    /// TLS records encrypted in software.
    tls_tx_records_sw = "TlsTxRecordsSw",
    /// TLS records framed for the NIC that software encrypted after all.
    tls_tx_records_fallback = "TlsTxRecordsFallback",
    /// TLS records received that the NIC decrypted completely.
    tls_rx_records_full = "TlsRxRecordsFull",
    /// TLS records received that the NIC decrypted in part.
    tls_rx_records_partial = "TlsRxRecordsPartial",
    /// TLS records received that software decrypted.
    tls_rx_records_none = "TlsRxRecordsNone",
    /// TLS contexts that the NIC refused.
    tls_context_refused = "TlsContextRefused",
    /// Zero-copy sends whose memory changed before they were acknowledged.
    tls_source_changed = "TlsSourceChanged",

    /// Segments posted when their NIC context was at another place in the stream.
    driver_tx_out_of_sequence = "DriverTxOutOfSequence",
    /// Context recoveries posted to the NIC.
    driver_tx_recoveries = "DriverTxRecoveries",
    /// Retransmissions from the middle of a record, which need no recovery.
    driver_tx_asides = "DriverTxAsides",
    /// Bytes that recoveries named to the NIC again.
    driver_tx_recovery_bytes = "DriverTxRecoveryBytes",
    /// Packets and commands posted to the send ring.
    driver_tx_posted = "DriverTxPosted",
    /// Times that the send ring was full.
    driver_tx_ring_full = "DriverTxRingFull",
    /// Segments not posted because they would have gone out as plaintext.
    driver_tx_withheld = "DriverTxWithheld",
    /// Packets received from the NIC.
    driver_rx_packets = "DriverRxPackets",
    /// Payload bytes received from the NIC.
    driver_rx_bytes = "DriverRxBytes",
    /// Packets dropped because no buffer was left to replace theirs on the receive ring.
    driver_rx_no_memory = "DriverRxNoMemory",
    /// Completions with an error.
    driver_errors = "DriverErrors",

    /// TCP segments received.
    tcp_in_segs = "TcpInSegs",
    /// TCP segments sent; a super-segment counts once.
    tcp_out_segs = "TcpOutSegs",
    /// TCP segments retransmitted.
    tcp_retrans_segs = "TcpRetransSegs",
    /// TCP segments received with a bad checksum or header.
    tcp_in_errs = "TcpInErrs",
    /// TCP resets sent.
    tcp_out_rsts = "TcpOutRsts",
    /// TCP connections opened by this host.
    tcp_active_opens = "TcpActiveOpens",
    /// TCP connections accepted.
    tcp_passive_opens = "TcpPassiveOpens",
    /// TCP connections that ended before they were established.
    tcp_attempt_fails = "TcpAttemptFails",
    /// Established TCP connections that were reset.
    tcp_estab_resets = "TcpEstabResets",
    /// TCP connections opened with a SYN cookie.
    tcp_syncookies_recv = "TcpExtSyncookiesRecv",
    /// Retransmission timeouts.
    tcp_timeouts = "TcpExtTCPTimeouts",
    /// Retransmission timeouts that came too early, and were taken back.
    tcp_spurious_rtos = "TcpExtTCPSpuriousRTOs",
    /// Times that packets were sent in vain which were too large for the path.
    tcp_mtup_fail = "TcpExtTCPMTUPFail",
    /// Times that a path was found to take larger packets.
    tcp_mtup_success = "TcpExtTCPMTUPSuccess",
    /// Times that memory became short: the level rose from free.
    tcp_memory_pressures = "TcpExtTCPMemoryPressures",
    /// Milliseconds that memory was short, up to the last time that it was free again.
    tcp_memory_pressures_chrono = "TcpExtTCPMemoryPressuresChrono",
    /// Connections reset because memory was exhausted, or orphans were too many or had too much of it.
    tcp_abort_on_memory = "TcpExtTCPAbortOnMemory",
    /// Of those reset because of memory, the orphans: connections that applications had closed.
    memory_orphans_reset = "MemOrphansReset",
    /// Bytes of memory that connections held which were reset because of it.
    memory_given_up = "MemGivenUp",
    /// Segments copied to a shorter block when they came, because memory was short.
    tcp_rcv_collapsed = "TcpExtTCPRcvCollapsed",
    /// Segments out of order given up because memory was exhausted.
    ofo_pruned = "TcpExtOfoPruned",
    /// SYNs dropped for lack of memory.
    tcp_listen_drops = "TcpExtListenDrops",

    /// Listeners that the NIC answers for now.
    accel_curr_listeners = "AccelCurrListeners",
    /// Listeners that the NIC refused to answer for.
    accel_listeners_refused = "AccelListenersRefused",
    /// Connections that the NIC set up.
    accel_setups = "AccelSetups",
    /// Replayed NIC handshakes of connections that have ended, answered with a RST.
    accel_replays = "AccelReplays",
    /// Segments left unanswered: the first segment of a connection set up by the NIC may follow.
    accel_early_segments = "AccelEarlySegments",
    /// Segments with a bad or no cookie for a listener of the NIC, answered with a RST.
    accel_bad_cookies = "AccelBadCookies",
    /// Connections with a quasi control block now (lazy TCB).
    accel_curr_quasi = "AccelCurrQuasi",
    /// Quasi control blocks that became full control blocks.
    accel_quasi_promoted = "AccelQuasiPromoted",
    /// Connections whose teardown the NIC was asked to finish.
    accel_teardowns = "AccelTeardowns",
    /// Teardowns that the NIC refused and the host finished.
    accel_teardowns_refused = "AccelTeardownsRefused",
    /// Teardowns that the host kept because the NIC was almost full.
    accel_teardowns_withheld = "AccelTeardownsWithheld",
    /// Splices that the NIC took over.
    accel_splices = "AccelSplices",
    /// Splices in the NIC now.
    accel_curr_splices = "AccelCurrSplices",
    /// Splices that failed.
    accel_splices_refused = "AccelSplicesRefused",
    /// Splices taken back; the host runs both connections again.
    accel_splices_taken_back = "AccelSplicesTakenBack",
    /// Frames that arrived at the host after the NIC took their flow, given back to the NIC.
    accel_reinjected = "AccelReinjected",

    /// Connections that the NIC runs now.
    handoff_curr = "HandoffCurr",
    /// Handoffs started: connections whose packets the NIC was asked to hold.
    handoff_begun = "HandoffBegun",
    /// Connections that the NIC took over.
    handoff_accepted = "HandoffAccepted",
    /// Connections that the NIC refused.
    handoff_refused = "HandoffRefused",
    /// Connections selected for handoff that the host kept after all.
    handoff_withheld = "HandoffWithheld",
    /// Connections that came back because the host asked for them.
    handoff_restored = "HandoffRestored",
    /// Connections that the NIC returned on its own.
    handoff_given_back = "HandoffGivenBack",
    /// Connections that ended on the NIC.
    handoff_closed = "HandoffClosed",
    /// Resets of the NIC.
    nic_resets = "NicResets",
    /// Connections on the NIC at a reset that the host continued.
    handoff_recovered = "HandoffRecovered",
    /// Connections on the NIC at a reset that were lost.
    handoff_lost = "HandoffLost",
    /// Commands sent for connections that the NIC runs.
    handoff_commands = "HandoffCommands",
    /// Packets with payload delivered by connections that the NIC runs.
    handoff_delivered = "HandoffDelivered",
    /// Questions of the NIC where to resume a context.
    handoff_recoveries = "HandoffRecoveries",
    /// Messages and packets of the NIC for connections that no longer exist.
    handoff_stale = "HandoffStale",

    /// Frames received with malformed headers.
    ip_in_hdr_errors = "IpInHdrErrors",
    /// Segments received that routers had marked for congestion (ECN).
    ip_in_ce = "IpExtInCEPkts",
    /// Packets received for an address that is not ours.
    ip_in_addr_errors = "IpInAddrErrors",
    /// IP fragments received, which are dropped: the stack does not reassemble.
    ip_in_fragments = "IpReasmFails",
    /// Packets received of a protocol that the stack does not speak.
    ip_in_unknown_protos = "IpInUnknownProtos",
    /// Packets not sent for lack of a route.
    ip_out_no_routes = "IpOutNoRoutes",
    /// ICMP messages received.
    icmp_in_msgs = "IcmpInMsgs",
    /// Malformed ICMP messages received.
    icmp_in_errors = "IcmpInErrors",
    /// Echo requests (ping) answered.
    icmp_out_echo_reps = "IcmpOutEchoReps",
    /// Destination-unreachable messages sent.
    icmp_out_dest_unreachs = "IcmpOutDestUnreachs",
    /// Parameter-problem messages sent, for packets of unknown protocols over IPv6.
    icmp_out_parm_probs = "IcmpOutParmProbs",
    /// Path MTUs learnt from packet-too-big messages.
    icmp_in_too_big = "IcmpInPktTooBigs",
    /// ARP and neighbour discovery messages received.
    neighbour_in = "NeighbourIn",
    /// ARP and neighbour discovery messages sent.
    neighbour_out = "NeighbourOut",
    /// Neighbours that did not answer.
    neighbour_failed = "NeighbourFailed",
    /// Addresses that another host has, too: of IPv6 no longer used, of IPv4 defended each time.
    neighbour_duplicates = "NeighbourDuplicates",
}
