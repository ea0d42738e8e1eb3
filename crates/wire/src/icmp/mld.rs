//! Multicast listener discovery, by which those who forward multicast on a link know its groups: version 2 (RFC 3810, RFC 9777) and version 1 (RFC 2710).
//!
//! Of reports there is what a host says that takes every sender's packets to a group.

use core::net::Ipv6Addr;

use crate::bytes::{array_at, put_u16, u16_at};
use crate::error::ParseError;

/// What the hop limit of all these messages is.
pub const HOP_LIMIT: u8 = 1;
/// Where reports of version 2 go (RFC 3810 §5.2.14).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// A router asks who takes part in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The group; unspecified for all.
    pub group: Ipv6Addr,
    /// Milliseconds within which the answer is to come.
    pub max_response: u32,
    /// It is of version 1, and understands no other one.
    pub is_old: bool,
}

/// What a host says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is about.
    pub kind: RecordKind,
    /// The group.
    pub group: Ipv6Addr,
}

/// What a record is about (RFC 3810 §5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// MODE_IS_EXCLUDE: the host takes part.
    TakesPart = 2,
    /// CHANGE_TO_INCLUDE_MODE, of no sender: it does no longer.
    Leaves = 3,
    /// CHANGE_TO_EXCLUDE_MODE, of no sender: it does from now on.
    Joins = 4,
}

impl Query {
    /// Parses a query, which is all of `bytes`, ICMP header included. The caller has checked the checksum.
    ///
    /// # Errors
    /// When it is cut short, or of neither version (RFC 3810 §8.1).
    pub(super) fn parse(bytes: &[u8]) -> Result<Query, ParseError> {
        ParseError::require(bytes, OLD_LEN)?;
        let is_old = bytes.len() == OLD_LEN;
        if !is_old {
            ParseError::require(bytes, QUERY_LEN)?;
        }
        let code = u16_at(bytes, 4);
        Ok(Query {
            group: Ipv6Addr::from(array_at::<16>(bytes, GROUP_AT)),
            max_response: match is_old {
                true => code.into(),
                false => milliseconds(code),
            },
            is_old,
        })
    }

    pub(super) fn len(&self) -> usize {
        if self.is_old { OLD_LEN } else { QUERY_LEN }
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) {
        buffer.fill(0);
        buffer[0] = QUERY;
        put_u16(buffer, 4, self.max_response.min(LINEAR.into()) as u16);
        put_group(buffer, self.group);
    }
}

/// RFC 3810 §5.1.3: codes from 32,768 on are floating-point numbers.
fn milliseconds(code: u16) -> u32 {
    if code <= LINEAR {
        return code.into();
    }
    let (exponent, mantissa) = (code >> 12 & 7, code & 0xfff);
    u32::from(mantissa | 0x1000) << (exponent + 3)
}

pub(super) fn report_len(records: &[Record]) -> usize {
    super::HEADER_LEN + records.len() * RECORD_LEN
}

pub(super) fn emit_report(records: &[Record], buffer: &mut [u8]) {
    buffer.fill(0);
    buffer[0] = REPORT;
    put_u16(buffer, 6, records.len() as u16);
    let places = buffer[super::HEADER_LEN..].chunks_exact_mut(RECORD_LEN);
    for (record, place) in records.iter().zip(places) {
        place[0] = record.kind as u8;
        place[4..].copy_from_slice(&record.group.octets());
    }
}

/// A message of version 1, which names a group: that the host takes part in it, or does no longer.
pub(super) fn emit_old(kind: u8, group: Ipv6Addr, buffer: &mut [u8]) {
    buffer.fill(0);
    buffer[0] = kind;
    put_group(buffer, group);
}

fn put_group(buffer: &mut [u8], group: Ipv6Addr) {
    buffer[GROUP_AT..GROUP_AT + 16].copy_from_slice(&group.octets());
}

const GROUP_AT: usize = 8;
/// Bytes of each message of version 1.
pub(super) const OLD_LEN: usize = 24;
/// Bytes of a query of version 2 without senders.
const QUERY_LEN: usize = 28;
/// Bytes of a record without senders.
const RECORD_LEN: usize = 20;
/// The last code that is a number of milliseconds.
const LINEAR: u16 = 0x7fff;

pub(super) const QUERY: u8 = 130;
pub(super) const OLD_REPORT: u8 = 131;
pub(super) const OLD_DONE: u8 = 132;
const REPORT: u8 = 143;
