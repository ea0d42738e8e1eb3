//! What operations cost, once for all runs.
//!
//! The host core executes one instruction per cycle at 2 GHz and waits for memory besides (Connection handoff policies, Table 2); the NIC's core executes
//! instructions at its rate and has memory that is as fast (§4.1). Three kinds of sources:
//! - *given*: said by the seed;
//! - *derived*: what the seed's own figures leave for it by arithmetic, as told beside the number;
//! - *fitted*: nine of the host's costs, together, to a few of the seed's rates, as [`HostCosts`] says; *chosen*: of the order that the
//!   machine suggests, and then the best of a few. All are the same for all rows: what a row says of another configuration than
//!   those fitted to is a prediction.

/// All costs. [`Costs::default`] is what the experiments use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The host's.
    pub host: HostCosts,
    /// The NIC's.
    pub nic: NicCosts,
}

/// Costs on the host, in cycles without the waits for the state of connections, which are the [cache](CacheCosts)'s.
///
/// Fitted: a packet, a connection's begin and end, a request, a page, a bypass message, a handoff, and the files of IBM and of
/// SPECweb99. A search took the least sum of squares of relative errors, over what runs count of each operation per request, in: the
/// cycles per request without handoff (2 GHz over 23,031, 25,700 and 11,400 requests/s for World Cup, IBM and SPECweb99-static:
/// derived, Table 1, §5.1, Figure 8); 57 % of World Cup's below the system calls (§5.1); and the changes of requests per second by
/// FCFS and T20 with 256 connections (§5.2), by 1,024 connections with host packets first (Table 1), and by load control at each rate
/// of the NIC (§5.1, §5.3) for those three workloads. Rounded; a packet and a connection's end are then exchanged for each other as
/// far as more of all published rows agree; what the NIC's costs, queues and Lowat were chosen from are all rows too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostCosts {
    /// Cycles per second: 2 GHz (given, Table 2).
    pub hertz: u64,
    /// A received packet, from the interrupt to the end of TCP's input. T20's 6 % more requests for 12 points more of the packets (§5.2)
    /// are some 2,500 cycles per packet (derived).
    pub receive: u64,
    /// More for a packet that brings data: the socket's buffer, the application's wake-up, the window.
    pub deliver: u64,
    /// A packet to send, from TCP's output to the NIC's ring.
    pub transmit: u64,
    /// A new connection below the system calls: socket and control blocks made and found.
    pub connection: u64,
    /// The end of a connection below the system calls: from the peer's FIN to the control blocks' return. Much, for SPECweb99-static's
    /// sake, whose connections are the shortest and whose host is relieved most.
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
    /// More for finding the file of a static request.
    pub files: FileCosts,
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

/// System time per static request for its file, besides what World Cup's files take: SPECweb99's set of files is larger than the
/// server's 2 GB (Table 2), those of the traces are not known (fitted to the rates without handoff).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileCosts {
    /// IBM's.
    pub ibm: u64,
    /// SPECweb99's.
    pub specweb99: u64,
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
/// and events (derived: 1,460 to 1,630 by the idle times with 256 connections in Table 1 and Figure 7, and 1,510 to 1,630 by those of
/// IBM and SPECweb99 at 600 and 800 MIPS in Figure 8, where nearly all connections are on the NIC). Each piece of work runs to its
/// end: a command or an acknowledgment with all packets that TCP may send then.
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
    /// Nanoseconds that a transfer to or from host memory takes, in which the core does something else (derived: with it a packet
    /// crosses a NIC without handoff in the 2 µs of Table 1).
    pub dma_nanos: u64,
    /// Received packets that wait at most for the core (chosen: the mean delay of host packets on a saturated NIC that serves all in
    /// order, "more than 1 millisecond", is as long as this queue).
    pub receive_ring: u32,
    /// Packets of the host that wait at most to be sent; more are lost, as by a full interface queue: FreeBSD 4.7's takes 50
    /// (IFQ_MAXLEN), and the hardware behind it a few.
    pub transmit_ring: u32,
    /// NIC packets that wait at most in their own queue, when host packets go first: well above Hiwat, and 6 of the 32 MB (given, §4.1).
    pub receive_queue: u32,
    /// Hiwat: 1,024 (given, §5.1).
    pub hiwat: u32,
    /// Lowat: more connections are asked for when nothing waits (chosen).
    pub lowat: u32,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            host: HostCosts {
                hertz: 2_000_000_000,
                receive: 2250,
                transmit: 2250,
                deliver: 1000,
                connection: 15_000,
                teardown: 60_000,
                timer: 800,
                accept_system: 10_000,
                accept_user: 4_000,
                request_system: 6_000,
                request_user: 7_000,
                dynamic_user: 249_000,
                files: FileCosts {
                    ibm: 15_500,
                    specweb99: 27_000,
                },
                page: 7500,
                copied_byte: 0.5,
                bypass_command: 1400,
                bypass_event: 1400,
                hand_off: 3_000,
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
                transmit_ring: 64,
                receive_queue: 4096,
                hiwat: 1024,
                lowat: 1,
            },
        }
    }
}
