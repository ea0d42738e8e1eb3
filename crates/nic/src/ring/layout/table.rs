//! Tables of what is declared: for programs that write, or check, what else describes the device.

use zerocopy::little_endian;

use super::super::accel::SpliceEnd;
use super::super::error::ErrorCode;
use super::super::rss::HashType;
use super::super::toe::{RefuseReason, RestoreReason, TcbField, close_from_byte};
use super::{image, receive, send};

/// What a field consists of.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// An unsigned number of so many bytes.
    Number(usize),
    /// Another struct.
    Struct(&'static Layout),
}

/// A field of a struct.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name; reserved ones begin with `_`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes of it.
    pub size: usize,
    /// What it, or each of its elements, consists of.
    pub kind: Kind,
    /// Elements of an array.
    pub count: Option<usize>,
}

/// A name for a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// The number.
    pub value: u8,
}

/// A struct in memory that host and device share.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its opcode, if it is a descriptor; else 0.
    pub opcode: u8,
    /// Bytes of it.
    pub size: usize,
    /// The bits of its `flags`.
    pub flags: &'static [Named],
    /// Its fields, in order and without a gap.
    pub fields: &'static [Field],
}

impl Field {
    /// Whether it must be zero.
    #[must_use]
    pub const fn is_reserved(&self) -> bool {
        self.name.as_bytes()[0] == b'_'
    }

    const fn is_slices(&self) -> bool {
        matches!(self.name.as_bytes(), b"slices")
    }
}

impl Layout {
    /// All bits of its `flags` that have a name.
    pub(super) const fn known_flags(&self) -> u8 {
        let (mut known, mut at) = (0, 0);
        while at < self.flags.len() {
            known |= self.flags[at].value;
            at += 1;
        }
        known
    }

    /// Offset and number of its slices.
    pub(super) const fn slices(&self) -> Option<(usize, usize)> {
        let mut at = 0;
        while at < self.fields.len() {
            let field = &self.fields[at];
            if let Some(count) = field.count
                && field.is_slices()
            {
                return Some((field.offset, count));
            }
            at += 1;
        }
        None
    }

    /// Sets the bytes of reserved fields to ones.
    pub(super) const fn mark_reserved(&self, start: usize, bytes: &mut [u8]) {
        let mut at = 0;
        while at < self.fields.len() {
            let field = &self.fields[at];
            let count = match field.count {
                Some(count) => count,
                None => 1,
            };
            let mut element = 0;
            while element < count {
                let each = field.size / count;
                let start = start + field.offset + element * each;
                match field.kind {
                    Kind::Struct(layout) => layout.mark_reserved(start, bytes),
                    Kind::Number(_) if field.is_reserved() => {
                        let mut byte = 0;
                        while byte < each {
                            bytes[start + byte] = 0xff;
                            byte += 1;
                        }
                    }
                    Kind::Number(_) => {}
                }
                element += 1;
            }
            at += 1;
        }
    }
}

/// What a field may be.
pub(in crate::ring) trait Element {
    const KIND: Kind;
    const COUNT: Option<usize>;
}

macro_rules! numbers {
    ($($Type:ty),*) => {$(
        impl Element for $Type {
            const KIND: Kind = Kind::Number(size_of::<$Type>());
            const COUNT: Option<usize> = None;
        }
    )*};
}
numbers!(
    u8,
    u16,
    u32,
    u64,
    little_endian::U16,
    little_endian::U32,
    little_endian::U64
);

impl<T: Element, const COUNT: usize> Element for [T; COUNT] {
    const KIND: Kind = T::KIND;
    const COUNT: Option<usize> = Some(COUNT);
}

/// Bytes that are zero.
pub(in crate::ring) type Reserved<const BYTES: usize> = [u8; BYTES];

/// All structs: what slots consist of, the descriptors of the send and command ring, those of the receive ring, and the control block.
#[must_use]
pub fn layouts() -> [Vec<Layout>; 4] {
    [
        send::PARTS.to_vec(),
        send::FORMS.iter().map(|form| form.layout).collect(),
        receive::LAYOUTS.to_vec(),
        image::LAYOUTS.to_vec(),
    ]
}

/// Numbers that have names: for each group its name, then names and values.
#[must_use]
pub fn constants() -> Vec<(&'static str, Vec<(String, u8)>)> {
    fn named<T: std::fmt::Debug>(of: impl Fn(u8) -> Option<T>) -> Vec<(String, u8)> {
        let name = |value| {
            let debug = format!("{:?}", of(value)?);
            let end = debug.find(['(', ' ']).unwrap_or(debug.len());
            Some((debug[..end].to_owned(), value))
        };
        (0..=u8::MAX).filter_map(name).collect()
    }
    let splice_ends = (0..=u8::MAX).filter_map(|reason| {
        let name = match SpliceEnd::from_byte(reason)? {
            SpliceEnd::Reset { by } => format!("ResetBy{by:?}"),
            other => format!("{other:?}"),
        };
        Some((name, reason))
    });
    let protocols = l5p::PROTOCOLS.iter();
    let protocols = protocols.map(|info| (info.name.replace('-', "_"), info.id.0));
    let kinds = receive::TOE_KINDS.iter();
    let kinds = kinds.map(|kind| (kind.name.to_owned(), kind.value));
    vec![
        ("hash_type", named(HashType::from_byte)),
        ("protocol", protocols.collect()),
        ("error", named(ErrorCode::from_byte)),
        ("splice_end", splice_ends.collect()),
        ("toe_event", kinds.collect()),
        (
            "toe_refused",
            named(|reason| RefuseReason::from_bytes(reason, 0)),
        ),
        ("toe_closed", named(close_from_byte)),
        (
            "toe_restored",
            named(|reason| RestoreReason::from_bytes(reason, 1, None)),
        ),
        ("tcb_field", named(TcbField::from_byte)),
    ]
}
