//! Records of which it is unknown in which form the kernel has kept some bytes: a packet that came twice, once decrypted and once not.
//!
//! The kernel keeps one copy of each. Of all combinations one has the right tag, which is not found by trying: what each piece changes about the tag is
//! measured once, and which of them add up to what is wanted is computed. For AES-GCM, whose tag is linear, that is a system of linear equations. For
//! ChaCha20-Poly1305, whose tag is a sum modulo a prime, the sums of one half of the pieces are looked for among those of the other.
//!
//! Every piece more makes it twice as easy to forge a record; of 128 bits, what is left is plenty.

use attachment::results::{Span, What};
use l5p::tls::{
    Algorithm, ContextTag, ICV_LEN, Opened, Output, Piece, Reader, TlsError, Violation,
};

use super::decryption::{cut, reader_tag};

/// Most pieces with AES-GCM.
const MOST_LINEAR: usize = 48;
/// Most pieces with ChaCha20-Poly1305: 2^16 sums.
const MOST_SUMMED: usize = 32;
/// Numbers of contexts that there are not: what one of these has decrypted is always verified.
const UNPROVEN: u16 = 0x100;

/// Opens `record`, whose bytes are told as `spans`, with a copy of it in `work`: there its content is then.
pub(super) fn open_either(
    reader: &mut Reader,
    epoch: u32,
    record: &mut [u8],
    spans: &[Span],
    work: &mut Vec<u8>,
) -> Result<Opened, TlsError> {
    let doubtful: Vec<usize> = (0..spans.len())
        .filter(|index| matches!(spans[*index].what, What::Either(_)))
        .collect();
    let mut record = Doubtful {
        record,
        spans,
        epoch,
        doubtful: &doubtful,
        work,
    };
    // The first copy is the one that is kept but for bad luck.
    let all_decrypted = record.open(reader, 0);
    let error = match all_decrypted {
        Err(error) if error.violation == Violation::BadTag => error,
        other => return other,
    };
    let is_gcm = reader.crypto_info().algorithm != Algorithm::ChaCha20Poly1305;
    let most = if is_gcm { MOST_LINEAR } else { MOST_SUMMED };
    if doubtful.len() > most {
        return Err(error);
    }
    let mut icv = [0; ICV_LEN];
    icv.copy_from_slice(&record.record[record.record.len() - ICV_LEN..]);
    let first = record.residue(reader, 0)?;
    let mut residues = Vec::with_capacity(doubtful.len());
    for piece in 0..doubtful.len() {
        residues.push(record.residue(reader, 1 << piece)?);
    }
    let ciphertext = if is_gcm {
        let first = u128::from_le_bytes(first);
        let changes = residues
            .iter()
            .map(|residue| first ^ u128::from_le_bytes(*residue));
        solve(&changes.collect::<Vec<_>>(), first)
    } else {
        // The tags as they would be (RFC 8439 §2.5).
        let icv = u128::from_le_bytes(icv);
        let tag = |residue: [u8; ICV_LEN]| icv ^ u128::from_le_bytes(residue);
        let first = tag(first);
        let changes = residues
            .iter()
            .map(|residue| tag(*residue).wrapping_sub(first));
        find_sum(&changes.collect::<Vec<_>>(), icv.wrapping_sub(first))
    };
    match ciphertext {
        Some(ciphertext) => record.open(reader, ciphertext),
        None => Err(error),
    }
}

struct Doubtful<'a> {
    record: &'a mut [u8],
    spans: &'a [Span],
    epoch: u32,
    /// Which spans may be either.
    doubtful: &'a [usize],
    work: &'a mut Vec<u8>,
}

impl Doubtful<'_> {
    /// As if those doubtful spans were ciphertext whose bits are set.
    fn open(&mut self, reader: &mut Reader, ciphertext: u64) -> Result<Opened, TlsError> {
        let tags = self.tags(reader, ciphertext);
        reader.open(&mut self.pieces(&tags), Output::InPlace)
    }

    /// What the record's tag differs by from the one that it should have.
    fn residue(&mut self, reader: &mut Reader, ciphertext: u64) -> Result<[u8; ICV_LEN], TlsError> {
        let tags = self.tags(reader, ciphertext);
        reader.residue(&mut self.pieces(&tags))
    }

    fn tags(&self, reader: &Reader, ciphertext: u64) -> Vec<Option<ContextTag>> {
        // Not the one of the record before: they must not seem to agree.
        let unproven = UNPROVEN | reader.record_index() as u16 & 0xff;
        let is_ciphertext = |index: usize| {
            let bit = self.doubtful.iter().position(|other| *other == index);
            bit.is_some_and(|bit| ciphertext >> bit & 1 != 0)
        };
        let spans = self.spans.iter().enumerate();
        spans
            .map(|(index, span)| match span.what {
                What::Ciphertext => None,
                What::Decrypted(tag) => Some(reader_tag(reader, self.epoch, tag)),
                What::Either(_) if is_ciphertext(index) => None,
                What::Either(tag) => Some(ContextTag {
                    number: unproven,
                    ..reader_tag(reader, self.epoch, tag)
                }),
            })
            .collect()
    }

    fn pieces(&mut self, tags: &[Option<ContextTag>]) -> Vec<Piece<'_>> {
        self.work.clear();
        self.work.extend_from_slice(self.record);
        let parts = [&mut self.work[..], &mut []];
        cut(parts, self.spans, tags)
    }
}

/// Which of `changes` add up, without carry, to `wanted`: a bit for each.
fn solve(changes: &[u128], wanted: u128) -> Option<u64> {
    // Vectors with a leading bit that none behind them has, and which changes each is the sum of.
    let mut basis: Vec<(u128, u64)> = Vec::with_capacity(changes.len());
    let reduce = |basis: &[(u128, u64)], mut vector: u128, mut sum: u64| {
        for (other, others) in basis {
            if vector >> other.ilog2() & 1 != 0 {
                vector ^= other;
                sum ^= others;
            }
        }
        (vector, sum)
    };
    for (index, change) in changes.iter().enumerate() {
        let (vector, sum) = reduce(&basis, *change, 1 << index);
        if vector != 0 {
            basis.push((vector, sum));
        }
    }
    match reduce(&basis, wanted, 0) {
        (0, sum) => Some(sum),
        _ => None,
    }
}

/// Which of `changes` add up to `wanted`, modulo 2^128 and but for a few multiples of 5: a bit for each. Tags are sums modulo 2^130 − 5 of which the lower 128
/// bits are left, so each reduction shows as 5 more.
fn find_sum(changes: &[u128], wanted: u128) -> Option<u64> {
    let (left, right) = changes.split_at(changes.len() / 2);
    let mut sums = sums(left);
    sums.sort_unstable();
    let most = 5 * (changes.len() as u128 + 1);
    for (sum, which) in self::sums(right) {
        let low = wanted.wrapping_sub(sum).wrapping_sub(most);
        let from = sums.partition_point(|(other, _)| *other < low);
        // They go round.
        let next = sums[from..].iter().chain(&sums).take(2);
        for (other, others) in next {
            let above = other.wrapping_sub(low);
            if above <= 2 * most && above % 5 == 0 {
                return Some(which << left.len() | others);
            }
        }
    }
    None
}

/// The sums of all subsets, and which they are.
fn sums(changes: &[u128]) -> Vec<(u128, u64)> {
    let mut sums = Vec::with_capacity(1 << changes.len());
    sums.push((0, 0));
    for (index, change) in changes.iter().enumerate() {
        for at in 0..sums.len() {
            let (sum, which): (u128, u64) = sums[at];
            sums.push((sum.wrapping_add(*change), which | 1 << index));
        }
    }
    sums
}

#[cfg(test)]
mod tests;
