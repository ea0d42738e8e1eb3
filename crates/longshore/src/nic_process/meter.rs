//! Where the time of a NIC's thread goes.

use host::read_cycles;

/// What the thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Reading from a host's interface what Linux sends.
    HostRead,
    /// The driver of a host's function, retained plaintext included.
    Driver,
    /// From the send rings to frames, encryption included.
    NicTransmit,
    /// Giving frames to the wire; on a TAP the receiving host's TCP is in it.
    WireWrite,
    /// Taking frames from the wire.
    WireRead,
    /// From frames to the receive rings, decryption included.
    NicReceive,
    /// Giving frames to Linux, with what its TCP does with them at once.
    HostWrite,
    /// Signals, the control socket, programs' libraries.
    Control,
    /// Waiting.
    Asleep,
}

impl Part {
    const ALL: [Part; 9] = [
        Part::HostRead,
        Part::Driver,
        Part::NicTransmit,
        Part::WireWrite,
        Part::WireRead,
        Part::NicReceive,
        Part::HostWrite,
        Part::Control,
        Part::Asleep,
    ];
}

/// The counters of the parts, in the order of [`Part`], and what each counts.
pub const PART_EXPLANATIONS: &[(&str, &str)] = &[
    (
        "host_read_cycles",
        "Cycles reading from the hosts' interfaces what Linux sends.",
    ),
    (
        "driver_cycles",
        "Cycles in the drivers of the hosts' functions, retained plaintext included.",
    ),
    (
        "nic_transmit_cycles",
        "Cycles from the send rings to frames, encryption included.",
    ),
    (
        "wire_write_cycles",
        "Cycles writing frames to the wire; on a TAP this includes the receiver's TCP.",
    ),
    ("wire_read_cycles", "Cycles reading frames from the wire."),
    (
        "nic_receive_cycles",
        "Cycles from frames to the receive rings, decryption included.",
    ),
    (
        "host_write_cycles",
        "Cycles writing frames to Linux, including its TCP's immediate work.",
    ),
    (
        "control_cycles",
        "Cycles for signals, the control socket and programs' libraries.",
    ),
    ("asleep_cycles", "Cycles waiting."),
];

/// Cycles of the time-stamp counter by part. It goes on while another thread has the processor.
#[derive(Debug)]
pub struct Meter {
    part: Part,
    since: u64,
    cycles: [u64; Part::ALL.len()],
}

impl Meter {
    /// Begins with [`Part::Control`].
    pub fn start() -> Meter {
        Meter {
            part: Part::Control,
            since: read_cycles(),
            cycles: [0; Part::ALL.len()],
        }
    }

    /// From now on the thread is at this part.
    #[inline]
    pub fn switch(&mut self, to: Part) {
        let now = read_cycles();
        self.cycles[self.part as usize] += now.wrapping_sub(self.since);
        (self.part, self.since) = (to, now);
    }

    /// Each part's cycles, by the name of its counter.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = PART_EXPLANATIONS.iter().zip(Part::ALL);
        named.map(|((name, _), part)| (*name, self.cycles[part as usize]))
    }
}
