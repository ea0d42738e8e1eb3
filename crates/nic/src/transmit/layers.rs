//! What a transmit context runs over its stream: one engine, or NVMe's inside of TLS's.

use l5p::tls::Direction;
use l5p::{Digest, Layer5, NotAHeader, Walker, nvme, tls};
use shared::Input;

use crate::ring::{ErrorCode, Protocols, Recover};

use super::stacked::Stacked;

/// An engine, and where in its stream it is.
#[derive(Debug)]
pub(super) struct Layer<L: Layer5> {
    pub(super) walker: Walker<L::Header>,
    pub(super) engine: L,
}

/// The engines of a context. Only TLS's is in the context itself, which the others would make larger.
#[derive(Debug)]
pub(super) enum Layers {
    Tls(Layer<tls::Engine>),
    Nvme(Box<Layer<nvme::Engine>>),
    NvmeInTls(Box<Stacked>),
}

/// Where in the messages of the outermost protocol a context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Number of the message.
    pub(super) index: u64,
    /// Bytes of it before this position.
    pub(super) offset: u32,
    /// Its length, once its header is complete.
    pub(super) len: Option<u32>,
    /// Bytes to its end, or to its header's while that is incomplete.
    pub(super) left: u32,
}

impl<L: Layer5> Layer<L> {
    /// At the first byte of message number `index`.
    pub(super) fn new(engine: L, index: u64) -> Layer<L> {
        Layer {
            walker: Walker::new(index),
            engine,
        }
    }

    pub(super) fn restart(&mut self, index: u64) {
        self.walker = Walker::new(index);
    }

    #[inline]
    pub(super) fn advance(
        &mut self,
        input: Input<'_>,
        output: &mut [u8],
    ) -> Result<(), NotAHeader> {
        self.walker.advance(&mut self.engine, input, output)?;
        Ok(())
    }

    /// As [`advance`](Self::advance), when nobody wants the result.
    pub(super) fn absorb(&mut self, input: Input<'_>) -> Result<(), NotAHeader> {
        self.walker.absorb(&mut self.engine, input)?;
        Ok(())
    }

    #[inline]
    pub(super) fn position(&self) -> Position {
        Position {
            index: self.walker.index(),
            offset: self.walker.offset(),
            len: self.walker.message_len(),
            left: self.walker.to_boundary(),
        }
    }

    /// Digest of the current message so far; of an incomplete header, which is sent as it is, there is none.
    fn digest(&mut self) -> Digest {
        match self.walker.message_len() {
            Some(_) => self.engine.digest(self.walker.offset()),
            None => Digest::default(),
        }
    }
}

impl Layers {
    /// Engines under these parameters; the next byte is the first of a message of each.
    pub(super) fn new(protocols: &Protocols) -> Layers {
        let tls = |info: &tls::CryptoInfo| {
            Layer::new(tls::Engine::new(info, Direction::Transmit), info.sequence)
        };
        let nvme = |parameters: &nvme::Parameters| {
            Layer::new(nvme::Engine::new(parameters, Direction::Transmit), 0)
        };
        match protocols {
            Protocols::Tls(info) => Layers::Tls(tls(info)),
            Protocols::Nvme(parameters) => Layers::Nvme(Box::new(nvme(parameters))),
            Protocols::NvmeInTls(info, parameters) => {
                Layers::NvmeInTls(Box::new(Stacked::new(tls(info), nvme(parameters))))
            }
        }
    }

    /// Whether the stream is encrypted. Then no two plaintexts may be sent for one place in it.
    #[inline]
    pub(super) fn encrypt(&self) -> bool {
        !matches!(self, Layers::Nvme(_))
    }

    /// Whether PDUs are digested.
    #[inline]
    pub(super) fn digest_pdus(&self) -> bool {
        !matches!(self, Layers::Tls(_))
    }

    /// Transforms the next bytes of the stream.
    #[inline]
    pub(super) fn advance(&mut self, input: Input<'_>, output: &mut [u8]) -> Result<(), ErrorCode> {
        match self {
            Layers::Tls(layer) => layer.advance(input, output),
            Layers::Nvme(layer) => layer.advance(input, output),
            Layers::NvmeInTls(layers) => layers.advance(input, output),
        }
        .map_err(|_| ErrorCode::NotAHeader)
    }

    /// As [`advance`](Self::advance), when nobody wants the result. `scratch` is as long as `input`.
    pub(super) fn absorb(&mut self, input: Input<'_>, scratch: &mut [u8]) -> Result<(), ErrorCode> {
        match self {
            Layers::Nvme(layer) => layer.absorb(input).map_err(|_| ErrorCode::NotAHeader),
            _ => self.advance(input, scratch),
        }
    }

    #[inline]
    pub(super) fn position(&self) -> Position {
        match self {
            Layers::Tls(layer) => layer.position(),
            Layers::Nvme(layer) => layer.position(),
            Layers::NvmeInTls(layers) => layers.outer.position(),
        }
    }

    /// Where the integrity value lies in a message of `len` bytes of the outermost protocol.
    pub(super) fn icv(&self, len: u32) -> std::ops::Range<u32> {
        match self {
            Layers::Tls(layer) => layer.engine.icv(len),
            Layers::Nvme(layer) => layer.engine.icv(len),
            Layers::NvmeInTls(layers) => layers.outer.engine.icv(len),
        }
    }

    /// Digest of what was made of the current message of the outermost protocol.
    pub(super) fn digest(&mut self) -> Digest {
        match self {
            Layers::Tls(layer) => layer.digest(),
            Layers::Nvme(layer) => layer.digest(),
            Layers::NvmeInTls(layers) => layers.outer.digest(),
        }
    }

    /// Goes to the first byte of the message that the command names; the inner layer, to the first byte of its
    /// message, which is still to be brought to where the outer one's begins.
    ///
    /// # Errors
    /// When the command is for other layers than these.
    pub(super) fn restart(&mut self, command: &Recover) -> Result<(), ErrorCode> {
        match (self, command.inner) {
            (Layers::Tls(layer), None) => layer.restart(command.index),
            (Layers::Nvme(layer), None) => layer.restart(command.index),
            (Layers::NvmeInTls(layers), Some(inner)) => {
                layers.outer.restart(command.index);
                layers.inner.restart(inner.index);
            }
            _ => return Err(ErrorCode::BadParameters),
        }
        Ok(())
    }

    /// The inner layer, if there are two.
    pub(super) fn inner(&mut self) -> Option<&mut Layer<nvme::Engine>> {
        match self {
            Layers::NvmeInTls(layers) => Some(&mut layers.inner),
            _ => None,
        }
    }
}
