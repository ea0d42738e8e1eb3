//! What a transmit context runs over its stream: one engine, or one inside another.

use std::fmt::Debug;
use std::ops::Range;

use l5p::{
    Digest, Direction, Layers, NotAHeader, Parameters, Protocol, ProtocolId, Visitor, Walker, visit,
};
use shared::Input;

use crate::resources::Resources;
use crate::ring::{ErrorCode, InnerRecover, RecoverContext};

use super::nested::Nested;

/// The engines of a context, whatever their protocols.
pub(crate) trait TransmitLayers: Debug + Send {
    /// The protocols, outermost first.
    fn ids(&self) -> &[ProtocolId];

    /// Whether transformed bytes take the place of those in host memory. Then no two plaintexts may be sent for one place in the stream.
    fn replaces(&self) -> bool;

    /// Transforms the next bytes of the stream.
    fn advance(&mut self, input: Input<'_>, output: &mut [u8]) -> Result<(), NotAHeader>;

    /// As [`advance`](Self::advance), without a result. `scratch` is as long as `input`, for layers that need it.
    fn absorb(&mut self, input: Input<'_>, scratch: &mut [u8]) -> Result<(), NotAHeader>;

    /// Where in the messages of the outermost protocol the next byte is.
    fn position(&self) -> Position;

    /// Where the integrity value lies in a message of `len` bytes of the outermost protocol.
    fn icv(&self, len: u32) -> Range<u32>;

    /// Digest of what was made of the current message of the outermost protocol.
    fn digest(&mut self) -> Digest;

    /// Goes to the first byte of message `index`; an inner layer, to the first byte of its message, which is still to be brought to where the
    /// outer one's begins.
    ///
    /// # Errors
    /// When the command is for other layers than these.
    fn restart(&mut self, index: u64, inner: Option<InnerRecover>) -> Result<(), ErrorCode>;

    /// The layer inside the outermost.
    fn inner(&mut self) -> Option<&mut dyn TransmitLayers>;

    /// Whether [`transform_at`](Self::transform_at) can make bytes of a message's middle.
    fn is_seekable(&self) -> bool;

    /// Makes bytes of the middle of the message that the command names, from its byte `offset` on. False when that can't be.
    fn transform_at(
        &mut self,
        message: &RecoverContext,
        offset: u32,
        input: Input<'_>,
        output: &mut [u8],
    ) -> bool;
}

/// An engine, and where in its stream it is.
#[derive(Debug)]
pub(crate) struct Layer<P: Protocol> {
    id: ProtocolId,
    pub(crate) walker: Walker<P::Header>,
    pub(crate) engine: P,
}

/// Where in the messages of the outermost protocol a context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Number of the message.
    pub(crate) index: u64,
    /// Bytes of it before this position.
    pub(crate) offset: u32,
    /// Its length, once its header is complete.
    pub(crate) len: Option<u32>,
    /// Bytes to its end, or to its header's while that is incomplete.
    pub(crate) left: u32,
}

/// Engines for these protocols; the next byte is the first of a message of each.
///
/// # Errors
/// When parameters mean nothing, or a protocol carries no other.
pub(crate) fn create(
    layers: &Layers,
    resources: &Resources,
) -> Result<Box<dyn TransmitLayers>, ErrorCode> {
    create_from(layers, resources, 0)
}

fn create_from(
    layers: &Layers,
    resources: &Resources,
    depth: usize,
) -> Result<Box<dyn TransmitLayers>, ErrorCode> {
    let id = layers.ids()[depth];
    let create = Create {
        layers,
        resources,
        depth,
    };
    visit(id, create).unwrap_or(Err(ErrorCode::BadParameters))
}

/// Makes the layer at `depth`, and those inside it.
struct Create<'a> {
    layers: &'a Layers,
    resources: &'a Resources,
    depth: usize,
}

impl Visitor for Create<'_> {
    type Output = Result<Box<dyn TransmitLayers>, ErrorCode>;

    fn visit<P: Protocol>(self, id: ProtocolId) -> Self::Output {
        let Create {
            layers,
            resources,
            depth,
        } = self;
        let direction = Direction::Transmit;
        let (parameters, engine) = resources.engine::<P>(layers, depth, direction)?;
        let layer = Layer::<P> {
            id,
            walker: Walker::new(parameters.first_index()),
            engine,
        };
        match depth + 1 < layers.ids().len() {
            false => Ok(Box::new(layer)),
            true => Ok(Box::new(Nested::new(
                layer,
                create_from(layers, resources, depth + 1)?,
            )?)),
        }
    }
}

impl<P: Protocol> TransmitLayers for Layer<P> {
    fn ids(&self) -> &[ProtocolId] {
        std::slice::from_ref(&self.id)
    }

    fn replaces(&self) -> bool {
        P::REPLACES
    }

    #[inline]
    fn advance(&mut self, input: Input<'_>, output: &mut [u8]) -> Result<(), NotAHeader> {
        self.walker.advance(&mut self.engine, input, output)?;
        Ok(())
    }

    fn absorb(&mut self, input: Input<'_>, scratch: &mut [u8]) -> Result<(), NotAHeader> {
        match P::REPLACES {
            // Encryption is what makes the digest.
            true => self.walker.advance(&mut self.engine, input, scratch)?,
            false => self.walker.absorb(&mut self.engine, input)?,
        };
        Ok(())
    }

    #[inline]
    fn position(&self) -> Position {
        Position {
            index: self.walker.index(),
            offset: self.walker.offset(),
            len: self.walker.message_len(),
            left: self.walker.to_boundary(&self.engine),
        }
    }

    fn icv(&self, len: u32) -> Range<u32> {
        self.engine.icv(len)
    }

    /// Of an incomplete header, which is sent as it is, there is no digest.
    fn digest(&mut self) -> Digest {
        match self.walker.message_len() {
            Some(_) => self.engine.digest(self.walker.offset()),
            None => Digest::default(),
        }
    }

    fn restart(&mut self, index: u64, inner: Option<InnerRecover>) -> Result<(), ErrorCode> {
        if inner.is_some() {
            return Err(ErrorCode::BadParameters);
        }
        self.walker = Walker::new(index);
        Ok(())
    }

    fn inner(&mut self) -> Option<&mut dyn TransmitLayers> {
        None
    }

    fn is_seekable(&self) -> bool {
        self.engine.is_seekable()
    }

    fn transform_at(
        &mut self,
        message: &RecoverContext,
        offset: u32,
        input: Input<'_>,
        output: &mut [u8],
    ) -> bool {
        let (index, len) = (message.index, message.len);
        self.engine
            .transform_at(index, len, offset, input, output.into())
    }
}
