//! The side of `stat` and `ss`.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::protocol::{Answer, Request};
use crate::waiting;

/// Asks the server at `path`.
///
/// # Errors
/// When nobody listens there, or the answer makes no sense; each says what to do.
pub fn ask(path: &Path, request: Request) -> Result<Answer> {
    let connected = waiting::until_served(
        path,
        || UnixStream::connect(path),
        |error| {
            matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            )
        },
    );
    match connected {
        Ok(stream) => exchange(stream, path, &request),
        Err(error) => match error.downcast_ref::<std::io::Error>() {
            Some(error) => bail!("{}", explain(path, error.kind(), error)),
            None => Err(error),
        },
    }
}

/// Asks the server at `path` as [`ask`] does, but does not wait for one that is starting.
///
/// # Errors
/// As there.
pub fn ask_now(path: &Path, request: &Request) -> Result<Answer> {
    match UnixStream::connect(path) {
        Ok(stream) => exchange(stream, path, request),
        Err(error) => bail!("{}", explain(path, error.kind(), &error)),
    }
}

fn exchange(mut stream: UnixStream, path: &Path, request: &Request) -> Result<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(stream)
        .read_line(&mut reply)
        .with_context(|| format!("{} does not answer", path.display()))?;
    match serde_json::from_str(&reply) {
        Ok(Answer::Error(what)) => bail!("{} refused: {what}", path.display()),
        Ok(answer) => Ok(answer),
        Err(_) => bail!(
            "{} answered with something else; is it the control socket of a longshore of this version?",
            path.display()
        ),
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
        _ => format!("no connection to {path}: {error}"),
    }
}
