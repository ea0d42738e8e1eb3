//! The protocols of one context, one inside the other.

use std::fmt;

use super::{Listed, PROTOCOLS, ProtocolId, ProtocolInfo};

/// Most protocols of one context.
pub const MAX_LAYERS: usize = 4;
/// Most bytes of their parameters together.
pub const MAX_PARAMETERS: usize = 136;

/// The protocols of one context, outermost first, with their encoded parameters.
///
/// The content of each one's messages is the stream of the next. The parameters hold keys: they are wiped when this is dropped.
#[derive(Clone)]
pub struct Layers {
    ids: [ProtocolId; MAX_LAYERS],
    count: u8,
    is_seekable: bool,
    bytes: [u8; MAX_PARAMETERS],
}

/// Ids or parameters that are not those of protocols in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the protocols {ids:#010x} of a context are not in the list, or take more room than there is"
)]
pub struct UnknownLayers {
    /// The ids, the outermost in the lowest byte.
    pub ids: u32,
}

impl Layers {
    /// One protocol.
    #[must_use]
    pub fn of<P: Listed>(parameters: &P) -> Layers {
        let mut layers = Layers {
            ids: [ProtocolId(0); MAX_LAYERS],
            count: 0,
            is_seekable: parameters.is_seekable(),
            bytes: [0; MAX_PARAMETERS],
        };
        layers.push(parameters);
        layers
    }

    /// These, and inside the innermost of them another one.
    ///
    /// # Panics
    /// When these are [`MAX_LAYERS`] already, or there is no room for the parameters.
    #[must_use]
    pub fn carrying<P: Listed>(mut self, parameters: &P) -> Layers {
        self.is_seekable = false;
        self.push(parameters);
        self
    }

    /// These, inside of another one.
    ///
    /// # Panics
    /// As [`carrying`](Self::carrying).
    #[must_use]
    pub fn inside<P: Listed>(&self, outer: &P) -> Layers {
        let mut layers = Layers::of(outer);
        let (at, len) = (layers.encoded().len(), self.encoded().len());
        let count = 1 + usize::from(self.count);
        assert!(
            count <= MAX_LAYERS,
            "a context has at most {MAX_LAYERS} protocols"
        );
        layers.bytes[at..at + len].copy_from_slice(self.encoded());
        layers.ids[1..count].copy_from_slice(self.ids());
        layers.count = count as u8;
        layers.is_seekable = false;
        layers
    }

    fn push<P: Listed>(&mut self, parameters: &P) {
        let at = self.encoded().len();
        let count = usize::from(self.count);
        assert!(
            count < MAX_LAYERS,
            "a context has at most {MAX_LAYERS} protocols"
        );
        parameters.encode(&mut self.bytes[at..at + P::ENCODED_LEN]);
        self.ids[count] = P::ID;
        self.count += 1;
    }

    /// Reads what a descriptor has: ids, the outermost in the lowest byte, and parameters one after the other.
    ///
    /// # Errors
    /// When an id is not in the list, or a protocol follows none. The parameters are not looked at.
    pub fn decode(ids: u32, parameters: &[u8]) -> Result<Layers, UnknownLayers> {
        let len = Layers::encoded_len(ids)?;
        let mut layers = Layers {
            ids: ids.to_le_bytes().map(ProtocolId),
            count: (u32::BITS - ids.leading_zeros()).div_ceil(8) as u8,
            is_seekable: false,
            bytes: [0; MAX_PARAMETERS],
        };
        let parameters = parameters.get(..len).ok_or(UnknownLayers { ids })?;
        layers.bytes[..len].copy_from_slice(parameters);
        Ok(layers)
    }

    /// Bytes of the parameters of the protocols with these ids.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode).
    pub fn encoded_len(ids: u32) -> Result<usize, UnknownLayers> {
        let unknown = UnknownLayers { ids };
        let count = (u32::BITS - ids.leading_zeros()).div_ceil(8) as usize;
        let mut len = 0;
        for id in &ids.to_le_bytes()[..count] {
            len += ProtocolId(*id).info().ok_or(unknown)?.parameters_len;
        }
        match count > 0 && len <= MAX_PARAMETERS {
            true => Ok(len),
            false => Err(unknown),
        }
    }

    /// The ids in a word, the outermost in the lowest byte.
    #[must_use]
    pub fn ids_word(&self) -> u32 {
        u32::from_le_bytes(self.ids.map(|id| id.0))
    }

    /// The encoded parameters, one after the other.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        let len: usize = self.infos().map(|info| info.parameters_len).sum();
        &self.bytes[..len]
    }

    /// The ids, outermost first.
    #[must_use]
    pub fn ids(&self) -> &[ProtocolId] {
        &self.ids[..usize::from(self.count)]
    }

    /// What the list says of each, outermost first.
    pub fn infos(&self) -> impl DoubleEndedIterator<Item = &'static ProtocolInfo> + '_ {
        self.ids().iter().map(|id| &PROTOCOLS[id.index()])
    }

    /// The encoded parameters of the layer at this depth; the outermost is at 0.
    #[must_use]
    pub fn parameters(&self, depth: usize) -> &[u8] {
        let before: usize = self
            .infos()
            .take(depth)
            .map(|info| info.parameters_len)
            .sum();
        let len = self
            .infos()
            .nth(depth)
            .map_or(0, |info| info.parameters_len);
        &self.bytes[before..before + len]
    }

    /// Whether the NIC can make bytes of a message's middle again without what comes before them: as
    /// [`Parameters::is_seekable`](super::Parameters::is_seekable) says of a single protocol.
    #[must_use]
    pub fn is_seekable(&self) -> bool {
        self.is_seekable
    }
}

impl PartialEq for Layers {
    fn eq(&self, other: &Layers) -> bool {
        (self.ids(), self.encoded()) == (other.ids(), other.encoded())
    }
}

impl Eq for Layers {}

impl<P: Listed> From<&P> for Layers {
    fn from(parameters: &P) -> Layers {
        Layers::of(parameters)
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.infos().map(|info| info.name))
            .finish()
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        crate::crypto::wipe(&mut self.bytes);
    }
}
