//! The request target: decoded, with dot segments gone.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::{Status, is_authority};

/// A path below the server's root, decoded; safe to append to a directory: no empty segment, no
/// `.` or `..`, no separator or NUL inside a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    segments: Vec<Vec<u8>>,
    directory: bool,
    query: Option<String>,
}

/// What a path may not contain as it is when it is written into a link.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'%')
    .add(b'\\')
    .add(b'^')
    .add(b'[')
    .add(b']')
    .add(b'|')
    .add(b'&')
    .add(b'\'')
    .add(b';');

impl Target {
    /// Parses the origin form, or the absolute form that a server must take too (RFC 9112 §3.2).
    pub fn parse(text: &str) -> Result<Target, Status> {
        if text.contains('#') {
            return Err(Status::BAD_REQUEST);
        }
        let (rest, query) = match text.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (text, None),
        };
        let path = match rest.strip_prefix('/') {
            Some(_) => rest,
            None => path_of_absolute(rest)?,
        };
        let mut segments: Vec<Vec<u8>> = Vec::new();
        let mut directory = true;
        for raw in path[1..].split('/') {
            let segment = decode(raw)?;
            directory = matches!(segment.as_slice(), b"" | b"." | b"..");
            match segment.as_slice() {
                b"" | b"." => {}
                b".." => {
                    segments.pop().ok_or(Status::BAD_REQUEST)?;
                }
                _ => segments.push(segment),
            }
        }
        Ok(Target {
            segments,
            directory,
            query,
        })
    }

    /// The path relative to the root; empty for the root itself.
    pub fn relative(&self) -> Vec<u8> {
        self.segments.join(&b'/')
    }

    /// Whether the path ends in a slash, so that it names a directory.
    pub fn is_directory(&self) -> bool {
        self.directory
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The path as a link writes it, with a slash at the end: where a directory without one is
    /// redirected to.
    pub fn directory_link(&self) -> String {
        let mut link = String::from("/");
        for segment in &self.segments {
            link.push_str(&encode_segment(segment));
            link.push('/');
        }
        if let Some(query) = &self.query {
            link.push('?');
            link.push_str(query);
        }
        link
    }

    /// The path for people.
    pub fn display(&self) -> String {
        let mut text = format!("/{}", String::from_utf8_lossy(&self.relative()));
        if self.directory && !self.is_root() {
            text.push('/');
        }
        text
    }
}

/// One segment, percent-encoded.
pub fn encode_segment(segment: &[u8]) -> String {
    match std::str::from_utf8(segment) {
        Ok(text) => utf8_percent_encode(text, IN_PATH).to_string(),
        Err(_) => percent_encoding::percent_encode(segment, percent_encoding::NON_ALPHANUMERIC)
            .to_string(),
    }
}

/// The path of an absolute form, `/` if it has none.
fn path_of_absolute(text: &str) -> Result<&str, Status> {
    let rest = strip_scheme(text).ok_or(Status::BAD_REQUEST)?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() || !is_authority(authority.as_bytes()) {
        return Err(Status::BAD_REQUEST);
    }
    Ok(if path.is_empty() { "/" } else { path })
}

fn strip_scheme(text: &str) -> Option<&str> {
    ["https://", "http://"].iter().find_map(|scheme| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            .then(|| &text[scheme.len()..])
    })
}

/// A decoded separator would make two segments of one and NUL ends a C string: neither names a file.
fn decode(raw: &str) -> Result<Vec<u8>, Status> {
    let bytes = raw.as_bytes();
    for (at, _) in bytes.iter().enumerate().filter(|&(_, &b)| b == b'%') {
        let digits = bytes.get(at + 1..at + 3).ok_or(Status::BAD_REQUEST)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(Status::BAD_REQUEST);
        }
    }
    let decoded: Vec<u8> = percent_decode_str(raw).collect();
    match decoded.iter().any(|&b| b == 0 || b == b'/') {
        true => Err(Status::BAD_REQUEST),
        false => Ok(decoded),
    }
}
