//! Where a head ends.

use super::Status;

/// Bytes of the first line at most; RFC 9112 §3 recommends 8000.
const MAX_LINE: usize = 8 * 1024;
/// Bytes of empty lines that may come before a head.
pub(super) const MAX_EMPTY: usize = 64;

/// What was found at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A head ends before this byte, and begins at `start`: empty lines before it are ignored (RFC 9112 §2.2).
    Complete {
        /// The first byte of its first line.
        start: usize,
        /// The first byte behind it.
        end: usize,
    },
    /// More is needed.
    Partial,
    /// It can't become one.
    Refused(Status),
}

/// Looks for the end of a head in `input`, of which the first `scanned` bytes were whole lines already; `scanned` is
/// to begin with 0 and to be given back as it is left.
///
/// Lines end with CR LF. RFC 9112 §2.2 lets a recipient take a bare LF for the end of a line; since not all do, a head
/// with one means two things, and is refused. So is one with a bare CR.
pub fn find_head(input: &[u8], scanned: &mut usize, most: usize) -> Head {
    let mut line = *scanned;
    loop {
        let rest = &input[line..];
        let Some(len) = rest.iter().position(|&b| b == b'\n') else {
            *scanned = line;
            return partial(input, line, most);
        };
        if len == 0 || rest[len - 1] != b'\r' || rest[..len - 1].contains(&b'\r') {
            return Head::Refused(Status::BAD_REQUEST);
        }
        let end = line + len + 1;
        let start = first_line(input);
        if end - start.min(end) > most {
            return Head::Refused(Status::FIELDS_TOO_LARGE);
        }
        match (len == 1, line > start) {
            (true, true) => return Head::Complete { start, end },
            // A line that begins with a space goes on with the one before (obs-fold, RFC 9112 §5.2).
            (false, true) if matches!(rest[0], b' ' | b'\t') => {
                return Head::Refused(Status::BAD_REQUEST);
            }
            // More empty lines than are put up with.
            (true, false) if line == start => return Head::Refused(Status::BAD_REQUEST),
            (false, false) if len > MAX_LINE => return Head::Refused(Status::URI_TOO_LONG),
            _ => {}
        }
        line = end;
    }
}

fn partial(input: &[u8], line: usize, most: usize) -> Head {
    let start = first_line(input);
    let open = &input[line..];
    if let Some(cr) = open.iter().position(|&b| b == b'\r')
        && cr + 1 < open.len()
    {
        return Head::Refused(Status::BAD_REQUEST);
    }
    if line <= start && open.len() > MAX_LINE {
        return Head::Refused(Status::URI_TOO_LONG);
    }
    if input.len() - start.min(input.len()) >= most {
        return Head::Refused(Status::FIELDS_TOO_LARGE);
    }
    Head::Partial
}

/// Behind the empty lines at the beginning.
fn first_line(input: &[u8]) -> usize {
    let mut at = 0;
    while at < MAX_EMPTY && input[at..].starts_with(b"\r\n") {
        at += 2;
    }
    at
}
