//! Where the time of the NIC's thread goes.

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
    const ALL: [(Part, &'static str); 9] = [
        (Part::HostRead, "host_read_cycles"),
        (Part::Driver, "driver_cycles"),
        (Part::NicTransmit, "nic_transmit_cycles"),
        (Part::WireWrite, "wire_write_cycles"),
        (Part::WireRead, "wire_read_cycles"),
        (Part::NicReceive, "nic_receive_cycles"),
        (Part::HostWrite, "host_write_cycles"),
        (Part::Control, "control_cycles"),
        (Part::Asleep, "asleep_cycles"),
    ];
}

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
        let parts = Part::ALL.iter();
        parts.map(|(part, name)| (*name, self.cycles[*part as usize]))
    }
}
