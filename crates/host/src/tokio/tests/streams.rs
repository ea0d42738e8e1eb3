//! Bytes both ways.

use ::tokio::task::JoinSet;

use super::*;
use crate::runtime::tests::remote;

#[test]
fn bytes_come_back_over_a_wire_that_loses_frames() {
    run(async {
        let [client, server] = nets(0.01);
        let (ours, theirs) = connect(&client, &server).await;
        let echoing = ::tokio::spawn(echo(theirs));
        let data = pattern(1_000_003);
        let received = exchange(ours, data.clone()).await.expect("an echo");
        assert!(received == data);
        assert_eq!(echoing.await.unwrap().unwrap(), data.len() as u64);
    });
}

#[test]
fn many_connections_have_their_own_bytes() {
    run(async {
        let [client, server] = nets(0.0);
        let listener = listen(&server);
        ::tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                ::tokio::spawn(echo(stream));
            }
        });
        let mut clients = JoinSet::new();
        for number in 0..200 {
            let client = client.clone();
            clients.spawn(async move {
                let stream = client.connect(address()).await?;
                let data = pattern(number * 100 + 1);
                let received = exchange(stream, data.clone()).await?;
                assert!(received == data);
                std::io::Result::Ok(())
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended.expect("no panic").expect("an echo");
        }
    });
}

#[test]
fn a_side_that_has_ended_its_direction_still_reads() {
    run(async {
        let [client, server] = nets(0.0);
        let (mut ours, mut theirs) = connect(&client, &server).await;
        ours.write_all(b"question").await.unwrap();
        ours.shutdown().await.unwrap();
        let mut question = String::new();
        theirs.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        theirs.write_all(b"answer").await.unwrap();
        drop(theirs);
        let mut answer = String::new();
        ours.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        let late = ours.write_all(b"more").await.unwrap_err();
        assert_eq!(late.kind(), std::io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_writer_waits_for_a_reader() {
    run(async {
        let [client, server] = nets(0.0);
        let (ours, mut theirs) = connect(&client, &server).await;
        let data = pattern(64 << 20);
        let len = data.len();
        let (_reader, mut writer) = ::tokio::io::split(ours);
        let expected = data.clone();
        let mut writing = ::tokio::spawn(async move { writer.write_all(&data).await });
        let early = timeout(Duration::from_millis(300), &mut writing).await;
        assert!(early.is_err(), "all of {len} bytes were taken unread");
        let mut received = vec![0; len];
        theirs.read_exact(&mut received).await.unwrap();
        assert!(received == expected);
        writing.await.unwrap().unwrap();
    });
}

#[test]
fn a_nic_in_another_process_carries_streams() {
    run(async {
        let paths = remote::sockets();
        let process = remote::Process::start(&paths);
        let client = Net::start(remote::attached(&paths[0], 1)).unwrap();
        let server = Net::start(remote::attached(&paths[1], 2)).unwrap();
        let (mut ours, theirs) = connect(&client, &server).await;
        ::tokio::spawn(echo(theirs));
        let mut byte = [0];
        ours.write_all(b"1").await.unwrap();
        ours.read_exact(&mut byte).await.unwrap();
        drop(process);
        let _next = remote::Process::start(&paths);
        let data = pattern(300_000);
        let received = exchange(ours, data.clone()).await.expect("an echo");
        assert!(received == data);
    });
}
