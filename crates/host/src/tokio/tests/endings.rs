//! How connections and stacks end.

use std::io::ErrorKind;

use super::*;
use crate::{CloseReason, SocketError};

#[test]
fn a_connection_that_nobody_takes_is_refused() {
    run(async {
        let [client, _server] = nets(0.0);
        let error = client.connect(address()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let inner = error.get_ref().and_then(|it| it.downcast_ref());
        assert_eq!(inner, Some(&SocketError::Closed(CloseReason::Refused)));
        let error = client.connect(([192, 0, 2, 1], 7).into()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    });
}

#[test]
fn an_address_is_listened_on_once_until_the_listener_is_dropped() {
    run(async {
        let [_client, server] = nets(0.0);
        let listener = listen(&server);
        let again = server.listen(address(), ListenOptions::default());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        listen(&server);
    });
}

#[test]
fn a_peer_that_drops_what_it_has_not_read_resets() {
    run(async {
        let [client, server] = nets(0.0);
        let (mut ours, mut theirs) = connect(&client, &server).await;
        ours.write_all(&pattern(5000)).await.unwrap();
        let mut byte = [0];
        theirs.read_exact(&mut byte).await.unwrap();
        drop(theirs);
        let error = ours.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn what_was_written_before_a_drop_arrives() {
    run(async {
        let [client, server] = nets(0.01);
        let (mut ours, mut theirs) = connect(&client, &server).await;
        let data = pattern(400_000);
        ours.write_all(&data).await.unwrap();
        drop(ours);
        let ended = ::tokio::spawn(client.shutdown());
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).await.unwrap();
        assert!(received == data);
        assert!(!ended.is_finished(), "it waits for the peer's end");
        drop(theirs);
        ended.await.unwrap().unwrap();
        server.shutdown().await.unwrap();
    });
}

#[test]
fn a_stack_goes_on_until_its_last_clone_is_dropped() {
    run(async {
        let [client, server] = nets(0.0);
        let clone = client.clone();
        let mut ended = ::tokio::spawn(client.shutdown());
        let early = timeout(Duration::from_millis(50), &mut ended).await;
        assert!(early.is_err());
        drop(connect(&clone, &server).await);
        drop(clone);
        ended.await.unwrap().unwrap();
    });
}

#[test]
fn streams_fail_when_the_tokio_runtime_of_their_stack_has_ended() {
    let other = ::tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ([client, _server], mut ours, _theirs) = other.block_on(async {
        let [client, server] = nets(0.0);
        let (ours, theirs) = connect(&client, &server).await;
        ([client, server], ours, theirs)
    });
    run(async move {
        let reading = ::tokio::spawn(async move { ours.read(&mut [0]).await });
        ::tokio::time::sleep(Duration::from_millis(50)).await;
        other.shutdown_background();
        let error = reading.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let error = client.connect(address()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        assert!(client.shutdown().await.is_err());
    });
}

#[test]
fn no_stack_starts_without_a_tokio_runtime() {
    let [client, _server] = runtimes(0.0);
    assert!(Net::start(client).is_err());
}
