//! TLS on streams.

use std::io::ErrorKind;
use std::sync::Arc;

use ::tokio::task::JoinHandle;
use handshake::{Certificate, Options, Trust, client_config, server_config};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;

use super::*;
use crate::tokio::TlsStream;
use crate::{Offload, OffloadState, TlsRole};

fn server_role() -> TlsRole {
    let certificate = Certificate::self_signed(["server.test".to_owned()]).expect("a certificate");
    let config = server_config(certificate, &Options::default()).expect("a configuration");
    TlsRole::Server { config }
}

fn client_role(trust: Trust) -> TlsRole {
    TlsRole::Client {
        config: client_config(trust, &Options::default()).expect("a configuration"),
        name: ServerName::try_from("server.test").expect("a name"),
    }
}

type Securing = JoinHandle<std::io::Result<TlsStream>>;

/// Connects, and starts the server's side of the handshake.
async fn half_secured(loss: f64, offload: Offload) -> (TcpStream, Securing) {
    let [client, server] = nets(loss);
    let (ours, theirs) = connect(&client, &server).await;
    let securing = ::tokio::spawn(theirs.start_tls(server_role(), offload));
    (ours, securing)
}

async fn echo_over_tls(loss: f64, offload: Offload) -> TlsStream {
    let (ours, securing) = half_secured(loss, offload).await;
    let role = client_role(Trust::Anyone);
    let ours = ours.start_tls(role, offload).await.expect("a session");
    let theirs = securing.await.unwrap().expect("a session");
    assert_eq!(theirs.alpn().as_deref(), Some(&b"http/1.1"[..]));
    let echoing = ::tokio::spawn(echo(theirs));
    let data = pattern(600_000);
    let mut received = vec![0; data.len()];
    let (mut reader, mut writer) = ::tokio::io::split(ours);
    let sent = data.clone();
    let writing = ::tokio::spawn(async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await.map(|()| writer)
    });
    reader.read_exact(&mut received).await.unwrap();
    let writer = writing.await.unwrap().unwrap();
    let mut ours = reader.unsplit(writer);
    assert!(received == data);
    assert_eq!(ours.read(&mut [0]).await.unwrap(), 0, "close_notify");
    echoing.await.unwrap().unwrap();
    ours
}

#[test]
fn a_session_that_the_nic_works_for_carries_streams() {
    run(async {
        let stream = echo_over_tls(0.0, Offload::Both).await;
        let tls = stream.info().unwrap().tls.expect("a session");
        assert_eq!(tls.transmit, OffloadState::Device);
        assert_eq!(tls.receive, OffloadState::Device);
        assert!(tls.records_full > 0);
    });
}

#[test]
fn sessions_carry_streams_over_a_wire_that_loses_frames() {
    run(async {
        echo_over_tls(0.01, Offload::Both).await;
        echo_over_tls(0.01, Offload::None).await;
    });
}

#[test]
fn a_certificate_that_is_not_trusted_ends_both_sides() {
    run(async {
        let (ours, securing) = half_secured(0.0, Offload::Both).await;
        let trust = Trust::Roots(Arc::new(RootCertStore::empty()));
        let error = ours.start_tls(client_role(trust), Offload::Both).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("certificate"), "{error}");
        let error = securing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    });
}

#[test]
fn a_handshake_that_is_given_up_closes_its_connection() {
    run(async {
        let (mut ours, securing) = half_secured(0.0, Offload::None).await;
        ::tokio::time::sleep(Duration::from_millis(20)).await;
        securing.abort();
        assert!(securing.await.is_err());
        assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
    });
}
