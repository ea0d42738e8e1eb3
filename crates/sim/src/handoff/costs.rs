//! What operations cost, once for all runs.
//!
//! The host core executes one instruction per cycle at 2 GHz and waits for memory besides (seed 003, Table 2); the NIC's core executes
//! instructions at its rate and has memory that is as fast (§4.1). Three kinds of sources:
//! - *given*: said by the seed;
//! - *derived*: what the seed's own figures leave for it by arithmetic, as told beside the number;
//! - *chosen*: between what these leave open, so that the relations of the seed's rows come out best; the same for all rows.

/// All costs. [`Costs::default`] is what the experiments use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The host's.
    pub host: HostCosts,
    /// The NIC's.
    pub nic: NicCosts,
}

/// Costs on the host, in cycles without the waits for the state of connections, which are the [cache](CacheCosts)'s. Where nothing
/// else is said a number is chosen: together they give World Cup's 86,800 cycles per request, 57 % of them below the system
/// calls (derived, Table 1 and §5.1), and the changes that handoff makes for World Cup, IBM and SPECweb99.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostCosts {
    /// Cycles per second: 2 GHz (given, Table 2).
    pub hertz: u64,
    /// A received packet, from the interrupt to the end of TCP's input.
    pub receive: u64,
    /// More for a packet that brings data: the socket's buffer, the application's wake-up, the window.
    pub deliver: u64,
    /// A packet to send, from TCP's output to the NIC's ring.
    pub transmit: u64,
    /// A new connection below the system calls: socket and control blocks made and found.
    pub connection: u64,
    /// The end of a connection below the system calls: from the peer's FIN to the control blocks' return.
    pub teardown: u64,
    /// A timer of a connection.
    pub timer: u64,
    /// `accept`, `close` and what the application does for a connection, below the application.
    pub accept_system: u64,
    /// The same in the application.
    pub accept_user: u64,
    /// System calls of a request: `select`, `read`, `stat`, `write` of the header, `sendfile`.
    pub request_system: u64,
    /// The application's own work for a request.
    pub request_user: u64,
    /// More for dynamic content (derived: SPECweb99's and its static variant's requests per second without handoff, a third of them
    /// dynamic).
    pub dynamic_user: u64,
    /// A page enqueued by `sendfile`, without the packets.
    pub page: u64,
    /// A byte copied between application and kernel: a cycle per eight bytes, and the wait for its line.
    pub copied_byte: f64,
    /// A command to the NIC by the bypass protocol.
    pub bypass_command: u64,
    /// An event from the NIC.
    pub bypass_event: u64,
    /// A handoff: control block and buffers described to the NIC (given as a bound by the project: less than 10 µs).
    pub hand_off: u64,
    /// A restore.
    pub restore: u64,
    /// The cache of connection state.
    pub cache: CacheCosts,
}

/// The L2 cache, as far as the state of connections is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheCosts {
    /// Lines of 64 bytes for the state of connections: of the 16,384 of 1 MB (given, Table 2) those that packets, buffers, the
    /// application and the kernel's other data leave.
    pub lines: u32,
    /// Lines of a connection's state in the stack: 1 KB (given, §2).
    pub stack_lines: u32,
    /// Lines of its socket, its descriptor and the application's record of it, which stay with the host in any case.
    pub socket_lines: u32,
    /// Cycles for a line that is not there: half of the 195 of the DRAM (given, Table 2), since each miss brings the
    /// next line too (given: next-line prefetch), and the hit in L2 for the other one.
    pub miss: u64,
    /// Cycles for a line that is there: 15 (given, Table 2).
    pub hit: u64,
}

/// Costs on the NIC, in instructions. Where nothing else is said a number is chosen: together they give 420 instructions per packet of
/// a host connection (derived: Table 1, 62 % idle without handoff) and some 1,600 per packet of a NIC connection with its commands
/// and events (derived: Table 1 and Figure 7, idle time with 256 connections; Figure 8, idle time at 600 and 800 MIPS).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicCosts {
    /// The lookup that every received packet goes through (§3.1), before it is queued.
    pub lookup: u64,
    /// A packet of a host's connection received, without the lookup.
    pub host_receive: u64,
    /// A packet of a host's connection sent.
    pub host_transmit: u64,
    /// A packet received for a connection of the NIC, without the lookup.
    pub receive: u64,
    /// A packet sent for a connection of the NIC.
    pub transmit: u64,
    /// A command of the host.
    pub command: u64,
    /// An event to the host.
    pub event: u64,
    /// A handoff taken, or a connection given back.
    pub hand_off: u64,
    /// A timer of a connection.
    pub timer: u64,
    /// Nanoseconds that a transfer to or from host memory takes, in which the core does something else.
    pub dma_nanos: u64,
    /// Received packets that wait at most for the core (chosen; the mean delay of host packets on a NIC that serves all in order
    /// is as long as this queue).
    pub receive_ring: u32,
    /// Packets of the host that wait at most to be sent; more are lost, as by a full interface queue: FreeBSD 4.7's takes 50
    /// (IFQ_MAXLEN), the ring behind it some more (chosen: of the order; fewer are lost already in the bursts of a NIC that has time left).
    pub transmit_ring: u32,
    /// NIC packets that wait at most in their own queue, when host packets go first: more than Hiwat, and little of its 32 MB
    /// (given, §4.1).
    pub receive_queue: u32,
    /// Hiwat: 1,024 (given, §5.1).
    pub hiwat: u32,
    /// Lowat.
    pub lowat: u32,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            host: HostCosts {
                hertz: 2_000_000_000,
                receive: 1600,
                transmit: 1800,
                deliver: 7000,
                connection: 25_000,
                teardown: 45_000,
                timer: 800,
                accept_system: 14_000,
                accept_user: 6_000,
                request_system: 21_000,
                request_user: 9_000,
                dynamic_user: 370_000,
                page: 1200,
                copied_byte: 0.5,
                bypass_command: 1500,
                bypass_event: 1500,
                hand_off: 6_000,
                restore: 6_000,
                cache: CacheCosts {
                    lines: 10_000,
                    stack_lines: 16,
                    socket_lines: 16,
                    miss: 105,
                    hit: 15,
                },
            },
            nic: NicCosts {
                lookup: 60,
                host_receive: 360,
                host_transmit: 420,
                receive: 1300,
                transmit: 1300,
                command: 700,
                event: 400,
                hand_off: 3000,
                timer: 600,
                dma_nanos: 800,
                receive_ring: 256,
                transmit_ring: 80,
                receive_queue: 2048,
                hiwat: 1024,
                lowat: 64,
            },
        }
    }
}
