//! Services that a command asks, each by its control socket.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{self, Builder};

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

    /// What `ask` gives for each, in their order. All are asked at a time: one that does not answer keeps no other waiting.
    pub fn each<T: Send>(services: &[Service], ask: impl Fn(&Service) -> T + Sync) -> Vec<T> {
        let ask = &ask;
        thread::scope(|scope| {
            let asked = services.iter().map(|service| {
                let thread = Builder::new().spawn_scoped(scope, move || ask(service));
                // Without a thread it is asked here, after the others.
                (service, thread.ok())
            });
            let asked: Vec<_> = asked.collect();
            let answers = asked.into_iter().map(|(service, thread)| match thread {
                Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => ask(service),
            });
            answers.collect()
        })
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
