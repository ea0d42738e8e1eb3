//! How much of which size an arena has.

/// The block sizes of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeClass {
    /// 256 bytes: headers, alerts, short control messages.
    Header,
    /// 2 KiB: one packet of an Ethernet MTU.
    Packet,
    /// 17 KiB: one framed TLS record of the greatest size.
    Record,
    /// 66 KiB: a coalesced receive, or a chunk of a TSO send.
    Large,
}

impl SizeClass {
    /// Every class, smallest first.
    pub const ALL: [SizeClass; 4] = [
        SizeClass::Header,
        SizeClass::Packet,
        SizeClass::Record,
        SizeClass::Large,
    ];

    /// Bytes of one block.
    pub const fn bytes(self) -> u32 {
        match self {
            SizeClass::Header => 256,
            SizeClass::Packet => 2 * 1024,
            SizeClass::Record => 17 * 1024,
            SizeClass::Large => 66 * 1024,
        }
    }

    /// The smallest class whose blocks hold `len` bytes.
    pub const fn fitting(len: u32) -> Option<SizeClass> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if len <= Self::ALL[i].bytes() {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }
}

/// How many blocks of each size an arena has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaLayout {
    /// Blocks of [`SizeClass::Header`].
    pub header: u32,
    /// Blocks of [`SizeClass::Packet`].
    pub packet: u32,
    /// Blocks of [`SizeClass::Record`].
    pub record: u32,
    /// Blocks of [`SizeClass::Large`].
    pub large: u32,
}

impl ArenaLayout {
    /// Bytes of region that the layout takes.
    pub fn bytes(&self) -> u64 {
        SizeClass::ALL
            .iter()
            .map(|&class| u64::from(self.count(class)) * u64::from(class.bytes()))
            .sum()
    }

    /// A layout whose classes can hold so many bytes each, whatever the others do, so that bytes are all that is to be counted. [Short
    /// blocks](SizeClass::Header) have an eighth of that: longer ones do in their place.
    pub fn reserving(bytes: u64) -> Self {
        let blocks = |bytes: u64, class: SizeClass| {
            let count = bytes.div_ceil(u64::from(class.bytes()));
            u32::try_from(count).unwrap_or(u32::MAX >> 1)
        };
        ArenaLayout {
            header: blocks(bytes / 8, SizeClass::Header),
            packet: blocks(bytes, SizeClass::Packet),
            record: blocks(bytes, SizeClass::Record),
            large: blocks(bytes, SizeClass::Large),
        }
    }

    /// Blocks of one class.
    pub fn count(&self, class: SizeClass) -> u32 {
        match class {
            SizeClass::Header => self.header,
            SizeClass::Packet => self.packet,
            SizeClass::Record => self.record,
            SizeClass::Large => self.large,
        }
    }
}
