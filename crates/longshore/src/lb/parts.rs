//! What the sessions of a load balancer share.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use host::{ListenOptions, ListenerId, Offload, SocketError, SpliceHandle, Stack, TlsRole};

use super::balancer::Means;
use super::config::{self, Mode};
use super::counters::FrontendCounters;
use super::keys::{Roles, SessionKey};
use super::pool::Pool;
use super::session::{KeptOfAll, Opened, Shared};
use crate::access_log::AccessLog;
use crate::admission::Admission;
use crate::matching::Matcher;

/// What sessions share.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) frontends: Vec<Frontend>,
    pub(super) pools: Vec<Pool>,
    /// Another load balancer says in the log what happens to the servers, which it checks.
    pub(super) is_quiet: bool,
    pub(super) roles: Roles,
    /// Sessions that waited for a server and may try again.
    pub(super) woken: VecDeque<SessionKey>,
    /// Sessions for which others have something, in memory.
    pub(super) touched: VecDeque<SessionKey>,
    /// Streams of HTTP/2 that have begun.
    pub(super) opened: VecDeque<Opened>,
    pub(super) splices: Vec<Option<(SpliceHandle, SessionKey)>>,
    /// What is kept of all requests to be sent again.
    pub(super) kept: KeptOfAll,
    pub(super) can_splice: bool,
    /// What of TLS and of searches is the NIC's.
    pub(super) offload: Offload,
    /// Where requests are logged.
    pub(super) access_log: Option<AccessLog>,
    /// What is taken on while memory is short.
    pub(super) admission: Admission,
    /// When to end what is still open, once it is told to stop.
    pub(super) ends: Option<Instant>,
    /// Another process takes new clients.
    pub(super) retires: bool,
}

impl Parts {
    /// For a session of that frontend's.
    pub(super) fn share<'a>(
        &'a mut self,
        now: Instant,
        stack: &'a mut Stack,
        index: usize,
    ) -> Shared<'a> {
        let frontend = &mut self.frontends[index];
        Shared {
            now,
            stack,
            pools: &mut self.pools,
            frontend: &frontend.config,
            tls: frontend.tls.as_ref().map(|role| (role, self.offload)),
            offload: self.offload,
            matcher: frontend.matcher.as_ref(),
            counters: &mut frontend.counters,
            access_log: self.access_log.as_mut(),
            roles: &mut self.roles,
            woken: &mut self.woken,
            touched: &mut self.touched,
            opened: &mut self.opened,
            splices: &mut self.splices,
            kept: &self.kept,
            // A splice would carry records to the backend.
            can_splice: self.can_splice && frontend.tls.is_none(),
            sheds: self.admission.sheds(now),
            is_stopping: self.ends.is_some(),
            retires: self.retires,
        }
    }
}

/// A listener that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("frontend {frontend} can't listen on {address}: {error}")]
pub struct StartError {
    frontend: String,
    address: SocketAddr,
    error: SocketError,
}

/// Where clients come in.
#[derive(Debug)]
pub(super) struct Frontend {
    pub(super) config: config::Frontend,
    pub(super) counters: FrontendCounters,
    /// Its part in handshakes, if it has TLS.
    pub(super) tls: Option<TlsRole>,
    /// What clients' bytes are searched by.
    pub(super) matcher: Option<Arc<Matcher>>,
    pub(super) listeners: Vec<ListenerId>,
    /// Why connections may wait to be accepted.
    pub(super) held_back: Option<Shortage>,
}

impl Frontend {
    /// One that listens.
    ///
    /// # Errors
    /// When an address can't be listened on, or its clients are to use TLS and there is no certificate.
    pub(super) fn open(
        config: config::Frontend,
        stack: &mut Stack,
        means: &Means,
    ) -> Result<Frontend, StartError> {
        let mut listeners = Vec::new();
        for &address in &config.listen {
            let options = ListenOptions {
                backlog: 4096,
                // In HTTP and in TLS the client speaks first.
                defer: config.mode == Mode::Http || config.tls,
                ..ListenOptions::default()
            };
            let listener = match config.tls && means.tls.is_none() {
                true => Err(SocketError::TlsConfig("there is no certificate".to_owned())),
                false => stack.listen(address, options),
            };
            listeners.push(listener.map_err(|error| StartError {
                frontend: config.name.clone(),
                address,
                error,
            })?);
        }
        let tls = means.tls.as_ref().filter(|_| config.tls);
        let rule = config.matching.clone();
        Ok(Frontend {
            tls: tls.map(|tls| tls.role(&config)),
            matcher: rule.map(|rule| Arc::new(Matcher::new(rule, stack, means.offload))),
            config,
            counters: FrontendCounters::default(),
            listeners,
            held_back: None,
        })
    }

    /// What there is too little of for another connection now.
    pub(super) fn shortage(&self, now: Instant, admission: &mut Admission) -> Option<Shortage> {
        if self.counters.connections_open >= u64::from(self.config.max_connections) {
            return Some(Shortage::Connections);
        }
        (!admission.may_accept(now)).then_some(Shortage::Memory)
    }
}

/// What there is too little of for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// The frontend has as many connections as it may have. Only the end of one changes that.
    Connections,
    /// Memory. Time changes that too.
    Memory,
}
