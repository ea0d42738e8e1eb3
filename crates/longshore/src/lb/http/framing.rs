//! Where a message's content ends (RFC 9112 §6 and §7).

use super::extension::Extension;
use super::trailers;

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

impl Framing {
    /// There is no content, whether that is said or not.
    pub fn is_empty(self) -> bool {
        matches!(self, Framing::None | Framing::Length(0))
    }
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
        at: Extension,
    },
    SizeLf {
        size: u64,
    },
    Chunk(u64),
    ChunkCr,
    ChunkLf,
    /// At the beginning of a trailer line, or of the last, empty one.
    Trailer,
    Done,
}

/// A part of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of it, from the front; 0 until the whole line of a trailer has come.
    pub len: usize,
    /// What they are.
    pub kind: PieceKind,
}

/// What a part of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// Content.
    Content,
    /// What is around it, and goes on with it.
    Framing,
    /// A trailer that does not go on.
    Dropped,
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

    /// Whether what comes next is a field behind the last chunk, or the end of them.
    pub fn is_in_trailers(&self) -> bool {
        self.state == State::Trailer
    }

    /// Whether only the end of the connection tells its end.
    pub fn ends_with_connection(&self) -> bool {
        self.state == State::Endless
    }

    /// The next part of the input that goes on as it is, or is dropped. Its length is 0 when the message is complete or
    /// more input is needed.
    ///
    /// # Errors
    /// When it is no chunk.
    pub fn take(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        let mut taken = self.take_piece(input)?;
        while taken.len > 0 && taken.kind != PieceKind::Dropped {
            let before = *self;
            let next = self.take_piece(&input[taken.len..])?;
            if next.kind == PieceKind::Dropped {
                *self = before;
                break;
            }
            if next.len == 0 {
                break;
            }
            taken.len += next.len;
        }
        Ok(taken)
    }

    /// The next part of the input that is all of one kind. Its length is 0 when the message is complete or more input is
    /// needed.
    ///
    /// # Errors
    /// When it is no chunk.
    pub fn take_piece(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        let (left, next) = match self.state {
            State::Endless => (u64::MAX, State::Endless),
            State::Data(left) => (left, State::Done),
            State::Chunk(left) => (left, State::ChunkCr),
            State::Trailer => return self.take_trailer(input),
            _ => return self.take_framing(input),
        };
        let len = left.min(input.len() as u64);
        self.state = match self.state {
            _ if len == left => next,
            State::Data(_) => State::Data(left - len),
            State::Chunk(_) => State::Chunk(left - len),
            state => state,
        };
        Ok(Piece {
            len: len as usize,
            kind: PieceKind::Content,
        })
    }

    fn take_framing(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        let mut len = 0;
        for &byte in input {
            if matches!(self.state, State::Chunk(_) | State::Trailer | State::Done) {
                break;
            }
            self.step(byte)?;
            len += 1;
        }
        Ok(Piece {
            len,
            kind: PieceKind::Framing,
        })
    }

    fn take_trailer(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        let most = usize::from(self.allowance);
        let Some(end) = input.iter().position(|&b| b == b'\n') else {
            return match input.len() > most {
                true => Err(Malformed),
                false => Ok(Piece {
                    len: 0,
                    kind: PieceKind::Framing,
                }),
            };
        };
        let line = input[..end].strip_suffix(b"\r").ok_or(Malformed)?;
        let goes_on = if line.is_empty() {
            self.state = State::Done;
            true
        } else {
            let left = most.checked_sub(line.len()).ok_or(Malformed)?;
            self.allowance = left as u16;
            trailers::goes_on(line)?
        };
        Ok(Piece {
            len: end + 1,
            kind: match goes_on {
                true => PieceKind::Framing,
                false => PieceKind::Dropped,
            },
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
            (State::Size { value, digits: 1.. }, _) => {
                self.allowance = MOST_EXTENSION;
                self.extension(value, Extension::Separator, byte)?
            }
            (State::Extension { size, at }, b'\r') if at.may_end() => State::SizeLf { size },
            (State::Extension { size, at }, _) => self.extension(size, at, byte)?,
            (State::SizeLf { size: 0 }, b'\n') => {
                self.allowance = MOST_TRAILERS;
                State::Trailer
            }
            (State::SizeLf { size }, b'\n') => State::Chunk(size),
            (State::ChunkCr, b'\r') => State::ChunkLf,
            (State::ChunkLf, b'\n') => SIZE,
            _ => return Err(Malformed),
        };
        Ok(())
    }

    fn extension(&mut self, size: u64, at: Extension, byte: u8) -> Result<State, Malformed> {
        self.allowance = self.allowance.checked_sub(1).ok_or(Malformed)?;
        let at = at.step(byte).ok_or(Malformed)?;
        Ok(State::Extension { size, at })
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
