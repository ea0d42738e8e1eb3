//! Header prediction (Van Jacobson): a segment whose headers are those of the one before, but for what changes from segment to segment of a
//! connection, need not be parsed.

use super::{IpVersion, Parsed};
use crate::bytes::{u16_at, u32_at};
use crate::ethernet;
use crate::seq::SeqNum;
use crate::tcp::{self, Flags, Timestamps};
use crate::{ipv4, ipv6};

const L3: usize = ethernet::HEADER_LEN;
const V4_L4: usize = L3 + ipv4::HEADER_LEN;
const V6_L4: usize = L3 + ipv6::HEADER_LEN;
/// Up to the layout of the TCP options behind an IPv6 header.
const COMPARED: usize = 80;
const WORDS: usize = COMPARED / 8;

/// Bytes that are the same in all segments of a flow, by what their headers are.
const FIXED_V4: [[u64; WORDS]; 2] = [
    fixed(
        V4_L4,
        &[L3 + 2, L3 + 3, L3 + 4, L3 + 5, L3 + 10, L3 + 11],
        false,
    ),
    fixed(
        V4_L4,
        &[L3 + 2, L3 + 3, L3 + 4, L3 + 5, L3 + 10, L3 + 11],
        true,
    ),
];
const FIXED_V6: [[u64; WORDS]; 2] = [
    fixed(V6_L4, &[L3 + 4, L3 + 5], false),
    fixed(V6_L4, &[L3 + 4, L3 + 5], true),
];

/// A mask of all bytes before the TCP header but `changing`, its ports and length, and the layout of its options.
const fn fixed(l4: usize, changing: &[usize], timestamps: bool) -> [u64; WORDS] {
    let mut mask = [[0u8; 8]; WORDS];
    let mut at = 0;
    while at < COMPARED {
        let is_port = at >= l4 && at < l4 + 4;
        let is_layout = timestamps && at >= l4 + tcp::HEADER_LEN && at < l4 + tcp::HEADER_LEN + 4;
        if at < l4 || is_port || at == l4 + 12 || is_layout {
            mask[at / 8][at % 8] = 0xff;
        }
        at += 1;
    }
    let mut at = 0;
    while at < changing.len() {
        mask[changing[at] / 8][changing[at] % 8] = 0;
        at += 1;
    }
    let mut words = [0; WORDS];
    let mut at = 0;
    while at < WORDS {
        words[at] = u64::from_ne_bytes(mask[at]);
        at += 1;
    }
    words
}

/// The headers of the segment that came last.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    headers: [u64; WORDS],
    fixed: &'static [u64; WORDS],
    parsed: Parsed,
}

impl Prediction {
    /// Predicts segments like `parsed`, which `frame` is. `None` where there are more headers, or other options, than nearly all segments
    /// have.
    #[must_use]
    pub fn of(frame: &[u8], parsed: &Parsed) -> Option<Prediction> {
        let has_timestamps = parsed.tcp.options.timestamps.is_some();
        let (masks, l4) = match parsed.ip_version {
            IpVersion::V4 => (&FIXED_V4, V4_L4),
            IpVersion::V6 => (&FIXED_V6, V6_L4),
        };
        let header_len = parsed.payload_offset - parsed.l4_offset;
        let is_usual = match has_timestamps {
            true => tcp::Header::parse_timestamped(parsed.segment(frame)).is_some(),
            false => header_len == tcp::HEADER_LEN,
        };
        if parsed.l3_offset != L3 || parsed.l4_offset != l4 || !is_usual {
            return None;
        }
        Some(Prediction {
            headers: words(frame)?,
            fixed: &masks[usize::from(has_timestamps)],
            parsed: *parsed,
        })
    }

    /// What `frame` is, if it is a segment as predicted: of the same flow, with ACK and maybe PSH, whole.
    #[inline]
    pub fn parse(&mut self, frame: &[u8]) -> Option<&Parsed> {
        let words = words(frame)?;
        let known = self.headers.iter().zip(self.fixed);
        let difference = (words.iter().zip(known)).fold(0, |difference, (word, (known, fixed))| {
            difference | (word ^ known) & fixed
        });
        let parsed = &mut self.parsed;
        let (l4, end) = match parsed.ip_version {
            IpVersion::V4 => (V4_L4, L3 + usize::from(u16_at(frame, L3 + 2))),
            IpVersion::V6 => (V6_L4, V6_L4 + usize::from(u16_at(frame, L3 + 4))),
        };
        let flags = Flags(frame[l4 + 13]);
        let is_usual = flags == Flags::ACK || flags == Flags::ACK.union(Flags::PSH);
        if difference != 0 || !is_usual || end > frame.len() || end < parsed.payload_offset {
            return None;
        }
        parsed.payload_len = (end - parsed.payload_offset) as u32;
        parsed.tcp.seq = SeqNum(u32_at(frame, l4 + 4));
        parsed.tcp.ack = SeqNum(u32_at(frame, l4 + 8));
        parsed.tcp.flags = flags;
        parsed.tcp.window = u16_at(frame, l4 + 14);
        if parsed.tcp.options.timestamps.is_some() {
            let options = frame.get(l4 + tcp::HEADER_LEN..l4 + tcp::TIMESTAMPED_LEN)?;
            parsed.tcp.options.timestamps = Some(Timestamps {
                val: u32_at(options, 4),
                echo: u32_at(options, 8),
            });
        }
        Some(parsed)
    }
}

#[inline(always)]
fn words(frame: &[u8]) -> Option<[u64; WORDS]> {
    let bytes = frame.first_chunk::<COMPARED>()?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(words)
}
