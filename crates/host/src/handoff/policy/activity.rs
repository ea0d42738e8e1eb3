//! How busy a connection is: packets of late, and those that are certain to come.

/// The unit of time: 2^20 ns, about a millisecond.
pub(super) const TICK_SHIFT: u32 = 20;
/// Ticks in which what a connection has sent comes to count half. Of the order of what a request takes under load: one that
/// sends much now is in the middle of something.
const HALF_LIFE: f32 = 256.0;
/// Seconds for which packets count, all in all: the half-life over ln 2.
pub(super) const WINDOW: f32 =
    HALF_LIFE / std::f32::consts::LN_2 * (1u64 << TICK_SHIFT) as f32 / 1e9;
/// Payload of a packet, as good as any for a guess.
const PACKET: u32 = 1448;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// Packets sent, the older the less.
    recent: f32,
    /// Packets that the application wants sent and the send buffer had no room for.
    waiting: f32,
    /// Tick of the last send.
    at: u64,
}

impl Activity {
    pub fn new(tick: u64) -> Self {
        Self {
            at: tick,
            ..Self::default()
        }
    }

    /// Ticks since the last send.
    #[inline]
    pub fn quiet(&self, tick: u64) -> u64 {
        tick.saturating_sub(self.at)
    }

    /// Counts a send. Returns its packets.
    #[inline]
    pub fn sent(&mut self, tick: u64, bytes: u32, waiting: u64) -> f32 {
        let packets = bytes.div_ceil(PACKET) as f32;
        self.recent = self.recent * fade(self.quiet(tick)) + packets;
        self.waiting = waiting.min(1 << 40) as f32 / PACKET as f32;
        self.at = tick.max(self.at);
        packets
    }

    /// Counts a connection that nothing is known of as one that has sent so much of late.
    pub fn presume(&mut self, packets: f32) {
        self.recent += packets;
    }

    /// Packets to expect of it for a while: those certain to come as far as it goes on at all, and as many as of late.
    #[inline]
    pub fn worth(&self, tick: u64) -> f32 {
        (self.recent + self.waiting.min(super::MOST_WAITING)) * fade(self.quiet(tick))
    }

    /// Packets certain to come.
    #[inline]
    pub fn waiting(&self) -> f32 {
        self.waiting
    }
}

/// What is left after so many ticks: straight lines between the halves.
#[inline]
fn fade(ticks: u64) -> f32 {
    let halves = ticks as f32 / HALF_LIFE;
    let whole = halves as u32;
    if whole >= 32 {
        return 0.0;
    }
    (1.0 - 0.5 * (halves - whole as f32)) / (1u64 << whole) as f32
}
