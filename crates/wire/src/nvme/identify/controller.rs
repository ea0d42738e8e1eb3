//! The Identify Controller data structure (Base 2.0c §5.17.2.1, Figure 275).

use super::LEN;
use crate::error::ParseError;
use crate::fields::{field, fields, page};
use crate::nvme::Nqn;

/// What a controller is for: the CNTRLTYPE field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControllerType(pub u8);

impl ControllerType {
    /// A controller with namespaces.
    pub const IO: ControllerType = ControllerType(1);
    /// A discovery controller.
    pub const DISCOVERY: ControllerType = ControllerType(2);
}

field!(ControllerType(u8));

/// Bits of [`ControllerData::sgls`].
pub mod sgls {
    /// SGLs of any alignment are supported.
    pub const SUPPORTED: u32 = 1;
    /// Offsets inside a capsule are supported: in-capsule data.
    pub const OFFSET: u32 = 1 << 20;
    /// Transport SGL data blocks are supported: data by R2T and by C2HData.
    pub const TRANSPORT: u32 = 1 << 21;
}

fields! {
    Le:
    /// Identify Controller. Text fields are ASCII, padded with blanks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ControllerData {
        /// PCI vendor.
        vid: u16 = 0,
        /// PCI subsystem vendor.
        ssvid: u16 = 2,
        /// Serial number of the subsystem.
        serial: [u8; 20] = 4,
        /// Model number.
        model: [u8; 40] = 24,
        /// Firmware revision.
        firmware: [u8; 8] = 64,
        /// Recommended arbitration burst.
        rab: u8 = 72,
        /// IEEE OUI of the vendor, least significant byte first.
        ieee: [u8; 3] = 73,
        /// Bit 0: several ports; bit 1: several controllers; bit 3: ANA.
        cmic: u8 = 76,
        /// The most data of a command: 2^mdts units of the smallest page (CAP.MPSMIN); 0 is no limit.
        mdts: u8 = 77,
        /// Controller ID.
        cntlid: u16 = 78,
        /// Version, as the VS property.
        ver: u32 = 80,
        /// Optional asynchronous events that can be had.
        oaes: u32 = 92,
        /// Controller attributes. Bit 0: 128-bit host identifiers; bit 6: traffic-based keep-alive.
        ctratt: u32 = 96,
        /// What the controller is for.
        controller_type: ControllerType = 111,
        /// Optional admin commands.
        oacs: u16 = 256,
        /// Aborts that may be outstanding, less one.
        acl: u8 = 258,
        /// Asynchronous event requests that may be outstanding, less one.
        aerl: u8 = 259,
        /// Firmware slots. Bit 0: the first one is read-only; bits 3:1: how many.
        frmw: u8 = 260,
        /// Log page attributes. Bit 0: SMART per namespace; 1: effects; 2: extended Get Log Page; 5: supported pages.
        lpa: u8 = 261,
        /// Entries of the error log, less one.
        elpe: u8 = 262,
        /// Warning temperature, kelvin; 0: not reported.
        wctemp: u16 = 266,
        /// Critical temperature, kelvin; 0: not reported.
        cctemp: u16 = 268,
        /// Granularity of the keep-alive timer, 100 ms; 0: no keep-alive.
        kas: u16 = 320,
        /// Sizes of submission queue entries as powers of two: most in bits 7:4, least in bits 3:0.
        sqes: u8 = 512,
        /// Sizes of completion queue entries, alike.
        cqes: u8 = 513,
        /// The most commands outstanding on one I/O queue.
        maxcmd: u16 = 514,
        /// The highest NSID that may be valid.
        nn: u32 = 516,
        /// Optional NVM commands. Bit 0: Compare; 2: Dataset Management; 3: Write Zeroes.
        oncs: u16 = 520,
        /// Volatile write cache. Bit 0: there is one; bits 2:1: 3, Flush may name all namespaces, 2, it may not.
        vwc: u8 = 525,
        /// Blocks written atomically, less one.
        awun: u16 = 526,
        /// Blocks written atomically also at a power failure, less one.
        awupf: u16 = 528,
        /// SGL support; see [`sgls`].
        sgls: u32 = 536,
        /// The most namespaces allowed; 0: not reported.
        mnan: u32 = 540,
        /// Size of an I/O command capsule, 16 bytes.
        ioccsz: u32 = 1792,
        /// Size of an I/O response capsule, 16 bytes.
        iorcsz: u32 = 1796,
        /// Where in-capsule data begins after the submission queue entry, 16 bytes.
        icdoff: u16 = 1800,
        /// Fabrics attributes. Bit 0: the controller model is static.
        fcatt: u8 = 1802,
        /// SGL descriptors in a capsule; 0: no limit.
        msdbd: u8 = 1803,
        ;
        /// The subsystem's name; `None` in what very old controllers answer.
        subnqn: Option<Nqn>,
    }
}

impl ControllerData {
    /// Parses an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`] or the subsystem's name is no name.
    pub fn parse(b: &[u8]) -> Result<ControllerData, ParseError> {
        ParseError::require(b, LEN)?;
        let subnqn = match b[768] {
            0 => None,
            _ => Some(Nqn::parse(&b[768..768 + Nqn::FIELD_LEN])?),
        };
        Ok(ControllerData::read(b, subnqn))
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..LEN];
        b.fill(0);
        self.write(b);
        if let Some(subnqn) = &self.subnqn {
            subnqn.emit(&mut b[768..]);
        }
    }

    /// Text for a fixed field: `N` bytes padded with blanks, cut if it is longer (§1.4.2).
    /// Bytes outside printable ASCII become `?`.
    #[must_use]
    pub fn text<const N: usize>(text: &str) -> [u8; N] {
        let mut field = [b' '; N];
        for (to, from) in field.iter_mut().zip(text.bytes()) {
            *to = if (0x20..0x7f).contains(&from) {
                from
            } else {
                b'?'
            };
        }
        field
    }
}

fields! {
    Le:
    /// Identify Controller of the NVM command set (NVM 1.0c §4.1.5.4): limits of commands without data.
    /// Zero is no limit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct NvmControllerData {
        /// Write Zeroes of at most 2^wzsl units of the smallest page.
        wzsl: u8 = 1,
        /// Ranges of one Dataset Management.
        dmrl: u8 = 3,
        /// Blocks of one range of Dataset Management.
        dmrsl: u32 = 4,
        /// Blocks of all ranges of one Dataset Management.
        dmsl: u64 = 8,
    }
}

page!(NvmControllerData, LEN);
