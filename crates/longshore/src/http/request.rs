//! A parsed request, and the statuses that we answer.

use std::fmt;

use super::target::Target;

/// What the server can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Head and content.
    Get,
    /// Head only.
    Head,
}

/// The parts of a request that a file server looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// With what.
    pub target: Target,
    /// Whether the connection stays open after the response (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// The header fields that change the response, as they came.
    pub fields: Fields,
}

/// Header fields that a file server obeys; a field that came twice counts as its last value, but for lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `Range`.
    pub range: Option<String>,
    /// `If-Range`.
    pub if_range: Option<String>,
    /// `If-Match`.
    pub if_match: Option<String>,
    /// `If-None-Match`.
    pub if_none_match: Option<String>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<String>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<String>,
}

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub u16);

#[allow(missing_docs)]
impl Status {
    pub const OK: Status = Status(200);
    pub const PARTIAL_CONTENT: Status = Status(206);
    pub const MOVED_PERMANENTLY: Status = Status(301);
    pub const NOT_MODIFIED: Status = Status(304);
    pub const BAD_REQUEST: Status = Status(400);
    pub const FORBIDDEN: Status = Status(403);
    pub const NOT_FOUND: Status = Status(404);
    pub const METHOD_NOT_ALLOWED: Status = Status(405);
    pub const REQUEST_TIMEOUT: Status = Status(408);
    pub const PRECONDITION_FAILED: Status = Status(412);
    pub const CONTENT_TOO_LARGE: Status = Status(413);
    pub const URI_TOO_LONG: Status = Status(414);
    pub const RANGE_NOT_SATISFIABLE: Status = Status(416);
    pub const EXPECTATION_FAILED: Status = Status(417);
    pub const FIELDS_TOO_LARGE: Status = Status(431);
    pub const INTERNAL_ERROR: Status = Status(500);
    pub const NOT_IMPLEMENTED: Status = Status(501);
    pub const BAD_GATEWAY: Status = Status(502);
    pub const UNAVAILABLE: Status = Status(503);
    pub const GATEWAY_TIMEOUT: Status = Status(504);
    pub const VERSION_NOT_SUPPORTED: Status = Status(505);

    /// The reason phrase (RFC 9110 §15).
    pub fn reason(self) -> &'static str {
        match self.0 {
            200 => "OK",
            206 => "Partial Content",
            301 => "Moved Permanently",
            304 => "Not Modified",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            416 => "Range Not Satisfiable",
            417 => "Expectation Failed",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            _ => "Unknown",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}
