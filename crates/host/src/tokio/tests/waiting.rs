//! Tasks that wait, and those that stop waiting.

use ::tokio::time::{sleep, timeout};
use rustix::time::{ClockId, clock_gettime};

use super::*;

#[test]
fn a_read_that_is_given_up_loses_no_byte() {
    run(async {
        let [client, server] = nets(0.01);
        let (mut ours, theirs) = connect(&client, &server).await;
        let data = pattern(500_000);
        let sent = data.clone();
        let sending = ::tokio::spawn(async move {
            let mut theirs = theirs;
            for piece in sent.chunks(10_000) {
                theirs.write_all(piece).await?;
                sleep(Duration::from_millis(1)).await;
            }
            theirs.shutdown().await
        });
        let (mut received, mut given_up) = (Vec::new(), 0);
        let mut buffer = vec![0; 3001];
        loop {
            match timeout(Duration::from_micros(300), ours.read(&mut buffer)).await {
                Ok(Ok(0)) => break,
                Ok(len) => received.extend_from_slice(&buffer[..len.unwrap()]),
                Err(_) => given_up += 1,
            }
        }
        assert!(received == data);
        assert!(given_up > 0, "no read has waited");
        sending.await.unwrap().unwrap();
    });
}

#[test]
fn an_accept_that_is_given_up_loses_no_connection() {
    run(async {
        let [client, server] = nets(0.0);
        let listener = listen(&server);
        for _ in 0..3 {
            let none = timeout(Duration::from_millis(5), listener.accept()).await;
            assert!(none.is_err());
        }
        let _ours = client.connect(address()).await.unwrap();
        listener.accept().await.unwrap();
    });
}

#[test]
fn a_connect_that_is_given_up_leaves_no_socket() {
    run(async {
        let [client, _server] = nets(1.0);
        let none = timeout(Duration::from_millis(50), client.connect(address())).await;
        assert!(none.is_err());
        client.shutdown().await.unwrap();
    });
}

#[test]
fn tasks_that_wait_on_each_direction_are_woken_both() {
    run(async {
        let [client, server] = nets(0.0);
        let (ours, theirs) = connect(&client, &server).await;
        let (mut reader, mut writer) = ::tokio::io::split(ours);
        let reading = ::tokio::spawn(async move { reader.read_u8().await });
        let writing = ::tokio::spawn(async move { writer.write_all(&pattern(64 << 20)).await });
        sleep(Duration::from_millis(200)).await;
        assert!(!reading.is_finished() && !writing.is_finished());
        drop(theirs);
        assert!(reading.await.unwrap().is_err());
        assert!(writing.await.unwrap().is_err());
    });
}

#[test]
fn idle_stacks_cost_next_to_nothing() {
    let tokio = ::tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let [client, server] = nets(0.0);
        let _streams = connect(&client, &server).await;
        // Well below a millisecond on a quiet machine; on a busy one a second may be spoiled, but not each.
        for _ in 0..5 {
            let before = cpu_time();
            sleep(Duration::from_secs(1)).await;
            if cpu_time() - before < Duration::from_millis(20) {
                return;
            }
        }
        panic!("an idle second costs more than 20 ms each time");
    });
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
