use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::SealFlags;

use super::rig::{memfd, path};
use crate::fault::Share;
use crate::memory;

#[test]
fn what_is_made_here_can_be_shown() {
    let file = memory::create(10_000).unwrap();
    assert!(memory::keeps(file.as_fd(), 10_000));
    assert!(!memory::keeps(file.as_fd(), 10_001));
    assert!(rustix::fs::ftruncate(&file, 1).is_err());
    assert!(rustix::fs::ftruncate(&file, 20_000).is_err());
}

#[test]
fn what_may_shrink_or_is_no_memory_is_not_kept() {
    assert!(!memory::keeps(memfd(4096, SealFlags::GROW).as_fd(), 4096));
    assert!(memory::keeps(memfd(4096, SealFlags::SHRINK).as_fd(), 4096));
    for path in ["/proc/self/exe", "/dev/zero", "/"] {
        let file = File::open(path).unwrap();
        assert!(!memory::keeps(file.as_fd(), 1), "{path}");
    }
}

#[test]
fn regular_files_of_this_machine_are_files() {
    let path = path();
    std::fs::write(&path, b"hello").unwrap();
    let file = File::open(&path).unwrap();
    assert!(memory::is_local_file(file.as_fd()));
    for path in ["/dev/zero", "/proc/self/maps", "/"] {
        let file = File::open(path).unwrap();
        assert!(!memory::is_local_file(file.as_fd()), "{path}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn memory_of_a_machine_is_no_file_of_a_disk() {
    assert!(memory::is_guest_memory(
        memfd(4096, SealFlags::empty()).as_fd()
    ));
    for path in ["/dev/zero", "/dev/shm", "/proc/self/maps", "/sys/kernel/mm"] {
        if let Ok(file) = File::open(path) {
            assert!(!memory::is_guest_memory(file.as_fd()), "{path}");
        }
    }
    let source = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let system = rustix::fs::fstatfs(&source).unwrap().f_type as u64;
    assert_eq!(
        memory::is_guest_memory(source.as_fd()),
        system == 0x0102_1994,
        "unless the sources are in memory"
    );
}

/// Two mappings of one memfd are one memory: what one side writes the other reads.
#[test]
fn two_mappings_are_one_memory() {
    let file = memory::create(8192).unwrap();
    let one = memory::map_shared(file.as_fd(), 0, 8192).unwrap();
    let two = memory::map_shared(file.as_fd(), 4096, 4096).unwrap();
    assert_ne!(one.as_ptr().wrapping_add(4096), two.as_ptr());
    assert!(one.write(5000, b"hello"));
    let mut bytes = [0; 5];
    assert!(two.read(5000 - 4096, &mut bytes));
    assert_eq!(&bytes, b"hello");
}

#[test]
fn a_file_that_shrinks_reads_as_zeroes() {
    let path = path();
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(&[7; 20_000]).unwrap();
    let passed = file.try_clone().unwrap();
    let region = memory::map_passed_file(passed.as_fd(), 0, 20_000, &Share::new(1)).unwrap();
    let own = memory::map_file(OwnedFd::from(passed), 4096, 10_000).unwrap();
    assert!(!region.writable() && !memory::has_shrunk(&own));
    let mut byte = [0];
    assert!(region.read(19_999, &mut byte) && byte == [7] && !region.is_faulted());
    file.set_len(10).unwrap();
    assert!(region.read(19_999, &mut byte) && byte == [0]);
    assert!(region.is_faulted() && !own.is_faulted());
    assert!(memory::has_shrunk(&own));
    assert!(!memory::has_shrunk(&region), "whose file nobody knows");
}

/// Each page that is lost does not become a mapping of its own: a process may have only so many.
#[test]
fn a_file_that_shrinks_takes_up_no_mappings() {
    const PAGE: usize = 4096;
    const LEN: usize = 1000 * PAGE;
    let path = path();
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(LEN as u64).unwrap();
    let region = memory::map_passed_file(file.as_fd(), 0, LEN, &Share::new(1)).unwrap();
    file.set_len(0).unwrap();
    for page in (0..1000).step_by(2).rev() {
        assert!(region.read((page * PAGE) as u64, &mut [0; 8]));
    }
    let start = region.as_ptr().addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let inside = maps.lines().filter(|line| {
        let from = line.split('-').next().unwrap();
        let from = usize::from_str_radix(from, 16).unwrap();
        (start..=start + LEN).contains(&from)
    });
    let inside: Vec<&str> = inside.collect();
    // Zeroes, and the page after the last one, by which the mapping has its file.
    assert!(inside.len() <= 2, "{inside:#?}");
    assert!(region.is_faulted());
}
