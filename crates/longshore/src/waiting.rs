//! Waiting for the socket of a service that may be starting still.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use attachment::{Client, ClientError, Errno};

/// Longest time that a service may take to listen.
const PATIENCE: Duration = Duration::from_secs(5);
/// When the user is told what is waited for.
const QUIET: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);
/// How long a NIC may take to answer once it listens.
const ANSWER: Duration = Duration::from_secs(2);

/// Tries until it succeeds, or fails with an error that is not `is_early`: that nothing listens at `path` yet. That error is the last one's
/// after 5 seconds.
///
/// # Errors
/// The attempt's; at once when there is something else than a socket at `path`.
pub fn until_served<T, E>(
    path: &Path,
    mut attempt: impl FnMut() -> Result<T, E>,
    is_early: impl Fn(&E) -> bool,
) -> Result<T>
where
    E: Into<anyhow::Error>,
{
    let begun = Instant::now();
    let mut was_told = false;
    loop {
        check(path)?;
        match attempt() {
            Err(error) if is_early(&error) && begun.elapsed() < PATIENCE => {}
            done => return done.map_err(Into::into),
        }
        if begun.elapsed() >= QUIET && !std::mem::replace(&mut was_told, true) {
            eprintln!("longshore: waiting for {}", path.display());
        }
        sleep(LOOK);
    }
}

/// Checks that the control socket of a `longshore nic` answers at `path`.
///
/// # Errors
/// When none does; the message says what to do.
pub fn check_nic(path: &Path) -> Result<()> {
    let is_early =
        |error: &ClientError| matches!(error, ClientError::Gone(Errno::NOENT | Errno::CONNREFUSED));
    let attempt = || Client::connect(path, ANSWER);
    let served = until_served(path, attempt, is_early);
    let path = path.display();
    match served {
        Ok(_) => Ok(()),
        Err(error) => match error.downcast_ref::<ClientError>() {
            Some(ClientError::Gone(Errno::NOENT | Errno::CONNREFUSED)) => bail!(
                "no NIC listens at {path} (--nic); start one with: longshore nic --control {path} …"
            ),
            Some(ClientError::Gone(Errno::PROTO)) => bail!(
                "{path} (--nic) is not the control socket of a longshore nic; give the path of its --control"
            ),
            Some(_) => Err(error).context(format!("{path} (--nic)")),
            None => Err(error),
        },
    }
}

/// That there may be a socket at `path`.
fn check(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(there) if !there.file_type().is_socket() => bail!("{} is not a socket", path.display()),
        // The attempt says what is wrong, and what to do.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn directory(name: &str) -> std::path::PathBuf {
        let name = format!("longshore-waiting-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn is_early(error: &io::Error) -> bool {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        )
    }

    #[test]
    fn a_socket_that_comes_a_little_later_is_waited_for() {
        let directory = directory("later");
        let path = directory.join("socket");
        let at = path.clone();
        let service = std::thread::spawn(move || {
            sleep(Duration::from_millis(100));
            UnixListener::bind(at).unwrap()
        });
        until_served(&path, || UnixStream::connect(&path), is_early).unwrap();
        drop(service.join());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_is_not_waited_for() {
        let directory = directory("file");
        let path = directory.join("file");
        std::fs::write(&path, "").unwrap();
        let begun = Instant::now();
        let error = until_served(&path, || UnixStream::connect(&path), is_early).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} is not a socket", path.display())
        );
        assert!(
            check_nic(&path)
                .unwrap_err()
                .to_string()
                .contains("is not a socket")
        );
        assert!(begun.elapsed() < Duration::from_secs(2));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_answers_otherwise_than_a_nic_is_told_from_one() {
        let directory = directory("other");
        let path = directory.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let service = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&[b'x'; 256]);
            // The end only comes when the other side has said all that it has to say.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let error = check_nic(&path).unwrap_err().to_string();
        assert!(error.contains("is not the control socket"), "{error}");
        service.join().unwrap();
        std::fs::remove_dir_all(directory).unwrap();
    }
}
