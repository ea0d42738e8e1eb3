//! One request and its response.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use handshake::PskClientConfig;
use host::{CloseReason, Event, Offload, SocketError, SocketId, TlsInfo, TlsRole};
use indicatif::ProgressBar;
use rustls::ClientConfig;

use super::decode::{ACCEPTED, Decoder};
use super::output::Output;
use super::place::Place;
use crate::attach::Attached;
use crate::http::client::{Download, Progress, ResponseHead};
use crate::signals::Signals;

/// How often signals are looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The content is written.
    Whole {
        bytes: u64,
        /// What became of them, if they were to be decompressed.
        decoded: Option<u64>,
        tls: Option<TlsInfo>,
    },
    /// It is elsewhere.
    Redirect(String),
    /// There is none.
    Status(ResponseHead),
}

/// How to secure a connection.
#[derive(Clone)]
pub(super) enum Tls {
    Certificates(Arc<ClientConfig>),
    PreShared(Arc<PskClientConfig>),
}

pub(super) struct Fetch<'a> {
    pub(super) attached: &'a mut Attached,
    pub(super) place: &'a Place,
    pub(super) tls: Tls,
    pub(super) offload: Offload,
    /// Without a byte from the server.
    pub(super) patience: Duration,
    /// Asks for compressed content, which may become so many bytes.
    pub(super) compressed: Option<u64>,
    pub(super) signals: &'a Signals,
    pub(super) bar: &'a ProgressBar,
}

impl Fetch<'_> {
    /// Asks each address of the host until one answers.
    pub(super) fn run(&mut self, output: &mut Output) -> Result<Outcome> {
        let mut last = None;
        for address in self.place.addresses(&self.attached.addresses)? {
            match self.open(address) {
                Ok(id) => {
                    let outcome = self.download(id, output);
                    let _ = self.attached.runtime.stack().close(Instant::now(), id);
                    return outcome;
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("a place has at least one address"))
    }

    /// Connects, and goes through the TLS handshake.
    fn open(&mut self, address: SocketAddr) -> Result<SocketId> {
        self.bar.set_message(format!("connecting to {address}"));
        let now = Instant::now();
        let connected = self.attached.runtime.stack().connect(now, address);
        let id = connected.map_err(|error| self.explain(error))?;
        self.wait_for(id, |event| *event == Event::Connected(id))
            .with_context(|| format!("no connection to {address}"))?;
        if self.place.is_https() {
            let role = match &self.tls {
                Tls::Certificates(config) => TlsRole::Client {
                    config: config.clone(),
                    name: self.place.server_name()?,
                },
                Tls::PreShared(config) => TlsRole::PskClient {
                    config: config.clone(),
                },
            };
            let stack = self.attached.runtime.stack();
            stack.start_tls(Instant::now(), id, role, self.offload)?;
            self.wait_for(id, |event| *event == Event::Secured(id))
                .with_context(|| format!("no TLS session with {}", self.place.url()))?;
        }
        Ok(id)
    }

    fn download(&mut self, id: SocketId, output: &mut Output) -> Result<Outcome> {
        let codings = match self.compressed {
            Some(_) => ACCEPTED,
            None => "identity",
        };
        let request = self.place.request(codings);
        self.send(id, request.as_bytes())?;
        self.bar.set_message("");
        let mut response = Download::new();
        let mut output = Some(output);
        let mut content: Option<Decoder<'_>> = None;
        let mut bytes = 0;
        let tls = loop {
            let chunk = match self.attached.runtime.stack().read_chunk(Instant::now(), id) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    response.handle_end()?;
                    break self.tls_info(id);
                }
                Err(SocketError::WouldBlock) => {
                    self.wait_for(id, |event| *event == Event::Readable(id))?;
                    continue;
                }
                Err(error) => return Err(self.explain(error)),
            };
            let mut rest: &[u8] = &chunk;
            while !rest.is_empty() && !response.is_done() {
                let (used, progress) = response.advance(rest)?;
                match progress {
                    Progress::Content => {
                        if let Some(content) = &mut content {
                            content.write(&rest[..used])?;
                        }
                        bytes += used as u64;
                    }
                    Progress::Head(new) => {
                        if let Some(outcome) = self.judge(&new) {
                            return Ok(outcome);
                        }
                        if let Some(length) = new.content_length {
                            self.bar.set_length(length);
                        }
                        if let Some(output) = output.take() {
                            let coding = new.content_encoding.as_deref();
                            content = Some(Decoder::new(coding, self.compressed, output)?);
                        }
                    }
                    Progress::Framing | Progress::Done => {}
                }
                rest = &rest[used..];
            }
            self.bar.set_position(bytes);
            if response.is_done() {
                break self.tls_info(id);
            }
        };
        match content {
            Some(content) => {
                let (bytes, decoded) = content.finish()?;
                Ok(Outcome::Whole {
                    bytes,
                    decoded: self.compressed.map(|_| decoded),
                    tls,
                })
            }
            None => bail!(
                "{} closed the connection without an answer",
                self.place.url()
            ),
        }
    }

    fn judge(&self, head: &ResponseHead) -> Option<Outcome> {
        match head.status {
            200..=299 => None,
            _ if head.is_redirect() => head.location.clone().map(Outcome::Redirect),
            _ => Some(Outcome::Status(head.clone())),
        }
    }

    fn tls_info(&mut self, id: SocketId) -> Option<TlsInfo> {
        self.attached.runtime.stack().info(id)?.tls
    }

    fn send(&mut self, id: SocketId, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self
                .attached
                .runtime
                .stack()
                .write(Instant::now(), id, bytes)
            {
                Ok(len) => bytes = &bytes[len..],
                Err(SocketError::WouldBlock) => {
                    self.wait_for(id, |event| *event == Event::Writable(id))?;
                }
                Err(error) => return Err(self.explain(error)),
            }
        }
        Ok(())
    }

    /// Runs the stack until the event comes.
    fn wait_for(&mut self, id: SocketId, mut is_it: impl FnMut(&Event) -> bool) -> Result<()> {
        let deadline = Instant::now() + self.patience;
        let mut look_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look_at {
                look_at = now + LOOK;
                if self.signals.received() {
                    bail!("interrupted");
                }
            }
            let progress = self.attached.runtime.poll(now)?;
            while let Some(event) = self.attached.runtime.stack().poll_event() {
                if is_it(&event) {
                    return Ok(());
                }
                match event {
                    // What came before the end is still to be read: reading tells of the end itself.
                    Event::Closed(closed, CloseReason::Graceful | CloseReason::Truncated)
                        if closed == id && is_it(&Event::Readable(id)) =>
                    {
                        return Ok(());
                    }
                    Event::Closed(closed, reason) if closed == id => {
                        return Err(self.explain(SocketError::Closed(reason)));
                    }
                    _ => {}
                }
            }
            if now >= deadline {
                bail!(
                    "{} has not answered for {} s; raise --timeout if it is slow",
                    self.place.url(),
                    self.patience.as_secs()
                );
            }
            if !progress {
                let fds = [self.signals.as_fd()];
                if self.attached.runtime.wait(now, Some(deadline), &fds)? {
                    look_at = now;
                }
            }
        }
    }

    /// The error, with what can be done about it.
    fn explain(&self, error: SocketError) -> anyhow::Error {
        let reason = match error {
            SocketError::Closed(reason) => reason,
            SocketError::NoRoute(_) => return anyhow!("{error}; see --ip and --gateway"),
            error => return error.into(),
        };
        let text = reason.to_string();
        let remedy = match reason {
            CloseReason::Refused => "is a server listening on that port?",
            CloseReason::TimedOut | CloseReason::Unreachable => {
                "has the other end of the TAP an address of that network, and is it up?"
            }
            _ if text.contains("certificate") => {
                "give --ca the file of its authority, or --insecure to accept it"
            }
            _ => return anyhow!(text),
        };
        anyhow!("{text}; {remedy}")
    }
}
