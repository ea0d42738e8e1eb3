//! The PROXY protocol, versions 1 and 2, as HAProxy's `proxy-protocol.txt` has it: who the client is, in front of its bytes.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::config::Proxy;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to; of the same family.
    pub destination: SocketAddr,
}

/// What stands at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More is needed.
    Partial,
    /// A header of that many bytes. No endpoints: the sender speaks for itself, or of what is not TCP.
    Complete {
        /// Its length.
        len: usize,
        /// What it says.
        endpoints: Option<Endpoints>,
    },
    /// No header.
    Malformed,
}

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a header of version 1 at most (§2.1).
const MOST_V1: usize = 107;
/// `PROXY UNKNOWN`, and the end of the line.
const LEAST_V1: usize = 15;
/// What says how much follows.
const LEAST_V2: usize = 16;
/// Bytes of addresses and extensions in version 2 at most; more than anybody sends.
const MOST_V2: usize = 4096;

/// Appends a header. Without endpoints it says that the sender speaks for itself: health checks do.
pub fn encode(out: &mut Vec<u8>, version: Proxy, endpoints: Option<Endpoints>) {
    match version {
        Proxy::V1 => encode_v1(out, endpoints),
        Proxy::V2 => encode_v2(out, endpoints),
    }
}

fn encode_v1(out: &mut Vec<u8>, endpoints: Option<Endpoints>) {
    let Some(Endpoints {
        source,
        destination,
    }) = endpoints
    else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let family = if source.is_ipv4() { 4 } else { 6 };
    let _ = write!(
        out,
        "PROXY TCP{family} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    );
}

fn encode_v2(out: &mut Vec<u8>, endpoints: Option<Endpoints>) {
    out.extend_from_slice(&SIGNATURE);
    let Some(Endpoints {
        source,
        destination,
    }) = endpoints
    else {
        return out.extend_from_slice(&[0x20, 0, 0, 0]);
    };
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            out.extend_from_slice(&[0x21, 0x11, 0, 12]);
            out.extend_from_slice(&a.octets());
            out.extend_from_slice(&b.octets());
        }
        (a, b) => {
            out.extend_from_slice(&[0x21, 0x21, 0, 36]);
            out.extend_from_slice(&as_v6(a).octets());
            out.extend_from_slice(&as_v6(b).octets());
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// Reads a header of either version.
pub fn parse(input: &[u8]) -> Parsed {
    let common = input.len().min(SIGNATURE.len());
    if input[..common] == SIGNATURE[..common] {
        return parse_v2(input);
    }
    let start = input.len().min(6);
    if input[..start] == b"PROXY "[..start] {
        return parse_v1(input);
    }
    Parsed::Malformed
}

/// Bytes that are missing at least of a header that begins so.
pub fn missing(input: &[u8]) -> usize {
    let may_be_v2 = SIGNATURE.starts_with(input) || input.starts_with(&SIGNATURE);
    let least = match (may_be_v2, input.get(14..LEAST_V2)) {
        (false, _) => LEAST_V1,
        // Shorter than any header of version 1.
        (true, None) if input.len() < SIGNATURE.len() => SIGNATURE.len(),
        (true, None) => LEAST_V2,
        (true, Some(len)) => LEAST_V2 + usize::from(u16::from_be_bytes([len[0], len[1]])),
    };
    least.saturating_sub(input.len()).max(1)
}

fn parse_v1(input: &[u8]) -> Parsed {
    let window = &input[..input.len().min(MOST_V1)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return match input.len() >= MOST_V1 {
            true => Parsed::Malformed,
            false => Parsed::Partial,
        };
    };
    let line = std::str::from_utf8(&window[..end]).unwrap_or_default();
    let mut words = line.split(' ').skip(1);
    let endpoints = match words.next() {
        Some("UNKNOWN") => None,
        Some(family @ ("TCP4" | "TCP6")) => match read_v1(words, family == "TCP4") {
            Some(endpoints) => Some(endpoints),
            None => return Parsed::Malformed,
        },
        _ => return Parsed::Malformed,
    };
    Parsed::Complete {
        len: end + 2,
        endpoints,
    }
}

fn read_v1<'a>(mut words: impl Iterator<Item = &'a str>, is_v4: bool) -> Option<Endpoints> {
    let mut ip = || -> Option<IpAddr> {
        let ip: IpAddr = words.next()?.parse().ok()?;
        (ip.is_ipv4() == is_v4).then_some(ip)
    };
    let (source, destination) = (ip()?, ip()?);
    let mut port = || -> Option<u16> {
        let word = words.next()?;
        let plain = word.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| word.parse().ok()).flatten()
    };
    let (from, to) = (port()?, port()?);
    words.next().is_none().then_some(Endpoints {
        source: SocketAddr::new(source, from),
        destination: SocketAddr::new(destination, to),
    })
}

fn parse_v2(input: &[u8]) -> Parsed {
    let Some((&[version, family, high, low], rest)) = input
        .get(12..)
        .and_then(|rest| rest.split_first_chunk::<4>())
    else {
        return Parsed::Partial;
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len > MOST_V2 || !matches!(version, 0x20 | 0x21) {
        return Parsed::Malformed;
    }
    let Some(body) = rest.get(..len) else {
        return Parsed::Partial;
    };
    let endpoints = match (version, family) {
        (0x20, _) => None,
        (_, 0x11) => match body.first_chunk::<12>() {
            Some(bytes) => Some(read_v4(bytes)),
            None => return Parsed::Malformed,
        },
        (_, 0x21) => match body.first_chunk::<36>() {
            Some(bytes) => Some(read_v6(bytes)),
            None => return Parsed::Malformed,
        },
        _ => None,
    };
    Parsed::Complete {
        len: 16 + len,
        endpoints,
    }
}

fn read_v4(bytes: &[u8; 12]) -> Endpoints {
    let [a, b, c, d, e, f, g, h, ports @ ..] = *bytes;
    read_ports(
        Ipv4Addr::new(a, b, c, d).into(),
        Ipv4Addr::new(e, f, g, h).into(),
        ports,
    )
}

fn read_v6(bytes: &[u8; 36]) -> Endpoints {
    let mut octets = [[0; 16]; 2];
    octets[0].copy_from_slice(&bytes[..16]);
    octets[1].copy_from_slice(&bytes[16..32]);
    let [source, destination] = octets.map(|octets| Ipv6Addr::from(octets).into());
    let ports = [bytes[32], bytes[33], bytes[34], bytes[35]];
    read_ports(source, destination, ports)
}

fn read_ports(source: IpAddr, destination: IpAddr, [a, b, c, d]: [u8; 4]) -> Endpoints {
    Endpoints {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(source: &str, destination: &str) -> Endpoints {
        Endpoints {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        }
    }

    fn cases() -> [Option<Endpoints>; 3] {
        [
            None,
            Some(endpoints("10.9.0.1:50000", "10.9.0.2:80")),
            Some(endpoints("[fd09::1]:50000", "[fd09::2]:443")),
        ]
    }

    #[test]
    fn what_is_written_is_read_at_any_segmentation() {
        for version in [Proxy::V1, Proxy::V2] {
            for wanted in cases() {
                let mut header = Vec::new();
                encode(&mut header, version, wanted);
                let len = header.len();
                header.extend_from_slice(b"GET / HTTP/1.1\r\n");
                for cut in 0..len {
                    assert_eq!(parse(&header[..cut]), Parsed::Partial, "{version:?} {cut}");
                }
                for cut in len..header.len() {
                    let endpoints = wanted;
                    assert_eq!(parse(&header[..cut]), Parsed::Complete { len, endpoints });
                }
            }
        }
    }

    #[test]
    fn version_1_is_text_as_others_write_it() {
        let mut header = Vec::new();
        encode(&mut header, Proxy::V1, cases()[1]);
        assert_eq!(header, b"PROXY TCP4 10.9.0.1 10.9.0.2 50000 80\r\n");
    }

    #[test]
    fn extensions_of_version_2_are_skipped() {
        let mut header = Vec::new();
        encode(&mut header, Proxy::V2, cases()[1]);
        header[15] += 5;
        header.extend_from_slice(&[4, 0, 2, 9, 9]);
        let endpoints = cases()[1];
        assert_eq!(parse(&header), Parsed::Complete { len: 33, endpoints });
    }

    #[test]
    fn what_is_missing_is_never_more_than_the_header() {
        let unknown = b"PROXY UNKNOWN\r\n".to_vec();
        let written = cases().into_iter().flat_map(|endpoints| {
            [Proxy::V1, Proxy::V2].map(|version| {
                let mut out = Vec::new();
                encode(&mut out, version, endpoints);
                out
            })
        });
        for header in written.chain([unknown]) {
            let mut len = 0;
            while parse(&header[..len]) == Parsed::Partial {
                len += missing(&header[..len]);
                assert!(len <= header.len(), "{header:?}");
            }
            assert_eq!(len, header.len());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXY TCP4 10.9.0.1 fd09::2 1 2\r\n",
            b"PROXY TCP6 10.9.0.1 10.9.0.2 1 2\r\n",
            b"PROXY TCP4 10.9.0.1 10.9.0.2 1 65536\r\n",
            b"PROXY TCP4 10.9.0.1 10.9.0.2 1 +2\r\n",
            b"PROXY TCP4 10.9.0.1 10.9.0.2 1 2 3\r\n",
            b"PROXY TCP4 10.9.0.1  10.9.0.2 1 2\r\n",
            b"PROXY UDP4 10.9.0.1 10.9.0.2 1 2\r\n",
            b"PROXY \r\n",
            &[b"PROXY ".as_slice(), &[b'x'; 200]].concat(),
            b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c0123456789ab",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04abcd",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        ] {
            assert_eq!(parse(text), Parsed::Malformed, "{text:?}");
        }
    }
}
