//! Admin commands (NVMe Base 2.0 §5).

use super::features::Feature;
use super::status::Status;
use super::submission::{SubmissionEntry, opcode};
use crate::nvme::identify::Cns;
use crate::nvme::log::LogPage;

/// What an admin command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admin {
    /// A data structure of 4,096 bytes (§5.17).
    Identify(Identify),
    /// A log page (§5.16).
    GetLogPage(GetLogPage),
    /// Sets a feature (§5.27).
    SetFeatures {
        /// Which one.
        feature: Feature,
        /// The value is to outlive a reset (SV).
        save: bool,
        /// The namespace, where the feature has one.
        nsid: u32,
        /// Dword 11: the value, or what the feature says.
        value: u32,
    },
    /// Reads a feature (§5.15).
    GetFeatures {
        /// Which one.
        feature: Feature,
        /// 0 the current value, 1 the default, 2 the saved one, 3 what is supported (SEL).
        select: u8,
        /// The namespace, where the feature has one.
        nsid: u32,
        /// Dword 11.
        value: u32,
    },
    /// Completes when something happens (§5.2).
    AsyncEventRequest,
    /// The host is still there (§5.18).
    KeepAlive,
    /// Gives up a command, if it can (§5.1).
    Abort {
        /// Its queue.
        queue: u16,
        /// Its identifier.
        cid: u16,
    },
}

/// What Identify asks for (NVMe Base 2.0 §5.17, Figures 271 and 273).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identify {
    /// Which structure.
    pub cns: Cns,
    /// The namespace, or the one after which a list begins.
    pub nsid: u32,
    /// The controller (CNTID), for the structures that name one.
    pub controller: u16,
    /// The command set (CSI), for the structures that name one.
    pub command_set: u8,
    /// The structure's own identifier (CNS Specific Identifier).
    pub specific: u16,
}

/// What Get Log Page asks for (NVMe Base 2.0 §5.16, Figures 197 to 201).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GetLogPage {
    /// Which page (LID).
    pub id: LogPage,
    /// The page's own field (LSP).
    pub specific: u8,
    /// Don't re-arm the event that this page belongs to (RAE).
    pub retain_event: bool,
    /// Bytes to return: a multiple of 4, from 4 to 2^34.
    pub len: u64,
    /// Where in the page to begin, in bytes; a multiple of 4.
    pub offset: u64,
    /// The namespace, where the page has one; otherwise 0 or FFFF_FFFFh.
    pub nsid: u32,
}

impl Admin {
    /// What `entry` asks for, or the status that answers it. The caller has looked for [`opcode::FABRICS`] before.
    ///
    /// # Errors
    /// The status for the command.
    pub fn parse(entry: &SubmissionEntry) -> Result<Admin, Status> {
        let dword = entry.cdw10;
        Ok(match entry.opcode {
            opcode::IDENTIFY => Admin::Identify(Identify {
                cns: Cns(dword[0] as u8),
                nsid: entry.nsid,
                controller: (dword[0] >> 16) as u16,
                command_set: (dword[1] >> 24) as u8,
                specific: dword[1] as u16,
            }),
            opcode::GET_LOG_PAGE => Admin::GetLogPage(GetLogPage::parse(entry)?),
            opcode::SET_FEATURES => Admin::SetFeatures {
                feature: Feature(dword[0] as u8),
                save: dword[0] >> 31 != 0,
                nsid: entry.nsid,
                value: dword[1],
            },
            opcode::GET_FEATURES => Admin::GetFeatures {
                feature: Feature(dword[0] as u8),
                select: (dword[0] >> 8) as u8 & 0x07,
                nsid: entry.nsid,
                value: dword[1],
            },
            opcode::ASYNC_EVENT_REQUEST => Admin::AsyncEventRequest,
            opcode::KEEP_ALIVE => Admin::KeepAlive,
            opcode::ABORT => Admin::Abort {
                queue: dword[0] as u16,
                cid: (dword[0] >> 16) as u16,
            },
            _ => return Err(Status::INVALID_OPCODE.do_not_retry()),
        })
    }

    /// The entry for it, without data.
    #[must_use]
    pub fn entry(&self, cid: u16) -> SubmissionEntry {
        match *self {
            Admin::Identify(identify) => {
                let mut entry = SubmissionEntry::new(opcode::IDENTIFY, cid, identify.nsid);
                entry.cdw10[0] = u32::from(identify.cns.0) | u32::from(identify.controller) << 16;
                entry.cdw10[1] =
                    u32::from(identify.specific) | u32::from(identify.command_set) << 24;
                entry
            }
            Admin::GetLogPage(page) => page.entry(cid),
            Admin::SetFeatures {
                feature,
                save,
                nsid,
                value,
            } => {
                let mut entry = SubmissionEntry::new(opcode::SET_FEATURES, cid, nsid);
                entry.cdw10[0] = u32::from(feature.0) | u32::from(save) << 31;
                entry.cdw10[1] = value;
                entry
            }
            Admin::GetFeatures {
                feature,
                select,
                nsid,
                value,
            } => {
                let mut entry = SubmissionEntry::new(opcode::GET_FEATURES, cid, nsid);
                entry.cdw10[0] = u32::from(feature.0) | u32::from(select & 7) << 8;
                entry.cdw10[1] = value;
                entry
            }
            Admin::AsyncEventRequest => SubmissionEntry::new(opcode::ASYNC_EVENT_REQUEST, cid, 0),
            Admin::KeepAlive => SubmissionEntry::new(opcode::KEEP_ALIVE, cid, 0),
            Admin::Abort { queue, cid: victim } => {
                let mut entry = SubmissionEntry::new(opcode::ABORT, cid, 0);
                entry.cdw10[0] = u32::from(queue) | u32::from(victim) << 16;
                entry
            }
        }
    }
}

impl GetLogPage {
    fn parse(entry: &SubmissionEntry) -> Result<GetLogPage, Status> {
        let dword = entry.cdw10;
        let dwords = u64::from(dword[0] >> 16) | u64::from(dword[1] & 0xffff) << 16;
        let offset = entry.quad(2);
        let offset_is_index = dword[4] & 1 << 23 != 0;
        if offset & 3 != 0 || offset_is_index {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok(GetLogPage {
            id: LogPage(dword[0] as u8),
            specific: (dword[0] >> 8) as u8 & 0x7f,
            retain_event: dword[0] & 1 << 15 != 0,
            len: (dwords + 1) * 4,
            offset,
            nsid: entry.nsid,
        })
    }

    fn entry(&self, cid: u16) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(opcode::GET_LOG_PAGE, cid, self.nsid);
        let dwords = (self.len / 4).max(1) - 1;
        entry.cdw10[0] = u32::from(self.id.0)
            | u32::from(self.specific & 0x7f) << 8
            | u32::from(self.retain_event) << 15
            | (dwords as u32 & 0xffff) << 16;
        entry.cdw10[1] = (dwords >> 16) as u32 & 0xffff;
        entry.set_quad(2, self.offset);
        entry
    }
}
