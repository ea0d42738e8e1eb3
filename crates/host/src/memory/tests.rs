use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use nic::ring::{Region, RegionId};
use proptest::prelude::*;

use super::*;

fn arena(layout: ArenaLayout) -> Arena {
    let region = Arc::new(Region::anonymous(layout.bytes() as usize));
    Arena::new(region, RegionId(3), layout, Limits::NONE)
}

const SMALL: ArenaLayout = ArenaLayout {
    header: 4,
    packet: 4,
    record: 2,
    large: 2,
};

#[test]
fn a_length_picks_the_smallest_class_that_holds_it() {
    let arena = arena(SMALL);
    for (len, class) in [
        (0, SizeClass::Header),
        (256, SizeClass::Header),
        (257, SizeClass::Packet),
        (1514, SizeClass::Packet),
        (16_640, SizeClass::Record),
        (65_600, SizeClass::Large),
    ] {
        assert_eq!(arena.allocate(Purpose::Queued, len).unwrap().class(), class);
    }
    assert!(arena.allocate(Purpose::Queued, 70_000).is_none());
}

#[test]
fn an_exhausted_class_borrows_from_the_next_and_then_refuses() {
    let arena = arena(SMALL);
    let taken: Vec<_> = (0..12)
        .map(|_| arena.allocate(Purpose::Queued, 100).unwrap())
        .collect();
    assert!(arena.allocate(Purpose::Queued, 100).is_none());
    assert_eq!(arena.stats().in_use(), 12);
    drop(taken);
    assert_eq!(arena.stats().in_use(), 0);
}

#[test]
fn parts_are_disjoint_and_the_last_one_frees_the_block() {
    let arena = arena(SMALL);
    let mut front = arena.allocate(Purpose::Queued, 2000).unwrap();
    let mut back = front.split_off(1000);
    front.fill(1);
    back.fill(2);
    assert!(front.iter().all(|&b| b == 1));
    assert_eq!(front.slice().offset + 1000, back.slice().offset);
    drop(front);
    assert_eq!(arena.stats().in_use(), 1);
    assert!(back.iter().all(|&b| b == 2));
    drop(back);
    assert_eq!(arena.stats().in_use(), 0);
}

#[test]
fn a_lent_block_comes_back_once_with_the_bytes_that_the_device_named() {
    let arena = arena(SMALL);
    let slice = arena
        .allocate_class(Purpose::Posted, SizeClass::Packet)
        .unwrap()
        .lend()
        .unwrap();
    assert_eq!(arena.stats().in_use(), 1);
    let received = nic::ring::Slice {
        offset: slice.offset + 14,
        len: 100,
        ..slice
    };
    let beyond = nic::ring::Slice {
        offset: slice.offset + 2000,
        len: 100,
        ..slice
    };
    assert!(arena.reclaim(beyond).is_none());
    let buffer = arena.reclaim(received).unwrap();
    assert_eq!((buffer.len(), buffer.slice()), (100, received));
    assert!(arena.reclaim(received).is_none(), "named twice");
    drop(buffer);
    assert!(
        arena.reclaim(received).is_none(),
        "named after it was freed"
    );
    assert_eq!(arena.stats().in_use(), 0);
}

#[test]
fn a_block_in_parts_is_not_lent() {
    let arena = arena(SMALL);
    let mut front = arena.allocate(Purpose::Queued, 100).unwrap();
    let back = front.split_off(10);
    let LendError(front) = front.lend().unwrap_err();
    drop(back);
    assert!(front.lend().is_ok());
}

/// An arena with such limits, whose classes hold as much as they allow.
fn limited(limits: Limits) -> Arena {
    let layout = ArenaLayout::reserving(limits.bytes());
    let region = Arc::new(Region::anonymous(layout.bytes() as usize));
    Arena::new(region, RegionId(3), layout, limits)
}

#[test]
fn what_is_queued_leaves_the_rest_to_others() {
    const LARGE: u64 = SizeClass::Large.bytes() as u64;
    let limits = Limits {
        data: 16 * LARGE,
        awaited: 2 * LARGE,
        control: 2 * LARGE,
    };
    let arena = limited(limits);
    let all = |purpose| {
        let take = || arena.allocate_class(purpose, SizeClass::Large);
        std::iter::from_fn(take).collect::<Vec<_>>()
    };
    let queued = all(Purpose::Queued);
    assert_eq!(queued.len(), 12);
    assert_eq!(arena.headroom(Purpose::Queued), 0);
    // The device's buffers have no limit but the rings, and what they bring is the socket's to refuse.
    let posted = arena.allocate_class(Purpose::Posted, SizeClass::Large);
    let slice = posted.expect("a buffer").lend().expect("whole");
    assert_eq!(arena.usage().bytes(), 12 * LARGE);
    let received = arena.reclaim(slice).expect("lent");
    assert_eq!(arena.usage().received, LARGE);
    // Those who make progress take what is left of the data, and half of the reserve.
    let next = all(Purpose::Next);
    assert_eq!(next.len(), 4);
    let control = all(Purpose::Control);
    assert_eq!(control.len(), 3);
    drop((received, queued, next, control));
    assert_eq!(arena.usage(), Usage::default());
    assert_eq!(all(Purpose::Control).len(), 20);
}

/// Bytes of the range that are in memory.
fn in_memory(start: *mut u8, len: usize) -> usize {
    let page = rustix::param::page_size();
    let mut pages = vec![0u8; len.div_ceil(page)];
    // SAFETY: the vector has a byte for each page of the range, which is mapped.
    let asked = unsafe { libc::mincore(start.cast(), len, pages.as_mut_ptr()) };
    assert_eq!(asked, 0);
    pages.iter().filter(|&&page| page & 1 == 1).count() * page
}

#[test]
fn trimming_gives_memory_back_and_what_is_in_use_stays() {
    const BYTES: u64 = 8 << 20;
    let limits = Limits {
        data: 4 * BYTES,
        ..Limits::NONE
    };
    let layout = ArenaLayout::reserving(limits.data);
    let len = layout.bytes() as usize;
    let file = rustix::fs::memfd_create("arena", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, len as u64).unwrap();
    let (may, flags) = (
        rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
        rustix::mm::MapFlags::SHARED,
    );
    // SAFETY: a new mapping replaces nothing; it stays for as long as the test's process.
    let start =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, may, flags, &file, 0) }.unwrap();
    // SAFETY: mapped just now, for good.
    let shared = unsafe { Region::from_raw_parts(start.cast(), len, Arc::new(()), true) };
    let shared = shared.backed_by(nic::ring::Backing { file, offset: 0 });
    for region in [Region::anonymous(len), shared] {
        let region = Arc::new(region);
        let arena = Arena::new(Arc::clone(&region), RegionId(3), layout, limits);
        let resident = || in_memory(region.as_ptr(), len) as u64;
        for class in SizeClass::ALL {
            let take = |_| {
                let mut buffer = arena.allocate_class(Purpose::Queued, class).unwrap();
                buffer.fill(7);
                buffer
            };
            let mut taken: Vec<_> = (0..BYTES / 2 / u64::from(class.bytes()))
                .map(take)
                .collect();
            let kept = taken.split_off(taken.len() / 2).swap_remove(0);
            drop(taken);
            let before = resident();
            assert!(before >= BYTES / 5 * 2 && arena.resident() >= BYTES / 5 * 2);
            let given = arena.trim(u64::MAX);
            assert!(given >= BYTES / 6, "{class:?} {given}");
            assert!(resident() < before - given / 5 * 4, "{class:?} {given}");
            assert!(kept.iter().all(|&byte| byte == 7));
            drop(kept);
            arena.trim(u64::MAX);
            assert!(resident() < 64 << 10, "{class:?} {}", resident());
            assert_eq!(arena.resident(), 0);
        }
    }
}

#[test]
fn two_threads_never_hold_the_same_block() {
    let arena = arena(ArenaLayout {
        header: 1024,
        packet: 0,
        record: 0,
        large: 0,
    });
    std::thread::scope(|scope| {
        for id in 1..=2u8 {
            let arena = arena.clone();
            scope.spawn(move || {
                for round in 0..20_000u32 {
                    let mut held = Vec::with_capacity(8);
                    for _ in 0..round % 8 {
                        let mut buffer = arena.allocate(Purpose::Queued, 256).unwrap();
                        buffer.fill(id);
                        held.push(buffer);
                    }
                    assert!(held.iter().all(|b| b[0] == id && b[255] == id));
                }
            });
        }
        let trim = |_| {
            arena.trim(8 << 10);
            std::thread::yield_now();
        };
        (0..200).for_each(trim);
    });
    assert_eq!(arena.stats().in_use(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any order of taking, splitting, lending, reclaiming and dropping leaves live buffers
    /// disjoint and the accounts right.
    #[test]
    fn live_buffers_never_overlap(steps in prop::collection::vec((0u8..5, any::<u16>()), 1..200)) {
        let arena = arena(SMALL);
        let mut live: Vec<Buffer> = Vec::new();
        let mut lent = Vec::new();
        for (step, n) in steps {
            match step {
                0 => live.extend(arena.allocate(Purpose::Queued, u32::from(n))),
                1 if !live.is_empty() => {
                    let at = usize::from(n) % live.len();
                    let cut = u32::from(n) % (live[at].len() as u32 + 1);
                    let back = live[at].split_off(cut);
                    live.push(back);
                }
                2 if !live.is_empty() => {
                    let at = usize::from(n) % live.len();
                    match live.swap_remove(at).lend() {
                        Ok(slice) => lent.push(slice),
                        Err(LendError(buffer)) => live.push(buffer),
                    }
                }
                3 if !lent.is_empty() => {
                    let slice = lent.swap_remove(usize::from(n) % lent.len());
                    live.push(arena.reclaim(slice).expect("a lent block comes back"));
                }
                4 if !live.is_empty() => {
                    let at = usize::from(n) % live.len();
                    drop(live.swap_remove(at));
                }
                _ => {}
            }
            let mut ranges: Vec<_> = live
                .iter()
                .map(Buffer::slice)
                .chain(lent.iter().copied())
                .map(|s| (s.offset, s.offset + u64::from(s.len)))
                .filter(|(start, end)| start < end)
                .collect();
            ranges.sort_unstable();
            prop_assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0));
        }
        drop(live);
        prop_assert_eq!(arena.stats().in_use(), lent.len() as u32);
    }
}

fn file_of(bytes: &[u8], name: &str) -> (File, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("longshore-{}-{name}", std::process::id()));
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(&path)
        .expect("a temporary file");
    file.write_all(bytes).expect("written");
    (file, path)
}

fn read(mapped: &MappedFile, at: usize) -> u8 {
    assert!((at as u64) < mapped.len());
    // SAFETY: within the mapping; volatile, so that the access happens here.
    unsafe { mapped.region().as_ptr().add(at).read_volatile() }
}

#[test]
fn a_file_that_shrinks_reads_as_zeroes_and_is_flagged() {
    let (file, path) = file_of(&[7; 64 * 1024], "shrinks");
    let mapped = MappedFile::map(&file, 64 * 1024, &path).unwrap();
    let other = MappedFile::map(&file, 4096, &path).unwrap();
    assert_eq!(read(&mapped, 40_000), 7);
    assert!(!mapped.faulted());
    file.set_len(4096).unwrap();
    assert_eq!(read(&mapped, 100), 7);
    assert!(!mapped.faulted());
    assert_eq!(read(&mapped, 60_000), 0);
    assert!(mapped.faulted());
    assert!(!other.faulted(), "another mapping of the file lost nothing");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_guard_lives_as_long_as_the_region() {
    let (file, path) = file_of(&[7; 8192], "outlives");
    let mapped = MappedFile::map(&file, 8192, &path).unwrap();
    let region = mapped.region().clone();
    drop(mapped);
    file.set_len(0).unwrap();
    // SAFETY: within the region.
    assert_eq!(unsafe { region.as_ptr().add(4096).read_volatile() }, 0);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_empty_file_is_not_mapped() {
    let (file, path) = file_of(b"", "empty");
    assert!(matches!(
        MappedFile::map(&file, 0, &path),
        Err(MapError::Empty { .. })
    ));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_cache_gives_up_the_least_recently_used_file_that_nobody_sends() {
    let mut cache = FileCache::new(2);
    let mut identities = Vec::new();
    let mut held = None;
    for n in 0..4u16 {
        let (file, path) = file_of(&[n as u8; 100], &format!("cache-{n}"));
        let identity = FileIdentity::from(&file.metadata().unwrap());
        identities.push(identity);
        assert!(cache.find(&identity).is_none());
        let mapped = Arc::new(MappedFile::map(&file, 100, &path).unwrap());
        if n == 0 {
            held = Some(mapped.clone());
        }
        let evicted = cache.insert(identity, mapped, RegionId(n));
        let expected = match n {
            2 => Some(RegionId(1)),
            3 => Some(RegionId(2)),
            _ => None,
        };
        assert_eq!(evicted.map(|(_, id)| id), expected);
        std::fs::remove_file(path).unwrap();
    }
    assert!(cache.find(&identities[0]).is_some());
    assert!(cache.find(&identities[2]).is_none());
    assert_eq!(cache.stats().evictions, 2);
    drop(held);
}

#[test]
fn a_buffer_grows_into_its_own_block_only() {
    let arena = arena(ArenaLayout {
        header: 2,
        packet: 0,
        record: 0,
        large: 0,
    });
    let mut buffer = arena.allocate(Purpose::Queued, 1).expect("a block");
    buffer.truncate(100);
    buffer.advance(50);
    assert!(buffer.append(&[7; 156]) && !buffer.append(&[8]));
    assert_eq!(buffer.len(), 206);
    assert!(buffer[50..].iter().all(|&byte| byte == 7));
    let rest = buffer.split_off(100);
    assert!(!buffer.append(&[9]), "the bytes behind it are somebody's");
    drop(rest);
    assert!(buffer.append(&[9; 106]) && !buffer.append(&[9]));
}
