//! Runs an initiator: on a stack of ours, or on Linux's TCP.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use handshake::PskClientConfig;
use handshake::nvme_psk::Keys;
use host::nvme::PduOffload;
use host::nvme::initiator::{self as on_stack, Config, Event, Failure, Namespace, Reconnect};
use host::{Offload, TlsRole};
use wire::nvme::{FatalErrorStatus, Nqn};

use super::identity::Identity;
use super::initiator::Initiator;
use super::options::{Disk, Peer};
use super::transport::Transport;
use crate::attach::{Attached, Connections, attach};
use crate::secret_file;
use crate::signals::{Interrupted, Signals};

/// How often signals are looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(6);

/// TCP ports by IANA.
pub(super) const IO_PORT: u16 = 4420;
pub(super) const DISCOVERY_PORT: u16 = 8009;

/// What initiators run on, and what was asked of us meanwhile.
pub(super) struct Driver {
    /// A stack on the wire; `None` on Linux's TCP.
    attached: Option<Attached>,
    pub(super) identity: Identity,
    signals: Signals,
    look_at: Instant,
    keys: Option<Keys>,
}

impl Driver {
    /// Gets everything ready that can be wrong before a packet is sent.
    pub(super) fn new(peer: &Peer) -> Result<Driver> {
        let signals = Signals::block()?;
        let identity = Identity::of(peer)?;
        let keys = peer.psk.as_deref().map(|path| {
            let text = secret_file::read(path, "--psk")?;
            let keys = text.parse::<Keys>();
            keys.with_context(|| format!("{} is not a file of PSKs; see --psk", path.display()))
        });
        let keys = keys.transpose()?;
        Ok(Driver {
            attached: match &peer.transport {
                Transport::Ours(wire) => Some(attach(wire, &Connections::default())?),
                Transport::Linux { nic } => {
                    nic.as_deref().map_or(Ok(()), crate::waiting::check_nic)?;
                    None
                }
            },
            identity,
            signals,
            look_at: Instant::now(),
            keys,
        })
    }

    /// A connection to a subsystem with I/O queues.
    pub(super) fn connect_disk(&mut self, disk: &Disk) -> Result<Initiator> {
        let identity = self.identity;
        let config = Config {
            io_queues: disk.queues,
            depth: disk.depth,
            outstanding: u32::from(disk.queues) * u32::from(disk.depth) * 2,
            retries: disk.retries,
            reconnect: (disk.retries > 0).then(Reconnect::default),
            ..Config::new(disk.nqn, identity.nqn, identity.id)
        };
        let address = disk.peer.address.with_port(IO_PORT);
        self.connect(&disk.peer, config, address, disk.map_threshold)
    }

    /// The stack of ours.
    ///
    /// # Errors
    /// When it is Linux's.
    pub(super) fn attached(&mut self) -> Result<&mut Attached> {
        let attached = self.attached.as_mut();
        attached.ok_or_else(|| anyhow!("this needs longshore's own TCP; leave --kernel out"))
    }

    /// Connects, and waits until it is ready.
    pub(super) fn connect(
        &mut self,
        peer: &Peer,
        config: Config,
        address: SocketAddr,
        map_threshold: u32,
    ) -> Result<Initiator> {
        let subsystem = config.subsystem;
        let config = Config {
            digests: peer.digest.into(),
            keep_alive: match config.keep_alive {
                Duration::ZERO => Duration::ZERO,
                _ => Duration::from_secs(peer.keep_alive),
            },
            setup_timeout: Duration::from_secs(peer.timeout),
            ..config
        };
        let mut initiator = self.initiator(peer, config, address, map_threshold)?;
        loop {
            let progress = self.turn(&mut initiator)?;
            while let Some(event) = initiator.poll_event() {
                match event {
                    Event::Ready => return Ok(initiator),
                    Event::Ended(Some(failure)) => {
                        let what = format!("can't connect to {subsystem} at {address}");
                        return Err(explain(&failure).context(what));
                    }
                    _ => {}
                }
            }
            if !progress {
                self.wait(&mut initiator, &[])?;
            }
        }
    }

    fn initiator(
        &self,
        peer: &Peer,
        config: Config,
        address: SocketAddr,
        map_threshold: u32,
    ) -> Result<Initiator> {
        let now = Instant::now();
        let wire = match &peer.transport {
            Transport::Ours(wire) => wire,
            Transport::Linux { nic } => {
                let options = kernel_nvme::Options {
                    nic: nic.clone(),
                    map_threshold,
                    ..kernel_nvme::Options::new(address)
                };
                let initiator = kernel_nvme::Initiator::new(now, config, options)?;
                return Ok(Initiator::Linux(Box::new(initiator)));
            }
        };
        let offload: Offload = wire.offload.into();
        let options = on_stack::Options {
            tls: self.tls(peer, &config.subsystem)?,
            tls_offload: offload,
            offload: nvme_offload(offload),
            map_threshold,
            ..on_stack::Options::new(address)
        };
        let initiator = on_stack::Initiator::new(now, config, options);
        Ok(Initiator::Ours(Box::new(initiator)))
    }

    /// Does what there is to do. Whether that was anything.
    ///
    /// # Errors
    /// When we were asked to end, or the device's thread has failed.
    pub(super) fn turn(&mut self, initiator: &mut Initiator) -> Result<bool> {
        let now = Instant::now();
        if now >= self.look_at {
            self.look_at = now + LOOK;
            if self.signals.received() {
                bail!(Interrupted);
            }
        }
        self.turn_regardless(now, initiator)
    }

    fn turn_regardless(&mut self, now: Instant, initiator: &mut Initiator) -> Result<bool> {
        let initiator = match initiator {
            Initiator::Linux(initiator) => return Ok(initiator.poll(now)),
            Initiator::Ours(initiator) => initiator,
        };
        let runtime = &mut self.attached()?.runtime;
        let mut progress = runtime.poll(now)?;
        while let Some(event) = runtime.stack().poll_event() {
            progress = true;
            initiator.handle_event(now, runtime.stack(), &event);
        }
        progress |= initiator.poll(now, runtime.stack());
        Ok(progress)
    }

    /// Waits for something to do; also for one of `fds` to be readable.
    pub(super) fn wait(&mut self, initiator: &mut Initiator, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let now = Instant::now();
        if self.sleep(now, None, initiator, fds)? {
            self.look_at = now;
        }
        Ok(())
    }

    /// Sleeps until there is something to do. Whether that may be a signal.
    fn sleep(
        &mut self,
        now: Instant,
        until: Option<Instant>,
        initiator: &mut Initiator,
        fds: &[BorrowedFd<'_>],
    ) -> Result<bool> {
        let mut wanted = vec![self.signals.as_fd()];
        wanted.extend_from_slice(fds);
        match initiator {
            Initiator::Linux(initiator) => {
                initiator.wait(now, until, &wanted)?;
                Ok(true)
            }
            Initiator::Ours(initiator) => {
                let timers = [initiator.poll_timeout(), until];
                let timeout = timers.into_iter().flatten().min();
                let attached = self.attached.as_mut();
                let attached = attached.ok_or_else(|| anyhow!("the stack has gone"))?;
                Ok(attached.runtime.wait(now, timeout, &wanted)?)
            }
        }
    }

    /// Takes in the events of a controller that is in use, and tells the user.
    pub(super) fn take_events(&mut self, initiator: &mut Initiator) -> Result<()> {
        while let Some(event) = initiator.poll_event() {
            match event {
                Event::Lost(failure) => eprintln!("longshore: {failure}; connecting again"),
                Event::Ready => eprintln!("longshore: connected again"),
                Event::NamespaceReplaced(nsid) => {
                    let error = l5p::nvme::initiator::SubmitError::Replaced(nsid);
                    eprintln!("longshore: {error}");
                }
                Event::Ended(Some(failure)) => return Err(explain(&failure)),
                other => tracing::info!(?other, "the controller tells"),
            }
        }
        Ok(())
    }

    /// Says goodbye to a controller.
    pub(super) fn disconnect(&mut self, mut initiator: Initiator) -> Result<()> {
        let until = Instant::now() + FAREWELL;
        initiator.shutdown(Instant::now());
        loop {
            let now = Instant::now();
            let progress = self.turn_regardless(now, &mut initiator)?;
            let ended = std::iter::from_fn(|| initiator.poll_event())
                .any(|event| matches!(event, Event::Ended(_)));
            if ended || now >= until {
                // What closes the connections is sent.
                self.turn_regardless(now, &mut initiator)?;
                return Ok(());
            }
            if !progress {
                self.sleep(now, Some(until), &mut initiator, &[])?;
            }
        }
    }

    /// Ends the stack.
    pub(super) fn end(self) -> Result<()> {
        match self.attached {
            Some(attached) => Ok(attached.runtime.shutdown(Instant::now())?),
            None => Ok(()),
        }
    }

    fn tls(&self, peer: &Peer, subsystem: &Nqn) -> Result<Option<TlsRole>> {
        let Some(keys) = &self.keys else {
            return Ok(None);
        };
        let host = &self.identity.nqn;
        let key = keys.for_host(host).ok_or_else(|| {
            anyhow!("the file of --psk has no key for host {host}; add one, or give --hostnqn the name that has one")
        })?;
        let psk = key.tls_psk(peer.psk_identity, host, subsystem, peer.derivation())?;
        let attached = self.attached.as_ref();
        let key_log = attached.and_then(|attached| attached.key_log.clone());
        let config = PskClientConfig::new(psk, key_log)?;
        Ok(Some(TlsRole::PskClient { config }))
    }
}

/// The namespace that was asked for, or the first one.
pub(super) fn choose_namespace(disk: &Disk, initiator: &Initiator) -> Result<Namespace> {
    let namespaces = initiator.controller().namespaces();
    let known = || {
        let nsids: Vec<String> = namespaces.iter().map(|ns| ns.nsid.to_string()).collect();
        match nsids.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}; see --ns", nsids.join(", ")),
        }
    };
    let found = match disk.namespace {
        Some(nsid) => namespaces.iter().find(|ns| ns.nsid == nsid),
        None => namespaces.iter().find(|ns| ns.is_usable()),
    };
    let Some(namespace) = found else {
        let which = disk
            .namespace
            .map_or("usable namespace".to_owned(), |nsid| {
                format!("namespace {nsid}")
            });
        bail!("{} has no {which}; {}", disk.nqn, known());
    };
    if let Some(what) = namespace.unusable() {
        bail!(
            "namespace {} has {what}, and cannot be used here; choose another with --ns",
            namespace.nsid
        );
    }
    Ok(*namespace)
}

pub(super) fn nvme_offload(offload: Offload) -> PduOffload {
    let receive = matches!(offload, Offload::Rx | Offload::Both);
    PduOffload {
        placement: receive,
        receive_digest: receive,
        transmit_digest: matches!(offload, Offload::Tx | Offload::Both),
    }
}

/// A failure, with what can be done about it.
pub(super) fn explain(failure: &Failure) -> anyhow::Error {
    let text = failure.to_string();
    let remedy = match failure {
        Failure::Transport { reason, .. } if reason.contains("refused") => {
            "is a target listening on that port?"
        }
        Failure::Transport { reason, .. }
            if ["unreachable", "timed out", "No route"]
                .iter()
                .any(|word| reason.contains(word)) =>
        {
            "is it up, and on that network?"
        }
        Failure::Transport { reason, .. }
            if ["PSK identity", "does not speak TLS"]
                .iter()
                .any(|words| reason.contains(words)) =>
        {
            "does the target use TLS with this key? See --psk and --hostnqn"
        }
        Failure::TimedOut { .. } => {
            "is it up, on that network, and with the same --psk? See --timeout"
        }
        Failure::Protocol { .. } => "if it requires digests, see --digest",
        Failure::Terminated { error, .. }
            if error.fes == FatalErrorStatus::UNSUPPORTED_PARAMETER =>
        {
            "if it requires digests, give --digest both"
        }
        _ => return anyhow!(text),
    };
    anyhow!("{text}; {remedy}")
}
