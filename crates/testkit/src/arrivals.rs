//! The order in which packets of a stream come, by what becomes of each.

/// What happens to one packet on its way.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It comes in its turn.
    Arrives,
    /// It never comes.
    Lost,
    /// It comes so many packets later.
    Late(u8),
    /// It comes in its turn, and once more so many packets later.
    Twice(u8),
    /// It comes merged with so many bytes before and after it.
    Overlaps(u16, u16),
    /// It comes with a byte changed.
    Corrupt(u16),
}

/// A packet that comes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its first byte in the stream.
    pub from: usize,
    /// The byte behind its last one.
    pub to: usize,
    /// The byte of the stream that is changed in it.
    pub corrupt: Option<usize>,
    /// Its number among the packets that were sent.
    pub number: usize,
}

/// Cuts a stream of `total` bytes into packets of these sizes, over and over, and gives those that come, by their fates, in their order.
pub fn arrivals(total: usize, sizes: &[usize], fates: &[Fate]) -> Vec<Arrival> {
    let mut queue: Vec<(usize, Arrival)> = Vec::new();
    let mut from = 0;
    for (number, size) in sizes.iter().cycle().enumerate() {
        let to = (from + size).min(total);
        if from == total {
            break;
        }
        let (now, packet) = (
            4 * number,
            Arrival {
                from,
                to,
                corrupt: None,
                number,
            },
        );
        let later = |by: u8| now + 4 * usize::from(by) + 2;
        match fates[number % fates.len()] {
            Fate::Arrives => queue.push((now, packet)),
            Fate::Lost => {}
            Fate::Late(by) => queue.push((later(by), packet)),
            Fate::Twice(by) => queue.extend([(now, packet), (later(by), packet)]),
            Fate::Overlaps(before, after) => {
                let from = from.saturating_sub(before.into());
                let to = (to + usize::from(after)).min(total);
                queue.push((now, Arrival { from, to, ..packet }));
            }
            Fate::Corrupt(at) => {
                let corrupt = Some(from + usize::from(at) % (to - from));
                queue.push((now, Arrival { corrupt, ..packet }));
            }
        }
        from = to;
    }
    queue.sort_by_key(|(when, _)| *when);
    queue.into_iter().map(|(_, packet)| packet).collect()
}
