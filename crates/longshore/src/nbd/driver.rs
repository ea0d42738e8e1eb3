//! Runs clients on a stack of ours.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use handshake::{Options as TlsOptions, client_config};
use host::nbd::{Client, Event, Failure, Options};
use host::{Offload, TlsRole};

use super::options::Peer;
use super::uri::Uri;
use crate::attach::{Attached, Connections, attach};
use crate::get::trust;
use crate::signals::Signals;

/// How often signals are looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// A stack on the wire, and the connections on it.
pub(super) struct Driver {
    pub(super) attached: Attached,
    /// In the order of their connecting.
    pub(super) clients: Vec<Connection>,
    signals: Signals,
    look_at: Instant,
}

/// One connection, by its name.
pub(super) struct Connection {
    pub(super) uri: Uri,
    pub(super) client: Client,
}

impl Driver {
    pub(super) fn new(peer: &Peer) -> Result<Driver> {
        let signals = Signals::block()?;
        Ok(Driver {
            attached: attach(&peer.wire, &Connections::default())?,
            clients: Vec::new(),
            signals,
            look_at: Instant::now(),
        })
    }

    /// Connects to an export, and waits until it is ready; gives its place among the clients.
    pub(super) fn connect(&mut self, peer: &Peer, uri: &Uri) -> Result<usize> {
        let address = uri.address(&self.attached.addresses)?;
        let offload: Offload = peer.wire.offload.into();
        let options = Options {
            tls: self.tls(peer, uri)?,
            tls_offload: offload,
            placement: offload.receive(),
            map_threshold: peer.map_threshold,
            depth: peer.depth,
            ..Options::new(address, uri.export())
        };
        let at = self.clients.len();
        self.clients.push(Connection {
            uri: uri.clone(),
            client: Client::new(Instant::now(), options),
        });
        let deadline = Instant::now() + Duration::from_secs(peer.timeout.max(1));
        loop {
            let progress = self.turn()?;
            match self.clients[at].client.poll_event() {
                Some(Event::Ready(_)) => return Ok(at),
                Some(Event::Ended(failure)) => {
                    let failure = failure.map_or_else(|| anyhow!("it ended"), |it| explain(&it));
                    return Err(failure.context(format!("can't connect to {uri}")));
                }
                None => {}
            }
            if Instant::now() >= deadline {
                bail!(
                    "{uri} has not answered for {} s; is it up, and on that network?",
                    peer.timeout
                );
            }
            if !progress {
                self.wait(Some(deadline))?;
            }
        }
    }

    fn tls(&self, peer: &Peer, uri: &Uri) -> Result<Option<TlsRole>> {
        if !uri.secures() {
            return Ok(None);
        }
        let options = TlsOptions {
            key_log: self.attached.key_log.clone(),
            ..TlsOptions::default()
        };
        let trust = trust(peer.insecure, peer.ca.as_deref(), true)?;
        Ok(Some(TlsRole::Client {
            config: client_config(trust, &options)?,
            name: uri.server_name()?,
        }))
    }

    /// Does what there is to do. Whether that was anything.
    ///
    /// # Errors
    /// When the user has interrupted, or the stack has failed.
    pub(super) fn turn(&mut self) -> Result<bool> {
        let now = Instant::now();
        if now >= self.look_at {
            self.look_at = now + LOOK;
            if self.signals.received() {
                bail!("interrupted");
            }
        }
        self.turn_regardless(now)
    }

    fn turn_regardless(&mut self, now: Instant) -> Result<bool> {
        let runtime = &mut self.attached.runtime;
        let mut progress = runtime.poll(now)?;
        while let Some(event) = runtime.stack().poll_event() {
            progress = true;
            for connection in &mut self.clients {
                if connection.client.handle_event(now, runtime.stack(), &event) {
                    break;
                }
            }
        }
        for connection in &mut self.clients {
            progress |= connection.client.poll(now, runtime.stack());
        }
        Ok(progress)
    }

    /// Fails when a connection that is in use has ended.
    pub(super) fn check(&mut self, at: usize) -> Result<()> {
        let Connection { uri, client } = &mut self.clients[at];
        match client.poll_event() {
            Some(Event::Ended(Some(failure))) => {
                Err(explain(&failure)).with_context(|| format!("lost {uri}"))
            }
            _ => Ok(()),
        }
    }

    /// Sleeps until there is something to do.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        let now = Instant::now();
        let clients = self.clients.iter();
        let timers = clients.filter_map(|connection| connection.client.poll_timeout());
        let timeout = timers.chain(until).min();
        let fds = [self.signals.as_fd()];
        if self.attached.runtime.wait(now, timeout, &fds)? {
            self.look_at = now;
        }
        Ok(())
    }

    /// Does something with the connections; says goodbye on all of them, whatever came of it, and ends the stack.
    pub(super) fn with<R>(self, act: impl FnOnce(&RefCell<Driver>) -> Result<R>) -> Result<R> {
        let driver = RefCell::new(self);
        let done = act(&driver);
        let ended = driver.into_inner().end();
        let done = done?;
        ended.map(|()| done)
    }

    fn end(mut self) -> Result<()> {
        let until = Instant::now() + FAREWELL;
        for connection in &mut self.clients {
            connection.client.shutdown();
        }
        loop {
            let progress = self.turn_regardless(Instant::now())?;
            let mut clients = self.clients.iter();
            if clients.all(|connection| connection.client.is_ended()) || Instant::now() >= until {
                break;
            }
            if !progress {
                self.wait(Some(until))?;
            }
        }
        // What closes the connections is sent.
        self.turn_regardless(Instant::now())?;
        Ok(self.attached.runtime.shutdown(Instant::now())?)
    }
}

/// A failure, with what can be done about it.
fn explain(failure: &Failure) -> anyhow::Error {
    let text = failure.to_string();
    let remedy = match failure {
        Failure::Transport(reason) if reason.contains("refused") => {
            "is a server listening on that port?"
        }
        Failure::Transport(reason)
            if ["unreachable", "timed out"]
                .iter()
                .any(|word| reason.contains(word)) =>
        {
            "is it up, and on that network?"
        }
        Failure::Transport(reason) if reason.contains("certificate") => {
            "give --ca the file of its authority, or --insecure to accept it"
        }
        Failure::Handshake(error) if error.to_string().contains("requires TLS") => {
            "give an nbds:// URI"
        }
        Failure::Handshake(error) if error.to_string().contains("does not do TLS") => {
            "give an nbd:// URI if it may go in clear"
        }
        _ => return anyhow!(text),
    };
    anyhow!("{text}; {remedy}")
}
