//! Where frames begin and end in a stream of bytes (RFC 9113 §4.1).

/// Bytes before a frame's payload.
pub const HEAD_LEN: usize = 9;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of its payload.
    pub len: u32,
    pub kind: u8,
    flags: u8,
    pub stream: u32,
}

impl FrameHead {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const CONTINUATION: u8 = 9;
    /// A flag of frames that have fields.
    const END_HEADERS: u8 = 4;

    fn read(bytes: &[u8; HEAD_LEN]) -> FrameHead {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        FrameHead {
            len: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    /// That of content.
    pub fn data(stream: u32, len: u32, ends_stream: bool) -> FrameHead {
        FrameHead {
            len,
            kind: Self::DATA,
            flags: u8::from(ends_stream),
            stream,
        }
    }

    pub fn to_bytes(self) -> [u8; HEAD_LEN] {
        let [_, a, b, c] = self.len.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    /// Whether it brings settings, and does not acknowledge any, as far as its head tells.
    pub fn is_settings(self) -> bool {
        self.kind == Self::SETTINGS && self.flags & 1 == 0 && self.stream == 0
    }

    /// Cuts it after so many bytes of its payload, if it has more: then this is the head of what is behind, which goes on with its fields.
    pub fn cut(&mut self, most: u32) -> Option<FrameHead> {
        let rest = self.len.checked_sub(most).filter(|rest| *rest > 0)?;
        let behind = FrameHead {
            len: rest,
            kind: Self::CONTINUATION,
            flags: self.flags & Self::END_HEADERS,
            stream: self.stream,
        };
        self.len = most;
        self.flags &= !Self::END_HEADERS;
        Some(behind)
    }

    /// Whether it goes on with the fields of the frame before it.
    pub fn continues(self) -> bool {
        self.kind == Self::CONTINUATION
    }

    /// Whether fields that it has are whole with it.
    pub fn ends_fields(self) -> bool {
        !matches!(self.kind, Self::HEADERS | Self::CONTINUATION)
            || self.flags & Self::END_HEADERS != 0
    }

    /// Whether it is the last frame of its stream, if it is one of data.
    pub fn ends_stream(self) -> bool {
        self.flags & 1 != 0
    }
}

/// A part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes of a head, or of its payload if they are not those of data.
    Bytes(&'a [u8]),
    /// Behind a frame's head.
    Head(FrameHead),
    /// So many bytes of data.
    Data(usize),
}

/// Cuts a stream of bytes, however it is split, into frames.
#[derive(Debug, Default)]
pub struct FrameCutter {
    head: [u8; HEAD_LEN],
    /// Bytes of the head that have come.
    have: usize,
    /// Bytes of the payload that have not.
    left: usize,
    is_data: bool,
    /// A head is whole, and has not been given.
    is_complete: bool,
}

impl FrameCutter {
    /// One that begins so many bytes before the first frame.
    pub fn behind(bytes: usize) -> FrameCutter {
        FrameCutter {
            left: bytes,
            ..FrameCutter::default()
        }
    }

    /// Bytes of a head that has not come whole.
    pub fn of_head(&self) -> usize {
        self.have
    }

    /// Whether a frame has begun and has not come whole.
    pub fn is_inside(&self) -> bool {
        self.have > 0 || self.left > 0
    }

    /// Takes the first part off `bytes`, if there is one.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Part<'a>> {
        if std::mem::take(&mut self.is_complete) {
            let head = FrameHead::read(&self.head);
            self.have = 0;
            self.left = head.len as usize;
            self.is_data = head.kind == FrameHead::DATA;
            return Some(Part::Head(head));
        }
        if bytes.is_empty() {
            return None;
        }
        let wanted = match self.left {
            0 => HEAD_LEN - self.have,
            left => left,
        };
        let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
        *bytes = rest;
        if self.left > 0 {
            self.left -= taken.len();
            return Some(match self.is_data {
                true => Part::Data(taken.len()),
                false => Part::Bytes(taken),
            });
        }
        self.head[self.have..self.have + taken.len()].copy_from_slice(taken);
        self.have += taken.len();
        self.is_complete = self.have == HEAD_LEN;
        Some(Part::Bytes(taken))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, len: usize) -> Vec<u8> {
        let mut bytes = (len as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.resize(HEAD_LEN + len, kind + 1);
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_found_wherever_the_bytes_are_split(
            frames in prop::collection::vec((0..10u8, any::<u8>(), 1..1u32 << 30, 0..40usize), 1..20),
            before in 0..30usize,
            splits in prop::collection::vec(1..30usize, 1..10),
        ) {
            let mut bytes = vec![7; before];
            for &(kind, flags, stream, len) in &frames {
                bytes.extend(frame(kind, flags, stream, len));
            }
            let mut cutter = FrameCutter::behind(before);
            let (mut heads, mut data, mut copied) = (Vec::new(), 0, before);
            let mut rest = &bytes[..];
            for split in splits.iter().cycle() {
                let (mut part, behind) = rest.split_at(rest.len().min(*split));
                while let Some(part) = cutter.next(&mut part) {
                    match part {
                        Part::Head(head) => heads.push((head.kind, head.flags, head.stream, head.len as usize)),
                        Part::Data(len) => data += len,
                        Part::Bytes(bytes) => copied += bytes.len(),
                    }
                }
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(&heads, &frames);
            prop_assert_eq!(copied - before + data, bytes.len());
            let of_data = frames.iter().filter(|it| it.0 == FrameHead::DATA).map(|it| it.3);
            prop_assert_eq!(data, of_data.sum::<usize>());
            prop_assert!(!cutter.is_inside());
        }
    }
}
