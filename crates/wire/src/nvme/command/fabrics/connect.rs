//! The data of Connect and what its completion says (NVMe Base 2.0 §6.3, Figures 380 and 381).

use crate::bytes::{array_at, put_u16_le, u16_le_at};
use crate::error::ParseError;
use crate::nvme::Nqn;

/// Bytes of the data of Connect.
pub const CONNECT_DATA_LEN: usize = 1024;
/// The controller that Connect asks for on the admin queue: any, of the dynamic controller model.
pub const DYNAMIC_CONTROLLER: u16 = 0xffff;

/// AUTHREQ in dword 0 of the completion: ATR, a transaction, and ASCR, one that makes a key for TLS.
const AUTHENTICATION: u32 = 1 << 17 | 1 << 18;

const CONTROLLER_AT: usize = 16;
const SUBSYSTEM_AT: usize = 256;
const HOST_AT: usize = 512;

/// The data of Connect: who wants what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// The host identifier, a UUID.
    pub host_id: [u8; 16],
    /// [`DYNAMIC_CONTROLLER`] for an admin queue; the controller that the admin queue got for an I/O queue.
    pub controller: u16,
    /// The subsystem.
    pub subsystem: Nqn,
    /// The host: [`Nqn::EMPTY`] if it does not say who it is, as SPDK's tools do not unless they are told a name.
    pub host: Nqn,
}

/// Why the data of Connect makes no sense, and the offset to report with
/// [`crate::nvme::command::Status::CONNECT_INVALID_PARAMETERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connect data is wrong at byte {offset}: {error}")]
pub struct ConnectError {
    /// The offset of the field in the data.
    pub offset: u16,
    /// What is wrong with it.
    pub error: ParseError,
}

impl ConnectData {
    /// Reads the data.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(bytes: &[u8; CONNECT_DATA_LEN]) -> Result<ConnectData, ConnectError> {
        let nqn = |at: usize| {
            Nqn::parse(&bytes[at..]).map_err(|error| ConnectError {
                offset: at as u16,
                error,
            })
        };
        Ok(ConnectData {
            host_id: array_at(bytes, 0),
            controller: u16_le_at(bytes, CONTROLLER_AT),
            subsystem: nqn(SUBSYSTEM_AT)?,
            host: match bytes[HOST_AT] {
                0 => Nqn::EMPTY,
                _ => nqn(HOST_AT)?,
            },
        })
    }

    /// The data's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONNECT_DATA_LEN] {
        let mut bytes = [0; CONNECT_DATA_LEN];
        bytes[..16].copy_from_slice(&self.host_id);
        put_u16_le(&mut bytes, CONTROLLER_AT, self.controller);
        self.subsystem.emit(&mut bytes[SUBSYSTEM_AT..]);
        self.host.emit(&mut bytes[HOST_AT..]);
        bytes
    }
}

/// Dword 0 of the completion of Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectReply {
    /// After a success.
    Accepted {
        /// The controller.
        controller: u16,
        /// It wants the host to authenticate itself (ATR or ASCR of AUTHREQ).
        authentication: bool,
    },
    /// With [`crate::nvme::command::Status::CONNECT_INVALID_PARAMETERS`]: what is wrong.
    Invalid {
        /// It is in the data, not in the entry (IATTR).
        in_data: bool,
        /// The offset there, in bytes (IPO).
        offset: u16,
    },
}

impl ConnectReply {
    /// From dword 0, after a success or not.
    #[must_use]
    pub const fn from_dword(dword: u32, success: bool) -> ConnectReply {
        if success {
            ConnectReply::Accepted {
                controller: dword as u16,
                authentication: dword & AUTHENTICATION != 0,
            }
        } else {
            ConnectReply::Invalid {
                in_data: dword & 1 << 16 != 0,
                offset: dword as u16,
            }
        }
    }

    /// Dword 0.
    #[must_use]
    pub const fn to_dword(self) -> u32 {
        match self {
            ConnectReply::Accepted {
                controller,
                authentication,
            } => controller as u32 | (authentication as u32) << 17,
            ConnectReply::Invalid { in_data, offset } => offset as u32 | (in_data as u32) << 16,
        }
    }
}
