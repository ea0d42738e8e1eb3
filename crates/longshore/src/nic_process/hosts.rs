//! The NIC's hosts: Linux, behind one TAP interface each.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use attachment::Errno;
use linux::{Config, KernelSockets, LinuxFunction, SocketAt, Sockets, StateConfig};
use nic::{FunctionId, Nic};
use port::Port;
use port::tap::{OpenError, Tap, TapConfig};
use wire::FlowKey;
use wire::ethernet::MacAddr;

use super::meter::{Meter, Part};
use super::options::TapOption;
use super::state::State;
use crate::attach::secret;
use crate::meta::{from_port, to_port};

/// Frames, and their bytes, that are taken from one host before it is the next one's turn. So many bytes stay in a core's cache.
const BATCH: (usize, usize) = (64, 256 << 10);

/// Linux, with its interface and the driver of its function.
#[derive(Debug)]
pub struct Host {
    tap: Tap,
    /// The interface's index; 0 if Linux can't be asked about its sockets.
    interface: u32,
    id: FunctionId,
    function: LinuxFunction,
    /// The last frame of a batch was the last one there was.
    drained: bool,
}

impl Host {
    /// Opens the interface and adds a function to the NIC.
    ///
    /// # Errors
    /// When we may not, or something else has the interface; the message says what to do.
    pub fn open(
        option: &TapOption,
        nic: &mut Nic,
        interfaces: &mut Interfaces<'_>,
        retain: u64,
    ) -> Result<Host> {
        let tap = interfaces.open_tap(&option.tap, TapConfig::default())?;
        for cidr in &option.addresses {
            tap.add_ip(cidr.address, cidr.prefix)
                .with_context(|| format!("can't add {cidr} to {}", option.tap))?;
        }
        let (mtu, most) = (tap.capabilities().mtu, nic.config().mtu);
        if mtu > most {
            tracing::warn!(
                "{} has MTU {mtu}, the wire {most}; run: ip link set {} mtu {most}",
                option.tap,
                option.tap
            );
        }
        let config = Config::default();
        let address = tap
            .address()
            .context("can't read the interface's MAC address")?;
        let (host, device) = nic::ring::function(config.function(MacAddr(address)));
        let id = nic
            .attach(device)
            .with_context(|| format!("the NIC can't add {} as a host", option.tap))?;
        let file = interfaces.state.connections(&option.tap)?;
        let sizes = StateConfig {
            retain,
            ..StateConfig::default()
        };
        let state = linux::State::open(&file, sizes)
            .with_context(|| format!("can't use the state of {}", option.tap))?;
        let secret = u128::from_ne_bytes(secret()?);
        let (now, secret) = (Instant::now(), ((secret >> 64) as u64, secret as u64));
        let (interface, sockets) = sockets(&option.tap);
        let function = LinuxFunction::new(now, host, &config, &state, sockets, secret);
        Ok(Host {
            tap,
            interface,
            id,
            function: function.with_context(|| {
                format!(
                    "can't list the sockets that are bound to {}, whose state is new",
                    option.tap
                )
            })?,
            drained: false,
        })
    }

    /// The interface.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// The interface's index, by which facts of sockets name it.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// What the NIC knows the function by.
    pub fn id(&self) -> FunctionId {
        self.id
    }

    /// The function's driver.
    pub fn function(&self) -> &LinuxFunction {
        &self.function
    }

    /// The function's driver, for what libraries ask of it.
    pub fn function_mut(&mut self) -> &mut LinuxFunction {
        &mut self.function
    }

    /// Takes a batch of frames from Linux and shows them to the NIC. Gives their number.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn take_frames(&mut self, now: Instant, meter: &mut Meter) -> io::Result<usize> {
        meter.switch(Part::Driver);
        if self.function.poll_timeout().is_some_and(|due| due <= now) {
            self.function.handle_timeout(now);
        }
        let (mut frames, mut bytes) = (0, 0);
        self.drained = false;
        while frames < BATCH.0 && bytes < BATCH.1 {
            let Some(room) = self.function.room() else {
                break;
            };
            meter.switch(Part::HostRead);
            let read = self.tap.read_frame(room.frame, room.beyond)?;
            meter.switch(Part::Driver);
            let Some((len, meta)) = read else {
                self.drained = true;
                break;
            };
            self.function.handle_read(now, len, from_port(meta));
            frames += 1;
            bytes += len;
        }
        self.function.publish();
        Ok(frames)
    }

    /// Gives Linux all that the NIC has for it. Gives the number of frames.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn give_frames(&mut self, now: Instant, meter: &mut Meter) -> io::Result<usize> {
        let mut frames = 0;
        meter.switch(Part::Driver);
        while let Some((frame, meta)) = self.function.poll_frame(now) {
            meter.switch(Part::HostWrite);
            self.tap.write_frame(frame, to_port(meta))?;
            meter.switch(Part::Driver);
            frames += 1;
        }
        self.function.publish();
        Ok(frames)
    }

    /// What becomes readable when Linux sends; nothing while the NIC has no room for that.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.tap.fd().filter(|_| self.drained)
    }

    /// When to look at it although nothing comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.function.poll_timeout()
    }
}

/// Removes an interface that the NIC has made, and forgets it. That this fails is logged.
pub fn remove(name: &str, state: &State) {
    let tap = open_any(name, TapConfig::default());
    match tap.map(|tap| tap.set_persistent(false)) {
        Ok(Ok(())) => state.forget(name),
        Ok(Err(error)) => tracing::warn!("can't remove {name}: {error}; run: ip link del {name}"),
        Err(error) => tracing::warn!("can't remove {name}: {error}; run: ip link del {name}"),
    }
}

/// Opens an interface that may have been made for several queues, by a NIC on more cores.
///
/// # Errors
/// As [`Tap::open`].
fn open_any(name: &str, config: TapConfig) -> Result<Tap, OpenError> {
    Tap::open(name, config).or_else(|error| match error {
        OpenError::NotATap { .. } => match Tap::open_queues(name, config, 1) {
            Ok(mut queues) => Ok(queues.remove(0)),
            Err(_) => Err(error),
        },
        error => Err(error),
    })
}

/// How Linux is asked about the sockets behind an interface, and its index.
fn sockets(interface: &str) -> (u32, Box<dyn Sockets>) {
    match KernelSockets::new(interface) {
        Ok(sockets) => (sockets.interface(), Box::new(sockets)),
        Err(error) => {
            tracing::warn!(
                "this kernel has no socket diagnostics for {interface} ({error}): software makes the TLS records"
            );
            (0, Box::new(UnknownSockets))
        }
    }
}

/// Of a kernel that can't tell: no connection is the NIC's.
#[derive(Debug)]
struct UnknownSockets;

impl Sockets for UnknownSockets {
    fn look_up(&mut self, _: &FlowKey) -> Result<Option<SocketAt>, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
        Ok(Vec::new())
    }
}

/// Opens TAP interfaces so that they stay when this process dies.
#[derive(Debug)]
pub struct Interfaces<'a> {
    state: &'a State,
    opened: Vec<String>,
    /// Those of them that were not there before.
    made: Vec<String>,
}

impl<'a> Interfaces<'a> {
    /// None are open.
    pub fn new(state: &'a State) -> Interfaces<'a> {
        Interfaces {
            state,
            opened: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Opens an interface, or makes it, and sets it up.
    ///
    /// # Errors
    /// When we may not, or something else has it.
    pub fn open_tap(&mut self, name: &str, config: TapConfig) -> Result<Tap> {
        Ok(self.open_queues(name, config, 1)?.remove(0))
    }

    /// The same, with so many queues.
    ///
    /// # Errors
    /// As there.
    pub fn open_queues(&mut self, name: &str, config: TapConfig, count: u16) -> Result<Vec<Tap>> {
        if self.opened.iter().any(|opened| opened == name) {
            bail!("{name} is given twice; give each --host and --wire an interface of its own");
        }
        let is_new = !Tap::exists(name);
        let queues = match count {
            1 if self.state.has_made(name) => vec![open_any(name, config)?],
            1 => vec![Tap::open(name, config)?],
            _ => Tap::open_queues(name, config, count).map_err(|error| match error {
                OpenError::NoQueues { .. } if self.state.has_made(name) => anyhow!(
                    "{name} was made by a NIC on one core; for several, run first: ip link del {name}"
                ),
                error => error.into(),
            })?,
        };
        let tap = &queues[0];
        if is_new {
            self.state.note_made(name)?;
            self.made.push(name.to_owned());
            self.keep_address(tap)
                .with_context(|| format!("can't set the MAC address of {name}"))?;
            tap.set_persistent(true)
                .with_context(|| format!("can't make {name} persistent"))?;
        }
        if let Err(error) = tap.set_up() {
            tracing::warn!("can't set {name} up: {error}; run: ip link set {name} up");
        }
        self.opened.push(name.to_owned());
        Ok(queues)
    }

    /// Gives an interface that was made just now the address that it had before, or remembers that which it has.
    fn keep_address(&self, tap: &Tap) -> Result<()> {
        match self.state.address(tap.name()) {
            Some(address) => tap.set_address(address)?,
            None => self.state.note_address(tap.name(), tap.address()?)?,
        }
        Ok(())
    }

    /// Removes the interfaces that this process has made, and closed. To be called when it can't begin.
    pub fn undo(&self) {
        self.made.iter().for_each(|name| remove(name, self.state));
    }
}
