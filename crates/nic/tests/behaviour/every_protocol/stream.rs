//! A stream of one protocol, or of protocols one inside the other: as a host frames it, as it is on the wire, and as it is to be received. What
//! is right is what engines give that get the stream in order and as a whole.

use std::ops::Range;

use l5p::{Direction, Layers, Parameters, Protocol, ProtocolId, Visitor, Walker, visit};

use super::samples::{Data, engine, sample};

/// The stream of one layer.
#[derive(Debug, Default)]
pub struct Layer {
    /// Its messages, where the stream is in the host's memory.
    pub messages: Vec<Range<usize>>,
    /// The stream in the host's memory.
    pub framed: Vec<u8>,
    /// The stream on the wire, or in the content of the layer around it.
    pub wire: Vec<u8>,
    /// Data of its messages, as ranges of the stream.
    pub data: Vec<Data>,
    /// A message may begin anywhere in it.
    pub anywhere: bool,
}

/// Layers of a stream, the outermost first.
pub struct Stream {
    pub layers: Layers,
    pub parts: Vec<Layer>,
    /// For the content of each message of the outermost layer: the bytes of the next layer's stream that it is.
    pub contents: Vec<Range<usize>>,
    /// Where the content of a message begins.
    pub content_at: usize,
    /// What the host is to have of each byte: plaintext.
    pub received: Vec<u8>,
    pub buffers: Vec<usize>,
    /// Some of the outermost messages carry nothing of what is inside. Where such a one is missing, a NIC takes its content for missing bytes
    /// of what is inside, and places what comes behind it elsewhere: it says where, and the host brings it where it belongs.
    pub has_others: bool,
}

impl Stream {
    /// A stream of these protocols, the innermost of which has messages with these payloads; those around it have content of at most
    /// `most` bytes.
    pub fn new(ids: &[ProtocolId], payloads: &[Vec<u8>], most: usize) -> Stream {
        Stream::make(ids, payloads, most, false)
    }

    /// The same, with messages around that carry nothing of what is inside.
    pub fn with_others(ids: &[ProtocolId], payloads: &[Vec<u8>], most: usize) -> Stream {
        Stream::make(ids, payloads, most, true)
    }

    fn make(ids: &[ProtocolId], payloads: &[Vec<u8>], most: usize, has_others: bool) -> Stream {
        let (&innermost, around) = ids.split_last().expect("a protocol");
        let mut inner = sample(innermost);
        let mut layer = Layer::default();
        for payload in payloads {
            layer.push(inner.message(payload), inner.data());
        }
        if let Some(window) = inner.window() {
            let windows = (0..layer.framed.len()).step_by(window);
            layer.messages = windows.map(|from| from..from + window).collect();
            layer.anywhere = true;
        }
        let mut layers = inner.layers();
        layer.wire = transform(innermost, &layers, Direction::Transmit, &layer.framed);
        let buffers = inner.buffers();
        let (mut parts, mut contents, mut content_at) = (vec![layer], Vec::new(), 0);
        for &id in around.iter().rev() {
            let mut outer = sample(id);
            let inside = parts.first().expect("a layer inside");
            let (mut framed, mut wire) = (Layer::default(), Vec::new());
            contents.clear();
            for (n, from) in (0..inside.wire.len()).step_by(most).enumerate() {
                let others = match n {
                    _ if !has_others => 0,
                    // As tickets do.
                    0 => 2,
                    3 | 9 => 1,
                    _ => 0,
                };
                for other in std::iter::from_fn(|| outer.other()).take(others) {
                    wire.extend(&other);
                    framed.push(other, None);
                    contents.push(from..from);
                }
                let range = from..(from + most).min(inside.wire.len());
                // Positions advance by message and not by call: what is framed twice is the same message.
                wire.extend(outer.message(&inside.wire[range.clone()]));
                framed.push(outer.message(&inside.framed[range.clone()]), None);
                content_at = outer
                    .payload(&framed.framed[framed.messages.last().unwrap().clone()])
                    .start;
                contents.push(range);
            }
            layers = outer.around(&layers);
            let single = outer.layers();
            framed.wire = transform(id, &single, Direction::Transmit, &wire);
            parts.insert(0, framed);
        }
        let outermost = sample(ids[0]).layers();
        let wire = &parts[0].wire;
        Stream {
            received: transform(ids[0], &outermost, Direction::Receive, wire),
            layers,
            parts,
            contents,
            content_at,
            buffers,
            has_others,
        }
    }

    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.parts[0].wire.len()
    }

    /// Whether a message of a layer begins at a place: for an inner one, in the content of the outermost message that begins there. Gives its
    /// index.
    pub fn message_at(&self, at: usize, offset: Option<usize>) -> Option<u64> {
        let find = |layer: &Layer, at: usize| {
            if layer.anywhere {
                return Some(0);
            }
            let found = layer
                .messages
                .binary_search_by_key(&at, |range| range.start);
            found.ok()
        };
        let outermost = find(&self.parts[0], at)?;
        match offset {
            None => Some(first_index(&self.layers) + outermost as u64),
            Some(offset) => {
                let content = self.contents.get(outermost)?;
                if content.is_empty() {
                    return None;
                }
                find(self.parts.get(1)?, content.start + offset).map(|index| index as u64)
            }
        }
    }

    /// The data that a byte of the outermost stream is of: tag, and place in its buffer.
    pub fn belongs(&self, at: usize) -> Option<(u16, usize)> {
        let inner = match self.parts.len() {
            1 => at,
            _ => {
                let messages = &self.parts[0].messages;
                let message = messages.partition_point(|range| range.end <= at);
                let from = messages.get(message)?.start + self.content_at;
                let content = &self.contents[message];
                at.checked_sub(from)
                    .map(|n| content.start + n)
                    .filter(|n| content.contains(n))?
            }
        };
        let data = &self.parts.last()?.data;
        let next = data.partition_point(|data| data.range.end <= inner);
        let data = data.get(next).filter(|data| data.range.contains(&inner))?;
        Some((data.tag, data.at + inner - data.range.start))
    }
}

impl Layer {
    fn push(&mut self, message: Vec<u8>, data: Option<Data>) {
        let start = self.framed.len();
        self.framed.extend(message);
        self.messages.push(start..self.framed.len());
        self.data.extend(data.map(|data| Data {
            range: data.range.start + start..data.range.end + start,
            ..data
        }));
    }
}

/// Index of the outermost protocol's first message.
pub fn first_index(layers: &Layers) -> u64 {
    struct First<'a>(&'a [u8]);
    impl Visitor for First<'_> {
        type Output = u64;
        fn visit<P: Protocol>(self, _: ProtocolId) -> u64 {
            P::Parameters::decode(self.0)
                .expect("parameters")
                .first_index()
        }
    }
    visit(layers.ids()[0], First(layers.parameters(0))).expect("a protocol in the list")
}

/// What an engine makes of a whole stream.
fn transform(id: ProtocolId, layers: &Layers, direction: Direction, stream: &[u8]) -> Vec<u8> {
    struct Whole<'a>(&'a [u8], Direction, &'a [u8]);
    impl Visitor for Whole<'_> {
        type Output = Vec<u8>;
        fn visit<P: Protocol>(self, id: ProtocolId) -> Vec<u8> {
            let Whole(parameters, direction, stream) = self;
            let parameters = P::Parameters::decode(parameters).expect("parameters");
            let mut engine: P = engine(id, &parameters, direction);
            let mut walker = Walker::new(parameters.first_index());
            let mut made = vec![0; stream.len()];
            let walked = walker.advance(&mut engine, stream, &mut made[..]);
            assert_eq!(walked.expect("messages").integrity, l5p::Integrity::Good);
            made
        }
    }
    visit(id, Whole(layers.parameters(0), direction, stream)).expect("a protocol in the list")
}
