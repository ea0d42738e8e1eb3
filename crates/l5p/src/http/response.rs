//! Reads a response: its head, and where its content is (RFC 9112).

use super::coding::Coding;
use super::response_error::ResponseError;

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The reason phrase, which may be empty.
    pub reason: String,
    /// Bytes of content, when the server says so.
    pub content_length: Option<u64>,
    /// `Location`.
    pub location: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
}

impl ResponseHead {
    /// Whether the client is to ask elsewhere (RFC 9110 §15.4).
    pub fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308) && self.location.is_some()
    }

    /// Whether the content is what was asked for (RFC 9110 §15.3).
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// How the content is compressed, if it is what was asked for and the coding is known.
    pub fn coding(&self) -> Option<Coding> {
        let named = self.content_encoding.as_deref();
        named.filter(|_| self.is_success()).and_then(Coding::named)
    }

    /// Whether the content is not coded.
    pub fn is_identity(&self) -> bool {
        let named = self.content_encoding.as_deref().unwrap_or_default().trim();
        named.is_empty() || named.eq_ignore_ascii_case("identity")
    }
}

/// What [`Download::advance`] made of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Framing: nothing to do but go on with the rest of the input, or wait for more.
    Framing,
    /// The final response's head; content follows.
    Head(ResponseHead),
    /// What was consumed is content.
    Content,
    /// The response is whole.
    Done,
}

/// Reads one response to a GET. Content is not copied: it is found where it lies.
#[derive(Debug)]
pub struct Download {
    /// A head or a line that has come in part.
    partial: Vec<u8>,
    most_head: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Sized { left: u64 },
    ToEnd,
    ChunkSize,
    Chunk { left: u64 },
    ChunkEnd,
    Trailers,
    Done,
}

const MOST_HEAD: usize = 64 * 1024;
const MOST_LINE: usize = 4096;

impl Default for Download {
    fn default() -> Self {
        Self::new()
    }
}

impl Download {
    /// Before the first byte.
    pub fn new() -> Self {
        Download::with_most_head(MOST_HEAD)
    }

    /// Before the first byte of a response whose head may have so many bytes.
    pub fn with_most_head(bytes: usize) -> Self {
        Download {
            partial: Vec::new(),
            most_head: bytes,
            state: State::Head,
        }
    }

    /// Consumes some bytes from the front of `input`: answers how many, and what they are. To be called
    /// again with the rest while there is any, or until [`Progress::Done`].
    ///
    /// # Errors
    /// When the server's answer cannot be understood; the connection is of no more use then.
    pub fn advance(&mut self, input: &[u8]) -> Result<(usize, Progress), ResponseError> {
        match self.state {
            State::Done => Ok((0, Progress::Done)),
            State::Head => self.advance_head(input),
            State::ToEnd => Ok((input.len(), Progress::Content)),
            State::Sized { left } => Ok(self.advance_content(input, left)),
            State::Chunk { left } => Ok(self.advance_content(input, left)),
            State::ChunkSize | State::ChunkEnd | State::Trailers => self.advance_line(input),
        }
    }

    /// The stream has ended in order.
    ///
    /// # Errors
    /// When the response is not whole.
    pub fn handle_end(&mut self) -> Result<(), ResponseError> {
        match self.state {
            State::ToEnd | State::Done => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(ResponseError::CutShort),
        }
    }

    /// Whether the response is whole.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn advance_content(&mut self, input: &[u8], left: u64) -> (usize, Progress) {
        let len = left.min(input.len() as u64);
        self.state = match (self.state, left - len) {
            (State::Sized { .. }, 0) => State::Done,
            (State::Sized { .. }, left) => State::Sized { left },
            (_, 0) => State::ChunkEnd,
            (_, left) => State::Chunk { left },
        };
        (len as usize, Progress::Content)
    }

    fn advance_line(&mut self, input: &[u8]) -> Result<(usize, Progress), ResponseError> {
        let Some(end) = input.iter().position(|&b| b == b'\n') else {
            self.partial.extend_from_slice(input);
            return match self.partial.len() > MOST_LINE {
                true => Err(ResponseError::Chunk),
                false => Ok((input.len(), Progress::Framing)),
            };
        };
        self.partial.extend_from_slice(&input[..end]);
        let line = self.partial.strip_suffix(b"\r").unwrap_or(&self.partial);
        self.state = match (self.state, line.is_empty()) {
            (State::ChunkSize, _) => match chunk_size(line)? {
                0 => State::Trailers,
                left => State::Chunk { left },
            },
            (State::ChunkEnd, true) => State::ChunkSize,
            (State::ChunkEnd, false) => return Err(ResponseError::Chunk),
            (_, true) => State::Done,
            (state, false) => state,
        };
        self.partial.clear();
        Ok((end + 1, Progress::Framing))
    }

    /// The final head, with interim responses (1xx) passed over.
    fn advance_head(&mut self, input: &[u8]) -> Result<(usize, Progress), ResponseError> {
        let is_first = self.partial.is_empty();
        let blank = input.iter().take_while(|b| b"\r\n".contains(b)).count();
        if is_first && blank > 0 {
            return Ok((blank, Progress::Framing));
        }
        let end = end_of_head(&self.partial, input);
        let used = end.unwrap_or(input.len());
        if self.partial.len() + used > self.most_head {
            return Err(ResponseError::HeadTooLarge);
        }
        if !is_first || end.is_none() {
            self.partial.extend_from_slice(&input[..used]);
        }
        if !is_first && end.is_none() {
            // It is parsed again when it is whole: so the work is linear in its length.
            return Ok((used, Progress::Framing));
        }
        let bytes = if is_first {
            &input[..used]
        } else {
            &self.partial
        };
        let mut storage = [httparse::EMPTY_HEADER; 128];
        let mut parsed = httparse::Response::new(&mut storage);
        if parsed.parse(bytes)?.is_partial() {
            return Ok((used, Progress::Framing));
        }
        let is_interim = matches!(parsed.code, Some(100 | 102..200));
        let progress = if is_interim {
            Progress::Framing
        } else {
            let (head, state) = read_head(&parsed)?;
            self.state = state;
            Progress::Head(head)
        };
        self.partial.clear();
        Ok((used, progress))
    }
}

/// How many bytes of `input`, which comes behind `before`, there are up to the end of the first empty line that ends in it.
fn end_of_head(before: &[u8], input: &[u8]) -> Option<usize> {
    let byte = |at: usize| match at.checked_sub(before.len()) {
        Some(at) => input[at],
        None => before[at],
    };
    let newlines = (0..input.len()).filter(|at| input[*at] == b'\n');
    newlines.map(|at| at + before.len()).find_map(|at| {
        let line_end = match at.checked_sub(1).map(byte) {
            Some(b'\r') => at.checked_sub(2).map(byte),
            last => last,
        };
        (line_end == Some(b'\n')).then_some(at + 1 - before.len())
    })
}

fn read_head(parsed: &httparse::Response<'_, '_>) -> Result<(ResponseHead, State), ResponseError> {
    let status = parsed.code.unwrap_or(0);
    let fields = |name: &'static str| {
        let named = parsed.headers.iter();
        let named = named.filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| String::from_utf8_lossy(header.value).trim().to_owned())
    };
    let field = |name: &'static str| fields(name).next();
    let content_length = content_length(fields("content-length"))?;
    // RFC 9112 §6.3.
    let state = match (field("transfer-encoding"), content_length) {
        _ if matches!(status, 204 | 304) => State::Done,
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => State::ChunkSize,
        (Some(coding), _) => return Err(ResponseError::Coding(coding)),
        (None, Some(0)) => State::Done,
        (None, Some(left)) => State::Sized { left },
        (None, None) => State::ToEnd,
    };
    let head = ResponseHead {
        status,
        reason: parsed.reason.unwrap_or_default().to_owned(),
        content_length: content_length.filter(|_| state != State::ChunkSize),
        location: field("location"),
        content_type: field("content-type"),
        // Lines of one name are a list (RFC 9110 §5.3).
        content_encoding: fields("content-encoding").reduce(|all, next| format!("{all}, {next}")),
    };
    Ok((head, state))
}

/// The one length that all of these lines, each of which may be a list, say (RFC 9112 §6.3).
fn content_length(lines: impl Iterator<Item = String>) -> Result<Option<u64>, ResponseError> {
    let mut length = None;
    for line in lines {
        for item in line.split(',').map(str::trim) {
            let is_number = item.bytes().all(|b| b.is_ascii_digit());
            let Some(second) = item.parse().ok().filter(|_| is_number) else {
                return Err(ResponseError::Length(line));
            };
            let first = *length.get_or_insert(second);
            if first != second {
                return Err(ResponseError::Lengths { first, second });
            }
        }
    }
    Ok(length)
}

/// The size of a chunk; extensions are ignored (RFC 9112 §7.1.1).
fn chunk_size(line: &[u8]) -> Result<u64, ResponseError> {
    let digits = line.split(|&b| b == b';').next().unwrap_or_default();
    std::str::from_utf8(digits)
        .ok()
        .map(str::trim)
        .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit()))
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or(ResponseError::Chunk)
}

#[cfg(test)]
mod tests;
