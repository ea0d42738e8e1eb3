//! A file system that others fill, and what is found again.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::{
    Arena, MAX_PIECE, New, RecordBoundary, State, StateConfig, StateError, Table, UNIT, order_for,
};
use crate::Config;

const SMALL: StateConfig = StateConfig {
    flows: 64,
    retain: 2 << 20,
};

/// A tmpfs of so many bytes that is mounted nowhere. `None` without `CAP_SYS_ADMIN`.
fn tmpfs(bytes: u64) -> Option<OwnedFd> {
    let context = match rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC) {
        Err(Errno::PERM | Errno::NOSYS) => {
            eprintln!("skipped: a file system can't be mounted");
            return None;
        }
        context => context.unwrap(),
    };
    rustix::mount::fsconfig_set_string(&context, "size", &*bytes.to_string()).unwrap();
    rustix::mount::fsconfig_create(&context).unwrap();
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let mount = rustix::mount::fsmount(&context, flags, MountAttrFlags::empty());
    Some(mount.unwrap())
}

fn file(directory: &OwnedFd, name: &str) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).unwrap()
}

/// Another takes all that is left.
fn fill(directory: &OwnedFd) {
    let other = file(directory, "other");
    while rustix::io::write(&other, &[7; 4096]).is_ok() {}
}

fn flow(port: u16) -> FlowKey {
    FlowKey {
        src: (Ipv4Addr::new(10, 0, 0, 1).into(), 443),
        dst: (Ipv4Addr::new(10, 0, 0, 2).into(), port),
    }
}

fn new(port: u16, cookie: u64, tenant: u32) -> New {
    New {
        flow: flow(port),
        cookie,
        tenant,
        bases: 0x1234_5678_9abc_def0,
        una: SeqNum(0),
        is_reset: false,
    }
}

fn arena(state: &State) -> Arena {
    let config = Config::default();
    let (host, _) = nic::ring::function(config.function(MacAddr([2, 0, 0, 0, 0, 1])));
    Arena::new(state, &host.regions).unwrap().0
}

#[test]
fn a_file_system_that_others_fill_takes_nothing_from_a_state() {
    let Some(directory) = tmpfs(4 << 20) else {
        return;
    };
    let state = State::open(&file(&directory, "state"), SMALL).unwrap();
    fill(&directory);
    let (mut table, _) = Table::new(&state);
    for port in 0..64 {
        assert!(table.add(&new(port, 1, port.into())).is_some());
    }
    let mut arena = arena(&state);
    let bytes = vec![7; MAX_PIECE as usize];
    while let Some(unit) = arena.allocate(order_for(MAX_PIECE), (0, 1), SeqNum(0)) {
        arena.append(unit, (0, 0), 1, &bytes);
    }
    assert_eq!(arena.free_bytes(), 0);
}

#[test]
fn a_state_for_which_there_is_no_room_says_so_and_leaves_nothing() {
    let Some(directory) = tmpfs(1 << 20) else {
        return;
    };
    let file = file(&directory, "state");
    let refused = State::open(&file, SMALL).unwrap_err();
    let StateError::NoSpace { needed, free } = refused else {
        panic!("{refused}");
    };
    assert!(
        needed > 2 << 20 && free <= 1 << 20,
        "{needed} bytes of {free}"
    );
    assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 0);
    let smaller = StateConfig {
        retain: 128 << 10,
        ..SMALL
    };
    assert!(State::open(&file, smaller).unwrap().is_new());
}

#[test]
fn a_state_that_is_found_is_not_new_and_has_its_connections() {
    let file = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
    let state = State::open(&file, SMALL).unwrap();
    assert!(state.is_new());
    let (mut table, found) = Table::new(&state);
    assert!(found.is_empty());
    let (index, _) = table.add(&new(7, 99, 1000)).unwrap();
    let boundary = RecordBoundary {
        tcpsn: SeqNum(5),
        index: 3,
    };
    table.set_boundary(index, boundary);
    state.commit();
    drop((table, state));
    let state = State::open(&file, SMALL).unwrap();
    assert!(!state.is_new());
    let (mut table, found) = Table::new(&state);
    let entry = &found[0];
    assert_eq!((entry.flow, entry.cookie), (flow(7), 99));
    assert_eq!(
        (entry.tenant, entry.bases, entry.boundary),
        (1000, 0x1234_5678_9abc_def0, boundary)
    );
    table.remove(index);
    let (again, _) = table.add(&new(8, 1, 7)).unwrap();
    let (_, found) = Table::new(&state);
    assert_eq!(again, index);
    let nothing = RecordBoundary {
        tcpsn: SeqNum(0),
        index: 0,
    };
    assert_eq!(
        (found[0].tenant, found[0].boundary),
        (7, nothing),
        "nothing of the former one"
    );
}

#[test]
fn a_file_of_something_else_and_one_of_another_size_stay_as_they_are() {
    let file = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&file, &[7; 5000]).unwrap();
    assert_eq!(
        State::open(&file, SMALL).unwrap_err(),
        StateError::NotAState
    );
    let file = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
    State::open(&file, SMALL).unwrap().commit();
    let other = StateConfig {
        retain: SMALL.retain + u64::from(MAX_PIECE),
        ..SMALL
    };
    let refused = StateError::OtherSize {
        flows: 64,
        retain: SMALL.retain / UNIT as u64 * UNIT as u64,
    };
    assert_eq!(State::open(&file, other).unwrap_err(), refused);
    assert!(!State::open(&file, SMALL).unwrap().is_new());
}
