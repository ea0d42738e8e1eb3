//! The handshake: fixed newstyle, up to the transmission phase.

#[cfg(test)]
mod tests;

use super::export::Export;
use wire::nbd::{
    MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake, info, option, reply_type as reply,
};

/// Bytes of an option's data at most: an export's name has 4,096.
const MOST_DATA: u32 = 8192;
/// Bytes of an option's header.
const OPTION_LEN: usize = 16;

/// A handshake as far as it is.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    /// The client's flags came.
    greeted: bool,
    no_zeroes: bool,
    structured: bool,
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Requests may come. Whether reads are answered by structured replies.
    Transmission { structured: bool },
    /// The client went away in order.
    Aborted,
    /// The client doesn't speak the protocol.
    Broken,
}

impl Negotiation {
    /// What the server says first.
    pub(super) fn greeting() -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC.to_be_bytes());
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
        out
    }

    /// Takes in what the client says, as far as it is there, and adds the answers to `out`. Gives how many bytes were used, and
    /// how it ended if it has.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> (usize, Option<Outcome>) {
        let mut used = 0;
        if !self.greeted {
            let Some(flags) = input.first_chunk::<4>() else {
                return (0, None);
            };
            let flags = u32::from_be_bytes(*flags);
            let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
            if flags & !known != 0 {
                return (4, Some(Outcome::Broken));
            }
            self.greeted = true;
            self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
            used = 4;
        }
        loop {
            let rest = &input[used..];
            if rest.len() < OPTION_LEN {
                return (used, None);
            }
            let (kind, len) = (u32_at(rest, 8), u32_at(rest, 12));
            if u64_at(rest, 0) != OPTION_MAGIC || len > MOST_DATA {
                return (used, Some(Outcome::Broken));
            }
            let Some(data) = rest[OPTION_LEN..].get(..len as usize) else {
                return (used, None);
            };
            used += OPTION_LEN + data.len();
            if let Some(outcome) = self.answer(kind, data, export, out) {
                return (used, Some(outcome));
            }
        }
    }

    /// Answers an option. Gives how the handshake ends, if it does with this.
    fn answer(
        &mut self,
        kind: u32,
        data: &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> Option<Outcome> {
        let mut say = |what: u32, data: &[u8]| put_reply(out, kind, what, data);
        let transmission = Outcome::Transmission {
            structured: self.structured,
        };
        match kind {
            option::EXPORT_NAME if data.is_empty() => {
                out.extend(export.size.to_be_bytes());
                out.extend(export.flags(self.structured).to_be_bytes());
                if !self.no_zeroes {
                    out.extend([0; 124]);
                }
                return Some(transmission);
            }
            // There is no way to refuse but to go.
            option::EXPORT_NAME => return Some(Outcome::Aborted),
            option::ABORT => {
                say(reply::ACK, &[]);
                return Some(Outcome::Aborted);
            }
            option::LIST if data.is_empty() => {
                // The default export, whose name is empty.
                say(reply::SERVER, &0u32.to_be_bytes());
                say(reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                say(reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY => say(reply::ERROR_INVALID, &[]),
            option::INFO | option::GO => match name_of(data) {
                None => say(reply::ERROR_INVALID, &[]),
                Some(name) if name.len() > 4096 => say(reply::ERROR_TOO_BIG, &[]),
                Some(name) if !name.is_empty() => {
                    say(
                        reply::ERROR_UNKNOWN,
                        b"there is only the default export, whose name is empty",
                    );
                }
                Some(_) => {
                    for facts in facts_of(export, self.structured) {
                        say(reply::INFO, &facts);
                    }
                    say(reply::ACK, &[]);
                    if kind == option::GO {
                        return Some(transmission);
                    }
                }
            },
            _ => say(reply::ERROR_UNSUPPORTED, &[]),
        }
        None
    }
}

fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// What INFO and GO tell of an export: its size and flags, and the sizes of its blocks.
fn facts_of(export: &Export, structured: bool) -> [Vec<u8>; 2] {
    let mut of_export = Vec::new();
    of_export.extend(info::EXPORT.to_be_bytes());
    of_export.extend(export.size.to_be_bytes());
    of_export.extend(export.flags(structured).to_be_bytes());
    let mut block_sizes = Vec::new();
    block_sizes.extend(info::BLOCK_SIZE.to_be_bytes());
    for size in export.block_sizes() {
        block_sizes.extend(size.to_be_bytes());
    }
    [of_export, block_sizes]
}

/// The export's name in the data of INFO or GO, which a list of wishes follows. `None`: the data makes no sense.
fn name_of(data: &[u8]) -> Option<&[u8]> {
    let len = u32::from_be_bytes(*data.first_chunk::<4>()?) as usize;
    let (name, wishes) = data[4..].split_at_checked(len)?;
    let count = usize::from(u16_at(wishes.first_chunk::<2>()?, 0));
    (wishes.len() == 2 + 2 * count).then_some(name)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
