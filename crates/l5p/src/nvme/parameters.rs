//! What a NIC context needs to know of one direction of a connection.

use thiserror::Error;
use wire::nvme::{Digests, Framing, MAX_ALIGNMENT, Phase, Role};

/// What was agreed on for the PDUs of one direction, once ICReq and ICResp have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Who sends the PDUs.
    pub sender: Role,
    /// Whether headers have digests.
    pub header_digest: bool,
    /// Whether data has digests.
    pub data_digest: bool,
    /// HPDA for what a controller sends, CPDA for what a host sends; at most [`MAX_ALIGNMENT`].
    pub alignment: u8,
    /// The longest PDU in bytes that the receiver accepts.
    pub max_pdu: u32,
    /// Data PDUs name their buffer by a tag below this: by CID towards a host, by TTAG towards a controller. 0 when nothing is placed.
    pub commands: u16,
}

/// Bytes that are no [`Parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("role and flags {flags:#x} with alignment {alignment} are no NVMe/TCP parameters")]
pub struct InvalidParameters {
    /// First byte.
    pub flags: u8,
    /// Second byte.
    pub alignment: u8,
}

const CONTROLLER: u8 = 1;
const HEADER_DIGEST: u8 = 2;
const DATA_DIGEST: u8 = 4;

impl Parameters {
    /// Length of the encoding in a descriptor.
    pub const ENCODED_LEN: usize = 8;

    /// The fixed-size encoding for a descriptor: sender and digests as flags, alignment, tags, longest PDU; little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        bytes[0] = flag(self.sender == Role::Controller, CONTROLLER)
            | flag(self.header_digest, HEADER_DIGEST)
            | flag(self.data_digest, DATA_DIGEST);
        bytes[1] = self.alignment;
        bytes[2..4].copy_from_slice(&self.commands.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.max_pdu.to_le_bytes());
        bytes
    }

    /// The parameters that [`to_bytes`](Self::to_bytes) encoded.
    ///
    /// # Errors
    /// When a flag is unknown or the alignment above [`MAX_ALIGNMENT`].
    pub fn from_bytes(bytes: &[u8; Self::ENCODED_LEN]) -> Result<Parameters, InvalidParameters> {
        let [flags, alignment, c0, c1, max @ ..] = *bytes;
        if flags & !(CONTROLLER | HEADER_DIGEST | DATA_DIGEST) != 0 || alignment > MAX_ALIGNMENT {
            return Err(InvalidParameters { flags, alignment });
        }
        Ok(Parameters {
            sender: match flags & CONTROLLER {
                0 => Role::Host,
                _ => Role::Controller,
            },
            header_digest: flags & HEADER_DIGEST != 0,
            data_digest: flags & DATA_DIGEST != 0,
            alignment,
            max_pdu: u32::from_le_bytes(max),
            commands: u16::from_le_bytes([c0, c1]),
        })
    }

    /// The rules for the headers of these PDUs.
    #[must_use]
    pub fn framing(&self) -> Framing {
        Framing {
            sender: self.sender,
            phase: Phase::Established,
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            alignment: self.alignment,
            max_pdu: self.max_pdu,
        }
    }

    /// The digests in use.
    #[must_use]
    pub fn digests(&self) -> Digests {
        Digests {
            header: self.header_digest,
            data: self.data_digest,
        }
    }
}

#[cfg(test)]
mod tests;
