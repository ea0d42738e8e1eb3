//! What the stack counts, under the names that Linux has where it has one.

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)*) => {
        /// Counters of one stack.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Counters {
            /// Every counter with its name, always in this order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$(($name, self.$field)),*].into_iter()
            }
        }
    };
}

counters! {
    /// TLS sessions whose transmit side software does now.
    tls_curr_tx_sw = "TlsCurrTxSw",
    /// TLS sessions whose receive side software does now.
    tls_curr_rx_sw = "TlsCurrRxSw",
    /// TLS sessions whose transmit side the NIC does now.
    tls_curr_tx_device = "TlsCurrTxDevice",
    /// TLS sessions whose receive side the NIC does now.
    tls_curr_rx_device = "TlsCurrRxDevice",
    /// Sessions that were opened with software transmit.
    tls_tx_sw = "TlsTxSw",
    /// Sessions that were opened with software receive.
    tls_rx_sw = "TlsRxSw",
    /// Sessions that were opened with offloaded transmit.
    tls_tx_device = "TlsTxDevice",
    /// Sessions that were opened with offloaded receive.
    tls_rx_device = "TlsRxDevice",
    /// Records that did not authenticate.
    tls_decrypt_error = "TlsDecryptError",
    /// Questions of the NIC where a record begins.
    tls_rx_device_resync = "TlsRxDeviceResync",
    /// Key updates of transmit.
    tls_tx_rekey_ok = "TlsTxRekeyOk",
    /// Key updates of transmit that failed.
    tls_tx_rekey_error = "TlsTxRekeyError",
    /// Key updates of receive.
    tls_rx_rekey_ok = "TlsRxRekeyOk",
    /// Key updates of receive that failed.
    tls_rx_rekey_error = "TlsRxRekeyError",
    /// KeyUpdate messages received.
    tls_rx_rekey_received = "TlsRxRekeyReceived",
    /// Records sent framed for the NIC to encrypt.
    tls_tx_records_device = "TlsTxRecordsDevice",
    /// Records sent that software encrypted.
    tls_tx_records_sw = "TlsTxRecordsSw",
    /// Records framed for the NIC that software encrypted after all.
    tls_tx_records_fallback = "TlsTxRecordsFallback",
    /// Records received that the NIC decrypted whole.
    tls_rx_records_full = "TlsRxRecordsFull",
    /// Records received that the NIC decrypted in part.
    tls_rx_records_partial = "TlsRxRecordsPartial",
    /// Records received that software decrypted.
    tls_rx_records_none = "TlsRxRecordsNone",
    /// Contexts that could not be had from the NIC.
    tls_context_refused = "TlsContextRefused",
    /// Zero-copy sends whose memory changed or went away before they were acknowledged.
    tls_source_changed = "TlsSourceChanged",

    /// NVMe/TCP PDUs sent through a context of the NIC's, which makes their data digests.
    nvme_tx_pdus_device = "NvmeTcpTxPdusDevice",
    /// NVMe/TCP PDUs sent as they are.
    nvme_tx_pdus_sw = "NvmeTcpTxPdusSw",
    /// NVMe/TCP PDUs meant for the NIC whose digests software made after all.
    nvme_tx_pdus_fallback = "NvmeTcpTxPdusFallback",
    /// NVMe/TCP contexts that could not be had from the NIC.
    nvme_context_refused = "NvmeTcpContextRefused",
    /// Buffers of NVMe/TCP commands that were mapped for the NIC to write to.
    nvme_buffers_mapped = "NvmeTcpBuffersMapped",
    /// Buffers into which the NIC has written what the stream did not bring.
    nvme_buffers_tainted = "NvmeTcpBuffersTainted",
    /// Bytes of NVMe/TCP data that were where they belong.
    nvme_rx_bytes_placed = "NvmeTcpRxBytesPlaced",
    /// Bytes of NVMe/TCP data that were copied.
    nvme_rx_bytes_copied = "NvmeTcpRxBytesCopied",
    /// Data digests that the NIC has checked.
    nvme_rx_digests_device = "NvmeTcpRxDigestsDevice",
    /// Data digests that software has checked.
    nvme_rx_digests_sw = "NvmeTcpRxDigestsSw",
    /// Questions of the NIC where a PDU begins.
    nvme_rx_device_resync = "NvmeTcpRxDeviceResync",
    /// NVMe/TCP data whose digest was wrong.
    nvme_digest_errors = "NvmeTcpDigestErrors",
    /// NVMe/TCP connections that a PDU of the peer's has ended.
    nvme_pdus_refused = "NvmeTcpPdusRefused",

    /// Segments that met a context out of sequence.
    driver_tx_out_of_sequence = "DriverTxOutOfSequence",
    /// Recoveries posted.
    driver_tx_recoveries = "DriverTxRecoveries",
    /// Retransmissions of a record's middle, which need none.
    driver_tx_asides = "DriverTxAsides",
    /// Bytes named to the NIC again by recoveries.
    driver_tx_recovery_bytes = "DriverTxRecoveryBytes",
    /// Packets and commands posted.
    driver_tx_posted = "DriverTxPosted",
    /// Times that the send ring had no room.
    driver_tx_ring_full = "DriverTxRingFull",
    /// Segments that were not posted since they would have been plaintext.
    driver_tx_withheld = "DriverTxWithheld",
    /// Packets received.
    driver_rx_packets = "DriverRxPackets",
    /// Payload bytes received.
    driver_rx_bytes = "DriverRxBytes",
    /// Packets dropped for want of receive buffers to replace theirs.
    driver_rx_no_memory = "DriverRxNoMemory",
    /// Error completions.
    driver_errors = "DriverErrors",

    /// Segments received.
    tcp_in_segs = "TcpInSegs",
    /// Segments sent, a super-segment counted once.
    tcp_out_segs = "TcpOutSegs",
    /// Segments sent again.
    tcp_retrans_segs = "TcpRetransSegs",
    /// Segments with a bad checksum or header.
    tcp_in_errs = "TcpInErrs",
    /// Resets sent.
    tcp_out_rsts = "TcpOutRsts",
    /// Connections opened.
    tcp_active_opens = "TcpActiveOpens",
    /// Connections accepted.
    tcp_passive_opens = "TcpPassiveOpens",
    /// Connections that were refused or reset while being opened.
    tcp_attempt_fails = "TcpAttemptFails",
    /// Established connections that were reset.
    tcp_estab_resets = "TcpEstabResets",
    /// Connections from SYN cookies.
    tcp_syncookies_recv = "TcpExtSyncookiesRecv",
    /// SYNs dropped for want of memory.
    tcp_listen_drops = "TcpExtListenDrops",

    /// Listeners that the NIC answers for at the moment.
    accel_curr_listeners = "AccelCurrListeners",
    /// Listeners that the NIC would not answer for.
    accel_listeners_refused = "AccelListenersRefused",
    /// Connections that the NIC has set up.
    accel_setups = "AccelSetups",
    /// Handshakes of the NIC's that have opened a connection before and are over: answered by resets.
    accel_replays = "AccelReplays",
    /// Segments of no connection that were not answered, since they may come before what begins one that the NIC sets up.
    accel_early_segments = "AccelEarlySegments",
    /// Segments of no connection, with a cookie that is not good or without one, to a listener that the NIC answers for: answered
    /// by resets.
    accel_bad_cookies = "AccelBadCookies",
    /// Connections that have a quasi control block at the moment.
    accel_curr_quasi = "AccelCurrQuasi",
    /// Quasi control blocks that became full ones.
    accel_quasi_promoted = "AccelQuasiPromoted",
    /// Connections whose close the NIC was asked to finish.
    accel_teardowns = "AccelTeardowns",
    /// Of those, the ones that the NIC refused: the host has finished them.
    accel_teardowns_refused = "AccelTeardownsRefused",
    /// Closes that the host has finished since the NIC had little room left.
    accel_teardowns_withheld = "AccelTeardownsWithheld",
    /// Splices that the NIC has taken over.
    accel_splices = "AccelSplices",
    /// Splices that the NIC has at the moment.
    accel_curr_splices = "AccelCurrSplices",
    /// Splices that did not come about.
    accel_splices_refused = "AccelSplicesRefused",
    /// Splices of which the host goes on with both connections.
    accel_splices_taken_back = "AccelSplicesTakenBack",
    /// Frames given to the NIC since they came after their flow had been handed over.
    accel_reinjected = "AccelReinjected",

    /// Connections that the NIC runs at the moment.
    handoff_curr = "HandoffCurr",
    /// Connections that the NIC was asked to hold.
    handoff_begun = "HandoffBegun",
    /// Connections that the NIC has taken over.
    handoff_accepted = "HandoffAccepted",
    /// Connections that the NIC has refused.
    handoff_refused = "HandoffRefused",
    /// Connections that were chosen and that the host did not hand off after all.
    handoff_withheld = "HandoffWithheld",
    /// Connections that are the host's again since it has asked for them.
    handoff_restored = "HandoffRestored",
    /// Connections that the NIC has given back by itself.
    handoff_given_back = "HandoffGivenBack",
    /// Connections that have ended on the NIC.
    handoff_closed = "HandoffClosed",
    /// Times that the NIC was reset.
    nic_resets = "NicResets",
    /// Connections that the NIC had when it was reset, and that the host goes on with.
    handoff_recovered = "HandoffRecovered",
    /// Connections that the NIC had when it was reset, and that could not go on.
    handoff_lost = "HandoffLost",
    /// Commands for connections that the NIC runs.
    handoff_commands = "HandoffCommands",
    /// Packets of such connections with payload.
    handoff_delivered = "HandoffDelivered",
    /// Questions of the NIC's where a context is to go on.
    handoff_recoveries = "HandoffRecoveries",
    /// What the NIC has said of connections that are no longer there, and packets that it should not have passed up.
    handoff_stale = "HandoffStale",

    /// Frames that were not what they said.
    ip_in_hdr_errors = "IpInHdrErrors",
    /// Packets for an address that is not ours.
    ip_in_addr_errors = "IpInAddrErrors",
    /// Fragments, which are not reassembled.
    ip_in_fragments = "IpReasmFails",
    /// Packets of protocols that nobody listens to.
    ip_in_unknown_protos = "IpInUnknownProtos",
    /// Packets without a route.
    ip_out_no_routes = "IpOutNoRoutes",
    /// ICMP messages received.
    icmp_in_msgs = "IcmpInMsgs",
    /// ICMP messages that were malformed.
    icmp_in_errors = "IcmpInErrors",
    /// Echo requests answered.
    icmp_out_echo_reps = "IcmpOutEchoReps",
    /// Unreachable messages sent.
    icmp_out_dest_unreachs = "IcmpOutDestUnreachs",
    /// Path MTUs learnt.
    icmp_in_too_big = "IcmpInPktTooBigs",
    /// ARP and neighbour messages received.
    neighbour_in = "NeighbourIn",
    /// ARP and neighbour messages sent.
    neighbour_out = "NeighbourOut",
    /// Neighbours that did not answer.
    neighbour_failed = "NeighbourFailed",
}
