//! The settings of pools, their backends and health checks.

use std::path::Path;
use std::time::Duration;

use super::secured::{self, OfPool};
use super::{Place, Wrong, address, quoted, span};
use crate::lb::config::file::{self, Check};
use crate::lb::config::{Backend, Balance, Health, Pool, Probe, Reuse};
use crate::lb::http::is_token;

/// The settings of a pool.
pub(super) fn check(
    place: &Place,
    name: &str,
    from: &file::Pool,
    folder: &Path,
) -> Result<Pool, Wrong> {
    let backends = check_backends(place, from, folder)?;
    let balance = from.balance.unwrap_or(Balance::RoundRobin);
    if let Some(header) = &from.hash_header {
        let place = place.at("hash-header");
        if balance != Balance::ConsistentHash {
            let remedy = "remove it, or set balance = \"consistent-hash\"";
            return Err(place.wrong(quoted(header), remedy));
        }
        if !is_token(header.as_bytes()) {
            return Err(place.wrong(
                quoted(header),
                "use the name of a header field, like \"X-User\"",
            ));
        }
    }
    Ok(Pool {
        name: name.to_owned(),
        backends,
        balance,
        hash_header: from.hash_header.clone(),
        retries: place.at("retries").number(from.retries, 2, 0, 10)?,
        connect_time: span(from.connect_time, Duration::from_secs(2)),
        response_time: span(from.response_time, Duration::from_secs(30)),
        reuse: from.reuse.unwrap_or(Reuse::Safe),
        idle_connections: place.at("idle-connections").number(
            from.idle_connections,
            256,
            0,
            65_536,
        )? as usize,
        idle_time: span(from.idle_time, Duration::from_secs(30)),
        queue: place.at("queue").number(from.queue, 1024, 0, 1_000_000)? as usize,
        queue_time: span(from.queue_time, Duration::from_secs(5)),
        panic_threshold: place
            .at("panic-threshold")
            .number(from.panic_threshold, 1, 0, 100)?,
        health: check_health(&place.at("health"), from.health.as_ref())?,
    })
}

fn check_backends(place: &Place, from: &file::Pool, folder: &Path) -> Result<Vec<Backend>, Wrong> {
    if from.backends.is_empty() {
        return Err(place
            .at("backends")
            .wrong("[]", "give an address, like \"10.9.0.1:8081\""));
    }
    let secured = secured::check(place, from, folder)?;
    let mut backends: Vec<Backend> = Vec::new();
    for (index, backend) in from.backends.iter().enumerate() {
        let place = place.at("backends").nth(index);
        let backend = check_backend(&place, backend, &secured)?;
        if backends
            .iter()
            .any(|other| other.address == backend.address)
        {
            let remedy = "the pool has this address already; set `weight` for a larger share";
            return Err(place.at("address").wrong(backend.address, remedy));
        }
        backends.push(backend);
    }
    Ok(backends)
}

fn check_backend(
    place: &Place,
    from: &file::Backend,
    secured: &OfPool<'_>,
) -> Result<Backend, Wrong> {
    let at = place.at("address");
    let address = address(&at, &from.address)?;
    if address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err(at.wrong(address, "use the address of one server"));
    }
    Ok(Backend {
        address,
        weight: place.at("weight").number(from.weight, 1, 1, 1000)?,
        proxy: from.proxy,
        tls: secured.backend(place, address, from)?,
        max_connections: place.at("max-connections").number(
            from.max_connections,
            u32::MAX,
            1,
            1_000_000,
        )?,
    })
}

fn check_health(place: &Place, from: Option<&file::Health>) -> Result<Health, Wrong> {
    let none = file::Health::default();
    let from = from.unwrap_or(&none);
    let asks = from.path.is_some() || from.host.is_some() || from.status.is_some();
    let check = from
        .check
        .unwrap_or(if asks { Check::Http } else { Check::Tcp });
    if asks && check != Check::Http {
        let remedy = "use check = \"http\", or remove path, host and status";
        return Err(place.at("check").wrong("…", remedy));
    }
    let probe = match check {
        Check::None => None,
        Check::Tcp => Some(Probe::Tcp),
        Check::Http => Some(http_probe(place, from)?),
    };
    let interval = span(from.interval, Duration::from_secs(2));
    Ok(Health {
        probe,
        interval,
        time_out: span(from.time_out, interval.min(Duration::from_secs(2))),
        rise: place.at("rise").number(from.rise, 2, 1, 100)?,
        fall: place.at("fall").number(from.fall, 3, 1, 100)?,
    })
}

fn http_probe(place: &Place, from: &file::Health) -> Result<Probe, Wrong> {
    let path = from.path.as_deref().unwrap_or("/");
    if !path.starts_with('/') || path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        let remedy = "use a path like \"/health\", percent-encoded where needed";
        return Err(place.at("path").wrong(quoted(path), remedy));
    }
    if let Some(host) = &from.host
        && (host.is_empty() || host.bytes().any(|b| b <= b' ' || b >= 0x7f))
    {
        let remedy = "use a host like \"www.example.org\"";
        return Err(place.at("host").wrong(quoted(host), remedy));
    }
    let status = from.status.clone().unwrap_or_else(|| vec![200]);
    if let Some(wrong) = status.iter().find(|status| !(200..=599).contains(*status)) {
        let remedy = "use statuses from 200 to 599, as in status = [200, 204]";
        return Err(place.at("status").wrong(wrong, remedy));
    }
    Ok(Probe::Http {
        path: path.to_owned(),
        host: from.host.clone(),
        status,
    })
}
