//! Which pool serves a request: by host first, then by the longest beginning of the path.

use std::collections::HashMap;
use std::net::Ipv6Addr;

/// The hosts of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// All that no other route names.
    Any,
    /// This one, in lower case.
    Exact(String),
    /// All below this one: `example.org` for `*.example.org`, in lower case.
    Below(String),
}

impl HostPattern {
    /// Understands `www.example.org` and `*.example.org`.
    pub fn parse(text: &str) -> Option<HostPattern> {
        let text = text.to_ascii_lowercase();
        // A final dot makes no other host, neither here nor in requests.
        let text = text.strip_suffix('.').unwrap_or(&text);
        match text.strip_prefix("*.") {
            Some(below) => is_name(below).then(|| HostPattern::Below(below.to_owned())),
            None => {
                (is_name(text) || is_literal(text)).then(|| HostPattern::Exact(text.to_owned()))
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= MOST_HOST && text.bytes().all(is_part)
}

/// An IPv6 address as it stands in a URL: `[fd09::2]`.
fn is_literal(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    inner.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// The routes of a frontend.
///
/// A host that is named exactly wins over `*.`, a longer `*.` over a shorter one, and each over routes without a host;
/// when none of a host's paths fits, the next best host is looked at. Paths are compared as they come, byte by byte.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    default: Option<usize>,
    exact: HashMap<Box<[u8]>, Paths>,
    below: HashMap<Box<[u8]>, Paths>,
    any: Paths,
}

/// Longest first.
type Paths = Vec<(Box<[u8]>, usize)>;

/// Bytes of a host name at most (RFC 1035 §2.3.4), with some room for an address in brackets.
const MOST_HOST: usize = 255;

impl Routes {
    /// No routes but to this pool.
    pub fn new(default: Option<usize>) -> Self {
        Routes {
            default,
            ..Routes::default()
        }
    }

    /// Adds a route; false if there is one of the same host and path.
    pub fn add(&mut self, host: HostPattern, path: &str, pool: usize) -> bool {
        let paths = match host {
            HostPattern::Any => &mut self.any,
            HostPattern::Exact(name) => self.exact.entry(name.into_bytes().into()).or_default(),
            HostPattern::Below(name) => self.below.entry(name.into_bytes().into()).or_default(),
        };
        let path: Box<[u8]> = path.as_bytes().into();
        if paths.iter().any(|(other, _)| *other == path) {
            return false;
        }
        let at = paths.partition_point(|(other, _)| other.len() >= path.len());
        paths.insert(at, (path, pool));
        true
    }

    /// Gives the pools other numbers, by those that they have.
    pub fn renumber(&mut self, numbers: &[usize]) {
        let hosts = self.exact.values_mut().chain(self.below.values_mut());
        let paths = hosts.chain([&mut self.any]).flatten();
        let named = paths.map(|(_, pool)| pool).chain(&mut self.default);
        for pool in named {
            *pool = numbers[*pool];
        }
    }

    /// The pools that requests may be for.
    pub fn pools(&self) -> impl Iterator<Item = usize> {
        let hosts = self.exact.values().chain(self.below.values());
        let paths = hosts.chain([&self.any]).flatten();
        paths.map(|(_, pool)| *pool).chain(self.default)
    }

    /// The pool for all that no route names; a TCP frontend's.
    pub fn default_pool(&self) -> Option<usize> {
        self.default
    }

    /// The pool for a host (with or without a port, in any case) and a path.
    pub fn find(&self, host: &[u8], path: &[u8]) -> Option<usize> {
        if self.exact.is_empty() && self.below.is_empty() {
            return longest(&self.any, path).or(self.default);
        }
        let mut lower = [0; MOST_HOST];
        let host = without_port(host);
        let host = host.strip_suffix(b".").unwrap_or(host);
        let Some(lower) = lower.get_mut(..host.len()) else {
            return longest(&self.any, path).or(self.default);
        };
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let named = self
            .exact
            .get(&*lower)
            .and_then(|paths| longest(paths, path));
        named
            .or_else(|| self.find_below(lower, path))
            .or_else(|| longest(&self.any, path))
            .or(self.default)
    }

    fn find_below(&self, host: &[u8], path: &[u8]) -> Option<usize> {
        let dots = host.iter().enumerate().filter(|(_, byte)| **byte == b'.');
        dots.filter_map(|(dot, _)| self.below.get(&host[dot + 1..]))
            .find_map(|paths| longest(paths, path))
    }
}

/// A path fits if it continues at a `/`: `/api` serves `/api`, `/api/x` and `/api?x`, and not `/apiary`.
fn longest(paths: &Paths, path: &[u8]) -> Option<usize> {
    let fits = |start: &[u8]| {
        path.strip_prefix(start).is_some_and(|rest| {
            start.ends_with(b"/") || matches!(rest.first(), None | Some(b'/' | b'?'))
        })
    };
    paths
        .iter()
        .find(|(start, _)| fits(start))
        .map(|(_, pool)| *pool)
}

fn without_port(host: &[u8]) -> &[u8] {
    let digits = host.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    match host[..host.len() - digits].split_last() {
        // A bare IPv6 address stands in brackets (RFC 3986 §3.2.2), so a colon in front of the last digits is a port's.
        Some((b':', name)) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(list: &[(&str, &str, usize)], default: Option<usize>) -> Routes {
        let mut routes = Routes::new(default);
        for (host, path, pool) in list {
            let host = match *host {
                "" => HostPattern::Any,
                host => HostPattern::parse(host).unwrap(),
            };
            assert!(routes.add(host, path, *pool));
        }
        routes
    }

    #[test]
    fn the_most_specific_host_and_then_path_wins() {
        let routes = routes(
            &[
                ("www.example.org", "/", 1),
                ("www.example.org", "/static/", 2),
                ("*.example.org", "/", 3),
                ("*.deep.example.org", "/", 4),
                ("", "/api", 5),
                ("[fd09::2]", "/", 6),
                ("only.example", "/here", 7),
            ],
            Some(0),
        );
        for (host, path, pool) in [
            ("www.example.org", "/", 1),
            ("WWW.Example.ORG:8080", "/x", 1),
            ("www.example.org.", "/static/x", 2),
            ("www.example.org", "/static", 1),
            ("a.example.org", "/static/x", 3),
            ("a.b.example.org", "/", 3),
            ("a.deep.example.org", "/", 4),
            ("deep.example.org", "/", 3),
            ("example.org", "/", 0),
            ("notexample.org", "/", 0),
            ("other", "/api", 5),
            ("other", "/api/x", 5),
            ("other", "/api?x", 5),
            ("other", "/apiary", 0),
            ("[fd09::2]:80", "/", 6),
            ("[fd09::2]", "/", 6),
            ("only.example", "/here", 7),
            ("only.example", "/there", 0),
            ("only.example", "/api/", 5),
            ("", "*", 0),
        ] {
            let found = routes.find(host.as_bytes(), path.as_bytes());
            assert_eq!(found, Some(pool), "{host} {path}");
        }
        assert_eq!(routes.find(&[b'a'; 300], b"/"), Some(0));
    }

    #[test]
    fn a_final_dot_makes_no_other_host() {
        let routes = routes(&[("a.example.", "/", 1), ("*.b.example.", "/", 2)], None);
        assert_eq!(routes.find(b"a.example", b"/"), Some(1));
        assert_eq!(routes.find(b"a.example.:80", b"/"), Some(1));
        assert_eq!(routes.find(b"x.b.example", b"/"), Some(2));
    }

    #[test]
    fn without_a_default_nothing_may_fit() {
        let routes = routes(&[("a.example", "/", 0)], None);
        assert_eq!(routes.find(b"b.example", b"/"), None);
    }

    #[test]
    fn the_same_route_twice_is_refused() {
        let mut routes = routes(&[("a.example", "/", 0)], None);
        assert!(!routes.add(HostPattern::parse("A.example").unwrap(), "/", 1));
    }

    #[test]
    fn patterns_have_one_star_in_front() {
        for text in [
            "*",
            "*.",
            "a.*.b",
            "a b",
            "",
            "*.*.b",
            "a/b",
            ".",
            "a.b:80",
            "a:80",
            "[fd09::2]:80",
            "[a]",
            "*.[fd09::2]",
        ] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
