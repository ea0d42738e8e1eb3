//! Gets a page over HTTPS, as `https_client` does, in a task of tokio:
//!
//! ```text
//! sudo ip tuntap add dev ls0 mode tap user $USER && sudo ip link set ls0 up
//! sudo ip addr add 10.0.0.1/24 dev ls0
//! cargo run --release -p longshore-host --features tokio --example async_https_client -- \
//!     ls0 10.0.0.2/24 10.0.0.1:443 example.test /index.html ca.pem
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use host::handshake::{Options, Trust, client_config};
use host::runtime::Builder;
use host::rustls::RootCertStore;
use host::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use host::tokio::Net;
use host::{Cidr, Offload, TlsRole};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const USAGE: &str = "usage: async_https_client TAP ADDRESS/PREFIX SERVER:PORT NAME PATH CA.pem
  for instance: async_https_client ls0 10.0.0.2/24 10.0.0.1:443 example.test /index.html ca.pem";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let got = match arguments[..] {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [tap, ours, server, name, path, ca] => run(get(tap, ours, server, name, path, ca)),
        _ => Err(USAGE.into()),
    };
    match got {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("async_https_client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: impl Future<Output = Result<(), Box<dyn Error>>>) -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(task)
}

async fn get(
    tap: &str,
    ours: &str,
    server: &str,
    name: &str,
    path: &str,
    ca: &str,
) -> Result<(), Box<dyn Error>> {
    let address: Cidr = ours.parse()?;
    let server: SocketAddr = server.parse()?;
    let role = TlsRole::Client {
        config: client_config(Trust::Roots(Arc::new(roots(ca)?)), &Options::default())?,
        name: ServerName::try_from(name.to_owned())?,
    };
    let net = Net::start(Builder::new([address])?.on_tap(tap)?)?;

    let connecting = timeout(Duration::from_secs(10), net.connect(server));
    let stream = connecting.await.map_err(|_| "the server is silent")??;
    let mut stream = stream.start_tls(role, Offload::Both).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {name}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer).await? {
            // The server's close_notify. An end without it would be an error: the page may be cut short.
            0 => break,
            len => stdout().write_all(&buffer[..len])?,
        }
    }
    if let Some(tls) = stream.info()?.tls {
        let all = tls.records_full + tls.records_partial + tls.records_none;
        let (version, cipher, opened) = (tls.version, tls.cipher, tls.records_full);
        eprintln!("{version}, {cipher}; the NIC has opened {opened} of {all} records");
    }
    drop(stream);
    // The server is to see the end of the connection.
    let ended = timeout(Duration::from_secs(1), net.shutdown()).await;
    Ok(ended.unwrap_or(Ok(()))?)
}

fn roots(path: &str) -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    let unusable = |error| format!("{path} is no file of certificates: {error}");
    for certificate in CertificateDer::pem_file_iter(path).map_err(unusable)? {
        roots.add(certificate.map_err(unusable)?)?;
    }
    Ok(roots)
}
