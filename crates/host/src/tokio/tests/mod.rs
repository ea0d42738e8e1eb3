//! Tasks of tokio on two stacks with a link in memory between them.

mod endings;
mod streams;
mod tls;
mod waiting;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use ::tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use ::tokio::time::timeout;
use port::impair::{Impair, Impairment, Impairments};
use port::memory::{LinkConfig, link};
use testkit::pattern;

use super::{Net, TcpListener, TcpStream};
use crate::ListenOptions;
use crate::runtime::{Builder, Runtime};

/// Runs a test on a runtime of two threads. It fails when nothing happens any more.
fn run(test: impl Future<Output = ()>) {
    let tokio = ::tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    tokio.block_on(async {
        let ended = timeout(Duration::from_secs(60), test).await;
        ended.expect("nothing happens any more: a wake-up was lost");
    });
}

/// Client and server, with a wire between them that loses this part of all frames.
fn runtimes(loss: f64) -> [Runtime; 2] {
    let (left, right) = link(LinkConfig {
        eventfd: true,
        super_frames: loss == 0.0,
        ..LinkConfig::for_mtu(1500)
    });
    let impairment = Impairment {
        loss,
        reorder: loss,
        ..Impairment::default()
    };
    let left = Impair::new(left, Impairments::both(impairment), 7);
    let build = |host: u8| {
        let address = format!("10.0.0.{host}/24").parse().expect("an address");
        Builder::new([address]).expect("random bytes")
    };
    let client = build(1).on_port(left).expect("a stack");
    let server = build(2).on_port(right).expect("a stack");
    [client, server]
}

fn nets(loss: f64) -> [Net; 2] {
    runtimes(loss).map(|runtime| Net::start(runtime).expect("a runtime is here"))
}

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 7))
}

fn listen(server: &Net) -> TcpListener {
    let listener = server.listen(address(), ListenOptions::default());
    listener.expect("a free address")
}

/// A connection, the client's side and the server's.
async fn connect(client: &Net, server: &Net) -> (TcpStream, TcpStream) {
    let listener = listen(server);
    let ours = client.connect(address()).await.expect("a connection");
    let (theirs, peer) = listener.accept().await.expect("a connection");
    assert_eq!(peer, ours.local_addr());
    assert_eq!(theirs.peer_addr(), peer);
    (ours, theirs)
}

/// Writes back what is read, until its end.
async fn echo(stream: impl AsyncRead + AsyncWrite) -> std::io::Result<u64> {
    let (mut reader, mut writer) = ::tokio::io::split(stream);
    let len = ::tokio::io::copy(&mut reader, &mut writer).await?;
    writer.shutdown().await?;
    Ok(len)
}

/// Writes `data` in pieces of all sizes while reading what comes; gives that, to its end.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    data: Vec<u8>,
) -> std::io::Result<Vec<u8>> {
    let (mut reader, mut writer) = ::tokio::io::split(stream);
    let writing = ::tokio::spawn(async move {
        let mut rest = &data[..];
        for round in 1.. {
            let len = (round * 7919 % 40_000).min(rest.len());
            writer.write_all(&rest[..len]).await?;
            rest = &rest[len..];
            if rest.is_empty() {
                break;
            }
        }
        writer.shutdown().await
    });
    let mut received = Vec::new();
    reader.read_to_end(&mut received).await?;
    writing.await.expect("no panic")?;
    Ok(received)
}
