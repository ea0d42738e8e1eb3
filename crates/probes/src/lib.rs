//! Statically defined tracing probes (USDT), in the form of SystemTap's notes (`.note.stapsdt`): what happens to one connection, one context or one
//! packet, for an operator who attaches bpftrace to a running process.
//!
//! Each probe is a function that takes a closure, which gives the arguments. While no tracer is attached, the probe's semaphore is 0: the function
//! reads it and returns, and the closure does not run. A tracer increments the semaphore; then the closure runs, its values go into registers, and a
//! `nop` follows, where the kernel puts its breakpoint.
//!
//! Probes are for Linux on x86-64 and aarch64. Elsewhere the functions do nothing.
//!
//! A probe is one place in the program, so that function is never inlined or generic. Its copies would each have a note, also those of code that the
//! linker leaves out, whose address would point at nothing.
//!
//! [`PROBES`] lists them with their arguments; the functions, the list, the table of the documentation and what the scripts in `packaging/bpftrace`
//! call the values are one source or are compared by tests.

#![warn(missing_docs)]

mod argument;
#[macro_use]
mod fire;
mod flow;
mod values;

pub use flow::{Flow, Text};
pub use values::{
    CODES, CodeOf, ControlRequest, DropReason, EndReason, HandoffOutcome, LossReason, Opener,
};
pub use values::{Resumption, ResyncAnswer};

use argument::Argument;

/// The provider of all probes, as tracers name it.
pub const PROVIDER: &str = "longshore";

/// A probe, as it is documented.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Its name, behind that of the [provider](PROVIDER).
    pub name: &'static str,
    /// When it fires.
    pub meaning: &'static str,
    /// Its arguments in their order, `arg0` first.
    pub arguments: &'static [ArgumentOf],
}

/// An argument of a probe, as it is documented.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentOf {
    /// Its name.
    pub name: &'static str,
    /// Its type: an unsigned integer, as Rust names them, or `string`, the address of text that ends with a zero byte.
    pub kind: &'static str,
    /// What it is.
    pub meaning: &'static str,
}

const fn argument_of<A: Argument>(name: &'static str, doc: &'static str) -> ArgumentOf {
    ArgumentOf {
        name,
        kind: A::KIND,
        meaning: doc.trim_ascii(),
    }
}

/// Defines the probes: of each the arguments, the function that fires it, and its entry in [`PROBES`]. Each line of documentation is shown to users.
macro_rules! probes {
    ($(
        #[doc = $meaning:literal]
        $name:ident: $arguments:ident {
            #[doc = $first_doc:literal] $first:ident: $first_type:ty,
            $(#[doc = $doc:literal] $argument:ident: $type:ty,)*
        }
    )*) => {
        /// Every probe.
        pub const PROBES: &[Probe] = &[$(Probe {
            name: stringify!($name),
            meaning: $meaning.trim_ascii(),
            arguments: &[
                argument_of::<$first_type>(stringify!($first), $first_doc),
                $(argument_of::<$type>(stringify!($argument), $doc),)*
            ],
        },)*];

        $(
            #[doc = $meaning]
            #[derive(Clone, Copy, Debug)]
            pub struct $arguments {
                #[doc = $first_doc] pub $first: $first_type,
                $(#[doc = $doc] pub $argument: $type,)*
            }

            #[doc = $meaning]
            #[cold]
            #[inline(never)]
            pub fn $name(arguments: &dyn Fn() -> $arguments) {
                let given;
                fire!(
                    longshore,
                    $name,
                    {
                        given = arguments();
                        given.$first.register()
                    },
                    $(given.$argument.register(),)*
                );
            }
        )*
    };
}

probes! {
    /// A TCP connection of the host stack is established.
    connection_opened: ConnectionOpened {
        /// The flow's number.
        flow: u64,
        /// This side's address and port.
        local: Text,
        /// The peer's address and port.
        remote: Text,
        /// Who opened it.
        opener: Opener,
    }

    /// A TCP connection of the host stack has ended, or an attempt to open one has failed.
    connection_closed: ConnectionClosed {
        /// The flow's number.
        flow: u64,
        /// This side's address and port.
        local: Text,
        /// The peer's address and port.
        remote: Text,
        /// Why.
        reason: EndReason,
    }

    /// The host sends a TCP segment again.
    tcp_retransmit: TcpRetransmit {
        /// The flow's number.
        flow: u64,
        /// This side's address and port.
        local: Text,
        /// The peer's address and port.
        remote: Text,
        /// Sequence number of the segment's first byte.
        seq: u32,
        /// Its payload in bytes.
        bytes: u32,
    }

    /// The retransmission timer of an established TCP connection of the host's has expired, and the connection goes on.
    tcp_timeout: TcpTimeout {
        /// The flow's number.
        flow: u64,
        /// This side's address and port.
        local: Text,
        /// The peer's address and port.
        remote: Text,
    }

    /// The host posts a recovery of a transmit context, which the next packet needs.
    tx_recovery: TxRecovery {
        /// Number of the context, of those of the host's function.
        context: u32,
        /// Sequence number that the context is to resume at.
        seq: u32,
        /// Bytes of the message before it, which the NIC reads again.
        bytes: u32,
    }

    /// What became of the handoff of a connection to the NIC, or of a connection that the NIC ran.
    handoff: Handoff {
        /// The flow's number.
        flow: u64,
        /// This side's address and port.
        local: Text,
        /// The peer's address and port.
        remote: Text,
        /// What became of it.
        outcome: HandoffOutcome,
    }

    /// The NIC has made a receive context: it processes what it receives of a flow.
    rx_context_created: RxContextCreated {
        /// Number of the function.
        function: u16,
        /// Number of the context, of those of the function.
        context: u32,
        /// The outermost protocol's id.
        protocol: u8,
        /// The flow's number, as in the host's probes.
        flow: u64,
        /// The function's address and port.
        local: Text,
        /// The peer's address and port.
        remote: Text,
    }

    /// A receive context has ended.
    rx_context_destroyed: RxContextDestroyed {
        /// Number of the function.
        function: u16,
        /// Number of the context.
        context: u32,
    }

    /// The NIC does not know any more where messages begin in a flow: it searches, and passes packets on as they came.
    offload_lost: OffloadLost {
        /// Number of the function.
        function: u16,
        /// Number of the context.
        context: u32,
        /// Id of the protocol whose messages they are.
        protocol: u8,
        /// Why.
        reason: LossReason,
    }

    /// The NIC knows again where messages begin in a flow.
    offload_resumed: OffloadResumed {
        /// Number of the function.
        function: u16,
        /// Number of the context.
        context: u32,
        /// Id of the protocol whose messages they are.
        protocol: u8,
        /// How it has found out.
        how: Resumption,
    }

    /// The NIC asks the host whether a message begins at a place.
    resync_request: ResyncRequest {
        /// Number of the function.
        function: u16,
        /// Number of the context.
        context: u32,
        /// Id of the protocol whose messages they are.
        protocol: u8,
        /// Sequence number of the place; in nested protocols of the outer message that it is in.
        seq: u32,
    }

    /// The host's answer to such a question has come to the NIC.
    resync_response: ResyncResponse {
        /// Number of the function.
        function: u16,
        /// Number of the context.
        context: u32,
        /// Id of the protocol whose messages they are.
        protocol: u8,
        /// Sequence number of the place, as in the question.
        seq: u32,
        /// What the answer did.
        answer: ResyncAnswer,
    }

    /// The NIC drops a packet, for one of the reasons below; other losses are told by counters alone.
    packet_drop: PacketDrop {
        /// Number of the function; 65535 when the packet is for none.
        function: u16,
        /// Why: the counter of the NIC that counts it.
        reason: DropReason,
    }

    /// A client of the control socket asks for something that the service grants it to ask.
    control_request: ControlRequested {
        /// What.
        request: ControlRequest,
    }
}

#[cfg(test)]
mod tests;
