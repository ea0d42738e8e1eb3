//! The options of neighbour discovery (RFC 4861 §4.6).

use core::net::Ipv6Addr;

use crate::bytes::{array_at, put_u32, u32_at};
use crate::error::ParseError;
use crate::ethernet::MacAddr;

/// The options that we know, of one message. Others are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// The sender's MAC address.
    pub source_mac: Option<MacAddr>,
    /// The target's MAC address.
    pub target_mac: Option<MacAddr>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// The link's prefixes, from the front; those beyond the fourth are passed over.
    pub prefixes: [Option<PrefixInformation>; 4],
}

/// A prefix of the link (RFC 4861 §4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// The prefix; bits beyond its length have no meaning.
    pub prefix: Ipv6Addr,
    /// Its length in bits, at most 128.
    pub prefix_len: u8,
    /// Addresses in it are on the link.
    pub on_link: bool,
    /// Hosts may form addresses in it (RFC 4862).
    pub autonomous: bool,
    /// Seconds for which it is on the link.
    pub valid_lifetime: u32,
    /// Seconds for which addresses in it are preferred.
    pub preferred_lifetime: u32,
}

impl Options {
    /// Parses the options that are all of `bytes`.
    ///
    /// RFC 4861 §7.1: a message with an option of length 0 must be discarded.
    ///
    /// # Errors
    /// When an option is cut short, or has a length of 0.
    pub fn parse(mut bytes: &[u8]) -> Result<Options, ParseError> {
        let mut options = Options::default();
        while !bytes.is_empty() {
            ParseError::require(bytes, UNIT)?;
            let len = usize::from(bytes[1]) * UNIT;
            if len == 0 {
                return Err(ParseError::BadLength(0));
            }
            ParseError::require(bytes, len)?;
            let (option, rest) = bytes.split_at(len);
            options.take(option);
            bytes = rest;
        }
        Ok(options)
    }

    fn take(&mut self, option: &[u8]) {
        match (option[0], option.len()) {
            (SOURCE_MAC, UNIT) => self.source_mac = Some(MacAddr(array_at(option, 2))),
            (TARGET_MAC, UNIT) => self.target_mac = Some(MacAddr(array_at(option, 2))),
            (MTU, UNIT) => self.mtu = Some(u32_at(option, 4)),
            (PREFIX, PREFIX_LEN) if option[2] <= 128 => {
                if let Some(free) = self.prefixes.iter_mut().find(|prefix| prefix.is_none()) {
                    *free = Some(PrefixInformation::parse(option));
                }
            }
            _ => {}
        }
    }

    /// Bytes of the options when emitted.
    pub(super) fn len(&self) -> usize {
        let units = usize::from(self.source_mac.is_some())
            + usize::from(self.target_mac.is_some())
            + usize::from(self.mtu.is_some());
        units * UNIT + self.prefixes.iter().flatten().count() * PREFIX_LEN
    }

    /// Writes the options at the front of `buffer`.
    pub(super) fn emit(&self, mut buffer: &mut [u8]) {
        for (kind, mac) in [(SOURCE_MAC, self.source_mac), (TARGET_MAC, self.target_mac)] {
            if let Some(mac) = mac {
                let option = take_front(&mut buffer, kind, UNIT);
                option[2..8].copy_from_slice(&mac.0);
            }
        }
        if let Some(mtu) = self.mtu {
            put_u32(take_front(&mut buffer, MTU, UNIT), 4, mtu);
        }
        for prefix in self.prefixes.iter().flatten() {
            prefix.emit(take_front(&mut buffer, PREFIX, PREFIX_LEN));
        }
    }
}

impl PrefixInformation {
    fn parse(option: &[u8]) -> PrefixInformation {
        PrefixInformation {
            prefix: Ipv6Addr::from(array_at::<16>(option, 16)),
            prefix_len: option[2],
            on_link: option[3] & ON_LINK != 0,
            autonomous: option[3] & AUTONOMOUS != 0,
            valid_lifetime: u32_at(option, 4),
            preferred_lifetime: u32_at(option, 8),
        }
    }

    fn emit(&self, option: &mut [u8]) {
        option[2] = self.prefix_len;
        option[3] = if self.on_link { ON_LINK } else { 0 };
        option[3] |= if self.autonomous { AUTONOMOUS } else { 0 };
        put_u32(option, 4, self.valid_lifetime);
        put_u32(option, 8, self.preferred_lifetime);
        option[16..32].copy_from_slice(&self.prefix.octets());
    }
}

/// The first `len` bytes, zero but for the option's type and length; `buffer` goes on behind them.
fn take_front<'a>(buffer: &mut &'a mut [u8], kind: u8, len: usize) -> &'a mut [u8] {
    let (option, rest) = core::mem::take(buffer).split_at_mut(len);
    *buffer = rest;
    option.fill(0);
    option[0] = kind;
    option[1] = (len / UNIT) as u8;
    option
}

/// Lengths are counted in units of eight bytes.
const UNIT: usize = 8;
const PREFIX_LEN: usize = 4 * UNIT;

const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;
