//! Gets a page over HTTPS from a host of its own at the other end of a TAP interface. rustls verifies the certificate; the NIC opens
//! the records.
//!
//! ```text
//! sudo ip tuntap add dev ls0 mode tap user $USER && sudo ip link set ls0 up
//! sudo ip addr add 10.0.0.1/24 dev ls0
//! cargo run --release -p longshore-host --example https_client -- ls0 10.0.0.2/24 10.0.0.1:443 example.test /index.html ca.pem
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use host::handshake::{Options, Trust, client_config};
use host::runtime::{Builder, Runtime};
use host::rustls::RootCertStore;
use host::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use host::{Cidr, Event, Offload, SocketError, SocketId, TlsRole};

const USAGE: &str = "usage: https_client TAP ADDRESS/PREFIX SERVER:PORT NAME PATH [CA.pem]
  for instance: https_client ls0 10.0.0.2/24 10.0.0.1:443 example.test /index.html ca.pem
  Without CA.pem it trusts whom this system trusts.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let got = match arguments[..] {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [tap, ours, server, name, path] => get(tap, ours, server, name, path, None),
        [tap, ours, server, name, path, ca] => get(tap, ours, server, name, path, Some(ca)),
        _ => Err(USAGE.into()),
    };
    match got {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("https_client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn get(
    tap: &str,
    ours: &str,
    server: &str,
    name: &str,
    path: &str,
    ca: Option<&str>,
) -> Result<(), Box<dyn Error>> {
    let address: Cidr = ours.parse()?;
    let server: SocketAddr = server.parse()?;
    let role = TlsRole::Client {
        config: client_config(Trust::Roots(Arc::new(roots(ca)?)), &Options::default())?,
        name: ServerName::try_from(name.to_owned())?,
    };
    let mut runtime = Builder::new([address])?.on_tap(tap)?;
    let id = runtime.stack().connect(Instant::now(), server)?;
    wait_for(&mut runtime, id, &Event::Connected(id))?;
    let offload = Offload::Both;
    runtime
        .stack()
        .start_tls(Instant::now(), id, role, offload)?;
    wait_for(&mut runtime, id, &Event::Secured(id))?;

    // A request is short: there is room for all of it.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {name}\r\n\r\n");
    runtime
        .stack()
        .write(Instant::now(), id, request.as_bytes())?;
    loop {
        match runtime.stack().read_chunk(Instant::now(), id) {
            // The decrypted bytes where the NIC has put them, without a copy.
            Ok(Some(chunk)) => stdout().write_all(&chunk)?,
            // The server's close_notify. An end without it would be an error: the page may be cut short.
            Ok(None) => break,
            Err(SocketError::WouldBlock) => wait_for(&mut runtime, id, &Event::Readable(id))?,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(tls) = runtime.stack().info(id).and_then(|info| info.tls) {
        let all = tls.records_full + tls.records_partial + tls.records_none;
        let (version, cipher, opened) = (tls.version, tls.cipher, tls.records_full);
        eprintln!("{version}, {cipher}; the NIC has opened {opened} of {all} records");
    }
    runtime.stack().close(Instant::now(), id)?;
    runtime.shutdown(Instant::now())?;
    Ok(())
}

/// Runs the stack until the event comes. The connection's end is an error, unless it is read to its end.
fn wait_for(runtime: &mut Runtime, id: SocketId, wanted: &Event) -> Result<(), Box<dyn Error>> {
    loop {
        let now = Instant::now();
        let progress = runtime.poll(now)?;
        while let Some(event) = runtime.stack().poll_event() {
            match event {
                event if event == *wanted => return Ok(()),
                Event::Closed(..) if *wanted == Event::Readable(id) => return Ok(()),
                Event::Closed(_, reason) => return Err(reason.into()),
                _ => {}
            }
        }
        if !progress {
            runtime.wait(now, None, &[])?;
        }
    }
}

fn roots(ca: Option<&str>) -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unusable = |error| format!("{path} is no file of certificates: {error}");
    for certificate in CertificateDer::pem_file_iter(path).map_err(unusable)? {
        roots.add(certificate.map_err(unusable)?)?;
    }
    Ok(roots)
}
