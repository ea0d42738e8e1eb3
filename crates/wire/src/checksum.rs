//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A [`Sum`] is a partial ones-complement sum. Sums of adjacent pieces are combined with [`Sum::then`] or,
//! where all pieces but the last have an even length, with `+`; [`Sum::finish`] gives the checksum field.

use core::net::IpAddr;
use core::ops::{Add, AddAssign};

#[allow(unsafe_code)]
mod wide;

/// A ones-complement sum of 16-bit words, not complemented yet.
///
/// Held in the machine's byte order and not folded (RFC 1071 §2 (B)), so that adding is one addition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Sum = Sum(0);

    /// The sum of `bytes`; an odd last byte is padded with a zero.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Sum {
        let (blocks, tail) = bytes.as_chunks();
        let blocks = match wide::of_blocks(blocks) {
            Some(sum) => sum,
            None => blocks
                .iter()
                .fold(Sum::ZERO, |sum, block| sum + of_block(block)),
        };
        blocks + of_tail(tail)
    }

    /// As [`of`](Self::of), for few bytes of a known number: without a loop.
    #[inline(always)]
    #[must_use]
    pub fn of_array<const N: usize>(bytes: &[u8; N]) -> Sum {
        of_tail(bytes)
    }

    /// Copies `source` to `target`, which has the same length, and gives the sum of the bytes, in one pass.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn of_copied(source: &[u8], target: &mut [u8]) -> Sum {
        assert_eq!(
            source.len(),
            target.len(),
            "source and target of a copy differ in length"
        );
        let (blocks, tail) = source.as_chunks();
        let (targets, target_tail) = target.as_chunks_mut();
        let blocks = match wide::of_copied_blocks(blocks, targets) {
            Some(sum) => sum,
            None => blocks
                .iter()
                .zip(targets)
                .fold(Sum::ZERO, |sum, (block, target)| {
                    *target = *block;
                    sum + of_block(block)
                }),
        };
        target_tail.copy_from_slice(tail);
        blocks + of_tail(tail)
    }

    /// The sum of one 16-bit field.
    #[inline]
    #[must_use]
    pub fn of_u16(value: u16) -> Sum {
        Sum(u64::from(value.to_be()))
    }

    /// The sum of one 32-bit field that begins at an even offset.
    #[inline]
    #[must_use]
    pub fn of_u32(value: u32) -> Sum {
        Sum(u64::from(value.to_be()))
    }

    /// The pseudo header of TCP, UDP and ICMPv6 (RFC 9293 §3.1, RFC 8200 §8.1).
    ///
    /// `length` counts the upper layer's header and payload. Addresses of different families give a sum
    /// that no packet can have; there is no such packet.
    #[inline]
    #[must_use]
    pub fn of_pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Sum {
        let addresses = of_address(source) + of_address(destination);
        addresses + Sum::of_u32(u32::from(protocol)) + Sum::of_u32(length)
    }

    /// The sum of these bytes followed by those of `next`, where these are `len` bytes long.
    #[inline]
    #[must_use]
    pub fn then(self, len: usize, next: Sum) -> Sum {
        if len.is_multiple_of(2) {
            self + next
        } else {
            self + next.swapped()
        }
    }

    /// The sum with both bytes of each word exchanged: that of the same bytes at an odd offset.
    #[inline]
    #[must_use]
    pub fn swapped(self) -> Sum {
        Sum(u64::from(self.fold_native().swap_bytes()))
    }

    /// The sum folded to 16 bits, **not** complemented: what a checksum field holds before a NIC finishes
    /// it (virtio's `NEEDS_CSUM`), when taken over the pseudo header.
    #[inline]
    #[must_use]
    pub fn fold(self) -> u16 {
        u16::from_be(self.fold_native())
    }

    /// The checksum field's value: the complement of the folded sum.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u16 {
        !self.fold()
    }

    /// Whether a sum over data and their checksum field says that they belong together.
    #[inline]
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.fold_native() == 0xffff
    }

    #[inline]
    fn fold_native(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }
}

impl Add for Sum {
    type Output = Sum;
    /// An end-around carry keeps the sum right whatever is added.
    #[inline]
    fn add(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum + u64::from(carry))
    }
}

impl AddAssign for Sum {
    #[inline]
    fn add_assign(&mut self, other: Sum) {
        *self = *self + other;
    }
}

/// A checksum field's new value after the 16-bit field `old` below it became `new` (RFC 1624, equation 3).
#[inline]
#[must_use]
pub fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    (Sum::of_u16(!checksum) + Sum::of_u16(!old) + Sum::of_u16(new)).finish()
}

const BLOCK: usize = 64;

/// Adds eight words, each with the carry of the one before: the compiler makes a chain of add-with-carry
/// instructions of it, which is faster than vectors without a wide carry.
#[inline(always)]
fn of_block(block: &[u8; BLOCK]) -> Sum {
    let (mut sum, mut carry) = (0u64, false);
    for word in block.as_chunks().0 {
        let (with_word, overflow) = sum.overflowing_add(u64::from_ne_bytes(*word));
        let (with_carry, carry_overflow) = with_word.overflowing_add(u64::from(carry));
        (sum, carry) = (with_carry, overflow | carry_overflow);
    }
    Sum(sum) + Sum(u64::from(carry))
}

/// Fewer than 64 bytes.
#[inline(always)]
fn of_tail(tail: &[u8]) -> Sum {
    let (words, rest) = tail.as_chunks();
    let mut sum = Sum::ZERO;
    for word in words {
        sum += Sum(u64::from_ne_bytes(*word));
    }
    if rest.is_empty() {
        return sum;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    sum + Sum(u64::from_ne_bytes(last))
}

#[inline]
fn of_address(address: IpAddr) -> Sum {
    match address {
        IpAddr::V4(address) => Sum(u64::from(u32::from_ne_bytes(address.octets()))),
        IpAddr::V6(address) => {
            let octets = address.octets();
            let sum = octets.chunks_exact(4).map(|word| {
                u64::from(u32::from_ne_bytes(
                    word.try_into().expect("chunks of four bytes"),
                ))
            });
            Sum(sum.sum())
        }
    }
}
