//! Features (NVMe Base 2.0 §5.27.1).

/// A feature identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature(pub u8);

impl Feature {
    /// Arbitration: how many commands at once, and the weights of the queues.
    pub const ARBITRATION: Feature = Feature(0x01);
    /// Power Management: bits 4:0 are the power state.
    pub const POWER_MANAGEMENT: Feature = Feature(0x02);
    /// Temperature Threshold: bits 15:0 are kelvins, 19:16 the sensor, 21:20 which threshold.
    pub const TEMPERATURE_THRESHOLD: Feature = Feature(0x04);
    /// Error Recovery: bits 15:0 are the time limit of a command, bit 16 asks for errors of deallocated blocks.
    pub const ERROR_RECOVERY: Feature = Feature(0x05);
    /// Volatile Write Cache: bit 0 enables it.
    pub const VOLATILE_WRITE_CACHE: Feature = Feature(0x06);
    /// Number of Queues; see [`QueueCounts`].
    pub const NUMBER_OF_QUEUES: Feature = Feature(0x07);
    /// Asynchronous Event Configuration; see [`super::EventMask`].
    pub const ASYNC_EVENT_CONFIGURATION: Feature = Feature(0x0b);
    /// Keep Alive Timer: milliseconds.
    pub const KEEP_ALIVE_TIMER: Feature = Feature(0x0f);
    /// Host Identifier: 8 or 16 bytes of data.
    pub const HOST_IDENTIFIER: Feature = Feature(0x81);
}

/// The value of Number of Queues, asked for and granted (NVMe Base 2.0 §5.27.1.5). Counted from one; the wire counts
/// from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueCounts {
    /// I/O submission queues, 1 to 65,536.
    pub submission: u32,
    /// I/O completion queues, 1 to 65,536.
    pub completion: u32,
}

impl QueueCounts {
    /// From dword 11 of Set Features or dword 0 of its completion.
    #[must_use]
    pub const fn from_dword(dword: u32) -> QueueCounts {
        QueueCounts {
            submission: (dword & 0xffff) + 1,
            completion: (dword >> 16) + 1,
        }
    }

    /// The dword for these counts; counts outside 1 to 65,536 are brought inside.
    #[must_use]
    pub fn to_dword(self) -> u32 {
        let zero_based = |count: u32| count.clamp(1, 1 << 16) - 1;
        zero_based(self.submission) | zero_based(self.completion) << 16
    }
}
