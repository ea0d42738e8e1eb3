use std::io::{self, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use port::capture::Capture;
use port::memory::{LinkConfig, link};
use port::{Meta, Port};

use crate::frames::{counter, receive, send, send_plain};

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Type and body of each block; both lengths have been compared.
fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let len = word(4) as usize;
        assert_eq!(word(len - 4) as usize, len);
        blocks.push((word(0), &bytes[8..len - 4]));
        bytes = &bytes[len..];
    }
    blocks
}

#[test]
fn frames_and_keys_are_recorded_in_their_order() {
    let output = Shared::default();
    let (left, mut right) = link(LinkConfig::for_mtu(1500));
    let now = Instant::now();
    let day = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    let mut left = Capture::new(left, output.clone(), (now, day)).unwrap();
    let keys = left.handle();
    send(&mut left, now, &[vec![1; 61]], Meta::default());
    let later = now + Duration::from_millis(50);
    assert_eq!(left.poll_timeout(), Some(later));
    receive(&mut left, later);
    assert_eq!(left.poll_timeout(), None);
    keys.add_keys("CLIENT_RANDOM aa bb\n");
    keys.add_keys("CLIENT_RANDOM cc dd");
    send(&mut right, later, &[vec![2; 70]], Meta::default());
    receive(&mut left, later + Duration::from_nanos(11));
    drop(left);

    let bytes = output.0.lock().unwrap().clone();
    let blocks = blocks(&bytes);
    let kinds: Vec<u32> = blocks.iter().map(|block| block.0).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 10, 6]);
    let word = |block: usize, at: usize| {
        u32::from_ne_bytes(blocks[block].1[at..at + 4].try_into().unwrap())
    };
    let time = |block| u64::from(word(block, 4)) << 32 | u64::from(word(block, 8));
    assert_eq!(time(2), 1_700_000_000_123_456_789);
    assert_eq!(time(4), 1_700_000_000_173_456_800);
    assert_eq!((word(2, 12), word(4, 12)), (61, 70));
    assert_eq!(blocks[2].1[20..81], [1; 61]);
    // epb_flags: outbound, inbound.
    assert_eq!((word(2, 20 + 64 + 4), word(4, 20 + 72 + 4)), (2, 1));
    let lines = b"CLIENT_RANDOM aa bb\nCLIENT_RANDOM cc dd\n";
    assert_eq!(word(3, 4) as usize, lines.len());
    assert_eq!(&blocks[3].1[8..8 + lines.len()], lines);
}

#[test]
fn keys_go_before_the_frame_that_they_are_made_of() {
    let output = Shared::default();
    let (left, _right) = link(LinkConfig::for_mtu(1500));
    let now = Instant::now();
    let mut left = Capture::new(left, output.clone(), (now, SystemTime::now())).unwrap();
    send(&mut left, now, &[vec![1; 61]], Meta::default());
    assert!(left.prepare_sleep());
    left.handle().add_keys("CLIENT_RANDOM aa bb");
    send(
        &mut left,
        now + Duration::from_millis(1),
        &[vec![2; 61]],
        Meta::default(),
    );
    drop(left);
    let bytes = output.0.lock().unwrap().clone();
    let kinds: Vec<u32> = blocks(&bytes).iter().map(|block| block.0).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 10, 6, 6]);
}

#[test]
fn a_failure_to_write_ends_the_recording_only() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (left, mut right) = link(LinkConfig::for_mtu(1500));
    let now = Instant::now();
    let mut left = Capture::new(left, Full(300), (now, SystemTime::now())).unwrap();
    let handle = left.handle();
    send(&mut left, now, &vec![vec![1; 100]; 10], Meta::default());
    assert_eq!(receive(&mut right, now).len(), 10);
    let later = now + Duration::from_millis(50);
    receive(&mut left, later);
    assert_eq!(
        handle.error().map(|error| error.kind()),
        Some(io::ErrorKind::StorageFull)
    );
    send(&mut left, later, &[vec![1; 100]], Meta::default());
    assert_eq!(left.poll_timeout(), None);
    assert_eq!(counter(&left, "capture_packets"), 10);
    assert!(left.flush().is_err());
}

#[test]
fn tshark_reads_the_file() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed (sudo apt-get install tshark)");
        return;
    }
    let path = std::env::temp_dir().join(format!("longshore-{}.pcapng", std::process::id()));
    let (left, mut right) = link(LinkConfig::for_mtu(1500));
    let now = Instant::now();
    let mut left = Capture::create(left, &path, now).unwrap();
    left.handle().add_keys(&format!(
        "CLIENT_RANDOM {} {}",
        "ab".repeat(32),
        "cd".repeat(48)
    ));
    let request = arp(1, [10, 0, 0, 2]);
    send_plain(&mut left, now, std::slice::from_ref(&request));
    send_plain(&mut right, now, &[arp(2, [10, 0, 0, 1])]);
    receive(&mut left, now + Duration::from_nanos(1));
    receive(&mut left, now + Duration::from_millis(50));
    assert!(
        left.prepare_sleep(),
        "what is not held back any more is written before a sleep"
    );

    let fields = [
        "-T",
        "fields",
        "-e",
        "frame.packet_flags_direction",
        "-e",
        "arp.opcode",
    ];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(fields)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0x00000002\t1\n0x00000001\t2\n"
    );
}

fn arp(operation: u8, target: [u8; 4]) -> Vec<u8> {
    let ethernet = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    let head = [
        8, 6, 0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 1, 10, 0, 0, 9,
    ];
    [&ethernet[..], &head, &[0; 6], &target].concat()
}
