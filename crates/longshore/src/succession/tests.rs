//! What fits, and what is said.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use handshake::TicketKeys;
use port::Ports;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;
use tcp::TimeWaitEntry;
use wire::{FlowKey, SeqNum};

use super::giving::say_of_each;
use super::line::Line;
use super::other::{Heard, Other};
use super::queues::checked_ways;
use super::taking::{Left, Predecessor, hear_what_is_given};
use super::words::{AT_ONCE, LeftPorts, Resting, VERSION, Word};
use super::{All, Claim, Drains, HandsOver, PATIENCE, Shards, Succession};
use crate::attach::Attached;
use crate::background::Background;
use crate::control::{self, Answer, Request, ask};
use crate::cores::Cores;
use crate::service::{Application, Service};
use crate::shards::tests::{Ending, Idle, attached, endings};
use crate::shards::{Shard, Threads};
use crate::signals::Signals;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn lines() -> (Line, Line) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Line::new(ours).unwrap(), Line::new(theirs).unwrap())
}

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
    let (mut ours, mut theirs) = lines();
    let (passed, _) = UnixStream::pair().unwrap();
    assert_eq!(theirs.try_hear::<Word>().unwrap(), None);
    let ready = Word::Ready { listens: vec![443] };
    ours.say(soon(), &ready, &[passed.as_fd()]).unwrap();
    ours.say(soon(), &Word::Ended, &[]).unwrap();
    assert_eq!(theirs.hear::<Word>(soon()).unwrap(), ready);
    assert_eq!(theirs.take_descriptors().len(), 1);
    assert_eq!(theirs.try_hear::<Word>().unwrap(), Some(Word::Ended));
    drop(ours);
    assert!(theirs.try_hear::<Word>().is_err());
}

#[test]
fn connections_are_named_in_lines_of_bounded_length() {
    let (mut ours, mut theirs) = lines();
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
            ours.say(soon(), &said, &[]).unwrap();
            ours
        });
        let heard: Word = theirs.hear(soon()).unwrap();
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

#[test]
fn a_process_that_reads_a_little_at_a_time_is_not_waited_for() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ours = Line::new(ours).unwrap();
    let reads = thread::spawn(move || {
        let mut some = [0; 4096];
        while theirs.read(&mut some).is_ok_and(|len| len > 0) {
            thread::sleep(Duration::from_millis(10));
        }
    });
    // Each word has time enough, and all together have not.
    let end: SocketAddr = "10.0.0.1:443".parse().unwrap();
    let flows = vec![vec![(end, end); 100 * AT_ONCE]; 2];
    let began = Instant::now();
    let until = began + Duration::from_secs(1);
    let said = say_of_each(&mut ours, until, &flows, |worker, ends| Word::Flows {
        worker,
        ends,
    });
    assert!(said.is_err() && began.elapsed() < PATIENCE);
    // Part of a word was said: what follows would be taken for its end.
    let more = ours.say(soon(), &Word::Over, &[]).unwrap_err();
    assert_eq!(more.to_string(), "the other process did not listen");
    drop(ours);
    reads.join().unwrap();
}

#[test]
fn a_process_that_says_a_word_now_and_then_is_not_waited_for() {
    let (mut ours, mut theirs) = lines();
    let says = thread::spawn(move || {
        let flows = Word::Flows {
            worker: 0,
            ends: Vec::new(),
        };
        while ours.say(soon(), &flows, &[]).is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    let until = Instant::now() + Duration::from_millis(300);
    let heard = hear_what_is_given(&mut theirs, 1, until).unwrap_err();
    assert_eq!(
        heard.to_string(),
        "the other process does not answer in time"
    );
    drop(theirs);
    says.join().unwrap();
}

#[test]
fn the_end_is_waited_for_whatever_is_said_before() {
    let (mut ours, mut theirs) = lines();
    let says = thread::spawn(move || {
        ours.say(soon(), &Word::Over, &[]).unwrap();
        thread::sleep(Duration::from_millis(200));
    });
    let began = Instant::now();
    theirs.await_end(soon());
    assert!(began.elapsed() >= Duration::from_millis(150));
    says.join().unwrap();
}

/// A process that does nothing until it is killed, and a line that counts as its own.
fn other() -> (Child, Other, UnixStream) {
    let mut command = Command::new("cat");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null());
    let child = child.spawn().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let other = Other::of(Pid::from_child(&child), ours).unwrap();
    (child, other, theirs)
}

fn ends(mut child: Child, other: &mut Other) {
    assert_eq!(other.hear::<Word>(), Heard::Nothing);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(other.hear::<Word>(), Heard::End);
}

#[test]
fn a_process_that_hangs_up_has_not_ended() {
    let (child, mut other, theirs) = other();
    drop(theirs);
    assert_eq!(other.hear::<Word>(), Heard::Nothing);
    assert!(other.line().is_err());
    ends(child, &mut other);
}

#[test]
fn a_process_that_says_what_is_no_word_has_not_ended() {
    let (child, mut other, mut theirs) = other();
    theirs
        .write_all(b"\"ended\"\n{\"later\":1}\n\"taken\"\n")
        .unwrap();
    assert_eq!(other.hear(), Heard::Word(Word::Ended));
    assert_eq!(other.hear::<Word>(), Heard::Nothing);
    // What follows means nothing, and that process learns so.
    assert_eq!(other.hear::<Word>(), Heard::Nothing);
    assert!(theirs.read(&mut [0]).is_ok_and(|len| len == 0) || theirs.write(b"\n").is_err());
    ends(child, &mut other);
}

impl Drains for Idle {
    fn drain(&mut self, _now: Instant, _attached: &mut Attached, _drains: bool) {}

    fn abort_all(&mut self, _now: Instant, _attached: &mut Attached) {}
}

#[test]
fn a_predecessor_that_says_what_it_has_not_to_say_has_the_queues_until_it_ends() {
    let (mut child, other, mut theirs) = other();
    let mut predecessor = Predecessor::new(other);
    let (mut own, mut attached) = (Idle, attached());
    let bell = attached.runtime.doorbell();
    let cores = Cores::Count(1);
    let mut others = Threads::start("test", Vec::new(), &cores, &bell).unwrap();
    let mut all = All {
        own: &mut own,
        attached: &mut attached,
        others: &mut others,
    };
    theirs.write_all(b"\"taken\"\n\"over\"\n").unwrap();
    for _ in 0..3 {
        assert_eq!(predecessor.poll(Instant::now(), &mut all), None);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = predecessor.poll(Instant::now(), &mut all);
    assert_eq!(left, Some(Left::Early));
}

impl Drains for Ending {
    fn drain(&mut self, _now: Instant, _attached: &mut Attached, _drains: bool) {}

    fn abort_all(&mut self, _now: Instant, _attached: &mut Attached) {}
}

/// A service that has taken over, and does nothing.
struct Taken(Shards<Ending>);

impl Application for Taken {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> anyhow::Result<bool> {
        self.0.others.check()?;
        self.0.own.poll(now, attached)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(10))
    }

    fn answer(&mut self, _now: Instant, _request: Request, _attached: &mut Attached) -> Answer {
        Answer::Done
    }

    fn hands_over(&mut self) -> Option<&mut dyn HandsOver> {
        Some(&mut self.0)
    }
}

#[test]
fn one_that_fails_leaves_the_control_socket_to_the_process_that_takes_the_place_back() {
    let at = std::env::temp_dir().join(format!("longshore-heir-{}", std::process::id()));
    let mut first = control::Server::bind(&at).unwrap();
    let listener = first.as_fd().try_clone_to_owned().unwrap();
    first.leave();
    let mut control = control::Server::adopt(&at, listener.into()).unwrap();
    control.come_back().unwrap();
    control.set_heir(true);

    let (mut child, other, _theirs) = other();
    let predecessor = Some(Predecessor::new(other));
    let mut service = Taken(Shards {
        own: Ending::default(),
        others: endings(1),
        succession: Succession::new(claim(), None, predecessor),
        tickets: Arc::new(TicketKeys::of(Vec::new()).unwrap()),
    });
    service.0.others.tell_each(move |shard, _| {
        // Both processes are looked after before.
        thread::sleep(Duration::from_millis(200));
        shard.fails = true;
    });
    let ran = Service {
        signals: &Signals::block().unwrap(),
        control: Some(&mut control),
        readiness: &mut Background::default().begin().unwrap(),
    }
    .run(&mut service, &mut attached());
    assert_eq!(ran.unwrap_err().to_string(), "it was told to fail");
    drop((service, control));
    child.kill().unwrap();
    child.wait().unwrap();

    first.come_back().unwrap();
    let asked = at.clone();
    let client = thread::spawn(move || ask(&asked, Request::Stat));
    while !client.is_finished() {
        first.poll(|_| Answer::Done);
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.join().unwrap().unwrap(), Answer::Done);
    drop(first);
    assert!(!at.exists());
}

#[test]
fn what_was_not_heard_is_told_without_a_look_at_the_socket() {
    let (mut ours, mut theirs) = lines();
    ours.say(soon(), &Word::Ended, &[]).unwrap();
    ours.say(soon(), &Word::Over, &[]).unwrap();
    assert_eq!(theirs.try_hear().unwrap(), Some(Word::Ended));
    assert!(theirs.has_more());
    assert_eq!(theirs.try_hear().unwrap(), Some(Word::Over));
    assert!(!theirs.has_more());
}
