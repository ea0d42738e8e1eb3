//! NVMe/TCP in the list of protocols: its parameters as bytes, and the names of its counters, those of mlx5 where it has one.

use wire::nvme::DIGEST_LEN;

use super::{Engine, Parameters};
use crate::{CounterName, Direction, Event, HostEvent, Protocol};

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "nvme-tcp";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = DIGEST_LEN;
    const COUNTERS: &'static [CounterName] = COUNTERS;
    const HOST_COUNTERS: &'static [CounterName<HostEvent>] = HOST_COUNTERS;

    fn create(parameters: &Parameters, direction: Direction) -> Engine {
        Engine::new(parameters, direction)
    }
}

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = Parameters::ENCODED_LEN;

    fn encode(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        Parameters::from_bytes(bytes.try_into().ok()?).ok()
    }

    fn tags(&self) -> u16 {
        self.commands
    }
}

const COUNTERS: &[CounterName] = &[
    CounterName::new(
        Event::TxContexts,
        "tx_nvmeotcp_sk_add",
        "NVMe/TCP transmit contexts created; they compute data digests.",
    ),
    CounterName::new(
        Event::TxContextsEnded,
        "tx_nvmeotcp_sk_del",
        "NVMe/TCP transmit contexts destroyed.",
    ),
    CounterName::new(
        Event::TxPackets,
        "tx_nvmeotcp_digest_packets",
        "Frames whose payload passed an NVMe/TCP context.",
    ),
    CounterName::new(
        Event::TxBytes,
        "tx_nvmeotcp_digest_bytes",
        "Payload bytes of the frames in tx_nvmeotcp_digest_packets.",
    ),
    CounterName::new(
        Event::TxRecoveries,
        "tx_nvmeotcp_ooo",
        "Sends out of sequence, after which the NIC recovered the NVMe/TCP context.",
    ),
    CounterName::new(
        Event::TxPassedBytes,
        "tx_nvmeotcp_resync_bytes",
        "Bytes read to recover the digest of the current PDU.",
    ),
    CounterName::new(
        Event::TxOutOfSequence,
        "tx_nvmeotcp_drop_no_sync_data",
        "Packets without TLS dropped because their NVMe/TCP context was elsewhere in the stream.",
    ),
    CounterName::new(
        Event::RxContexts,
        "rx_nvmeotcp_sk_add",
        "NVMe/TCP receive contexts created.",
    ),
    CounterName::new(
        Event::RxContextsRefused,
        "rx_nvmeotcp_sk_add_fail",
        "NVMe/TCP receive contexts that the NIC could not create.",
    ),
    CounterName::new(
        Event::RxContextsEnded,
        "rx_nvmeotcp_sk_del",
        "NVMe/TCP receive contexts destroyed.",
    ),
    CounterName::new(
        Event::RxBuffersMapped,
        "rx_nvmeotcp_ddp_setup",
        "Buffers mapped for direct data placement.",
    ),
    CounterName::new(
        Event::RxBuffersRefused,
        "rx_nvmeotcp_ddp_setup_fail",
        "Buffers that the NIC could not map for placement.",
    ),
    CounterName::new(
        Event::RxBuffersUnmapped,
        "rx_nvmeotcp_ddp_teardown",
        "Buffers unmapped from placement.",
    ),
    CounterName::new(
        Event::RxPlacementsRefused,
        "rx_nvmeotcp_drop",
        "Data PDUs not placed: tag not mapped, data outside the buffer, or data already there.",
    ),
    CounterName::new(
        Event::RxRequests,
        "rx_nvmeotcp_resync",
        "PDU headers found that the NIC asked the host to confirm.",
    ),
    CounterName::new(
        Event::RxPlacedPackets,
        "rx_nvmeotcp_packets",
        "Packets with data that the NIC placed in a buffer.",
    ),
    CounterName::new(
        Event::RxPlacedBytes,
        "rx_nvmeotcp_bytes",
        "Bytes that the NIC placed in buffers.",
    ),
    CounterName::new(
        Event::RxPackets,
        "rx_nvmeotcp_digest_packets",
        "Packets whose PDU digests were all correct.",
    ),
    CounterName::new(
        Event::RxBytes,
        "rx_nvmeotcp_digest_bytes",
        "Payload bytes of the packets in rx_nvmeotcp_digest_packets.",
    ),
    CounterName::new(
        Event::RxFailed,
        "rx_nvmeotcp_digest_err",
        "Packets with a wrong digest or an invalid PDU header.",
    ),
    CounterName::new(
        Event::RxLatePackets,
        "rx_nvmeotcp_late_packets",
        "Packets checked that arrived late, inside a PDU whose header was known.",
    ),
    CounterName::new(
        Event::RxLeaps,
        "rx_nvmeotcp_resumed",
        "Gaps inside a PDU after which the offload resumed without asking the host.",
    ),
    CounterName::new(
        Event::RxLateHeaders,
        "rx_nvmeotcp_resumed_late_header",
        "Searches ended without the host because the missing PDU header arrived.",
    ),
    CounterName::new(
        Event::RxOutOfStep,
        "rx_nvmeotcp_resync_pkt",
        "Packets searched for a PDU header.",
    ),
    CounterName::new(
        Event::RxSearches,
        "rx_nvmeotcp_resync_start",
        "Searches for a PDU header started.",
    ),
    CounterName::new(
        Event::RxRequestsSkipped,
        "rx_nvmeotcp_resync_skip",
        "PDU headers found but not asked about, or whose question the stream made obsolete.",
    ),
    CounterName::new(
        Event::RxConfirmed,
        "rx_nvmeotcp_resync_res_ok",
        "Answers of the host after which the NVMe/TCP offload resumed.",
    ),
    CounterName::new(
        Event::RxRefuted,
        "rx_nvmeotcp_resync_res_retry",
        "Answers of the host that sent the NVMe/TCP context back to searching.",
    ),
    CounterName::new(
        Event::RxStaleAnswers,
        "rx_nvmeotcp_resync_res_skip",
        "Answers of the host that came too late for the NVMe/TCP offload.",
    ),
];

const HOST_COUNTERS: &[CounterName<HostEvent>] = &[
    CounterName::new(
        HostEvent::TxMessagesByNic,
        "NvmeTcpTxPdusDevice",
        "NVMe/TCP PDUs sent through a NIC context, which computes their data digests.",
    ),
    CounterName::new(
        HostEvent::TxMessagesBySoftware,
        "NvmeTcpTxPdusSw",
        "NVMe/TCP PDUs sent without the NIC's help.",
    ),
    CounterName::new(
        HostEvent::TxMessagesTakenBack,
        "NvmeTcpTxPdusFallback",
        "NVMe/TCP PDUs meant for the NIC whose digests software computed after all.",
    ),
    CounterName::new(
        HostEvent::ContextsRefused,
        "NvmeTcpContextRefused",
        "NVMe/TCP contexts that the NIC refused.",
    ),
    CounterName::new(
        HostEvent::BuffersMapped,
        "NvmeTcpBuffersMapped",
        "Buffers of NVMe/TCP commands mapped for the NIC to place data in.",
    ),
    CounterName::new(
        HostEvent::BuffersTainted,
        "NvmeTcpBuffersTainted",
        "Buffers in which the NIC placed data that the TCP stream did not deliver.",
    ),
    CounterName::new(
        HostEvent::RxBytesPlaced,
        "NvmeTcpRxBytesPlaced",
        "Bytes of NVMe/TCP data that the NIC had already placed.",
    ),
    CounterName::new(
        HostEvent::RxBytesCopied,
        "NvmeTcpRxBytesCopied",
        "Bytes of NVMe/TCP data that the host copied.",
    ),
    CounterName::new(
        HostEvent::RxChecksByNic,
        "NvmeTcpRxDigestsDevice",
        "Data digests that the NIC checked.",
    ),
    CounterName::new(
        HostEvent::RxChecksBySoftware,
        "NvmeTcpRxDigestsSw",
        "Data digests that software checked.",
    ),
    CounterName::new(
        HostEvent::RxRequests,
        "NvmeTcpRxDeviceResync",
        "Questions of the NIC whether a PDU begins at a given place.",
    ),
    CounterName::new(
        HostEvent::RxFailed,
        "NvmeTcpDigestErrors",
        "NVMe/TCP data received with a wrong digest.",
    ),
    CounterName::new(
        HostEvent::RxRefused,
        "NvmeTcpPdusRefused",
        "NVMe/TCP connections closed because of an invalid PDU from the peer.",
    ),
];
