//! What the head of a request says.

use super::authority::is_authority;
use super::connection::Limits;
use super::request::{Fields, Method, Request, Status};
use super::target::Target;

/// httparse knows HTTP/1.0 and 1.1 only; another version is 505, and nonsense is 400.
pub(super) fn version_problem(input: &[u8]) -> Status {
    let line = input.split(|&b| b == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.rsplit(|&b| b == b' ').next().unwrap_or_default();
    match version {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Status::VERSION_NOT_SUPPORTED
        }
        _ => Status::BAD_REQUEST,
    }
}

/// A head whose framing is understood, whatever becomes of the request.
pub(super) struct Understood {
    /// The request, or the status that refuses it and whether it was HEAD.
    pub(super) request: Result<Request, (Status, bool)>,
    /// Whether the connection may stay open.
    pub(super) keep_alive: bool,
    /// Bytes of content that follow.
    pub(super) content: u64,
}

/// What the fields say, one after the other.
#[derive(Default)]
struct Head {
    /// What a file server obeys.
    fields: Fields,
    hosts: u32,
    close: bool,
    persist: bool,
    content: Option<u64>,
    /// The content has a transfer coding.
    coded: bool,
    unknown_expectation: bool,
}

impl Head {
    /// Takes a field of a request of HTTP/1.1 or later, or of 1.0 if it is not `newer`.
    fn take(&mut self, name: &str, bytes: &[u8], newer: bool) -> Result<(), Status> {
        let value = std::str::from_utf8(bytes).map_err(|_| Status::BAD_REQUEST);
        let fields = &mut self.fields;
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                self.hosts += 1;
                if !is_authority(bytes) {
                    return Err(Status::BAD_REQUEST);
                }
            }
            "connection" => {
                for option in value?.split(',').map(str::trim) {
                    self.close |= option.eq_ignore_ascii_case("close");
                    self.persist |= option.eq_ignore_ascii_case("keep-alive");
                }
            }
            "content-length" => {
                let len = decimal(bytes).ok_or(Status::BAD_REQUEST)?;
                // RFC 9112 §6.3: differing lengths are an unrecoverable error.
                if self.content.is_some_and(|other| other != len) {
                    return Err(Status::BAD_REQUEST);
                }
                self.content = Some(len);
            }
            "transfer-encoding" => self.coded = true,
            // RFC 9110 §10.1.1: a request of HTTP/1.0 has no expectations.
            "expect" if newer => {
                self.unknown_expectation = !value?.eq_ignore_ascii_case("100-continue");
            }
            "range" => fields.range = Some(value?.to_owned()),
            "if-range" => fields.if_range = Some(value?.to_owned()),
            "if-match" => append(&mut fields.if_match, value?),
            "if-none-match" => append(&mut fields.if_none_match, value?),
            "if-modified-since" => fields.if_modified_since = Some(value?.to_owned()),
            "if-unmodified-since" => fields.if_unmodified_since = Some(value?.to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// The request, or the status that refuses it and whether it was HEAD.
    fn into_request(
        self,
        method: Result<Method, Status>,
        path: &str,
        keep_alive: bool,
        too_much: bool,
    ) -> Result<Request, (Status, bool)> {
        let request = match method {
            _ if self.unknown_expectation => Err(Status::EXPECTATION_FAILED),
            Err(status) => Err(status),
            Ok(_) if too_much => Err(Status::CONTENT_TOO_LARGE),
            Ok(method) => Target::parse(path).map(|target| Request {
                method,
                target,
                keep_alive,
                fields: self.fields,
            }),
        };
        request.map_err(|status| (status, method == Ok(Method::Head)))
    }
}

/// Reads the fields that frame a message (RFC 9112 §6) and those that a file server obeys.
pub(super) fn understand(
    parsed: &httparse::Request<'_, '_>,
    most_content: u64,
) -> Result<Understood, Status> {
    let newer = parsed.version == Some(1);
    let mut head = Head::default();
    for header in parsed.headers.iter() {
        head.take(header.name, header.value, newer)?;
    }
    // RFC 9112 §3.2: a request without exactly one Host is bad, of 1.1; and never two.
    if head.hosts > 1 || (newer && head.hosts == 0) || (head.coded && head.content.is_some()) {
        return Err(Status::BAD_REQUEST);
    }
    let content = head.content.unwrap_or(0);
    // Chunked or long content is not read: the connection ends after the response instead.
    let too_much = head.coded || content > most_content;
    let keep_alive = !head.close && (newer || head.persist) && !too_much;
    let method = method(parsed.method.unwrap_or_default());
    let request = head.into_request(
        method,
        parsed.path.unwrap_or_default(),
        keep_alive,
        too_much,
    );
    Ok(Understood {
        request,
        keep_alive,
        content: if too_much { 0 } else { content },
    })
}

/// The head of a request of HTTP/2, whose framing is its connection's affair.
pub struct StreamHead<'a> {
    /// `:method`.
    pub method: &'a str,
    /// `:authority`.
    pub authority: Option<&'a str>,
    /// `:path`.
    pub path: &'a str,
}

impl StreamHead<'_> {
    /// The request, whose other fields are these; or the status that refuses it, and whether it was HEAD (RFC 9113 §8.3.1).
    ///
    /// # Errors
    /// A file server does not do what is asked, or can't understand it.
    pub fn understand<'a>(
        &self,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        limits: &Limits,
    ) -> Result<Request, (Status, bool)> {
        let method = method(self.method);
        let refuse = |status| (status, method == Ok(Method::Head));
        let mut head = Head::default();
        for (nth, (name, value)) in fields.enumerate() {
            if nth == limits.fields {
                return Err(refuse(Status::FIELDS_TOO_LARGE));
            }
            let differs = |authority: &str| !authority.as_bytes().eq_ignore_ascii_case(value);
            if name == "host" && self.authority.is_some_and(differs) {
                return Err(refuse(Status::BAD_REQUEST));
            }
            head.take(name, value, true).map_err(refuse)?;
        }
        let authority = self.authority.map(str::as_bytes);
        let has_authority = authority.map_or(head.hosts == 1, is_authority);
        if !has_authority || head.hosts > 1 {
            return Err(refuse(Status::BAD_REQUEST));
        }
        let too_much = head.content.is_some_and(|len| len > limits.content);
        head.into_request(method, self.path, true, too_much)
    }
}

fn method(name: &str) -> Result<Method, Status> {
    match name {
        "GET" => Ok(Method::Get),
        "HEAD" => Ok(Method::Head),
        "POST" | "PUT" | "DELETE" | "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" => {
            Err(Status::METHOD_NOT_ALLOWED)
        }
        _ => Err(Status::NOT_IMPLEMENTED),
    }
}

/// Digits and nothing else.
pub fn decimal(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()
}

/// Lists that came in several fields are one list (RFC 9110 §5.3).
fn append(field: &mut Option<String>, value: &str) {
    match field {
        Some(list) => {
            list.push_str(", ");
            list.push_str(value);
        }
        None => *field = Some(value.to_owned()),
    }
}
