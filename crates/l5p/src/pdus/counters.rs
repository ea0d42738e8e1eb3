//! The names of what is counted of a protocol of PDUs.

/// Makes the names of what a NIC and a host count of a protocol of PDUs, as [`Protocol::COUNTERS`](crate::Protocol::COUNTERS) and
/// [`Protocol::HOST_COUNTERS`](crate::Protocol::HOST_COUNTERS): from its names in those of the NIC's counters, in those of the host's, and in
/// prose. With `digests` behind them, those of digests too.
macro_rules! counters {
    ($name:literal, $host:literal, $title:literal $(, $digests:ident)?) => {
        const COUNTERS: &'static [$crate::CounterName] = &[
            $($crate::CounterName::new(
                $crate::Event::TxContexts,
                concat!("tx_", $name, "_sk_add", $crate::pdus::counters::nothing!($digests)),
                concat!($title, " transmit contexts created; they compute data digests."),
            ),)?
            $($crate::CounterName::new(
                $crate::Event::TxContextsEnded,
                concat!("tx_", $name, "_sk_del", $crate::pdus::counters::nothing!($digests)),
                concat!($title, " transmit contexts destroyed."),
            ),)?
            $($crate::CounterName::new(
                $crate::Event::TxPackets,
                concat!("tx_", $name, "_digest_packets", $crate::pdus::counters::nothing!($digests)),
                concat!("Frames whose payload passed an ", $title, " context."),
            ),)?
            $($crate::CounterName::new(
                $crate::Event::TxBytes,
                concat!("tx_", $name, "_digest_bytes", $crate::pdus::counters::nothing!($digests)),
                concat!("Payload bytes of the frames in tx_", $name, "_digest_packets."),
            ),)?
            $($crate::CounterName::new(
                $crate::Event::TxRecoveries,
                concat!("tx_", $name, "_ooo", $crate::pdus::counters::nothing!($digests)),
                concat!("Sends out of sequence, after which the NIC recovered the ", $title, " context."),
            ),)?
            $($crate::CounterName::new(
                $crate::Event::TxPassedBytes,
                concat!("tx_", $name, "_resync_bytes", $crate::pdus::counters::nothing!($digests)),
                "Bytes read to recover the digest of the current PDU.",
            ),)?
            $($crate::CounterName::new(
                $crate::Event::TxOutOfSequence,
                concat!("tx_", $name, "_drop_no_sync_data", $crate::pdus::counters::nothing!($digests)),
                concat!("Packets without TLS dropped because their ", $title, " context was elsewhere in the stream."),
            ),)?
            $crate::CounterName::new(
                $crate::Event::RxContexts,
                concat!("rx_", $name, "_sk_add"),
                concat!($title, " receive contexts created."),
            ),
            $crate::CounterName::new(
                $crate::Event::RxContextsRefused,
                concat!("rx_", $name, "_sk_add_fail"),
                concat!($title, " receive contexts that the NIC could not create."),
            ),
            $crate::CounterName::new(
                $crate::Event::RxContextsEnded,
                concat!("rx_", $name, "_sk_del"),
                concat!($title, " receive contexts destroyed."),
            ),
            $crate::CounterName::new(
                $crate::Event::RxBuffersMapped,
                concat!("rx_", $name, "_ddp_setup"),
                "Buffers mapped for direct data placement.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxBuffersRefused,
                concat!("rx_", $name, "_ddp_setup_fail"),
                "Buffers that the NIC could not map for placement.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxBuffersUnmapped,
                concat!("rx_", $name, "_ddp_teardown"),
                "Buffers unmapped from placement.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxPlacementsRefused,
                concat!("rx_", $name, "_drop"),
                "Data PDUs not placed: tag not mapped, data outside the buffer, or data already there.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxRequests,
                concat!("rx_", $name, "_resync"),
                "PDU headers found that the NIC asked the host to confirm.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxPlacedPackets,
                concat!("rx_", $name, "_packets"),
                "Packets with data that the NIC placed in a buffer.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxPlacedBytes,
                concat!("rx_", $name, "_bytes"),
                "Bytes that the NIC placed in buffers.",
            ),
            $($crate::CounterName::new(
                $crate::Event::RxPackets,
                concat!("rx_", $name, "_digest_packets", $crate::pdus::counters::nothing!($digests)),
                "Packets whose PDU digests were all correct.",
            ),)?
            $($crate::CounterName::new(
                $crate::Event::RxBytes,
                concat!("rx_", $name, "_digest_bytes", $crate::pdus::counters::nothing!($digests)),
                concat!("Payload bytes of the packets in rx_", $name, "_digest_packets."),
            ),)?
            $crate::CounterName::new(
                $crate::Event::RxFailed,
                concat!("rx_", $name, "_digest_err"),
                "Packets with a wrong digest or an invalid PDU header.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxLatePackets,
                concat!("rx_", $name, "_late_packets"),
                "Packets checked that arrived late, inside a PDU whose header was known.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxLeaps,
                concat!("rx_", $name, "_resumed"),
                "Gaps inside a PDU after which the offload resumed without asking the host.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxLateHeaders,
                concat!("rx_", $name, "_resumed_late_header"),
                "Searches ended without the host because the missing PDU header arrived.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxOutOfStep,
                concat!("rx_", $name, "_resync_pkt"),
                "Packets searched for a PDU header.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxSearches,
                concat!("rx_", $name, "_resync_start"),
                "Searches for a PDU header started.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxRequestsSkipped,
                concat!("rx_", $name, "_resync_skip"),
                "PDU headers found but not asked about, or whose question the stream made obsolete.",
            ),
            $crate::CounterName::new(
                $crate::Event::RxConfirmed,
                concat!("rx_", $name, "_resync_res_ok"),
                concat!("Answers of the host after which the ", $title, " offload resumed."),
            ),
            $crate::CounterName::new(
                $crate::Event::RxRefuted,
                concat!("rx_", $name, "_resync_res_retry"),
                concat!("Answers of the host that sent the ", $title, " context back to searching."),
            ),
            $crate::CounterName::new(
                $crate::Event::RxStaleAnswers,
                concat!("rx_", $name, "_resync_res_skip"),
                concat!("Answers of the host that came too late for the ", $title, " offload."),
            ),
        ];

        const HOST_COUNTERS: &'static [$crate::CounterName<$crate::HostEvent>] = &[
            $($crate::CounterName::new(
                $crate::HostEvent::TxMessagesByNic,
                concat!($host, "TxPdusDevice", $crate::pdus::counters::nothing!($digests)),
                concat!($title, " PDUs sent through a NIC context, which computes their data digests."),
            ),)?
            $($crate::CounterName::new(
                $crate::HostEvent::TxMessagesBySoftware,
                concat!($host, "TxPdusSw", $crate::pdus::counters::nothing!($digests)),
                concat!($title, " PDUs sent without the NIC's help."),
            ),)?
            $($crate::CounterName::new(
                $crate::HostEvent::TxMessagesTakenBack,
                concat!($host, "TxPdusFallback", $crate::pdus::counters::nothing!($digests)),
                concat!($title, " PDUs meant for the NIC whose digests software computed after all."),
            ),)?
            $crate::CounterName::new(
                $crate::HostEvent::ContextsRefused,
                concat!($host, "ContextRefused"),
                concat!($title, " contexts that the NIC refused."),
            ),
            $crate::CounterName::new(
                $crate::HostEvent::BuffersMapped,
                concat!($host, "BuffersMapped"),
                concat!("Buffers of ", $title, " commands mapped for the NIC to place data in."),
            ),
            $crate::CounterName::new(
                $crate::HostEvent::BuffersTainted,
                concat!($host, "BuffersTainted"),
                "Buffers in which the NIC placed data that the TCP stream did not deliver.",
            ),
            $crate::CounterName::new(
                $crate::HostEvent::RxBytesPlaced,
                concat!($host, "RxBytesPlaced"),
                concat!("Bytes of ", $title, " data that the NIC had already placed."),
            ),
            $crate::CounterName::new(
                $crate::HostEvent::RxBytesCopied,
                concat!($host, "RxBytesCopied"),
                concat!("Bytes of ", $title, " data that the host copied."),
            ),
            $($crate::CounterName::new(
                $crate::HostEvent::RxChecksByNic,
                concat!($host, "RxDigestsDevice", $crate::pdus::counters::nothing!($digests)),
                "Data digests that the NIC checked.",
            ),)?
            $($crate::CounterName::new(
                $crate::HostEvent::RxChecksBySoftware,
                concat!($host, "RxDigestsSw", $crate::pdus::counters::nothing!($digests)),
                "Data digests that software checked.",
            ),)?
            $crate::CounterName::new(
                $crate::HostEvent::RxRequests,
                concat!($host, "RxDeviceResync"),
                "Questions of the NIC whether a PDU begins at a given place.",
            ),
            $($crate::CounterName::new(
                $crate::HostEvent::RxFailed,
                concat!($host, "DigestErrors", $crate::pdus::counters::nothing!($digests)),
                concat!($title, " data received with a wrong digest."),
            ),)?
            $crate::CounterName::new(
                $crate::HostEvent::RxRefused,
                concat!($host, "PdusRefused"),
                concat!($title, " connections closed because of an invalid PDU from the peer."),
            ),
        ];
    };
}

/// Stands for a word that is only there to be there.
macro_rules! nothing {
    (digests) => {
        ""
    };
}

pub(crate) use {counters, nothing};
