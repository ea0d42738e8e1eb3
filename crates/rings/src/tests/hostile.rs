//! Hosts that lie, do not read, or go.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use nic::FrameMeta;
use nic::ring::{FunctionConfig, RegionId};
use rustix::fs::SealFlags;

use super::rig::{MAC, Rig, config, memfd, path, rings};
use crate::Limits;
use crate::memory;
use crate::message::{Answer, Extent, Refusal, Request};

fn refused(refusal: Refusal) -> Option<Answer> {
    Some(Answer::Refused(refusal))
}

#[test]
fn another_version_is_told_so_and_let_go_of() {
    let mut rig = Rig::new();
    let raw = rig.dial();
    let mut bytes = Request::SetUp(config()).to_bytes();
    let word = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
    bytes[..8].copy_from_slice(&(word + 1).to_ne_bytes());
    raw.send(&bytes, Some(rings().as_fd()));
    let answer = rig.until(|_| raw.answer(&Request::Unfinished));
    assert_eq!(answer, refused(Refusal::Version(crate::VERSION)));
    assert_eq!(rig.server.function(), None);
    let answer = rig.until(|_| raw.answer(&Request::Unfinished));
    assert_eq!(answer, None);
}

#[test]
fn rings_that_are_none_are_refused() {
    let bytes = config().block_bytes() as u64;
    let cases: [(Option<OwnedFd>, Refusal); 6] = [
        (None, Refusal::BadMemory),
        (Some(memfd(bytes, SealFlags::empty())), Refusal::BadMemory),
        (Some(memfd(bytes, SealFlags::GROW)), Refusal::BadMemory),
        (
            Some(memfd(bytes - 1, SealFlags::SHRINK)),
            Refusal::BadMemory,
        ),
        (
            Some(File::open("/dev/zero").unwrap().into()),
            Refusal::BadMemory,
        ),
        // It can't be written to.
        (
            Some(memfd(bytes, SealFlags::SHRINK | SealFlags::WRITE)),
            Refusal::BadMemory,
        ),
    ];
    let mut rig = Rig::new();
    for (file, refusal) in cases {
        let raw = rig.dial();
        let answer = rig.ask(
            &raw,
            &Request::SetUp(config()),
            file.as_ref().map(AsFd::as_fd),
        );
        assert_eq!(answer, refused(refusal), "{file:?}");
    }
    let used = rings();
    let words = memory::map_shared(used.as_fd(), 0, 8).unwrap();
    assert!(words.write(0, &1u64.to_ne_bytes()));
    let raw = rig.dial();
    let answer = rig.ask(&raw, &Request::SetUp(config()), Some(used.as_fd()));
    assert_eq!(answer, refused(Refusal::NotEmpty));
    assert_eq!(rig.nic.functions().count(), 0);
    rig.host();
}

#[test]
fn sizes_and_quotas_beyond_the_limits_are_refused() {
    let mut rig = Rig::new();
    let good = config();
    let large = memfd(1 << 40, SealFlags::SHRINK);
    for bad in [
        FunctionConfig { queues: 0, ..good },
        FunctionConfig { queues: 17, ..good },
        FunctionConfig {
            send_entries: 0,
            ..good
        },
        FunctionConfig {
            send_entries: 48,
            ..good
        },
        FunctionConfig {
            receive_entries: 1 << 15,
            ..good
        },
        FunctionConfig {
            large_entries: u32::MAX,
            ..good
        },
        FunctionConfig {
            contexts: (1 << 18) + 1,
            ..good
        },
        FunctionConfig {
            tags: u32::MAX,
            ..good
        },
        FunctionConfig {
            packet_memory: u64::MAX,
            ..good
        },
        FunctionConfig {
            toe_connections: u32::MAX,
            ..good
        },
    ] {
        let raw = rig.dial();
        let answer = rig.ask(&raw, &Request::SetUp(bad), Some(large.as_fd()));
        assert_eq!(answer, refused(Refusal::BadConfig), "{bad:?}");
    }
    assert_eq!(rig.nic.functions().count(), 0);
}

#[test]
fn one_host_at_a_time_and_the_next_when_it_has_gone() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        let host = rig.host();
        assert_eq!(rig.nic.functions().count(), 1);
        let second = rig.dial();
        let answer = rig.ask(&second, &Request::SetUp(config()), Some(rings().as_fd()));
        assert_eq!(answer, refused(Refusal::Busy));
        let answer = rig.ask(&host, &Request::SetUp(config()), Some(rings().as_fd()));
        assert_eq!(answer, refused(Refusal::Meaningless), "it has one");
        rig.leave(host);
    }
    rig.server.drain();
    let late = rig.dial();
    let answer = rig.ask(&late, &Request::SetUp(config()), Some(rings().as_fd()));
    assert_eq!(answer, refused(Refusal::Draining));
}

#[test]
fn nothing_but_a_set_up_begins() {
    let mut rig = Rig::new();
    for request in [Request::Unfinished, Request::Register(extent(0, 4096))] {
        let raw = rig.dial();
        let file = memfd(4096, SealFlags::SHRINK);
        let answer = rig.ask(&raw, &request, Some(file.as_fd()));
        assert_eq!(answer, refused(Refusal::Meaningless));
    }
}

fn extent(offset: u64, len: u64) -> Extent {
    Extent {
        id: RegionId(3),
        offset,
        len,
        writable: true,
    }
}

#[test]
fn regions_that_are_none_are_refused() {
    let mut rig = Rig::new();
    let host = rig.host();
    let good = memfd(8192, SealFlags::SHRINK);
    let own = path();
    std::fs::write(&own, vec![1; 8192]).unwrap();
    let file = OwnedFd::from(File::open(&own).unwrap());
    let device = OwnedFd::from(File::open("/dev/zero").unwrap());
    let read_only = |extent| Extent {
        writable: false,
        ..extent
    };
    let (bad_memory, bad_file) = (Refusal::BadMemory, Refusal::BadFile);
    for (extent, file, refusal) in [
        (extent(0, 4096), None, bad_memory),
        (extent(0, 0), Some(&good), bad_memory),
        (extent(0, 8193), Some(&good), bad_memory),
        (extent(4096, 4097), Some(&good), bad_memory),
        (extent(1, 100), Some(&good), bad_memory),
        (extent(u64::MAX - 4095, 4096), Some(&good), bad_memory),
        (extent(0, u64::MAX), Some(&good), Refusal::TooMany),
        (extent(0, 1 << 40), Some(&good), Refusal::TooMany),
        (extent(0, 4096), Some(&file), bad_memory),
        (extent(0, 4096), Some(&device), bad_memory),
        (read_only(extent(0, 4096)), Some(&device), bad_file),
        (read_only(extent(0, 0)), Some(&file), bad_file),
        (read_only(extent(5, 10)), Some(&file), bad_file),
    ] {
        let request = Request::Register(extent);
        let answer = rig.ask(&host, &request, file.map(AsFd::as_fd));
        assert_eq!(answer, refused(refusal), "{extent:?}");
    }
    for (extent, file) in [
        (extent(4096, 4096), &good),
        (read_only(extent(4096, 1)), &file),
    ] {
        let answer = rig.ask(&host, &Request::Register(extent), Some(file.as_fd()));
        assert_eq!(answer, Some(Answer::Registered));
    }
    std::fs::remove_file(own).unwrap();
}

#[test]
fn regions_are_counted_and_given_back() {
    let mut rig = Rig::with(Limits {
        regions: 3,
        files: 1,
        writable: 3 * 4096,
        ..Limits::default()
    });
    let host = rig.host();
    let file = memfd(3 * 4096, SealFlags::SHRINK);
    let register = |rig: &mut Rig, id, len| {
        let extent = Extent {
            id: RegionId(id),
            ..extent(0, len)
        };
        rig.ask(&host, &Request::Register(extent), Some(file.as_fd()))
    };
    for _ in 0..10 {
        assert_eq!(register(&mut rig, 0, 4096), Some(Answer::Registered));
        assert_eq!(register(&mut rig, 1, 4096), Some(Answer::Registered));
        assert_eq!(register(&mut rig, 2, 2 * 4096), refused(Refusal::TooMany));
        // In place of what had the id.
        assert_eq!(register(&mut rig, 1, 2 * 4096), Some(Answer::Registered));
        host.send(&Request::Unregister(RegionId(0)).to_bytes(), None);
        host.send(&Request::Unregister(RegionId(1)).to_bytes(), None);
        host.send(&Request::Unregister(RegionId(9)).to_bytes(), None);
    }
}

#[test]
fn who_does_not_read_is_let_go_of() {
    let mut rig = Rig::new();
    let host = rig.host();
    rig.until(|rig| {
        for _ in 0..100 {
            host.send(&Request::SetUp(config()).to_bytes(), None);
        }
        rig.server.function().is_none().then_some(())
    });
    assert_eq!(rig.nic.functions().count(), 0);
}

/// Draws numbers.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// Small numbers and large ones, as lengths, indices and counts are.
    fn word(&mut self) -> u64 {
        let shift = self.next() % 64;
        self.next() >> shift
    }
}

/// All of the shared memory is garbled, over and over, while the NIC does what the rings say.
#[test]
fn nothing_in_the_shared_memory_harms_the_nic() {
    for seed in 0..if cfg!(debug_assertions) { 6 } else { 60 } {
        let mut draw = Draw(seed);
        let mut rig = Rig::new();
        let raw = rig.dial();
        let file = rings();
        let answer = rig.ask(&raw, &Request::SetUp(config()), Some(file.as_fd()));
        assert!(matches!(answer, Some(Answer::SetUp { .. })));
        let memory = memfd(1 << 16, SealFlags::SHRINK);
        let extent = Extent {
            id: RegionId(0),
            ..extent(0, 1 << 16)
        };
        rig.ask(&raw, &Request::Register(extent), Some(memory.as_fd()));
        let bytes = config().block_bytes();
        let words = memory::map_shared(file.as_fd(), 0, bytes).unwrap();
        let (now, mut out) = (Instant::now(), vec![0; 1 << 17]);
        let frame = [&MAC.0[..], &[0x55; 200]].concat();
        let mut tails = [0u64; 5];
        for _ in 0..400 {
            for _ in 0..200 {
                let at = draw.next() % (bytes as u64 / 8);
                let word = draw.word();
                assert!(words.write(at * 8, &word.to_ne_bytes()));
            }
            // Of the rings that the NIC reads, the counts go on as they may, so that it takes what is there.
            for (at, tail) in places().into_iter().zip(&mut tails) {
                *tail += draw.next() % 8;
                assert!(words.write(at, &tail.to_ne_bytes()));
            }
            for _ in 0..20 {
                rig.nic.handle_frame(now, &frame, FrameMeta::default());
                if rig.nic.poll_transmit(now, &mut out).is_none() {
                    break;
                }
            }
            rig.nic.flush(now);
            rig.nic.take_wakeups(|_, _| {});
            rig.nic.prepare_sleep();
            rig.nic.cancel_sleep();
        }
        rig.leave(raw);
    }
}

/// Where the counts of the send, command and fill rings' producers are: each ring has three lines of 128 bytes before its slots.
fn places() -> [u64; 5] {
    let ring = |slots: u64, slot: u64| (384 + slots * slot).next_multiple_of(128);
    let send = ring(64, 192);
    let recv = 2 * send;
    let small = recv + ring(64, 64);
    let large = small + ring(64, 16);
    [0, send, recv, small, large]
}
