//! What the NIC tells of a record's bytes.

use attachment::results::{Form, Results, RxContextTag, Span, What};
use l5p::tls::{ContextTag, Piece, PieceData, Reader};
use wire::SeqNum;

use crate::shared::ReceiveDevice;

/// What was done of a record.
pub(super) enum Decryption {
    /// Nothing: it is as the peer has sent it.
    None,
    /// All, by one context.
    Full(RxContextTag),
    /// Some of it; or it is unknown what the kernel has kept.
    Partial(Vec<Span>),
}

/// What was done of the `len` bytes from `start` on, which have been read from the socket.
pub(super) fn of(
    results: Results<'_>,
    device: &mut ReceiveDevice,
    start: SeqNum,
    len: usize,
) -> Decryption {
    if let Some(tag) = decrypted(results, device, start, len) {
        return Decryption::Full(tag);
    }
    results.clear_before(start);
    let eithers = results.eithers();
    if eithers != device.eithers && results.runs().all(|(_, run)| run.form == Form::Decrypted) {
        device.eithers = eithers;
    }
    let done = seen(results, start, len);
    if let Decryption::Full(_) = done {
        device.hint = results.hint(start).unwrap_or(0);
    }
    done
}

/// The same of bytes that stay in the socket, without forgetting what was done of those before.
pub(super) fn seen(results: Results<'_>, start: SeqNum, len: usize) -> Decryption {
    let spans = results.spans(start, len);
    match spans[..] {
        [
            Span {
                what: What::Ciphertext,
                ..
            },
        ] => Decryption::None,
        [
            Span {
                what: What::Decrypted(tag),
                ..
            },
        ] => Decryption::Full(tag),
        _ => Decryption::Partial(spans),
    }
}

/// What decrypted all of these bytes, if that is quickly seen.
#[inline]
pub(super) fn decrypted(
    results: Results<'_>,
    device: &ReceiveDevice,
    start: SeqNum,
    len: usize,
) -> Option<RxContextTag> {
    let is_sure = results.eithers() == device.eithers;
    results.covered(start, len, device.hint).filter(|_| is_sure)
}

/// A tag as the reader knows it. `epoch` is that of the direction's keys.
#[inline]
pub(super) fn reader_tag(reader: &Reader, epoch: u32, tag: RxContextTag) -> ContextTag {
    let older = (epoch as u8).wrapping_sub(tag.epoch) % RxContextTag::EPOCHS;
    ContextTag {
        epoch: reader.epoch().wrapping_sub(older.into()),
        number: tag.number.into(),
    }
}

/// A record in two parts, cut where one of `spans` ends; `decrypted` says of each span what decrypted it.
pub(super) fn cut<'a>(
    parts: [&'a mut [u8]; 2],
    spans: &[Span],
    decrypted: &[Option<ContextTag>],
) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(spans.len() + 1);
    let [mut first, mut rest] = parts;
    for (span, decrypted) in spans.iter().zip(decrypted) {
        let decrypted = *decrypted;
        let here = span.len.min(first.len());
        for (part, len) in [(&mut first, here), (&mut rest, span.len - here)] {
            if len == 0 {
                continue;
            }
            let (piece, behind) = std::mem::take(part).split_at_mut(len);
            *part = behind;
            pieces.push(Piece {
                data: PieceData::Own(piece),
                decrypted,
            });
        }
    }
    pieces
}
