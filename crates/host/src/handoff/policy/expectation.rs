//! What a port's connections have done so far, by how often they had sent: learnt as they send.

/// Levels: connections that have sent 1, 2–3, 4–7, … times.
const LEVELS: usize = 16;
/// Sends after which old ones begin to count half.
const MEMORY: u32 = 1 << 16;

/// Sends, packets and connections of one port by level. All of it is counted as it happens: in the long run as many sends are
/// made above a level per connection that reaches it as that connection can expect to have left (mean residual life),
/// without waiting for any of them to end.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    /// Connections that came to the level.
    reached: [f32; LEVELS],
    /// Packets of the sends made in the level.
    packets: [f32; LEVELS],
    /// Seconds between the sends in the level and the ones before them.
    seconds: [f32; LEVELS],
    until_halved: u32,
}

impl Expectation {
    pub fn new() -> Self {
        Self {
            reached: [0.0; LEVELS],
            packets: [0.0; LEVELS],
            seconds: [0.0; LEVELS],
            until_halved: MEMORY,
        }
    }

    /// A connection has made its `sends`-th send, of so many packets, so many seconds after the one before.
    #[inline]
    pub fn learn(&mut self, sends: u32, packets: f32, seconds: f32) {
        let level = level(sends);
        if sends.is_power_of_two() && sends.ilog2() as usize == level {
            self.reached[level] += 1.0;
        }
        self.packets[level] += packets;
        self.seconds[level] += seconds;
        self.until_halved -= 1;
        if self.until_halved == 0 {
            self.halve();
        }
    }

    /// Packets that a connection with so many sends is to send yet; `None` if none ever came so far.
    #[inline]
    pub fn remaining(&self, sends: u32) -> Option<f32> {
        let level = level(sends);
        let above: f32 = self.packets[level..].iter().sum();
        // Too few say nothing.
        (self.reached[level] >= 4.0).then(|| above / self.reached[level])
    }

    /// Packets in a second of the port's connections.
    pub fn rate(&self) -> Option<f32> {
        let seconds: f32 = self.seconds.iter().sum();
        (self.reached[0] >= 4.0 && seconds > 0.0)
            .then(|| self.packets.iter().sum::<f32>() / seconds)
    }

    #[cold]
    fn halve(&mut self) {
        let all = [&mut self.reached, &mut self.packets, &mut self.seconds];
        all.into_iter().flatten().for_each(|sum| *sum /= 2.0);
        self.until_halved = MEMORY;
    }
}

fn level(sends: u32) -> usize {
    (sends.max(1).ilog2() as usize).min(LEVELS - 1)
}
