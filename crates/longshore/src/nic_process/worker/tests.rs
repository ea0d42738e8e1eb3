use nic::{Nic, NicConfig};
use port::memory::{LinkConfig, link as wire};
use rustix::net::{RecvFlags, SendFlags};

use super::super::channel::{self, ConnectionId, Header, Kind, MOST_BYTES};
use super::super::link::{link, pair};
use super::super::placement::tests::options;
use super::super::sleep::until_readable;
use super::*;

fn worker(link: Uplink) -> Worker {
    Worker {
        path: DataPath::new(
            Nic::new(NicConfig::new([7; 16])),
            RingsHosts::open(std::iter::empty(), 0).unwrap(),
            Box::new(wire(LinkConfig::for_mtu(1500)).0),
            None,
            false,
        ),
        hosts: Vec::new(),
        others: Others::default(),
        placement: Placement::of(&options(&["rings:a"], &["--wire", "mem"])),
        link: Some(link),
        attachments: Attachments::default(),
        is_new: true,
        ending: None,
    }
}

/// Whether anything is asked of it.
fn is_asked(worker: &Worker, quiet: BorrowedFd<'_>) -> bool {
    let now = Instant::now();
    let asked = asked(&worker.attachments, worker.link.as_ref(), quiet);
    until_readable(asked, usize::MAX, now, Some(now))
}

/// The first one dies while connections come to rest.
#[test]
fn a_worker_that_ends_answers_the_next_control_process() {
    let (supervisor, uplink) = link().unwrap();
    let (quiet, _silent) = pair().unwrap();
    let (now, patience) = (Instant::now(), Duration::from_secs(10));
    let mut worker = worker(uplink);
    worker.begin_to_end(now, patience);
    for _ in 0..2 {
        let (control, workers) = pair().unwrap();
        supervisor.give_channel(workers.as_fd()).unwrap();
        drop(workers);
        assert!(is_asked(&worker, quiet.as_fd()));
        worker.hear(now, patience);
        let question = Header {
            connection: ConnectionId(1),
            uid: 0,
            kind: Kind::Stat,
        };
        channel::send(control.as_fd(), question, &[], None, SendFlags::empty()).unwrap();
        assert!(is_asked(&worker, quiet.as_fd()));
        worker.answer(now, false);
        let mut buffer = vec![0; MOST_BYTES];
        let flags = RecvFlags::DONTWAIT;
        let answer = channel::receive(control.as_fd(), &mut buffer, flags).unwrap();
        assert_eq!(answer.header.kind, Kind::Counters);
        drop(control);
        worker.answer(now, false);
        assert!(!is_asked(&worker, quiet.as_fd()));
    }
    assert!(!worker.has_ended(now));
}

#[test]
fn the_end_of_a_supervisor_is_heard_once() {
    let (supervisor, uplink) = link().unwrap();
    let (quiet, _silent) = pair().unwrap();
    let (now, patience) = (Instant::now(), Duration::from_secs(10));
    let mut worker = worker(uplink);
    worker.is_new = false;
    drop(supervisor);
    assert!(is_asked(&worker, quiet.as_fd()));
    worker.hear(now, patience);
    assert!(worker.ending.is_some() && !worker.has_ended(now));
    assert!(!is_asked(&worker, quiet.as_fd()), "it would never sleep");
}

#[test]
fn a_worker_that_has_slept_lets_connections_come_to_rest() {
    const ASLEEP: Duration = Duration::from_millis(1500);
    let signals = Signals::block().unwrap();
    let (supervisor, uplink) = link().unwrap();
    let mut worker = worker(uplink);
    worker.is_new = false;
    let begun = Instant::now();
    let supervisor = std::thread::spawn(move || {
        std::thread::sleep(ASLEEP);
        drop(supervisor);
    });
    // Less than it has slept.
    let options = options(&["rings:a"], &["--wire", "mem", "--drain", "1"]);
    worker.work(&signals, &options).unwrap();
    supervisor.join().unwrap();
    let took = begun.elapsed();
    assert!(took > ASLEEP + Duration::from_millis(400), "{took:?}");
}
