//! Services that a command asks, each by its control socket.

use std::path::PathBuf;

use anyhow::{Result, ensure};

/// A service and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name: the label `service` of its metrics.
    pub name: String,
    /// Its control socket.
    pub socket: PathBuf,
}

impl Service {
    /// One that is named after its socket: `serve` for `/run/serve.sock`.
    pub fn of(socket: PathBuf) -> Service {
        let stem = socket.file_stem().unwrap_or(socket.as_os_str());
        Service {
            name: stem.to_string_lossy().into_owned(),
            socket,
        }
    }

    /// Reads `[NAME=]SOCKET`.
    ///
    /// # Errors
    /// One of the two is empty.
    pub fn parse(argument: &str) -> Result<Service, String> {
        let service = match argument.split_once('=') {
            Some((name, socket)) => Service {
                name: name.to_owned(),
                socket: socket.into(),
            },
            None => Service::of(argument.into()),
        };
        match service.name.is_empty() || service.socket.as_os_str().is_empty() {
            true => Err("give NAME=SOCKET, or the path of a control socket".to_owned()),
            false => Ok(service),
        }
    }

    /// Checks that no two have one name.
    ///
    /// # Errors
    /// Two have.
    pub fn check_names(services: &[Service]) -> Result<()> {
        for (at, service) in services.iter().enumerate() {
            ensure!(
                services[..at]
                    .iter()
                    .all(|other| other.name != service.name),
                "two services have the name {0}; give one of them another: NAME={1}",
                service.name,
                service.socket.display()
            );
        }
        Ok(())
    }
}
