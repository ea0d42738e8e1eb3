//! Hosts and ports, as `Host` and targets name them.

/// Whether these bytes are `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2), or empty, as the field is for a target
/// without an authority.
///
/// A comma, which RFC 3986 allows in a name, is what an intermediary makes of two `Host` fields: it is refused.
pub fn is_authority(bytes: &[u8]) -> bool {
    let (is_host, port) = match bytes {
        b"" => return true,
        [b'[', rest @ ..] => match rest.iter().position(|&b| b == b']') {
            Some(end) => (is_ipv6(&rest[..end]), &rest[end + 1..]),
            None => return false,
        },
        name => {
            let end = name.iter().position(|&b| b == b':').unwrap_or(name.len());
            (is_name(&name[..end]), &name[end..])
        }
    };
    is_host && is_port(port)
}

fn is_ipv6(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).ok();
    text.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// A `reg-name`, of which an IPv4 address is one.
fn is_name(mut rest: &[u8]) -> bool {
    if rest.is_empty() {
        return false;
    }
    loop {
        rest = match rest {
            [] => return true,
            [b'%', a, b, rest @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest,
            [b, rest @ ..] if b.is_ascii_alphanumeric() || b"-._~!$&'()*+;=".contains(b) => rest,
            _ => return false,
        };
    }
}

/// Nothing, or a colon with a port or without.
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] | [b':'] => true,
        [b':', digits @ ..] => {
            super::decimal(digits).is_some_and(|port| port <= u64::from(u16::MAX))
        }
        _ => false,
    }
}
