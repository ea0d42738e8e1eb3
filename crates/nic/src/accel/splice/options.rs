//! The options of a segment, from one leg to the other, in one pass.

use wire::checksum::Sum;

const END: u8 = 0;
const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// What is to be done to the options of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rewrite {
    /// Added to TSval and TSecr; `None`: the connections have no timestamps.
    pub(super) timestamps: Option<(u32, u32)>,
    /// Added to the edges of SACK blocks; `None`: the connections don't both take them.
    pub(super) sack: Option<u32>,
}

impl Rewrite {
    /// Rewrites the options. What the other connection has not agreed to becomes padding. Gives what this adds to the
    /// segment's sum.
    #[inline]
    pub(super) fn apply(&self, options: &mut [u8]) -> Sum {
        // What nearly all segments carry (RFC 7323, appendix A).
        if let ([NOP, NOP, TIMESTAMPS, 10, values @ ..], Some(add)) =
            (&mut *options, self.timestamps)
            && values.len() == 8
        {
            return add_to(values, 0, add.0) + add_to(values, 4, add.1);
        }
        if options.is_empty() {
            return Sum::ZERO;
        }
        self.apply_any(options)
    }

    #[inline(never)]
    fn apply_any(&self, options: &mut [u8]) -> Sum {
        let before = Sum::of_u16(Sum::of(options).finish());
        let mut at = 0;
        while let Some(&kind) = options.get(at) {
            let length = match kind {
                NOP => 1,
                END => break,
                _ => usize::from(options.get(at + 1).copied().unwrap_or(0)),
            };
            let end = at + length;
            if length == 0 || length == 1 && kind != NOP || end > options.len() {
                break;
            }
            self.one(kind, &mut options[at..end]);
            at = end;
        }
        // The end of the list, or of what makes sense.
        options[at..].fill(END);
        Sum::of(options) + before
    }

    fn one(&self, kind: u8, option: &mut [u8]) {
        match (kind, option.len(), self.timestamps, self.sack) {
            (TIMESTAMPS, 10, Some((val, echo)), _) => {
                add_to(option, 2, val);
                add_to(option, 6, echo);
            }
            (SACK, len, _, Some(add)) if len % 8 == 2 => {
                for at in (2..len).step_by(4) {
                    add_to(option, at, add);
                }
            }
            _ => option.fill(NOP),
        }
    }
}

/// Adds to a 32-bit number; gives what this adds to the sum if it is at an even offset.
#[inline(always)]
pub(super) fn add_to(bytes: &mut [u8], at: usize, add: u32) -> Sum {
    let old = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let new = old.wrapping_add(add);
    bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
    Sum::of_u32(!old) + Sum::of_u32(new)
}
