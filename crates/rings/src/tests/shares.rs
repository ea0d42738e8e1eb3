//! What the hosts of one socket have together.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::SealFlags;

use super::rig::{MAC, memfd, path};
use crate::guest::{Line, Memory};
use crate::{Gate, Limits, Refusal, Server};

fn map(line: &Line, page: u64, file: BorrowedFd<'_>) -> Result<(), Refusal> {
    let memory = Memory {
        address: page << 12,
        offset: 0,
        len: 1 << 12,
        writable: false,
    };
    line.map(memory, file).unwrap()
}

#[test]
fn a_host_has_no_more_mappings_with_the_former_ones_than_one_may_have() {
    let limits = Limits {
        files: 4,
        ..Limits::default()
    };
    let (gate, channel) = Gate::channel().unwrap();
    let mut server = Server::new(&path(), MAC, limits).unwrap().for_guests();
    server.connect(channel).unwrap();
    let [former, next] = [0, 1].map(|_| Line::open(gate.as_fd()).unwrap());
    let file = memfd(4096, SealFlags::empty());
    for page in 0..3 {
        assert_eq!(map(&former, page, file.as_fd()), Ok(()));
    }
    assert_eq!(map(&next, 0, file.as_fd()), Ok(()));
    assert_eq!(map(&next, 1, file.as_fd()), Err(Refusal::TooMany));
    // Another one's share is its own.
    let (gate, channel) = Gate::channel().unwrap();
    let mut other = Server::new(&path(), MAC, limits).unwrap().for_guests();
    other.connect(channel).unwrap();
    let others = Line::open(gate.as_fd()).unwrap();
    assert_eq!(map(&others, 0, file.as_fd()), Ok(()));

    drop(former);
    let until = Instant::now() + Duration::from_secs(10);
    while map(&next, 1, file.as_fd()).is_err() {
        assert!(Instant::now() < until, "what the former one had stays");
        thread::sleep(Duration::from_millis(1));
    }
    for page in 2..4 {
        assert_eq!(map(&next, page, file.as_fd()), Ok(()));
    }
    assert_eq!(map(&next, 4, file.as_fd()), Err(Refusal::TooMany));
}
