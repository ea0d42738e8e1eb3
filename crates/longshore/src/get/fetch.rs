//! One request and its response.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use handshake::PskClientConfig;
use host::http::{ContentError, ReadResponseError, ResponseHead};
use host::{CloseReason, Event, Offload, SocketError, SocketId, TlsInfo, TlsRole};
use indicatif::ProgressBar;
use rustls::ClientConfig;

use super::output::Output;
use super::place::Place;
use crate::attach::Attached;
use crate::report;
use crate::signals::{Interrupted, Signals};

/// The content codings that are asked for, the best first.
const ACCEPTED: &str = "zstd, gzip";
/// How often signals are looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The content is written.
    Whole {
        figures: Figures,
        tls: Option<TlsInfo>,
    },
    /// It is elsewhere.
    Redirect(String),
    /// The response has a status that comes without the content.
    Status(ResponseHead),
}

/// Bytes of content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// As they came.
    pub(super) bytes: u64,
    /// What became of them, if they were to be decompressed.
    pub(super) decoded: Option<u64>,
    /// What the NIC has made of that.
    pub(super) by_nic: u64,
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
        let addresses = self.place.addresses(&self.attached.addresses)?;
        let id = first_open(addresses, |address| self.open(address))?;
        let outcome = self.download(id, output);
        let _ = self.attached.runtime.stack().close(Instant::now(), id);
        outcome
    }

    /// Connects, and goes through the TLS handshake.
    fn open(&mut self, address: SocketAddr) -> Result<SocketId> {
        self.bar.set_message(format!("connecting to {address}"));
        let now = Instant::now();
        let connected = self.attached.runtime.stack().connect(now, address);
        let id = connected.map_err(|error| self.explain(error))?;
        let opened = self.establish(id, address);
        if opened.is_err() {
            let _ = self.attached.runtime.stack().abort(Instant::now(), id);
        }
        opened.map(|()| id)
    }

    fn establish(&mut self, id: SocketId, address: SocketAddr) -> Result<()> {
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
        Ok(())
    }

    fn download(&mut self, id: SocketId, output: &mut Output) -> Result<Outcome> {
        let codings = match self.compressed {
            Some(_) => ACCEPTED,
            None => "identity",
        };
        let by_nic = self.offload.receive();
        let stack = self.attached.runtime.stack();
        stack.start_response(id, self.compressed, by_nic)?;
        let request = self.place.request(codings);
        self.send(id, request.as_bytes())?;
        self.bar.set_message("");
        let mut is_judged = false;
        loop {
            let mut writer = Writer::new(output);
            let stack = self.attached.runtime.stack();
            let read = stack.read_response(Instant::now(), id, &mut writer);
            match (read, writer.failed) {
                (_, Some(error)) => return Err(error),
                (Err(ReadResponseError::Socket(SocketError::WouldBlock)), _) => {
                    self.wait_for(id, |event| *event == Event::Readable(id))?;
                    continue;
                }
                (Err(ReadResponseError::Socket(error)), _) => return Err(self.explain(error)),
                (Err(ReadResponseError::Content(error)), _) => return Err(explain_content(error)),
                (Ok(()), None) => {}
            }
            let stack = self.attached.runtime.stack();
            let info = stack.response(id).context("the response is read")?;
            let figures = Figures {
                bytes: info.taken,
                decoded: self.compressed.map(|_| info.made),
                by_nic: info.made_by_nic,
            };
            if let Some(head) = info.head.filter(|_| !is_judged) {
                is_judged = true;
                if let Some(outcome) = judge(head) {
                    return Ok(outcome);
                }
                if let Some(length) = head.content_length {
                    self.bar.set_length(length);
                }
            }
            self.bar.set_position(figures.bytes);
            if info.is_done {
                let tls = self.tls_info(id);
                return Ok(Outcome::Whole { figures, tls });
            }
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
                    bail!(Interrupted);
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

/// What `open` makes of the first address with which it succeeds; else the last error. An interruption is the end.
fn first_open<T>(
    addresses: Vec<SocketAddr>,
    mut open: impl FnMut(SocketAddr) -> Result<T>,
) -> Result<T> {
    let mut last = anyhow!("the host has no address");
    for address in addresses {
        match open(address) {
            Err(error) if !error.is::<Interrupted>() => last = error,
            done => return done,
        }
    }
    Err(last)
}

/// What comes instead of the content, if it does not come.
fn judge(head: &ResponseHead) -> Option<Outcome> {
    match head.status {
        200..=299 => None,
        _ if head.is_redirect() => head.location.clone().map(Outcome::Redirect),
        _ => Some(Outcome::Status(head.clone())),
    }
}

/// The error, with what can be done about it.
fn explain_content(error: ContentError) -> anyhow::Error {
    match error {
        ContentError::TooLarge { taken, limit } => anyhow!(
            "a decompression bomb, or more than is allowed: {} of content become more than {}; raise --max-size if it is meant",
            report::bytes(taken),
            report::bytes(limit)
        ),
        ContentError::Coding(_) => {
            anyhow!("{error}: only {ACCEPTED} were; leave --compressed out")
        }
        error => error.into(),
    }
}

/// An output, which keeps its error.
struct Writer<'a> {
    output: &'a mut Output,
    failed: Option<anyhow::Error>,
}

impl<'a> Writer<'a> {
    fn new(output: &'a mut Output) -> Writer<'a> {
        let failed = None;
        Writer { output, failed }
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.output.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.failed = Some(error);
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_ends_the_search_for_an_address_that_answers() {
        let addresses = [1, 2, 3].map(|host: u8| SocketAddr::from(([10, 9, 0, host], 80)));
        let addresses = addresses.to_vec();
        let found = first_open(addresses.clone(), |address| match address {
            it if it == addresses[0] => bail!("refused"),
            it => Ok(it),
        });
        assert_eq!(found.unwrap(), addresses[1]);
        let mut asked = 0;
        let interrupted = first_open(addresses, |_| -> Result<()> {
            asked += 1;
            Err(anyhow!(Interrupted).context("no connection"))
        });
        assert!(interrupted.unwrap_err().is::<Interrupted>());
        assert_eq!(asked, 1);
    }
}
