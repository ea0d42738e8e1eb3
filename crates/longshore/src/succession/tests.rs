//! What fits, and what is said.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use port::Ports;
use tcp::TimeWaitEntry;
use wire::{FlowKey, SeqNum};

use super::Claim;
use super::line::Line;
use super::words::{AT_ONCE, LeftPorts, Resting, VERSION, Word};

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
            "by version 2 of the protocol, the new process takes over by version 3",
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
}
