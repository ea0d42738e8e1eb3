//! Fabrics commands (NVMe Base 2.0 §6; NVMe over Fabrics 1.1 §3).

mod connect;

pub use connect::{CONNECT_DATA_LEN, ConnectData, ConnectError, ConnectReply, DYNAMIC_CONTROLLER};

use super::status::Status;
use super::submission::{SubmissionEntry, opcode};

/// Fabrics command types (FCTYPE).
mod kind {
    pub(super) const PROPERTY_SET: u8 = 0x00;
    pub(super) const CONNECT: u8 = 0x01;
    pub(super) const PROPERTY_GET: u8 = 0x04;
    pub(super) const AUTHENTICATION_SEND: u8 = 0x05;
    pub(super) const AUTHENTICATION_RECEIVE: u8 = 0x06;
    pub(super) const DISCONNECT: u8 = 0x08;
}

/// CATTR bit 2: the host wants no submission queue flow control.
const DISABLE_FLOW_CONTROL: u8 = 1 << 2;

/// What a fabrics command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fabrics {
    /// Makes a connection a queue of a controller; its data is a [`ConnectData`] (§6.3).
    Connect {
        /// The queue: 0 the admin queue, others I/O queues.
        queue: u16,
        /// Entries of the submission queue, 1 to 65,536, of which the controller refuses 1; the wire counts from zero.
        entries: u32,
        /// The host asks to go without submission queue flow control.
        no_flow_control: bool,
        /// Milliseconds without a command after which the controller gives up; 0: never. On the admin queue only.
        keep_alive: u32,
    },
    /// Reads a property of the controller (§6.4).
    PropertyGet(Property),
    /// Sets one (§6.5).
    PropertySet(Property, u64),
    /// Ends an I/O queue without ending its connection (§6.2).
    Disconnect,
}

/// A property: its offset and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Property {
    /// Its offset, as in the registers of a PCIe controller.
    pub offset: u32,
    /// It has 8 bytes, not 4.
    pub wide: bool,
}

impl Property {
    /// Controller Capabilities.
    pub const CAP: Property = Property::new(0x00, true);
    /// Version.
    pub const VS: Property = Property::new(0x08, false);
    /// Controller Configuration.
    pub const CC: Property = Property::new(0x14, false);
    /// Controller Status.
    pub const CSTS: Property = Property::new(0x1c, false);
    /// NVM Subsystem Reset.
    pub const NSSR: Property = Property::new(0x20, false);

    /// The property at `offset`, of 8 bytes if `wide`, else of 4.
    #[must_use]
    pub const fn new(offset: u32, wide: bool) -> Property {
        Property { offset, wide }
    }
}

impl Fabrics {
    /// What `entry`, whose opcode is [`opcode::FABRICS`], asks for, or the status that answers it.
    ///
    /// # Errors
    /// The status for the command.
    pub fn parse(entry: &SubmissionEntry) -> Result<Fabrics, Status> {
        if entry.opcode != opcode::FABRICS {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        let dword = entry.cdw10;
        match entry.nsid as u8 {
            kind::CONNECT => {
                let (format, entries) = (dword[0] as u16, (dword[1] & 0xffff) + 1);
                if format != 0 {
                    return Err(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry());
                }
                Ok(Fabrics::Connect {
                    queue: (dword[0] >> 16) as u16,
                    entries,
                    no_flow_control: (dword[1] >> 16) as u8 & DISABLE_FLOW_CONTROL != 0,
                    keep_alive: dword[2],
                })
            }
            kind::PROPERTY_GET => Ok(Fabrics::PropertyGet(parse_property(entry)?)),
            kind::PROPERTY_SET => {
                let property = parse_property(entry)?;
                let value = match property.wide {
                    true => entry.quad(2),
                    false => u64::from(dword[2]),
                };
                Ok(Fabrics::PropertySet(property, value))
            }
            kind::DISCONNECT if dword[0] as u16 != 0 => {
                Err(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry())
            }
            kind::DISCONNECT => Ok(Fabrics::Disconnect),
            kind::AUTHENTICATION_SEND | kind::AUTHENTICATION_RECEIVE => {
                Err(Status::INVALID_OPCODE.do_not_retry())
            }
            // Reserved, or a vendor's.
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    /// The entry for it, without data.
    #[must_use]
    pub fn entry(&self, cid: u16) -> SubmissionEntry {
        let new = |kind: u8| SubmissionEntry::new(opcode::FABRICS, cid, u32::from(kind));
        let of_property = |kind, property: Property| {
            let mut entry = new(kind);
            entry.cdw10[0] = u32::from(property.wide);
            entry.cdw10[1] = property.offset;
            entry
        };
        match *self {
            Fabrics::Connect {
                queue,
                entries,
                no_flow_control,
                keep_alive,
            } => {
                let mut entry = new(kind::CONNECT);
                let attributes = if no_flow_control {
                    DISABLE_FLOW_CONTROL
                } else {
                    0
                };
                entry.cdw10[0] = u32::from(queue) << 16;
                entry.cdw10[1] = (entries.clamp(1, 1 << 16) - 1) | u32::from(attributes) << 16;
                entry.cdw10[2] = keep_alive;
                entry
            }
            Fabrics::PropertyGet(property) => of_property(kind::PROPERTY_GET, property),
            Fabrics::PropertySet(property, value) => {
                let mut entry = of_property(kind::PROPERTY_SET, property);
                entry.set_quad(2, value);
                entry
            }
            Fabrics::Disconnect => new(kind::DISCONNECT),
        }
    }
}

fn parse_property(entry: &SubmissionEntry) -> Result<Property, Status> {
    let wide = match entry.cdw10[0] & 0x07 {
        0 => false,
        1 => true,
        _ => return Err(Status::INVALID_FIELD.do_not_retry()),
    };
    Ok(Property::new(entry.cdw10[1], wide))
}
