//! The file as it is written: names and types only. What the values may be is for [`super::check`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{self, MapAccess, Visitor};

use super::span::Span;
use crate::matching::Action;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub frontends: BTreeMap<String, Frontend>,
    pub pools: BTreeMap<String, Pool>,
    pub shutdown_time: Option<Span>,
}

/// `[frontends.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Frontend {
    pub listen: Vec<String>,
    pub mode: Option<Mode>,
    #[serde(default)]
    pub tls: bool,
    pub http2: Option<bool>,
    pub pool: Option<String>,
    #[serde(default)]
    pub routes: Vec<Route>,
    #[serde(default)]
    pub accept_proxy: bool,
    pub max_connections: Option<u32>,
    pub x_forwarded: Option<Vec<Forwarded>>,
    #[serde(default)]
    pub trust_forwarded: bool,
    pub via: Option<String>,
    pub splice: Option<Splice>,
    #[serde(rename = "match")]
    pub matching: Option<Matching>,
    pub max_head: Option<u32>,
    pub request_head_time: Option<Span>,
    pub idle_time: Option<Span>,
    pub tunnel_time: Option<Span>,
    pub min_rate: Option<u32>,
    pub min_rate_time: Option<Span>,
}

/// `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// HTTP/1.1: each request is routed.
    Http,
    /// Bytes: each connection is routed.
    Tcp,
}

/// What of `x-forwarded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Forwarded {
    For,
    Proto,
    Host,
}

/// When a connection is handed to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Splice {
    /// Never.
    Never,
    /// Once nothing is left to rewrite: TCP, tunnels, a last response.
    Tunnels,
    /// And an HTTP connection after its first response: what follows on it is forwarded as it is, to the same backend.
    AfterFirstRequest,
}

/// `match`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Matching {
    pub file: PathBuf,
    #[serde(default)]
    pub action: Action,
}

/// `[[frontends.NAME.routes]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Route {
    pub host: Option<String>,
    pub path: Option<String>,
    pub pool: String,
}

/// `[pools.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Pool {
    pub backends: Vec<Backend>,
    pub balance: Option<Balance>,
    pub hash_header: Option<String>,
    pub retries: Option<u32>,
    pub connect_time: Option<Span>,
    pub response_time: Option<Span>,
    pub reuse: Option<Reuse>,
    pub idle_connections: Option<u32>,
    pub idle_time: Option<Span>,
    pub queue: Option<u32>,
    pub queue_time: Option<Span>,
    pub panic_threshold: Option<u32>,
    pub health: Option<Health>,
    pub tls: Option<bool>,
    pub ca: Option<PathBuf>,
    pub verify: Option<bool>,
    pub sni: Option<String>,
}

/// `balance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Each in turn, as often as its weight says.
    RoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
    /// The same source address or header field goes to the same backend.
    ConsistentHash,
}

/// `reuse`: which requests go over a backend's idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// None.
    Never,
    /// Those that may be sent again if the backend closed the connection just then.
    Safe,
    /// All.
    Always,
}

/// `health`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Health {
    pub check: Option<Check>,
    pub path: Option<String>,
    pub host: Option<String>,
    pub status: Option<Vec<u16>>,
    pub interval: Option<Span>,
    pub time_out: Option<Span>,
    pub rise: Option<u32>,
    pub fall: Option<u32>,
}

/// `health.check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    None,
    Tcp,
    Http,
}

/// `"10.9.0.1:8081"`, or a table.
#[derive(Debug, Default)]
pub(super) struct Backend {
    pub address: String,
    pub weight: Option<u32>,
    pub proxy: Option<Proxy>,
    pub max_connections: Option<u32>,
    pub tls: Option<bool>,
    pub sni: Option<String>,
}

/// Which version of the PROXY protocol a backend is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proxy {
    /// Text.
    V1,
    /// Binary.
    V2,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct BackendTable {
    address: String,
    weight: Option<u32>,
    proxy: Option<Proxy>,
    max_connections: Option<u32>,
    tls: Option<bool>,
    sni: Option<String>,
}

impl<'de> Deserialize<'de> for Backend {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Backend;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"ADDRESS:PORT\" or { address = \"ADDRESS:PORT\", weight = 2, … }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Backend, E> {
                Ok(Backend {
                    address: text.to_owned(),
                    ..Backend::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Backend, A::Error> {
                let table = BackendTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Backend {
                    address: table.address,
                    weight: table.weight,
                    proxy: table.proxy,
                    max_connections: table.max_connections,
                    tls: table.tls,
                    sni: table.sni,
                })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
