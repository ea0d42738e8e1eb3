//! Fields behind chunked content (RFC 9112 §7.1.2).

use super::fields::{is_hop_by_hop, is_text, is_token};
use super::framing::Malformed;

/// Whether the field of this line goes on. The line has no CR LF at its end.
///
/// # Errors
/// When it is no field.
pub fn goes_on(line: &[u8]) -> Result<bool, Malformed> {
    let colon = line.iter().position(|&b| b == b':').ok_or(Malformed)?;
    let (name, value) = line.split_at(colon);
    if !is_token(name) || !value.iter().all(|&b| is_text(b)) {
        return Err(Malformed);
    }
    let name = std::str::from_utf8(name).map_err(|_| Malformed)?;
    Ok(!is_forbidden(name))
}

/// Whether a field means something only in a head: framing, routing, modifiers of a request, authentication, control data
/// of a response and the content's format (RFC 9110 §6.5.1), and what an intermediary says of the client.
fn is_forbidden(name: &str) -> bool {
    const NAMES: [&str; 30] = [
        "content-length",
        "transfer-encoding",
        "trailer",
        "host",
        "forwarded",
        "via",
        "x-real-ip",
        "cache-control",
        "expect",
        "max-forwards",
        "pragma",
        "range",
        "authorization",
        "cookie",
        "proxy-authenticate",
        "proxy-authorization",
        "set-cookie",
        "www-authenticate",
        "age",
        "date",
        "expires",
        "location",
        "retry-after",
        "vary",
        "warning",
        "content-encoding",
        "content-language",
        "content-location",
        "content-range",
        "content-type",
    ];
    let begins = |with: &str| {
        let start = name.as_bytes().get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
    };
    is_hop_by_hop(name)
        || ["if-", "accept", "x-forwarded-"].into_iter().any(begins)
        || NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}
