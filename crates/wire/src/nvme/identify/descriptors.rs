//! The Namespace Identification Descriptor list (Base 2.0c §5.17.2.3, Figure 277).

use super::LEN;
use crate::bytes::array_at;
use crate::error::ParseError;

const EUI64: u8 = 1;
const NGUID: u8 = 2;
const UUID: u8 = 3;
const CSI: u8 = 4;

/// What identifies a namespace. A controller gives at least one of the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NamespaceIds {
    /// IEEE EUI-64.
    pub eui64: Option<[u8; 8]>,
    /// Namespace globally unique identifier.
    pub nguid: Option<[u8; 16]>,
    /// RFC 4122 UUID, in its order of bytes.
    pub uuid: Option<[u8; 16]>,
    /// The command set that the namespace speaks.
    pub csi: Option<u8>,
}

impl NamespaceIds {
    /// Parses an answer; descriptors of other types are passed over.
    ///
    /// # Errors
    /// If the answer is shorter than [`LEN`], a known descriptor has another length than its type, or one goes beyond
    /// the end.
    pub fn parse(bytes: &[u8]) -> Result<NamespaceIds, ParseError> {
        ParseError::require(bytes, LEN)?;
        let mut rest = &bytes[..LEN];
        let mut ids = NamespaceIds::default();
        while let [kind, len, _, _, tail @ ..] = rest {
            if *kind == 0 || *len == 0 {
                break;
            }
            let Some((value, tail)) = tail.split_at_checked(usize::from(*len)) else {
                return Err(ParseError::BadLength(usize::from(*len)));
            };
            match (*kind, value.len()) {
                (EUI64, 8) => ids.eui64 = Some(array_at(value, 0)),
                (NGUID, 16) => ids.nguid = Some(array_at(value, 0)),
                (UUID, 16) => ids.uuid = Some(array_at(value, 0)),
                (CSI, 1) => ids.csi = Some(value[0]),
                (EUI64..=CSI, len) => return Err(ParseError::BadLength(len)),
                _ => {}
            }
            rest = tail;
        }
        Ok(ids)
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..LEN];
        buffer.fill(0);
        let mut at = 0;
        let mut put = |kind: u8, value: &[u8]| {
            buffer[at] = kind;
            buffer[at + 1] = value.len() as u8;
            buffer[at + 4..at + 4 + value.len()].copy_from_slice(value);
            at += 4 + value.len();
        };
        if let Some(eui64) = &self.eui64 {
            put(EUI64, eui64);
        }
        if let Some(nguid) = &self.nguid {
            put(NGUID, nguid);
        }
        if let Some(uuid) = &self.uuid {
            put(UUID, uuid);
        }
        if let Some(csi) = self.csi {
            put(CSI, &[csi]);
        }
    }
}
