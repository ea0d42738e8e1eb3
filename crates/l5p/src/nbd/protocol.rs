//! NBD in the list of protocols, and the names of its counters, after those of NVMe/TCP.

use super::{Engine, Parameters};
use crate::{CounterName, Direction, Event, HostEvent, Protocol};

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "nbd";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = 0;
    const COUNTERS: &'static [CounterName] = COUNTERS;
    const HOST_COUNTERS: &'static [CounterName<HostEvent>] = HOST_COUNTERS;

    fn create(parameters: &Parameters, direction: Direction) -> Engine {
        Engine::new(parameters, direction)
    }
}

const COUNTERS: &[CounterName] = &[
    CounterName::new(
        Event::RxContexts,
        "rx_nbd_sk_add",
        "NBD receive contexts created.",
    ),
    CounterName::new(
        Event::RxContextsRefused,
        "rx_nbd_sk_add_fail",
        "NBD receive contexts that the NIC could not create.",
    ),
    CounterName::new(
        Event::RxContextsEnded,
        "rx_nbd_sk_del",
        "NBD receive contexts destroyed.",
    ),
    CounterName::new(
        Event::RxBuffersMapped,
        "rx_nbd_ddp_setup",
        "Buffers mapped for direct data placement.",
    ),
    CounterName::new(
        Event::RxBuffersRefused,
        "rx_nbd_ddp_setup_fail",
        "Buffers that the NIC could not map for placement.",
    ),
    CounterName::new(
        Event::RxBuffersUnmapped,
        "rx_nbd_ddp_teardown",
        "Buffers unmapped from placement.",
    ),
    CounterName::new(
        Event::RxPlacementsRefused,
        "rx_nbd_drop",
        "Data of replies not placed: tag not mapped, data outside the buffer, or data already there.",
    ),
    CounterName::new(
        Event::RxRequests,
        "rx_nbd_resync",
        "Reply headers found that the NIC asked the host to confirm.",
    ),
    CounterName::new(
        Event::RxPlacedPackets,
        "rx_nbd_packets",
        "Packets with data that the NIC placed in a buffer.",
    ),
    CounterName::new(
        Event::RxPlacedBytes,
        "rx_nbd_bytes",
        "Bytes that the NIC placed in buffers.",
    ),
    CounterName::new(
        Event::RxFailed,
        "rx_nbd_err",
        "Packets with an invalid reply header.",
    ),
    CounterName::new(
        Event::RxLatePackets,
        "rx_nbd_late_packets",
        "Packets checked that arrived late, inside a reply whose header was known.",
    ),
    CounterName::new(
        Event::RxLeaps,
        "rx_nbd_resumed",
        "Gaps inside a reply after which the offload resumed without asking the host.",
    ),
    CounterName::new(
        Event::RxLateHeaders,
        "rx_nbd_resumed_late_header",
        "Searches ended without the host because the missing reply header arrived.",
    ),
    CounterName::new(
        Event::RxOutOfStep,
        "rx_nbd_resync_pkt",
        "Packets searched for a reply header.",
    ),
    CounterName::new(
        Event::RxSearches,
        "rx_nbd_resync_start",
        "Searches for a reply header started.",
    ),
    CounterName::new(
        Event::RxRequestsSkipped,
        "rx_nbd_resync_skip",
        "Reply headers found but not asked about, or whose question the stream made obsolete.",
    ),
    CounterName::new(
        Event::RxConfirmed,
        "rx_nbd_resync_res_ok",
        "Answers of the host after which the NBD offload resumed.",
    ),
    CounterName::new(
        Event::RxRefuted,
        "rx_nbd_resync_res_retry",
        "Answers of the host that sent the NBD context back to searching.",
    ),
    CounterName::new(
        Event::RxStaleAnswers,
        "rx_nbd_resync_res_skip",
        "Answers of the host that came too late for the NBD offload.",
    ),
];

const HOST_COUNTERS: &[CounterName<HostEvent>] = &[
    CounterName::new(
        HostEvent::ContextsRefused,
        "NbdContextRefused",
        "NBD contexts that the NIC refused.",
    ),
    CounterName::new(
        HostEvent::BuffersMapped,
        "NbdBuffersMapped",
        "Buffers of NBD reads mapped for the NIC to place data in.",
    ),
    CounterName::new(
        HostEvent::BuffersTainted,
        "NbdBuffersTainted",
        "Buffers in which the NIC placed data that the TCP stream did not deliver.",
    ),
    CounterName::new(
        HostEvent::RxBytesPlaced,
        "NbdRxBytesPlaced",
        "Bytes of NBD data that the NIC had already placed.",
    ),
    CounterName::new(
        HostEvent::RxBytesCopied,
        "NbdRxBytesCopied",
        "Bytes of NBD data that the host copied.",
    ),
    CounterName::new(
        HostEvent::RxRequests,
        "NbdRxDeviceResync",
        "Questions of the NIC whether a reply begins at a given place.",
    ),
    CounterName::new(
        HostEvent::RxRefused,
        "NbdRepliesRefused",
        "NBD connections closed because of an invalid reply.",
    ),
];
