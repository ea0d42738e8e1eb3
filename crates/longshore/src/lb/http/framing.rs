//! Where a message's content ends (RFC 9112 §6 and §7).

/// How the end of the content is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No content.
    None,
    /// By its length in bytes.
    Length(u64),
    /// In chunks, the last of which is empty.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// Chunks that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunked content is malformed")]
pub struct Malformed;

/// Follows the content of one message through its bytes, however they are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    state: State,
    /// Bytes of chunk extensions or of trailers that may still come.
    allowance: u16,
}

/// Bytes of the extensions of one chunk, and of all trailers, at most.
const MOST_EXTENSION: u16 = 256;
const MOST_TRAILERS: u16 = 8 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// That many bytes.
    Data(u64),
    /// All that comes.
    Endless,
    /// A chunk's size, of which that many digits have come.
    Size {
        value: u64,
        digits: u8,
    },
    Extension {
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    Chunk(u64),
    ChunkCr,
    ChunkLf,
    /// At the beginning of a trailer line, or of the last, empty one.
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
}

/// A part of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of it, from the front.
    pub len: usize,
    /// They are content; else they are around it.
    pub is_content: bool,
}

impl Body {
    /// Before the first byte.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(len) => State::Data(len),
            Framing::Chunked => SIZE,
            Framing::UntilClose => State::Endless,
        };
        Body {
            state,
            allowance: 0,
        }
    }

    /// Whether the content is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether only the end of the connection tells its end.
    pub fn ends_with_connection(&self) -> bool {
        self.state == State::Endless
    }

    /// How many bytes of the input, from the front, are of this message.
    ///
    /// # Errors
    /// When they are no chunks.
    pub fn take(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        let mut taken = 0;
        while taken < input.len() && !self.is_done() {
            taken += self.take_piece(&input[taken..])?.len;
        }
        Ok(taken)
    }

    /// The next part of the input that is all content, or all not. Its length is 0 when the input is empty or the
    /// message complete.
    ///
    /// # Errors
    /// When it is no chunk.
    pub fn take_piece(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        let content = |len| {
            Ok(Piece {
                len,
                is_content: true,
            })
        };
        match self.state {
            State::Endless => return content(input.len()),
            State::Data(left) => {
                let len = left.min(input.len() as u64);
                self.state = match left - len {
                    0 => State::Done,
                    left => State::Data(left),
                };
                return content(len as usize);
            }
            State::Chunk(left) => {
                let len = left.min(input.len() as u64);
                self.state = match left - len {
                    0 => State::ChunkCr,
                    left => State::Chunk(left),
                };
                return content(len as usize);
            }
            _ => {}
        }
        let mut len = 0;
        for &byte in input {
            if matches!(self.state, State::Chunk(_) | State::Done) {
                break;
            }
            self.step(byte)?;
            len += 1;
        }
        Ok(Piece {
            len,
            is_content: false,
        })
    }

    /// One byte around the content of chunks.
    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.state = match (self.state, byte) {
            (State::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < 15 => {
                State::Size {
                    value: value << 4 | u64::from(hex(byte)),
                    digits: digits + 1,
                }
            }
            (State::Size { value, digits: 1.. }, b'\r') => State::SizeLf { size: value },
            (State::Size { value, digits: 1.. }, b';') => {
                self.allowance = MOST_EXTENSION;
                State::Extension { size: value }
            }
            (State::Extension { size }, b'\r') => State::SizeLf { size },
            (State::Extension { .. }, _) if is_text(byte) => self.spend(self.state)?,
            (State::SizeLf { size: 0 }, b'\n') => {
                self.allowance = MOST_TRAILERS;
                State::TrailerStart
            }
            (State::SizeLf { size }, b'\n') => State::Chunk(size),
            (State::ChunkCr, b'\r') => State::ChunkLf,
            (State::ChunkLf, b'\n') => SIZE,
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::TrailerStart, b' ' | b'\t') => return Err(Malformed),
            (State::TrailerStart | State::Trailer, _) if is_text(byte) => {
                self.spend(State::Trailer)?
            }
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::LastLf, b'\n') => State::Done,
            _ => return Err(Malformed),
        };
        Ok(())
    }

    fn spend(&mut self, next: State) -> Result<State, Malformed> {
        self.allowance = self.allowance.checked_sub(1).ok_or(Malformed)?;
        Ok(next)
    }
}

const SIZE: State = State::Size {
    value: 0,
    digits: 0,
};

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// What may stand in a line: no control characters but tabs.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
