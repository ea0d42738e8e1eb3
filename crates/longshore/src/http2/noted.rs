//! What the access log is to tell of a request.

use http::header::HeaderValue;
use http::request::Parts;

use crate::http::Noted;

/// Notes a request as a line of HTTP/1.1 has it: CONNECT has an authority in place of a path.
pub fn note(parts: &Parts) -> Noted {
    let uri = &parts.uri;
    let target = match uri.path_and_query() {
        Some(path) => path.as_str(),
        None => uri.authority().map_or("", http::uri::Authority::as_str),
    };
    let mut noted = Noted::default();
    let words = [parts.method.as_str(), target, "HTTP/2.0"];
    noted.note_words(words, |name| {
        parts.headers.get(name).map(HeaderValue::as_bytes)
    });
    noted
}
