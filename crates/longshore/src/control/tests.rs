use std::path::PathBuf;

use super::protocol::{TcpFigures, TlsFigures};
use super::server::ControlError;
use super::*;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longshore-control-{}-{name}", std::process::id()))
}

fn groups() -> Vec<CounterGroup> {
    vec![CounterGroup::new(
        "nic",
        [("tx_packets", 5), ("rx_packets", 0)],
    )]
}

/// Serves until the client has its answer.
fn served(
    server: &mut Server,
    client: std::thread::JoinHandle<anyhow::Result<Answer>>,
) -> anyhow::Result<Answer> {
    while !client.is_finished() {
        server.poll(|request| match request {
            Request::Stat => Answer::Stat(groups()),
            Request::Sockets => Answer::Sockets(Vec::new()),
            Request::Restore { .. } => Answer::Restored(0),
            Request::Drain { .. } | Request::Fault { .. } | Request::TakeOver(_) => Answer::Done,
            Request::Reload => Answer::Reloaded {
                restart: vec!["--port".to_owned()],
            },
            Request::Attach => Answer::Attached,
        });
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    client.join().unwrap()
}

#[test]
fn questions_are_answered_and_the_socket_goes_away() {
    let at = path("answers");
    let mut server = Server::bind(&at).unwrap();
    let asked = at.clone();
    let client = std::thread::spawn(move || ask(&asked, Request::Stat));
    assert_eq!(served(&mut server, client).unwrap(), Answer::Stat(groups()));
    assert!(matches!(Server::bind(&at), Err(ControlError::InUse(_))));
    drop(server);
    assert!(!at.exists());
    let error = ask(&at, Request::Stat).unwrap_err().to_string();
    assert!(error.contains("--control"), "{error}");
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let at = path("stale");
    drop(std::os::unix::net::UnixListener::bind(&at).unwrap());
    assert!(at.exists());
    drop(Server::bind(&at).unwrap());
    std::fs::write(&at, "precious").unwrap();
    assert!(matches!(
        Server::bind(&at),
        Err(ControlError::NotASocket(_))
    ));
    std::fs::remove_file(&at).unwrap();
}

#[test]
fn counters_print_in_their_order() {
    assert_eq!(
        print::counters(&groups(), false),
        "nic statistics:\n     tx_packets: 5\n"
    );
    assert!(print::counters(&groups(), true).contains("     rx_packets: 0\n"));
    let json: serde_json::Value =
        serde_json::from_str(&print::counters_json(&groups()).unwrap()).unwrap();
    assert_eq!(json["nic"]["tx_packets"], 5);
}

#[test]
fn sockets_print_as_ss_does() {
    let socket = Socket {
        state: "ESTAB".into(),
        receive_queue: 0,
        send_queue: 14480,
        local: "10.9.0.2:443".into(),
        remote: "10.9.0.1:51000".into(),
        tcp: Some(TcpFigures {
            congestion: "cubic".into(),
            mss: 1448,
            cwnd: 14480,
            rtt_us: 1500,
            rto_us: 204_000,
            ecn: true,
            ..TcpFigures::default()
        }),
        skmem: None,
        nvme: None,
        owner: Some("nic".into()),
        spliced: true,
        tls: Some(TlsFigures {
            version: "TLSv1.3".into(),
            tx: "device".into(),
            ..TlsFigures::default()
        }),
    };
    let text = print::sockets(&[socket]);
    for part in [
        "ESTAB",
        "14480",
        "ecn cubic",
        "rto:204 ",
        "rtt:1.5/0",
        "cwnd:10",
        "\n    tcp  ecn cubic",
        "\n    tls  TLSv1.3",
        "tx:device",
        "\n         owner:nic spliced\n",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for line in text.lines().chain(print::FIELDS.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_nothing_and_gets_its_answer_later() {
    use std::io::{BufRead, BufReader, Write};
    let at = path("unread");
    let mut server = Server::bind(&at).unwrap();
    let mut client = std::os::unix::net::UnixStream::connect(&at).unwrap();
    // More than the socket's buffers hold.
    let counters = vec![("a_counter".to_owned(), 1 << 40); 100_000];
    let name = "nic".to_owned();
    let long = Answer::Stat(vec![CounterGroup { name, counters }]);
    client.write_all(b"{\"command\":\"stat\"}\n").unwrap();
    for _ in 0..100 {
        let begun = std::time::Instant::now();
        server.poll(|_| long.clone());
        assert!(begun.elapsed() < std::time::Duration::from_secs(1));
    }
    let reader = std::thread::spawn(move || {
        let mut reply = String::new();
        BufReader::new(client).read_line(&mut reply).unwrap();
        serde_json::from_str::<Answer>(&reply).unwrap()
    });
    while !reader.is_finished() {
        let mut fds: Vec<_> = server.fds().collect();
        let fd = fds.pop().unwrap();
        let mut waited = [rustix::event::PollFd::from_borrowed_fd(
            fd,
            rustix::event::PollFlags::IN,
        )];
        let second = rustix::event::Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut waited, Some(&second)).unwrap();
        server.poll(|_| unreachable!("one request has one answer"));
    }
    assert_eq!(reader.join().unwrap(), long);
}

#[test]
fn strangers_may_ask_to_be_attached_and_nothing_else() {
    let mut stranger = Conversation::new(false);
    stranger
        .take(b"{\"command\":\"stat\"}\n{\"command\":\"attach\"}\n{")
        .unwrap();
    assert!(matches!(
        stranger.next_request(),
        Some(Err(Answer::Error(_)))
    ));
    assert_eq!(stranger.next_request(), Some(Ok(Request::Attach)));
    assert_eq!(stranger.next_request(), None);
    assert!(stranger.take(&[b' '; 5000]).is_err());
}

/// One has room in its queue, the other one has not.
#[test]
fn services_that_are_stopped_keep_no_other_waiting_and_are_named() {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    let names = ["full", "silent", "served"];
    let services = names.map(|name| Service::of(path(name)));
    let [full, silent, served] = &services;
    let listeners = [full, silent].map(|it| UnixListener::bind(&it.socket).unwrap());
    rustix::net::listen(&listeners[0], 0).unwrap();
    let _first = UnixStream::connect(&full.socket).unwrap();
    let mut server = Server::bind(&served.socket).unwrap();
    let (begun, over) = (Instant::now(), AtomicBool::new(false));
    let answers = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                server.poll(|_| Answer::Stat(groups()));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let answers = Service::each(&services, |service| {
            Client::connect(&service.socket)?.ask(&Request::Stat)
        });
        over.store(true, Ordering::Relaxed);
        answers
    });
    // Each has 5 s.
    assert!(begun.elapsed() < Duration::from_secs(8));
    for (service, answer) in services.iter().zip(answers) {
        let socket = service.socket.display();
        match answer {
            Ok(answer) => assert_eq!((service, answer), (served, Answer::Stat(groups()))),
            Err(error) => assert!(
                error
                    .to_string()
                    .starts_with(&format!("{socket} does not answer"))
            ),
        }
        if service != served {
            std::fs::remove_file(&service.socket).unwrap();
        }
    }
}
