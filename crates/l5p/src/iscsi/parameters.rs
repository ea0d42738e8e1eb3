//! What a NIC context needs to know of one direction of a connection.

use wire::iscsi::{Framing, MOST_DATA, Phase, Role};

/// What was agreed on for the PDUs of one direction, once the login is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Who sends the PDUs.
    pub sender: Role,
    /// Whether headers have digests.
    pub header_digest: bool,
    /// Whether data has digests.
    pub data_digest: bool,
    /// Data-In names its buffer by a [tag](super::TaskTag) below this; 0 when nothing is placed.
    pub tags: u16,
    /// MaxRecvDataSegmentLength of the receiver.
    pub max_data: u32,
}

const TARGET: u8 = 1;
const HEADER_DIGEST: u8 = 2;
const DATA_DIGEST: u8 = 4;

impl Parameters {
    /// Those of the PDUs that `framing` is for.
    #[must_use]
    pub fn of(framing: &Framing, tags: u16) -> Parameters {
        Parameters {
            sender: framing.sender,
            header_digest: framing.header_digest,
            data_digest: framing.data_digest,
            tags,
            max_data: framing.max_data,
        }
    }

    /// The rules for the headers of these PDUs.
    #[must_use]
    pub fn framing(&self) -> Framing {
        Framing {
            sender: self.sender,
            phase: Phase::FullFeature,
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            max_data: self.max_data,
        }
    }
}

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = 8;

    /// Sender and digests as flags, a byte of zero, tags, and most data; little-endian.
    fn encode(&self, bytes: &mut [u8]) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        bytes[0] = flag(self.sender == Role::Target, TARGET)
            | flag(self.header_digest, HEADER_DIGEST)
            | flag(self.data_digest, DATA_DIGEST);
        bytes[1] = 0;
        bytes[2..4].copy_from_slice(&self.tags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.max_data.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        let [flags, zero, t0, t1, max @ ..] = *bytes.first_chunk::<8>()?;
        let max_data = u32::from_le_bytes(max);
        let known = TARGET | HEADER_DIGEST | DATA_DIGEST;
        let is_valid = flags & !known == 0 && zero == 0 && max_data <= MOST_DATA;
        is_valid.then_some(Parameters {
            sender: match flags & TARGET {
                0 => Role::Initiator,
                _ => Role::Target,
            },
            header_digest: flags & HEADER_DIGEST != 0,
            data_digest: flags & DATA_DIGEST != 0,
            tags: u16::from_le_bytes([t0, t1]),
            max_data,
        })
    }

    fn tags(&self) -> u16 {
        self.tags
    }
}
