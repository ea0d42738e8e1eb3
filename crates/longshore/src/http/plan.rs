//! From a request and what is known of the file to a response.

use std::time::SystemTime;

use super::conditional::{Outcome, Validators, evaluate, range_applies};
use super::range::{ByteRange, Ranges, resolve};
use super::request::{Method, Request, Status};
use super::response::Head;

/// A file as HTTP sees it.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its size in bytes.
    pub size: u64,
    /// Its media type.
    pub media_type: String,
    /// What tells its versions apart.
    pub validators: Validators,
}

impl Content {
    /// The same, for a response that is made now. What has changed later than that, by its file, has changed now for clients (RFC 9110 §8.8.2.1), whose
    /// dates end with the year 9999.
    fn as_of(&self, now: SystemTime) -> Content {
        let mut content = self.clone();
        content.validators.modified = now;
        content
    }
}

/// A part of a response, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// This range of the file.
    File(ByteRange),
}

/// A response, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// The head, as HTTP/1.1 writes it.
    pub head: String,
    /// The content.
    pub content: Vec<Piece>,
    /// Whether the connection stays open after it.
    pub keep_alive: bool,
}

impl Response {
    /// The head's fields, for a version that writes them in another way.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.head.lines().skip(1);
        let fields = lines.filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name, value.trim_start()))
    }

    /// Bytes of file content in it.
    pub fn file_bytes(&self) -> u64 {
        self.content
            .iter()
            .map(|piece| match piece {
                Piece::Bytes(_) => 0,
                Piece::File(range) => range.len,
            })
            .sum()
    }
}

/// The response to a request for a file. `boundary` separates the parts when there are several
/// ranges; it should not occur in the file.
pub fn plan(request: &Request, content: &Content, now: SystemTime, boundary: &str) -> Response {
    let keep_alive = request.keep_alive;
    let of_now;
    let content = match content.validators.modified > now {
        true => {
            of_now = content.as_of(now);
            &of_now
        }
        false => content,
    };
    match evaluate(&request.fields, &content.validators) {
        Outcome::Proceed => {}
        Outcome::NotModified => {
            let mut head = Head::new(Status::NOT_MODIFIED, now, keep_alive);
            validators(&mut head, &content.validators);
            return head_only(Status::NOT_MODIFIED, head, keep_alive);
        }
        Outcome::Failed => return refuse(Status::PRECONDITION_FAILED, request, now),
    }
    // RFC 9110 §14.2: Range is defined for GET only.
    let obeyed =
        request.method == Method::Get && range_applies(&request.fields, &content.validators);
    let field = request.fields.range.as_deref().filter(|_| obeyed);
    match resolve(field, content.size) {
        Ranges::Whole => whole(request, content, now),
        Ranges::Unsatisfiable => {
            let mut head = Head::new(Status::RANGE_NOT_SATISFIABLE, now, keep_alive);
            head.field("Content-Range", format_args!("bytes */{}", content.size));
            head.field("Content-Length", 0);
            head_only(Status::RANGE_NOT_SATISFIABLE, head, keep_alive)
        }
        Ranges::Parts(parts) => match parts.as_slice() {
            [part] => one_part(request, content, *part, now),
            parts => several_parts(request, content, parts, now, boundary),
        },
    }
}

/// A response whose content was made for it: a listing.
pub fn plan_bytes(
    request: &Request,
    media_type: &str,
    content: Vec<u8>,
    now: SystemTime,
) -> Response {
    let mut head = Head::new(Status::OK, now, request.keep_alive);
    head.field("Content-Type", media_type);
    head.field("Content-Length", content.len());
    Response {
        status: Status::OK,
        head: head.finish(),
        content: match request.method {
            Method::Get => vec![Piece::Bytes(content)],
            Method::Head => Vec::new(),
        },
        keep_alive: request.keep_alive,
    }
}

/// Sends the client to another path of this server.
pub fn redirect(request: &Request, location: &str, now: SystemTime) -> Response {
    let status = Status::MOVED_PERMANENTLY;
    let head_only = request.method == Method::Head;
    brief(status, request.keep_alive, head_only, now, |head| {
        head.field("Location", location);
    })
}

/// An error for a request that was understood.
pub fn refuse(status: Status, request: &Request, now: SystemTime) -> Response {
    let head_only = request.method == Method::Head;
    refuse_unread(status, request.keep_alive, head_only, now)
}

/// An error for a request that was not.
pub fn refuse_unread(
    status: Status,
    keep_alive: bool,
    head_only: bool,
    now: SystemTime,
) -> Response {
    brief(status, keep_alive, head_only, now, |head| {
        if matches!(status, Status::METHOD_NOT_ALLOWED) {
            head.field("Allow", "GET, HEAD");
        }
        if matches!(status, Status::UNAVAILABLE) {
            head.field("Retry-After", 1);
        }
    })
}

fn brief(
    status: Status,
    keep_alive: bool,
    head_only: bool,
    now: SystemTime,
    fields: impl FnOnce(&mut Head),
) -> Response {
    let content = format!("{status}\n");
    let mut head = Head::new(status, now, keep_alive);
    fields(&mut head);
    head.field("Content-Type", "text/plain; charset=utf-8");
    head.field("Content-Length", content.len());
    Response {
        status,
        head: head.finish(),
        content: match head_only {
            false => vec![Piece::Bytes(content.into_bytes())],
            true => Vec::new(),
        },
        keep_alive,
    }
}

fn whole(request: &Request, content: &Content, now: SystemTime) -> Response {
    let all = ByteRange {
        start: 0,
        len: content.size,
    };
    let mut head = Head::new(Status::OK, now, request.keep_alive);
    file_fields(&mut head, content);
    head.field("Content-Type", &content.media_type);
    head.field("Content-Length", content.size);
    let has_content = request.method == Method::Get && all.len > 0;
    Response {
        status: Status::OK,
        head: head.finish(),
        content: match has_content {
            true => vec![Piece::File(all)],
            false => Vec::new(),
        },
        keep_alive: request.keep_alive,
    }
}

fn one_part(request: &Request, content: &Content, part: ByteRange, now: SystemTime) -> Response {
    let mut head = Head::new(Status::PARTIAL_CONTENT, now, request.keep_alive);
    file_fields(&mut head, content);
    head.field("Content-Type", &content.media_type);
    head.field("Content-Range", content_range(part, content.size));
    head.field("Content-Length", part.len);
    Response {
        status: Status::PARTIAL_CONTENT,
        head: head.finish(),
        content: vec![Piece::File(part)],
        keep_alive: request.keep_alive,
    }
}

fn several_parts(
    request: &Request,
    content: &Content,
    parts: &[ByteRange],
    now: SystemTime,
    boundary: &str,
) -> Response {
    let part_head = |n: usize, part: &ByteRange| {
        let before = if n == 0 { "" } else { "\r\n" };
        let range = content_range(*part, content.size);
        let media_type = &content.media_type;
        format!(
            "{before}--{boundary}\r\nContent-Type: {media_type}\r\nContent-Range: {range}\r\n\r\n"
        )
    };
    let heads: Vec<String> = parts
        .iter()
        .enumerate()
        .map(|(n, part)| part_head(n, part))
        .collect();
    let end = format!("\r\n--{boundary}--\r\n");
    let framing: usize = heads.iter().map(String::len).sum::<usize>() + end.len();
    let data: u64 = parts.iter().map(|part| part.len).sum();

    let mut head = Head::new(Status::PARTIAL_CONTENT, now, request.keep_alive);
    file_fields(&mut head, content);
    head.field(
        "Content-Type",
        format_args!("multipart/byteranges; boundary={boundary}"),
    );
    head.field("Content-Length", data + framing as u64);
    let mut pieces = Vec::new();
    for (text, part) in heads.into_iter().zip(parts) {
        pieces.push(Piece::Bytes(text.into_bytes()));
        pieces.push(Piece::File(*part));
    }
    pieces.push(Piece::Bytes(end.into_bytes()));
    Response {
        status: Status::PARTIAL_CONTENT,
        head: head.finish(),
        content: pieces,
        keep_alive: request.keep_alive,
    }
}

fn head_only(status: Status, head: Head, keep_alive: bool) -> Response {
    Response {
        status,
        head: head.finish(),
        content: Vec::new(),
        keep_alive,
    }
}

fn file_fields(head: &mut Head, content: &Content) {
    validators(head, &content.validators);
    head.field("Accept-Ranges", "bytes");
}

fn validators(head: &mut Head, validators: &Validators) {
    head.field("ETag", &validators.tag);
    head.field(
        "Last-Modified",
        httpdate::fmt_http_date(validators.modified),
    );
}

fn content_range(part: ByteRange, size: u64) -> String {
    let last = part.start + part.len - 1;
    format!("bytes {}-{last}/{size}", part.start)
}
