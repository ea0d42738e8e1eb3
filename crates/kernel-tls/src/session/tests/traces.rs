//! What calls give and what is on the wire, written down in `tests/traces` for programs of all kinds. Whatever changes it on purpose shows there what it
//! does; `LONGSHORE_WRITE=1` writes it anew.

use std::fmt::Debug;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_tcp_quickack};
use testkit::written;

use super::{CIPHERS, End, TLS_1_2, TLS_1_3, keyed, keys, pattern};
use crate::{
    RECORD_TYPE_DATA, TLS_RX, TLS_RX_EXPECT_NO_PAD, TLS_TX, TLS_TX_MAX_PAYLOAD_LEN,
    TLS_TX_ZEROCOPY_RO, socket,
};

const HANDSHAKE: u8 = 22;
const KEY_UPDATE: &[u8] = &[24, 0, 0, 1, 0];

#[derive(Clone, Debug)]
enum Step {
    /// Pieces of these lengths.
    Write(Vec<usize>),
    /// A record of another type.
    Control(u8, usize),
    /// So many bytes of a file, from this one, or from where it stands.
    File(Option<u64>, usize),
    /// Records of so many bytes at most.
    Limit(u16),
    /// New keys of the sender, told as TLS 1.3 does.
    Rekey,
    /// With so much room, room for the type, and `MSG_PEEK`.
    Read(usize, bool, bool),
    /// New keys of the receiver.
    NewKeys,
    /// What is on the wire, and what the ends say.
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![4 => 0usize..50, 4 => 0usize..2_000, 1 => 4_000usize..18_000];
    prop_oneof![
        5 => prop::collection::vec(len(), 1..4).prop_map(Step::Write),
        1 => (prop_oneof![Just(21u8), Just(HANDSHAKE), any::<u8>()], 0usize..100)
            .prop_map(|(record_type, len)| Step::Control(record_type, len)),
        1 => (prop::option::of(0u64..30_000), 0usize..9_000).prop_map(|(from, len)| Step::File(from, len)),
        1 => prop_oneof![50u16..70, 1_000u16..16_500].prop_map(Step::Limit),
        1 => Just(Step::Rekey),
        8 => (prop_oneof![0usize..100, 0usize..60_000], any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(room, control, peeks)| Step::Read(room, control, peeks)),
        2 => Just(Step::NewKeys),
        2 => Just(Step::Look),
    ]
}

/// Waits until all that one end has sent is in the other one's socket.
fn settle(from: &End, to: &End) {
    for _ in 0..10_000 {
        // Else it is acknowledged later.
        set_tcp_quickack(&to.socket, true).expect("a TCP socket");
        if socket::unacknowledged(from.socket.as_fd()) == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!(
        "{} bytes stay in the sender's socket",
        socket::unacknowledged(from.socket.as_fd())
    );
}

/// What a call gave, or the number of its error.
fn told<T: Debug>(given: Result<T, Errno>) -> String {
    match given {
        Ok(given) => format!("{given:?}"),
        Err(error) => format!("errno {}", error.raw_os_error()),
    }
}

struct Run {
    ends: (End, End),
    version: u16,
    cipher: u16,
    /// Keys so far, of the sender and of the receiver.
    generations: (u8, u8),
    /// The receiver can't go on without new ones.
    wants_keys: bool,
    file: OwnedFd,
    data: Vec<u8>,
}

impl Run {
    /// Does a step and tells what it gave.
    fn step(&mut self, step: Step) -> String {
        let (a, b) = &self.ends;
        let new_keys = |number: u8| keys(self.version, self.cipher, 100 + number, 0);
        match step {
            Step::Write(lens) => {
                let pieces: Vec<_> = lens.iter().map(|len| &self.data[..*len]).collect();
                let fd = a.socket.as_fd();
                let sent = a
                    .session
                    .send(fd, &pieces, RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
                format!("write {lens:?}: {}", told(sent))
            }
            Step::Control(record_type, len) => {
                let sent = a.send(&self.data[..len], record_type, 0);
                format!("control {record_type} {len}: {}", told(sent))
            }
            Step::File(from, len) => {
                let fd = a.socket.as_fd();
                let sent = a.session.send_file(fd, self.file.as_fd(), from, len);
                let stands = rustix::fs::tell(&self.file);
                format!("file {from:?} {len}: {}, stands at {stands:?}", told(sent))
            }
            Step::Limit(most) => {
                let set = a.set(TLS_TX_MAX_PAYLOAD_LEN, &most.to_ne_bytes());
                format!("limit {most}: {}", told(set))
            }
            Step::Rekey => {
                let sent = a.send(KEY_UPDATE, HANDSHAKE, 0);
                self.generations.0 += 1;
                let set = a.set(TLS_TX, &new_keys(self.generations.0));
                format!("rekey: {} {}", told(sent), told(set))
            }
            Step::Read(room, control, peeks) => {
                settle(a, b);
                let peek = if peeks { libc::MSG_PEEK } else { 0 };
                let got = b.receive(room, control, libc::MSG_DONTWAIT | peek);
                self.wants_keys |= got.as_ref().err() == Some(&Errno::KEYEXPIRED);
                let got = match got {
                    Ok((data, received)) => format!("{received:?} {:x}", written::sum(&data)),
                    Err(error) => told(Err::<(), _>(error)),
                };
                format!("read {room} {control} {peeks}: {got}")
            }
            Step::NewKeys if self.wants_keys => {
                self.generations.1 += 1;
                let set = told(b.set(TLS_RX, &new_keys(self.generations.1)));
                self.wants_keys = false;
                format!("new keys: {set}")
            }
            Step::NewKeys => "no new keys".to_owned(),
            Step::Look => {
                settle(a, b);
                let mut wire = vec![0; 1 << 20];
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                let seen = rustix::net::recv(&b.socket, &mut wire[..], flags).map(|(len, _)| len);
                let sum = written::sum(&wire[..seen.unwrap_or(0)]);
                let fd = b.socket.as_fd();
                let (ready, readable) = (b.session.is_readable(fd), b.session.readable(fd));
                let options = [
                    (a, TLS_TX),
                    (b, TLS_RX),
                    (a, TLS_TX_MAX_PAYLOAD_LEN),
                    (a, TLS_TX_ZEROCOPY_RO),
                    (b, TLS_RX_EXPECT_NO_PAD),
                ];
                let options = options.map(|(end, option)| {
                    let len = match option {
                        TLS_TX | TLS_RX => new_keys(0).len(),
                        TLS_TX_MAX_PAYLOAD_LEN => 2,
                        _ => 4,
                    };
                    let mut value = vec![0; len];
                    let len = end.session.option(option, &mut value);
                    format!(" {} {:x}", told(len), written::sum(&value))
                });
                let (seen, readable) = (told(seen), told(readable));
                format!(
                    "look: {seen} {sum:x}, {ready} {readable},{}",
                    options.concat()
                )
            }
        }
    }
}

/// A line for each program, and all of the first one of each version and cipher.
#[test]
fn programs_of_all_kinds() {
    let mut runner = TestRunner::deterministic();
    let file = memfd_create("file", MemfdFlags::CLOEXEC).expect("memory");
    rustix::io::write(&file, &pattern(50_000)).expect("memory");
    for version in [TLS_1_2, TLS_1_3] {
        for cipher in CIPHERS {
            let mut lines = Vec::new();
            for number in 0..12 {
                let steps = prop::collection::vec(step(), 40).new_tree(&mut runner);
                let ends = keyed(version, cipher).expect("loopback");
                // Room for all that is not read.
                set_socket_recv_buffer_size(&ends.1.socket, 1 << 20).expect("a socket");
                let mut run = Run {
                    ends,
                    version,
                    cipher,
                    generations: (0, 0),
                    wants_keys: false,
                    file: rustix::io::dup(&file).expect("a descriptor"),
                    data: pattern(20_000),
                };
                rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(1_000)).expect("memory");
                let steps = steps.expect("steps").current();
                let told: Vec<_> = steps.into_iter().map(|step| run.step(step)).collect();
                let most = if number == 0 { told.len() } else { 0 };
                lines.extend(written::shorten(told, most));
            }
            let name = format!("program_{version:x}_{cipher}");
            written::compare(env!("CARGO_MANIFEST_DIR"), &name, &lines);
        }
    }
}
