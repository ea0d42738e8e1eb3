//! Stacks whose NIC shares nothing with them but descriptors, and comes and goes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use handshake::{Certificate, Options as TlsOptions, Trust, client_config, server_config};
use nic::{Nic, NicConfig};
use rings::{Limits, Server};
use wire::ethernet::MacAddr;

use super::*;
use crate::memory::MappedFile;
use crate::{CloseReason, Offload, TlsRole};

/// A NIC on a thread of its own, which sleeps when there is nothing to do.
pub(crate) struct Process {
    stop: Arc<AtomicBool>,
    bell: Doorbell,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn sockets() -> [PathBuf; 2] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let base = format!("longshore-remote-{}-{number}", std::process::id());
    ["a", "b"].map(|name| std::env::temp_dir().join(format!("{base}-{name}")))
}

impl Process {
    pub(crate) fn start(paths: &[PathBuf; 2]) -> Process {
        let hosts = (1..).zip(paths);
        let bind = |(number, path): (u8, &PathBuf)| {
            let mac = MacAddr([2, 0, 0, 0, 0, number]);
            Server::bind(path, mac, Limits::default()).expect("a free path")
        };
        let mut servers: Vec<Server> = hosts.map(bind).collect();
        let (stop, bell) = (Arc::new(AtomicBool::new(false)), Doorbell::new().unwrap());
        let (stopped, rung) = (Arc::clone(&stop), bell.clone());
        let thread = std::thread::spawn(move || {
            let mut nic = Nic::new(NicConfig::new([9; 16]));
            let mut out = vec![0; 1 << 17];
            while !stopped.load(Ordering::Relaxed) {
                let now = Instant::now();
                while nic.poll_transmit(now, &mut out).is_some() {}
                nic.flush(now);
                nic.take_wakeups(|function, queue| {
                    servers.iter().for_each(|it| it.ring(function, queue))
                });
                if nic.prepare_sleep() {
                    let mut fds = vec![readable(rung.as_fd())];
                    fds.extend(servers.iter().map(|it| readable(it.fd())));
                    sleep(&mut fds, now, nic.poll_timeout()).unwrap();
                }
                nic.cancel_sleep();
                servers.iter_mut().for_each(|server| server.poll(&mut nic));
            }
        });
        Process {
            stop,
            bell,
            thread: Some(thread),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.ring();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

pub(crate) fn attached(path: &Path, host: u8) -> Runtime {
    let address = format!("10.0.0.{host}/24").parse().unwrap();
    let mut builder = Builder::new([address]).unwrap();
    builder.runtime.spin = Duration::from_micros(5);
    builder.on_nic(path).unwrap()
}

#[test]
fn no_wake_up_is_lost_between_processes() {
    let paths = sockets();
    let _process = Process::start(&paths);
    let (mut client, server) = (attached(&paths[0], 1), attached(&paths[1], 2));
    let server = std::thread::spawn(move || echo(server));
    let id = connect(&mut client);
    for round in 0..1000u32 {
        let written = client.stack().write(Instant::now(), id, &[round as u8]);
        assert_eq!(written, Ok(1));
        assert_eq!(read_byte(&mut client, id), round as u8);
    }
    client.stack().close(Instant::now(), id).unwrap();
    run_until(&mut client, |stack, _| stack.sockets().next().is_none());
    server.join().unwrap();
    assert!(!client.has_device());
    assert!(client.with_device(|_| ()).is_err());
    assert!(client.has_finished_teardowns().unwrap());
    client.shutdown(Instant::now()).unwrap();
}

/// What the echo of a TLS server's is, whatever becomes of the NIC meanwhile: the stream's bytes, in order.
fn secured_echo(mut runtime: Runtime) -> u64 {
    let certificate = Certificate::self_signed(["h2".to_owned()]).unwrap();
    let config = server_config(certificate, &TlsOptions::default()).unwrap();
    let address = "10.0.0.2:7".parse().unwrap();
    runtime
        .stack()
        .listen(address, ListenOptions::default())
        .unwrap();
    let mut accepted = None;
    run_until(&mut runtime, |stack, event| {
        if let Some(Event::Accepted(listener)) = event {
            accepted = stack.accept(*listener);
        }
        accepted.is_some()
    });
    let id = accepted.unwrap();
    let role = TlsRole::Server { config };
    let stack = runtime.stack();
    stack
        .start_tls(Instant::now(), id, role, Offload::Both)
        .unwrap();
    let mut waiting: Vec<u8> = Vec::new();
    run_until(&mut runtime, |stack, _| {
        let now = Instant::now();
        let mut bytes = [0; 8192];
        if waiting.is_empty() {
            match stack.read(now, id, &mut bytes) {
                Ok(0) => return true,
                Ok(len) => waiting.extend_from_slice(&bytes[..len]),
                Err(SocketError::WouldBlock | SocketError::NotSecured) => return false,
                Err(error) => panic!("{error}"),
            }
        }
        match stack.write(now, id, &waiting) {
            Ok(len) => drop(waiting.drain(..len)),
            Err(SocketError::WouldBlock) => {}
            Err(error) => panic!("{error}"),
        }
        false
    });
    let _ = runtime.stack().close(Instant::now(), id);
    let resets = counter(&mut runtime, "NicResets");
    runtime.shutdown(Instant::now()).unwrap();
    resets
}

fn counter(runtime: &mut Runtime, name: &str) -> u64 {
    let mut counters = runtime.stack().counters();
    counters
        .find(|(other, _)| *other == name)
        .map_or(0, |(_, value)| value)
}

#[test]
fn a_tls_connection_goes_on_over_restarts_of_the_nic() {
    const TOTAL: usize = 600_000;
    let content = |at: usize| (at * 31 + at / 251) as u8;
    let paths = sockets();
    let mut process = Some(Process::start(&paths));
    let (mut client, server) = (attached(&paths[0], 1), attached(&paths[1], 2));
    let server = std::thread::spawn(move || secured_echo(server));
    let id = connect(&mut client);
    let config = client_config(Trust::Anyone, &TlsOptions::default()).unwrap();
    let role = TlsRole::Client {
        config,
        name: "h2".try_into().unwrap(),
    };
    client
        .stack()
        .start_tls(Instant::now(), id, role, Offload::Both)
        .unwrap();
    run_until(&mut client, |_, event| event == Some(&Event::Secured(id)));
    let (mut sent, mut got, mut restarts) = (0, 0, 0);
    run_until(&mut client, |stack, _| {
        let now = Instant::now();
        while sent < TOTAL && sent < got + 60_000 {
            let end = (sent + 7000).min(TOTAL);
            let bytes: Vec<u8> = (sent..end).map(content).collect();
            match stack.write(now, id, &bytes) {
                Ok(len) => sent += len,
                Err(SocketError::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut bytes = [0; 8192];
        loop {
            match stack.read(now, id, &mut bytes) {
                Ok(0) => panic!("the stream ended after {got} bytes"),
                Ok(len) => {
                    let right = bytes[..len].iter().enumerate();
                    assert!(
                        right
                            .into_iter()
                            .all(|(at, byte)| *byte == content(got + at))
                    );
                    got += len;
                }
                Err(SocketError::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if got > (restarts + 1) * TOTAL / 4 && restarts < 2 {
            restarts += 1;
            process = None;
            process = Some(Process::start(&paths));
        }
        got == TOTAL
    });
    assert!(counter(&mut client, "NicResets") >= 2);
    client.stack().close(Instant::now(), id).unwrap();
    run_until(&mut client, |stack, _| stack.sockets().next().is_none());
    assert!(server.join().unwrap() >= 2);
    drop(process);
}

/// The NIC runs into the end of the file, in another process: the stack finds out whose connections that concerns.
#[test]
fn a_file_that_shrinks_ends_its_connection() {
    // Beyond all windows when the client cuts it off.
    const LEN: u32 = 256 << 20;
    const CUT: usize = 50_000;
    let paths = sockets();
    let _process = Process::start(&paths);
    let (mut client, mut server) = (attached(&paths[0], 1), attached(&paths[1], 2));
    let path = paths[0].with_extension("file");
    let file = File::create(&path).unwrap();
    file.set_len(LEN.into()).unwrap();
    let opened = path.clone();
    let server = std::thread::spawn(move || {
        let address = "10.0.0.2:7".parse().unwrap();
        let stack = server.stack();
        stack.listen(address, ListenOptions::default()).unwrap();
        let file = File::open(&opened).unwrap();
        let file = MappedFile::map(&file, LEN.into(), &opened).unwrap();
        let region = stack.register(Arc::clone(file.region()), "short").unwrap();
        let (mut accepted, mut reason) = (None, None);
        let mut at = 0;
        run_until(&mut server, |stack, event| {
            match event {
                Some(Event::Accepted(listener)) => accepted = stack.accept(*listener),
                Some(Event::Closed(_, why)) => reason = Some(why.clone()),
                _ => {}
            }
            while let (Some(id), None) = (accepted, &reason)
                && at < LEN
            {
                let slice = file.slice(region, at.into(), LEN - at);
                match stack.send_slices(Instant::now(), id, &[slice]) {
                    Ok(taken) => at += taken as u32,
                    Err(_) => break,
                }
            }
            reason.is_some()
        });
        assert_eq!(counter(&mut server, "NicResets"), 0);
        // The peer is to hear of it.
        server.shutdown(Instant::now()).unwrap();
        reason
    });
    let id = connect(&mut client);
    let mut got = 0;
    let mut reason = None;
    run_until(&mut client, |stack, event| {
        if let Some(Event::Closed(_, why)) = event {
            reason = Some(why.clone());
        }
        let mut bytes = [0; 8192];
        while got < CUT {
            let Ok(len) = stack.read(Instant::now(), id, &mut bytes) else {
                break;
            };
            got += len;
            if got >= CUT {
                file.set_len(1000).unwrap();
            }
        }
        while got >= CUT
            && let Ok(1..) = stack.read(Instant::now(), id, &mut bytes)
        {
            got += 1;
        }
        reason.is_some()
    });
    assert_eq!(reason, Some(CloseReason::Reset));
    let told = server.join().unwrap();
    assert!(
        matches!(&told, Some(CloseReason::SourceGone { name, .. }) if name == "short"),
        "{told:?}"
    );
    std::fs::remove_file(path).unwrap();
}
