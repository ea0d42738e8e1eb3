//! From the file's values to settings: defaults, bounds, and names that must belong together.

mod pool;
mod secured;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::file::{self, File, Forwarded};
use super::{Config, Forwarding, Frontend, Mode, Source, Splice};
use crate::lb::http::is_token;
use crate::lb::route::{HostPattern, Routes};
use crate::matching::Rule;
use crate::min_rate::MinRate;

/// Heads up to this size.
const MAX_HEAD: u32 = 16 * 1024;
/// Bytes a second that a client takes, as IIS and Kestrel have it.
const MIN_RATE: u32 = 240;
const MOST_MIN_RATE: u32 = 1_000_000_000;

/// A value that can't be.
pub(super) struct Wrong {
    /// The key with its tables, as in `pools.app.retries`.
    pub key: String,
    pub value: String,
    /// What to write instead.
    pub remedy: String,
}

/// Where in the file something stands.
struct Place {
    key: String,
}

impl Place {
    fn at(&self, key: impl Display) -> Self {
        Place {
            key: match self.key.as_str() {
                "" => key.to_string(),
                table => format!("{table}.{key}"),
            },
        }
    }

    fn nth(&self, index: usize) -> Self {
        Place {
            key: format!("{}[{index}]", self.key),
        }
    }

    fn wrong(&self, value: impl Display, remedy: impl Into<String>) -> Wrong {
        Wrong {
            key: self.key.clone(),
            value: value.to_string(),
            remedy: remedy.into(),
        }
    }

    fn number(
        &self,
        value: Option<u32>,
        default: u32,
        least: u32,
        most: u32,
    ) -> Result<u32, Wrong> {
        match value {
            None => Ok(default),
            Some(value) if (least..=most).contains(&value) => Ok(value),
            Some(value) => Err(self.wrong(value, format!("use a number from {least} to {most}"))),
        }
    }
}

pub(super) fn check(parsed: File, folder: &Path) -> Result<Config, Wrong> {
    let root = Place { key: String::new() };
    if parsed.frontends.is_empty() {
        return Err(root
            .at("frontends")
            .wrong("{}", "add a table [frontends.NAME]"));
    }
    let names: Vec<&str> = parsed.pools.keys().map(String::as_str).collect();
    let frontends = parsed
        .frontends
        .iter()
        .map(|(name, frontend)| {
            let place = root.at("frontends").at(name);
            check_frontend(&place, name, frontend, (&names, folder))
        })
        .collect::<Result<Vec<_>, _>>()?;
    listens_once(&root, &frontends)?;
    let pools = parsed
        .pools
        .iter()
        .map(|(name, pool)| pool::check(&root.at("pools").at(name), name, pool, folder))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Config {
        frontends,
        pools,
        shutdown_time: span(parsed.shutdown_time, Duration::from_secs(30)),
        source: Source::default(),
    })
}

fn check_frontend(
    place: &Place,
    name: &str,
    from: &file::Frontend,
    (pools, folder): (&[&str], &Path),
) -> Result<Frontend, Wrong> {
    let mode = from.mode.unwrap_or(Mode::Http);
    let listen = check_listen(&place.at("listen"), &from.listen)?;
    let routes = check_routes(place, from, mode, pools)?;
    let splice = check_splice(&place.at("splice"), from)?;
    let matching = check_matching(place, from, folder)?;
    if mode == Mode::Tcp {
        http_only(place, from)?;
    }
    let max_head = place
        .at("max-head")
        .number(from.max_head, MAX_HEAD, 1024, 256 * 1024)?;
    Ok(Frontend {
        name: name.to_owned(),
        mode,
        tls: from.tls,
        http2: check_http2(place, from, mode)?,
        listen,
        routes,
        accept_proxy: from.accept_proxy,
        max_connections: place.at("max-connections").number(
            from.max_connections,
            100_000,
            1,
            1_000_000,
        )?,
        forwarding: check_forwarding(place, from)?,
        splice,
        matching,
        max_head: max_head as usize,
        request_head_time: span(from.request_head_time, Duration::from_secs(10)),
        idle_time: span(from.idle_time, Duration::from_secs(60)),
        tunnel_time: span(from.tunnel_time, Duration::from_secs(3600)),
        min_rate: MinRate {
            rate: place
                .at("min-rate")
                .number(from.min_rate, MIN_RATE, 0, MOST_MIN_RATE)?,
            window: span(from.min_rate_time, MinRate::WINDOW),
        },
    })
}

fn check_listen(place: &Place, from: &[String]) -> Result<Vec<SocketAddr>, Wrong> {
    if from.is_empty() {
        let remedy = "give an address, like \"10.9.0.2:80\" or \"[fd09::2]:80\"";
        return Err(place.wrong("[]", remedy));
    }
    from.iter()
        .enumerate()
        .map(|(index, text)| address(&place.nth(index), text))
        .collect()
}

/// What is searched for patterns, or comes in TLS, is never spliced.
fn check_splice(place: &Place, from: &file::Frontend) -> Result<Splice, Wrong> {
    let remedy = match (&from.matching, from.tls) {
        (None, false) => return Ok(from.splice.unwrap_or(Splice::Tunnels)),
        (Some(_), _) => "remove it: what is searched for patterns is never spliced",
        (None, true) => "remove it: what a client sends in TLS is never spliced",
    };
    match from.splice {
        None | Some(Splice::Never) => Ok(Splice::Never),
        Some(_) => Err(place.wrong("…", remedy)),
    }
}

/// HTTP/2 is agreed on in the handshake of TLS, and has heads that can't be searched.
fn check_http2(place: &Place, from: &file::Frontend, mode: Mode) -> Result<bool, Wrong> {
    let remedy = match (mode, from.tls, from.matching.is_some()) {
        (Mode::Http, true, false) => return Ok(from.http2.unwrap_or(true)),
        (Mode::Http, false, _) => "remove it, or set tls = true: clients agree to HTTP/2 in TLS",
        (Mode::Http, true, true) => "remove it, or match: compressed heads can't be searched",
        (Mode::Tcp, ..) => "remove it, or set mode = \"http\": a TCP frontend reads no HTTP",
    };
    match from.http2 {
        Some(true) => Err(place.at("http2").wrong("true", remedy)),
        _ => Ok(false),
    }
}

/// Reads the file of `match`, whose name counts from the configuration's folder.
fn check_matching(
    place: &Place,
    from: &file::Frontend,
    folder: &Path,
) -> Result<Option<Rule>, Wrong> {
    let Some(matching) = &from.matching else {
        return Ok(None);
    };
    let wrong = |error: String| {
        let name = matching.file.display().to_string();
        let place = place.at("match").at("file");
        place.wrong(quoted(&name), error)
    };
    let file = folder.join(&matching.file);
    if std::fs::metadata(&file).is_ok_and(|found| !found.is_file()) {
        return Err(wrong(
            "it is no regular file; name a file of patterns".to_owned(),
        ));
    }
    let rule = Rule::read(&file, matching.action);
    rule.map(Some).map_err(|error| wrong(error.to_string()))
}

/// Keys that mean nothing for a frontend that does not look into the bytes.
fn http_only(place: &Place, from: &file::Frontend) -> Result<(), Wrong> {
    let remedy = "remove it, or set mode = \"http\": a TCP frontend reads no HTTP";
    if from.splice == Some(Splice::AfterFirstRequest) {
        return Err(place.at("splice").wrong("\"after-first-request\"", remedy));
    }
    for (key, is_there) in [
        ("x-forwarded", from.x_forwarded.is_some()),
        ("trust-forwarded", from.trust_forwarded),
        ("via", from.via.is_some()),
        ("max-head", from.max_head.is_some()),
        ("idle-time", from.idle_time.is_some()),
    ] {
        if is_there {
            return Err(place.at(key).wrong("…", remedy));
        }
    }
    if from.request_head_time.is_some() && !from.accept_proxy {
        let remedy = "remove it, or set accept-proxy = true: a TCP frontend has no other head";
        return Err(place.at("request-head-time").wrong("…", remedy));
    }
    Ok(())
}

fn check_forwarding(place: &Place, from: &file::Frontend) -> Result<Forwarding, Wrong> {
    let has = |which| {
        from.x_forwarded
            .as_ref()
            .is_none_or(|list| list.contains(&which))
    };
    let via = from.via.as_deref().unwrap_or("longshore");
    if !via.is_empty() && !is_token(via.as_bytes()) {
        let remedy = "use a name without spaces, like \"lb1\", or \"\" for no Via";
        return Err(place.at("via").wrong(quoted(via), remedy));
    }
    Ok(Forwarding {
        address: has(Forwarded::For),
        proto: has(Forwarded::Proto),
        host: has(Forwarded::Host),
        trusted: from.trust_forwarded,
        via: (!via.is_empty()).then(|| via.to_owned()),
    })
}

fn check_routes(
    place: &Place,
    from: &file::Frontend,
    mode: Mode,
    pools: &[&str],
) -> Result<Routes, Wrong> {
    let find = |place: &Place, name: &str| {
        pools.iter().position(|pool| *pool == name).ok_or_else(|| {
            let known = if pools.is_empty() {
                "there are no pools".to_owned()
            } else {
                format!("use one of {}", pools.join(", "))
            };
            place.wrong(quoted(name), format!("no [pools.{name}]; {known}"))
        })
    };
    let default = match &from.pool {
        Some(name) => Some(find(&place.at("pool"), name)?),
        None => None,
    };
    if mode == Mode::Tcp && !from.routes.is_empty() {
        return Err(place.at("routes").wrong(
            "[…]",
            "remove them and set `pool`: a TCP frontend has no hosts and paths",
        ));
    }
    if default.is_none() && from.routes.is_empty() {
        return Err(place
            .at("pool")
            .wrong("\"\"", "name a pool, as in pool = \"app\""));
    }
    let mut routes = Routes::new(default);
    for (index, route) in from.routes.iter().enumerate() {
        let place = place.at("routes").nth(index);
        let host = match &route.host {
            None => HostPattern::Any,
            Some(text) => HostPattern::parse(text).ok_or_else(|| {
                let remedy =
                    "use a host like \"www.example.org\" or \"*.example.org\", without a port";
                place.at("host").wrong(quoted(text), remedy)
            })?,
        };
        let path = route.path.as_deref().unwrap_or("/");
        if !path.starts_with('/') || path.bytes().any(|b| b <= b' ' || b == b'?' || b == b'#') {
            let remedy = "use the beginning of a path, as in \"/static/\"";
            return Err(place.at("path").wrong(quoted(path), remedy));
        }
        let pool = find(&place.at("pool"), &route.pool)?;
        if !routes.add(host, path, pool) {
            let remedy = "another route has this host and path; remove one of them";
            return Err(place.at("path").wrong(quoted(path), remedy));
        }
    }
    Ok(routes)
}

fn listens_once(root: &Place, frontends: &[Frontend]) -> Result<(), Wrong> {
    let mut seen: BTreeMap<SocketAddr, &str> = BTreeMap::new();
    for frontend in frontends {
        let name = &frontend.name;
        for (index, listen) in frontend.listen.iter().enumerate() {
            if let Some(other) = seen.insert(*listen, name) {
                let place = root.at("frontends").at(name).at("listen").nth(index);
                let remedy = format!("frontend {other} listens there already; use another port");
                return Err(place.wrong(format!("\"{listen}\""), remedy));
            }
        }
    }
    Ok(())
}

fn address(place: &Place, text: &str) -> Result<SocketAddr, Wrong> {
    let remedy = "use an IP address with a port, like \"10.9.0.1:8081\" or \"[fd09::1]:8081\"";
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address),
        _ => Err(place.wrong(quoted(text), remedy)),
    }
}

fn span(from: Option<super::span::Span>, default: Duration) -> Duration {
    from.map_or(default, |span| span.0)
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
