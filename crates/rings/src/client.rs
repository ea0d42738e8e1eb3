//! The host's side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use attachment::dial;
use attachment::peer::{self, Untrusted};
use nic::Features;
use nic::ring::{FunctionConfig, HostFunction, Regions, Sharing};
use rustix::io::{Errno, write};
use rustix::net::{RecvFlags, recv};

use crate::memory;
use crate::message::{Answer, Identity, Refusal, Request};
use crate::share::{Failure, Line};

/// How long the NIC's process may take for an answer before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no function.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no such socket.
    #[error(
        "{0} does not exist; start the NIC with `longshore nic --host rings:{0} …`, or give --nic its path"
    )]
    NoSocket(PathBuf),
    /// No process listens there.
    #[error("no NIC listens at {0}; start one with `longshore nic --host rings:{0} …`")]
    NobodyListens(PathBuf),
    /// This user may not connect.
    #[error(
        "permission denied to connect to {0}; run as the user that started the NIC, or `chown` the socket"
    )]
    NotAllowed(PathBuf),
    /// The listener's user may not have descriptors. Nothing was sent.
    #[error("can't trust the socket {0}: {1}")]
    Untrusted(PathBuf, Untrusted),
    /// The NIC refused.
    #[error("the NIC at {0} refused: {1}")]
    Refused(PathBuf, Refusal),
    /// No answer came, or not one of a NIC's.
    #[error(
        "no answer from the NIC at {0}: {1}; give --nic the socket of --host rings:SOCKET, not of --control"
    )]
    NoAnswer(PathBuf, Errno),
    /// The next NIC has given another address, or its wire has another MTU.
    #[error("the NIC at {0} restarted with another address or MTU; restart this program")]
    Changed(PathBuf),
    /// The system refused.
    #[error("can't use the NIC at {0}: {1}")]
    System(PathBuf, Errno),
}

/// A function of a NIC in another process.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    config: FunctionConfig,
    identity: Option<Identity>,
    mtu: u16,
    rings: OwnedFd,
    line: Arc<Line>,
    regions: Arc<Regions>,
    bells: Option<Bells>,
}

/// While there is a NIC.
#[derive(Debug)]
struct Bells {
    /// Where the NIC is heard.
    ours: OwnedFd,
    /// What wakes the NIC.
    nics: OwnedFd,
}

impl Client {
    /// Gets a function of these sizes from the NIC at `path`, which gives it its address. It has those of the features that the
    /// NIC offers.
    ///
    /// # Errors
    /// When there is no function; the message says what to do.
    ///
    /// # Panics
    /// When the settings [can't be](FunctionConfig::check).
    pub fn connect(
        path: &Path,
        config: FunctionConfig,
    ) -> Result<(Client, HostFunction), ConnectError> {
        let system = |error| ConnectError::System(path.to_path_buf(), error);
        let bytes = config.block_bytes();
        let rings = memory::create(bytes as u64).map_err(system)?;
        let block = Arc::new(memory::map_block(rings.as_fd(), bytes).map_err(system)?);
        let line = Arc::new(Line::default());
        let sharing: Arc<dyn Sharing> = line.clone();
        let mut client = Client {
            path: path.to_path_buf(),
            config,
            identity: None,
            mtu: 0,
            rings,
            line,
            regions: Arc::new(Regions::shared_by(sharing)),
            bells: None,
        };
        let socket = client.dial()?;
        client.agree(socket)?;
        (client.config.mac, client.mtu) = client.set_up()?;
        let function = HostFunction::over(&block, client.config, Arc::clone(&client.regions));
        Ok((client, function))
    }

    /// Where the NIC is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the NIC offers; `None` before the first has answered.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Largest IP packet on the NIC's wire.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Whether the NIC is there, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.bells.is_some()
    }

    /// Offers the same function to the NIC that has come in the place of one that has gone. When it is there, and before it gets
    /// anything, `clear` is to [empty the rings](nic::ring::HostQueue::clear). False when there is no such NIC yet.
    ///
    /// # Errors
    /// When it will never take it.
    pub fn reconnect(&mut self, clear: impl FnOnce()) -> Result<bool, ConnectError> {
        self.cut();
        let socket = match self.dial() {
            Err(error @ ConnectError::Untrusted(..)) => return Err(error),
            Err(_) => return Ok(false),
            Ok(socket) => socket,
        };
        clear();
        let came = self.resume(socket);
        if !matches!(came, Ok(true)) {
            self.cut();
        }
        came
    }

    /// Wakes the NIC.
    pub fn ring(&mut self) {
        if let Some(bells) = &self.bells {
            // Full is rung often and not answered: it is as good as rung.
            let _ = write(&bells.nics, &1u64.to_ne_bytes());
        }
    }

    /// Silences the bell, and looks whether the NIC is there.
    pub fn answer(&mut self) -> bool {
        while let Some(bells) = &self.bells {
            match recv(&bells.ours, &mut [0; 64], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return true,
                Ok((1.., _)) | Err(Errno::INTR) => {}
                _ => self.cut(),
            }
        }
        false
    }

    /// What becomes readable when the NIC rings, and when it goes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bells.as_ref().map(|bells| bells.ours.as_fd())
    }

    /// Connections that this host has handed over to the NIC to be finished, and whose peers have not acknowledged all that they are
    /// to get. `None` when the NIC has gone.
    pub fn unfinished_teardowns(&mut self) -> Option<u64> {
        match self.line.ask(&Request::Unfinished, None) {
            Ok((Answer::Unfinished(count), _)) => Some(count),
            _ => None,
        }
    }

    fn cut(&mut self) {
        self.line.cut();
        self.bells = None;
    }

    /// A socket that is connected to a NIC of root's or of this user's. No call on it waits longer than [`PATIENCE`].
    fn dial(&self) -> Result<OwnedFd, ConnectError> {
        let path = self.path.clone();
        let socket = dial(&self.path, PATIENCE).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => ConnectError::NoSocket(path),
            Errno::CONNREFUSED => ConnectError::NobodyListens(path),
            Errno::ACCESS | Errno::PERM => ConnectError::NotAllowed(path),
            error => ConnectError::System(path, error),
        })?;
        match peer::check(&socket) {
            Ok(()) => Ok(socket),
            Err(why) => Err(ConnectError::Untrusted(self.path.clone(), why)),
        }
    }

    /// Learns what the NIC at the socket's other end offers, and asks for what of it is wanted: at the first time all that there is of
    /// that, then the same.
    fn agree(&mut self, socket: OwnedFd) -> Result<(), ConnectError> {
        self.line.connect(socket);
        let mut words = Identity::default().words();
        for (at, word) in (0..).zip(&mut words) {
            match self.ask(&Request::Identify(at), None)?.0 {
                Answer::Identity { word: is, .. } => *word = is,
                _ => return Err(self.no_answer(Errno::PROTO)),
            }
        }
        let (is_first, identity) = (self.identity.is_none(), Identity::of(words));
        if is_first {
            let offered = Features::from_bits(identity.features);
            self.config.features = self.config.features.intersection(offered);
            if !self.config.features.intersects(Features::TOE) {
                self.config.toe_connections = 0;
            }
        }
        self.ask(&Request::Features(self.config.features), None)?;
        self.identity = Some(identity);
        Ok(())
    }

    /// Has the function again, with all regions. False when the NIC can't give it yet.
    fn resume(&mut self, socket: OwnedFd) -> Result<bool, ConnectError> {
        let given = match self.agree(socket).and_then(|()| self.set_up()) {
            Ok(given) => given,
            // A NIC that stood still may have this host's former connection, which has no answer any more, and its function.
            Err(ConnectError::Refused(
                _,
                Refusal::Busy | Refusal::Draining | Refusal::NotEmpty | Refusal::NoRoom,
            )) => return Ok(false),
            Err(ConnectError::NoAnswer(..)) => return Ok(false),
            Err(error) => return Err(error),
        };
        if given != (self.config.mac, self.mtu) {
            return Err(ConnectError::Changed(self.path.clone()));
        }
        for (id, region) in self.regions.all() {
            // What it can't have it refuses again when it is named.
            if let Err(why) = self.line.register(id, &region) {
                if !self.line.is_open() {
                    return Ok(false);
                }
                tracing::warn!("the NIC restarted and refused memory that it had: {why}");
            }
        }
        Ok(true)
    }

    fn ask(
        &self,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Vec<OwnedFd>), ConnectError> {
        let answered = self.line.ask(request, descriptor);
        answered.map_err(|failure| match failure {
            Failure::Refused(refusal) => ConnectError::Refused(self.path.clone(), refusal),
            Failure::Silent(error) => self.no_answer(error),
            Failure::NoNic => self.no_answer(Errno::NOTCONN),
        })
    }

    fn no_answer(&self, error: Errno) -> ConnectError {
        ConnectError::NoAnswer(self.path.clone(), error)
    }

    /// Asks for the function. Gives its address and the MTU.
    fn set_up(&mut self) -> Result<(wire::ethernet::MacAddr, u16), ConnectError> {
        let request = Request::SetUp(self.config);
        let (answer, came) = self.ask(&request, Some(self.rings.as_fd()))?;
        let (Answer::SetUp { mac, mtu }, Ok([ours, nics])) =
            (answer, <[OwnedFd; 2]>::try_from(came))
        else {
            return Err(self.no_answer(Errno::PROTO));
        };
        self.bells = Some(Bells { ours, nics });
        Ok((mac, mtu))
    }
}
