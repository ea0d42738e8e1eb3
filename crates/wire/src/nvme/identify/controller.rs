//! The Identify Controller data structure (Base 2.0c §5.17.2.1, Figure 275).

use super::LEN;
use crate::bytes::{array_at, put_u16_le, put_u32_le, put_u64_le, u16_le_at, u32_le_at, u64_le_at};
use crate::error::ParseError;
use crate::nvme::Nqn;

/// What a controller is for: the CNTRLTYPE field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControllerType(pub u8);

impl ControllerType {
    /// Not reported, by controllers before version 1.4.
    pub const NOT_REPORTED: ControllerType = ControllerType(0);
    /// A controller with namespaces.
    pub const IO: ControllerType = ControllerType(1);
    /// A discovery controller.
    pub const DISCOVERY: ControllerType = ControllerType(2);
    /// An administrative controller.
    pub const ADMINISTRATIVE: ControllerType = ControllerType(3);
}

/// Bits of [`ControllerData::sgls`].
pub mod sgls {
    /// SGLs of any alignment are supported.
    pub const SUPPORTED: u32 = 1;
    /// An SGL may be longer than the data.
    pub const LONGER_THAN_DATA: u32 = 1 << 18;
    /// Offsets inside a capsule are supported: in-capsule data.
    pub const OFFSET: u32 = 1 << 20;
    /// Transport SGL data blocks are supported: data by R2T and by C2HData.
    pub const TRANSPORT: u32 = 1 << 21;
}

/// Identify Controller. Text fields are ASCII, padded with blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerData {
    /// PCI vendor.
    pub vid: u16,
    /// PCI subsystem vendor.
    pub ssvid: u16,
    /// Serial number of the subsystem.
    pub serial: [u8; 20],
    /// Model number.
    pub model: [u8; 40],
    /// Firmware revision.
    pub firmware: [u8; 8],
    /// Recommended arbitration burst.
    pub rab: u8,
    /// IEEE OUI of the vendor, least significant byte first.
    pub ieee: [u8; 3],
    /// Bit 0: several ports; bit 1: several controllers; bit 3: ANA.
    pub cmic: u8,
    /// The most data of a command: 2^mdts units of the smallest page (CAP.MPSMIN); 0 is no limit.
    pub mdts: u8,
    /// Controller ID.
    pub cntlid: u16,
    /// Version, as the VS property.
    pub ver: u32,
    /// Optional asynchronous events that can be had.
    pub oaes: u32,
    /// Controller attributes. Bit 0: 128-bit host identifiers; bit 6: traffic-based keep-alive.
    pub ctratt: u32,
    /// What the controller is for.
    pub controller_type: ControllerType,
    /// Optional admin commands.
    pub oacs: u16,
    /// Aborts that may be outstanding, less one.
    pub acl: u8,
    /// Asynchronous event requests that may be outstanding, less one.
    pub aerl: u8,
    /// Firmware slots. Bit 0: the first one is read-only; bits 3:1: how many.
    pub frmw: u8,
    /// Log page attributes. Bit 0: SMART per namespace; 1: effects; 2: extended Get Log Page; 5: supported pages.
    pub lpa: u8,
    /// Entries of the error log, less one.
    pub elpe: u8,
    /// Warning temperature, kelvin; 0: not reported.
    pub wctemp: u16,
    /// Critical temperature, kelvin; 0: not reported.
    pub cctemp: u16,
    /// Granularity of the keep-alive timer, 100 ms; 0: no keep-alive.
    pub kas: u16,
    /// Sizes of submission queue entries as powers of two: most in bits 7:4, least in bits 3:0.
    pub sqes: u8,
    /// Sizes of completion queue entries, alike.
    pub cqes: u8,
    /// The most commands outstanding on one I/O queue.
    pub maxcmd: u16,
    /// The highest NSID that may be valid.
    pub nn: u32,
    /// Optional NVM commands. Bit 0: Compare; 2: Dataset Management; 3: Write Zeroes.
    pub oncs: u16,
    /// Volatile write cache. Bit 0: there is one; bits 2:1: 3, Flush may name all namespaces, 2, it may not.
    pub vwc: u8,
    /// Blocks written atomically, less one.
    pub awun: u16,
    /// Blocks written atomically also at a power failure, less one.
    pub awupf: u16,
    /// SGL support; see [`sgls`].
    pub sgls: u32,
    /// The most namespaces allowed; 0: not reported.
    pub mnan: u32,
    /// The subsystem's name; `None` in what very old controllers answer.
    pub subnqn: Option<Nqn>,
    /// Size of an I/O command capsule, 16 bytes.
    pub ioccsz: u32,
    /// Size of an I/O response capsule, 16 bytes.
    pub iorcsz: u32,
    /// Where in-capsule data begins after the submission queue entry, 16 bytes.
    pub icdoff: u16,
    /// Fabrics attributes. Bit 0: the controller model is static.
    pub fcatt: u8,
    /// SGL descriptors in a capsule; 0: no limit.
    pub msdbd: u8,
}

impl ControllerData {
    /// Parses an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`] or the subsystem's name is no name.
    pub fn parse(b: &[u8]) -> Result<ControllerData, ParseError> {
        ParseError::require(b, LEN)?;
        let subnqn = &b[768..768 + Nqn::FIELD_LEN];
        Ok(ControllerData {
            vid: u16_le_at(b, 0),
            ssvid: u16_le_at(b, 2),
            serial: array_at(b, 4),
            model: array_at(b, 24),
            firmware: array_at(b, 64),
            rab: b[72],
            ieee: array_at(b, 73),
            cmic: b[76],
            mdts: b[77],
            cntlid: u16_le_at(b, 78),
            ver: u32_le_at(b, 80),
            oaes: u32_le_at(b, 92),
            ctratt: u32_le_at(b, 96),
            controller_type: ControllerType(b[111]),
            oacs: u16_le_at(b, 256),
            acl: b[258],
            aerl: b[259],
            frmw: b[260],
            lpa: b[261],
            elpe: b[262],
            wctemp: u16_le_at(b, 266),
            cctemp: u16_le_at(b, 268),
            kas: u16_le_at(b, 320),
            sqes: b[512],
            cqes: b[513],
            maxcmd: u16_le_at(b, 514),
            nn: u32_le_at(b, 516),
            oncs: u16_le_at(b, 520),
            vwc: b[525],
            awun: u16_le_at(b, 526),
            awupf: u16_le_at(b, 528),
            sgls: u32_le_at(b, 536),
            mnan: u32_le_at(b, 540),
            subnqn: if subnqn[0] == 0 {
                None
            } else {
                Some(Nqn::parse(subnqn)?)
            },
            ioccsz: u32_le_at(b, 1792),
            iorcsz: u32_le_at(b, 1796),
            icdoff: u16_le_at(b, 1800),
            fcatt: b[1802],
            msdbd: b[1803],
        })
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..LEN];
        b.fill(0);
        put_u16_le(b, 0, self.vid);
        put_u16_le(b, 2, self.ssvid);
        b[4..24].copy_from_slice(&self.serial);
        b[24..64].copy_from_slice(&self.model);
        b[64..72].copy_from_slice(&self.firmware);
        b[72] = self.rab;
        b[73..76].copy_from_slice(&self.ieee);
        b[76] = self.cmic;
        b[77] = self.mdts;
        put_u16_le(b, 78, self.cntlid);
        put_u32_le(b, 80, self.ver);
        put_u32_le(b, 92, self.oaes);
        put_u32_le(b, 96, self.ctratt);
        b[111] = self.controller_type.0;
        put_u16_le(b, 256, self.oacs);
        b[258] = self.acl;
        b[259] = self.aerl;
        b[260] = self.frmw;
        b[261] = self.lpa;
        b[262] = self.elpe;
        put_u16_le(b, 266, self.wctemp);
        put_u16_le(b, 268, self.cctemp);
        put_u16_le(b, 320, self.kas);
        b[512] = self.sqes;
        b[513] = self.cqes;
        put_u16_le(b, 514, self.maxcmd);
        put_u32_le(b, 516, self.nn);
        put_u16_le(b, 520, self.oncs);
        b[525] = self.vwc;
        put_u16_le(b, 526, self.awun);
        put_u16_le(b, 528, self.awupf);
        put_u32_le(b, 536, self.sgls);
        put_u32_le(b, 540, self.mnan);
        if let Some(subnqn) = &self.subnqn {
            subnqn.emit(&mut b[768..]);
        }
        put_u32_le(b, 1792, self.ioccsz);
        put_u32_le(b, 1796, self.iorcsz);
        put_u16_le(b, 1800, self.icdoff);
        b[1802] = self.fcatt;
        b[1803] = self.msdbd;
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

/// Identify Controller of the NVM command set (NVM 1.0c §4.1.5.4): limits of commands without data.
/// Zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NvmControllerData {
    /// Write Zeroes of at most 2^wzsl units of the smallest page.
    pub wzsl: u8,
    /// Ranges of one Dataset Management.
    pub dmrl: u8,
    /// Blocks of one range of Dataset Management.
    pub dmrsl: u32,
    /// Blocks of all ranges of one Dataset Management.
    pub dmsl: u64,
}

impl NvmControllerData {
    /// Parses an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`].
    pub fn parse(b: &[u8]) -> Result<NvmControllerData, ParseError> {
        ParseError::require(b, LEN)?;
        Ok(NvmControllerData {
            wzsl: b[1],
            dmrl: b[3],
            dmrsl: u32_le_at(b, 4),
            dmsl: u64_le_at(b, 8),
        })
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..LEN];
        b.fill(0);
        b[1] = self.wzsl;
        b[3] = self.dmrl;
        put_u32_le(b, 4, self.dmrsl);
        put_u64_le(b, 8, self.dmsl);
    }
}
