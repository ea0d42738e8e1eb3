//! The names of what is counted of a protocol of PDUs.

/// Makes the names of what a NIC and a host count of a protocol of PDUs, as [`Protocol::COUNTERS`](crate::Protocol::COUNTERS) and
/// [`Protocol::HOST_COUNTERS`](crate::Protocol::HOST_COUNTERS): from its names in those of the NIC's counters, in those of the host's, and in
/// prose. With `digests` behind them, those of digests too.
macro_rules! counters {
    ($name:literal, $host:literal, $title:literal $(, $digests:ident)?) => {
        const COUNTERS: &'static [$crate::CounterName] = $crate::protocols::counter_names! {
            Event:
            $(@$digests TxContexts: "tx_" $name "_sk_add", $title " transmit contexts created; they compute data digests.";)?
            $(@$digests TxContextsEnded: "tx_" $name "_sk_del", $title " transmit contexts destroyed.";)?
            $(@$digests TxPackets: "tx_" $name "_digest_packets", "Frames whose payload passed an " $title " context.";)?
            $(@$digests TxBytes: "tx_" $name "_digest_bytes", "Payload bytes of the frames in tx_" $name "_digest_packets.";)?
            $(@$digests TxRecoveries: "tx_" $name "_ooo", "Sends out of sequence, after which the NIC recovered the " $title " context.";)?
            $(@$digests TxPassedBytes: "tx_" $name "_resync_bytes", "Bytes read to recover the digest of the current PDU.";)?
            $(@$digests TxOutOfSequence: "tx_" $name "_drop_no_sync_data", "Packets without TLS dropped because their " $title " context was elsewhere in the stream.";)?
            RxContexts: "rx_" $name "_sk_add", $title " receive contexts created.";
            RxContextsRefused: "rx_" $name "_sk_add_fail", $title " receive contexts that the NIC could not create.";
            RxContextsEnded: "rx_" $name "_sk_del", $title " receive contexts destroyed.";
            RxBuffersMapped: "rx_" $name "_ddp_setup", "Buffers mapped for direct data placement.";
            RxBuffersRefused: "rx_" $name "_ddp_setup_fail", "Buffers that the NIC could not map for placement.";
            RxBuffersUnmapped: "rx_" $name "_ddp_teardown", "Buffers unmapped from placement.";
            RxPlacementsRefused: "rx_" $name "_drop", "Data PDUs not placed: tag not mapped, data outside the buffer, or data already there.";
            RxRequests: "rx_" $name "_resync", "PDU headers found that the NIC asked the host to confirm.";
            RxPlacedPackets: "rx_" $name "_packets", "Packets with data that the NIC placed in a buffer.";
            RxPlacedBytes: "rx_" $name "_bytes", "Bytes that the NIC placed in buffers.";
            $(@$digests RxPackets: "rx_" $name "_digest_packets", "Packets whose PDU digests were all correct.";)?
            $(@$digests RxBytes: "rx_" $name "_digest_bytes", "Payload bytes of the packets in rx_" $name "_digest_packets.";)?
            RxFailed: "rx_" $name "_digest_err", "Packets with a wrong digest or an invalid PDU header.";
            RxLatePackets: "rx_" $name "_late_packets", "Packets checked that arrived late, inside a PDU whose header was known.";
            RxLeaps: "rx_" $name "_resumed", "Gaps inside a PDU after which the offload resumed without asking the host.";
            RxLateHeaders: "rx_" $name "_resumed_late_header", "Searches ended without the host because the missing PDU header arrived.";
            RxOutOfStep: "rx_" $name "_resync_pkt", "Packets searched for a PDU header.";
            RxSearches: "rx_" $name "_resync_start", "Searches for a PDU header started.";
            RxRequestsSkipped: "rx_" $name "_resync_skip", "PDU headers found but not asked about, or whose question the stream made obsolete.";
            RxConfirmed: "rx_" $name "_resync_res_ok", "Answers of the host after which the " $title " offload resumed.";
            RxRefuted: "rx_" $name "_resync_res_retry", "Answers of the host that sent the " $title " context back to searching.";
            RxStaleAnswers: "rx_" $name "_resync_res_skip", "Answers of the host that came too late for the " $title " offload.";
        };

        const HOST_COUNTERS: &'static [$crate::CounterName<$crate::HostEvent>] = $crate::protocols::counter_names! {
            HostEvent:
            $(@$digests TxMessagesByNic: $host "TxPdusDevice", $title " PDUs sent through a NIC context, which computes their data digests.";)?
            $(@$digests TxMessagesBySoftware: $host "TxPdusSw", $title " PDUs sent without the NIC's help.";)?
            $(@$digests TxMessagesTakenBack: $host "TxPdusFallback", $title " PDUs meant for the NIC whose digests software computed after all.";)?
            ContextsRefused: $host "ContextRefused", $title " contexts that the NIC refused.";
            BuffersMapped: $host "BuffersMapped", "Buffers of " $title " commands mapped for the NIC to place data in.";
            BuffersTainted: $host "BuffersTainted", "Buffers in which the NIC placed data that the TCP stream did not deliver.";
            RxBytesPlaced: $host "RxBytesPlaced", "Bytes of " $title " data that the NIC had already placed.";
            RxBytesCopied: $host "RxBytesCopied", "Bytes of " $title " data that the host copied.";
            $(@$digests RxChecksByNic: $host "RxDigestsDevice", "Data digests that the NIC checked.";)?
            $(@$digests RxChecksBySoftware: $host "RxDigestsSw", "Data digests that software checked.";)?
            RxRequests: $host "RxDeviceResync", "Questions of the NIC whether a PDU begins at a given place.";
            $(@$digests RxFailed: $host "DigestErrors", $title " data received with a wrong digest.";)?
            RxRefused: $host "PdusRefused", $title " connections closed because of an invalid PDU from the peer.";
        };
    };
}

pub(crate) use counters;
