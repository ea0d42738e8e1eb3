//! The side of `stat` and `ss`.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use attachment::{dial, peer};
use rustix::process::Pid;

use super::protocol::{Answer, Request};
use crate::waiting;

/// How long a service may take: to take the connection, and for each answer. One that is stopped does neither.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the server at `path`.
///
/// # Errors
/// When nobody listens there, or the answer makes no sense; each says what to do.
pub fn ask(path: &Path, request: Request) -> Result<Answer> {
    let connected = waiting::until_served(
        path,
        || connect(path),
        |error: &std::io::Error| {
            matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            )
        },
    );
    match connected {
        Ok(stream) => Client::new(stream, path).ask(&request),
        Err(error) => match error.downcast_ref::<std::io::Error>() {
            Some(error) => bail!("{}", explain(path, error.kind(), error)),
            None => Err(error),
        },
    }
}

fn connect(path: &Path) -> std::io::Result<UnixStream> {
    Ok(dial(path, PATIENCE)?.into())
}

/// A connection to a server's control socket.
#[derive(Debug)]
pub struct Client<'a> {
    path: &'a Path,
    stream: BufReader<UnixStream>,
}

impl<'a> Client<'a> {
    /// Connects to the server at `path`, without waiting for one that is starting.
    ///
    /// # Errors
    /// None listens there, or takes the connection in 5 s; the message says what to do.
    pub fn connect(path: &'a Path) -> Result<Client<'a>> {
        match connect(path) {
            Ok(stream) => Ok(Client::new(stream, path)),
            Err(error) => bail!("{}", explain(path, error.kind(), &error)),
        }
    }

    fn new(stream: UnixStream, path: &'a Path) -> Client<'a> {
        let stream = BufReader::new(stream);
        Client { path, stream }
    }

    /// The process that listens there.
    ///
    /// # Errors
    /// It is of another PID namespace, or the system does not tell.
    pub fn process(&self) -> Result<Pid> {
        let number = peer::pid(self.stream.get_ref()).context("who listens there")?;
        number.with_context(|| format!("{} is of another PID namespace", self.path.display()))
    }

    /// Asks it.
    ///
    /// # Errors
    /// It refuses, does not answer, or gives an answer that makes no sense.
    pub fn ask(&mut self, request: &Request) -> Result<Answer> {
        match self.exchange(request)? {
            Answer::Error(what) => bail!("{} refused: {what}", self.path.display()),
            answer => Ok(answer),
        }
    }

    /// Asks it; a refusal is an answer too.
    ///
    /// # Errors
    /// It does not answer, or gives an answer that makes no sense.
    pub fn exchange(&mut self, request: &Request) -> Result<Answer> {
        let path = self.path.display();
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        let mut reply = String::new();
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        let read = sent.and_then(|()| self.stream.read_line(&mut reply));
        read.with_context(|| format!("{path} does not answer"))?;
        if reply.is_empty() {
            bail!("{path} has closed the connection without an answer; its service may have ended");
        }
        match serde_json::from_str(&reply) {
            Ok(answer) => Ok(answer),
            Err(_) => bail!(
                "{path} answered with something else; is it the control socket of a longshore of this version?"
            ),
        }
    }
}

/// Why there is no connection, and what to do.
pub(super) fn explain(path: &Path, kind: ErrorKind, error: &std::io::Error) -> String {
    let path = path.display();
    match kind {
        ErrorKind::NotFound => format!(
            "there is no control socket at {path}; start `longshore nic` or `longshore serve` with `--control {path}`"
        ),
        ErrorKind::ConnectionRefused => {
            format!(
                "nothing listens at {path}; the NIC or server that made it has ended, start it again"
            )
        }
        ErrorKind::PermissionDenied => {
            format!("no permission for {path}; run as the user who started the NIC or server")
        }
        ErrorKind::WouldBlock => format!(
            "{path} does not answer: its service takes no connections; is it stopped (`fg`, or SIGCONT)?"
        ),
        _ => format!("no connection to {path}: {error}"),
    }
}
