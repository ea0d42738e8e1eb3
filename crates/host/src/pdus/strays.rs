//! What the NIC has written for packets that TCP then did not take.
//!
//! A packet may be old news to TCP for reasons that the NIC does not know (RFC 7323 §5), and someone on the path may forge
//! packets. What it had placed is in a buffer all the same, maybe over what was there before. If the stream brings the bytes
//! that belong there afterwards, they are copied: a byte is placed once only. If not, the buffer must not be used.

use nic::ring::Slice;

/// Memory whose bytes are not the stream's.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    slices: Vec<Slice>,
    /// There was no room for more: all memory may have some.
    are_many: bool,
}

/// More come only in an attack.
const MOST: usize = 256;

impl Strays {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The NIC has written there.
    pub fn add(&mut self, slice: Slice) {
        if self.slices.len() < MOST {
            self.slices.push(slice);
        } else {
            self.are_many = true;
        }
    }

    /// The stream's bytes have been copied there.
    pub fn heal(&mut self, copied: Slice) {
        for at in (0..self.slices.len()).rev() {
            let stray = self.slices[at];
            let Some((from, to)) = overlap(stray, copied) else {
                continue;
            };
            self.slices.swap_remove(at);
            let end = stray.offset + u64::from(stray.len);
            for (start, end) in [(stray.offset, from), (to, end)] {
                if start < end {
                    self.add(Slice {
                        offset: start,
                        len: (end - start) as u32,
                        ..stray
                    });
                }
            }
        }
    }

    /// Whether any of this memory has some. They are forgotten.
    pub fn take(&mut self, buffer: &[Slice]) -> bool {
        let before = self.slices.len();
        self.slices
            .retain(|stray| buffer.iter().all(|slice| overlap(*stray, *slice).is_none()));
        self.are_many || self.slices.len() < before
    }
}

/// The bytes that two slices have in common.
fn overlap(a: Slice, b: Slice) -> Option<(u64, u64)> {
    let from = a.offset.max(b.offset);
    let to = (a.offset + u64::from(a.len)).min(b.offset + u64::from(b.len));
    (a.region == b.region && from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use nic::ring::{RegionId, Slice};

    use super::{MOST, Strays};

    fn slice(offset: u64, len: u32) -> Slice {
        Slice {
            offset,
            len,
            region: RegionId(1),
        }
    }

    #[test]
    fn what_is_copied_over_is_none_any_more() {
        let mut strays = Strays::default();
        strays.add(slice(100, 50));
        strays.heal(slice(0, 110));
        strays.heal(slice(120, 10));
        assert!(!strays.take(&[slice(90, 20), slice(120, 10)]));
        assert!(strays.take(&[slice(130, 1), slice(500, 3)]));
        assert!(!strays.take(&[slice(130, 1)]));
        strays.heal(slice(110, 10));
        assert!(strays.is_empty());
        strays.add(slice(7, 9));
        let elsewhere = Slice {
            region: RegionId(2),
            ..slice(0, 100)
        };
        strays.heal(elsewhere);
        assert!(!strays.is_empty() && !strays.take(&[elsewhere]));
    }

    #[test]
    fn too_many_are_everywhere() {
        let mut strays = Strays::default();
        for n in 0..=MOST as u64 {
            strays.add(slice(n * 10, 5));
        }
        strays.heal(slice(0, 10_000));
        assert!(strays.is_empty() && strays.take(&[slice(50_000, 1)]));
    }
}
