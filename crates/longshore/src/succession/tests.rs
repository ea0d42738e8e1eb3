//! What fits, and what is said.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use port::Ports;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tcp::TimeWaitEntry;
use wire::{FlowKey, SeqNum};

use super::line::Line;
use super::queues::checked_ways;
use super::words::{AT_ONCE, LeftPorts, Resting, VERSION, Word};
use super::{Claim, PATIENCE};

fn claim() -> Claim {
    Claim {
        version: VERSION,
        service: "serve".to_owned(),
        tap: "ls0".to_owned(),
        queues: 2,
        packets_only: false,
    }
}

#[test]
fn what_does_not_fit_is_named() {
    assert!(claim().check(&claim()).is_ok());
    let refusals = [
        (
            Claim {
                version: VERSION + 1,
                ..claim()
            },
            "by version 3 of the protocol, the new process takes over by version 4",
        ),
        (
            Claim {
                service: "lb".to_owned(),
                ..claim()
            },
            "it is `longshore serve`, not `longshore lb`",
        ),
        (
            Claim {
                tap: "ls1".to_owned(),
                ..claim()
            },
            "its interface is ls0, not ls1",
        ),
        (
            Claim {
                queues: 1,
                ..claim()
            },
            "it has 2 queues of ls0, not 1; take over with as many --cores",
        ),
        (
            Claim {
                packets_only: true,
                ..claim()
            },
            "impairs its link",
        ),
    ];
    for (other, said) in refusals {
        let refused = claim().check(&other).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_claim_of_a_later_version_is_understood_as_far_as_its_version() {
    let later = r#"{"version":7,"service":{"name":"serve"}}"#;
    let claim: Claim = serde_json::from_str(later).unwrap();
    assert_eq!(claim.version, 7);
}

#[test]
fn lines_come_with_their_descriptors_and_an_end_is_told_from_silence() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (passed, _) = UnixStream::pair().unwrap();
    let (mut ours, mut theirs) = (Line::new(ours).unwrap(), Line::new(theirs).unwrap());
    assert_eq!(theirs.try_hear::<Word>().unwrap(), None);
    let ready = Word::Ready { listens: vec![443] };
    ours.say(&ready, &[std::os::fd::AsFd::as_fd(&passed)])
        .unwrap();
    ours.say(&Word::Ended, &[]).unwrap();
    assert_eq!(theirs.hear::<Word>(Duration::from_secs(1)).unwrap(), ready);
    assert_eq!(theirs.take_descriptors().len(), 1);
    assert_eq!(theirs.try_hear::<Word>().unwrap(), Some(Word::Ended));
    drop(ours);
    assert!(theirs.try_hear::<Word>().is_err());
}

#[test]
fn connections_are_named_in_lines_of_bounded_length() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut ours, mut theirs) = (Line::new(ours).unwrap(), Line::new(theirs).unwrap());
    let end = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
    let end: SocketAddr = end.parse().unwrap();
    let entry = TimeWaitEntry {
        snd_nxt: SeqNum(u32::MAX),
        rcv_nxt: SeqNum(u32::MAX),
        rcv_wnd: u32::MAX,
        window: u16::MAX,
        timestamps: Some((u32::MAX, u32::MAX)),
    };
    let flows = Word::Flows {
        worker: 255,
        ends: vec![(end, end); AT_ONCE],
    };
    let resting = Resting::new(FlowKey::new(end, end), entry);
    let resting = Word::Resting {
        worker: 255,
        flows: vec![resting; AT_ONCE],
    };
    for word in [flows, resting] {
        let said = word.clone();
        let speaker = std::thread::spawn(move || {
            ours.say(&said, &[]).unwrap();
            ours
        });
        let heard: Word = theirs.hear(Duration::from_secs(10)).unwrap();
        assert_eq!(heard, word);
        ours = speaker.join().unwrap();
    }
}

#[test]
fn ports_are_said_as_they_are() {
    let ports = host::Stack::ports_of_predecessor(vec![443, 60_000]);
    let said = LeftPorts::from(&ports);
    assert_eq!(Ports::from(said), ports);
    assert_eq!((ports.has(60_000), ports.has(65_535)), (false, true));
    let said = Ports::new(60_000..65_536, vec![65_000, 60_000, 65_000]);
    assert_eq!(said.except(), [60_000, 65_000]);
    assert!([60_000, 65_000, 80].iter().all(|&port| !said.has(port)));
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

#[test]
fn a_successor_has_to_give_what_it_has_promised() {
    let refused = |sockets, words: &str| {
        let error = checked_ways(sockets, 2).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let ways = || pair(SocketType::SEQPACKET);
    refused(vec![ways().0], "1 sockets came for 2 queues");
    refused(vec![ways().0, ways().0, ways().0], "3 sockets");
    refused(
        vec![ways().0, pair(SocketType::STREAM).0],
        "does not carry whole packets",
    );
    let file = File::open("/").unwrap();
    refused(vec![ways().0, file.into()], "no socket");
    let (one, _other) = ways();
    refused(
        vec![one.try_clone().unwrap(), one],
        "one socket came for two",
    );
    // Reading from what was made to wait does not.
    let (mine, theirs) = ways();
    let checked = checked_ways(vec![mine, ways().0], 2).unwrap();
    let read = rustix::io::read(&checked[0], &mut [0; 10][..]);
    assert_eq!(read, Err(Errno::AGAIN));
    drop(theirs);
}

/// As slowly as it likes, that is.
#[test]
fn a_process_that_reads_a_little_at_a_time_is_not_waited_for() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ours = Line::new(ours).unwrap();
    let listens = (0..100_000).map(|port| port as u16).collect();
    let reads = std::thread::spawn(move || {
        let mut some = [0; 4096];
        while theirs.read(&mut some).is_ok_and(|len| len > 0) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let began = Instant::now();
    let said = ours.say(&Word::Ready { listens }, &[]);
    assert!(said.is_err() && began.elapsed() < 2 * PATIENCE);
    drop(ours);
    reads.join().unwrap();
}

#[test]
fn what_was_not_heard_is_told_without_a_look_at_the_socket() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut ours, mut theirs) = (Line::new(ours).unwrap(), Line::new(theirs).unwrap());
    ours.say(&Word::Ended, &[]).unwrap();
    ours.say(&Word::Over, &[]).unwrap();
    assert_eq!(theirs.try_hear().unwrap(), Some(Word::Ended));
    assert!(theirs.has_more());
    assert_eq!(theirs.try_hear().unwrap(), Some(Word::Over));
    assert!(!theirs.has_more());
}
