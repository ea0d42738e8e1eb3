//! A device that goes, and another one that comes to the same rings.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::ethernet::MacAddr;

use super::super::block::Block;
use super::super::gather::Gather;
use super::super::region::{RegionId, Slice};
use super::super::regions::Regions;
use super::super::send::SendDescriptor;
use super::super::{BadConfig, ContextId};
use super::super::{DeviceFunction, FunctionConfig, HostFunction, NotEmpty, RecvDescriptor};

pub(super) fn config() -> FunctionConfig {
    FunctionConfig {
        send_entries: 8,
        command_entries: 8,
        receive_entries: 8,
        small_entries: 8,
        large_entries: 4,
        ..FunctionConfig::new(MacAddr([2, 0, 0, 0, 0, 1]))
    }
}

pub(super) fn host(config: FunctionConfig) -> (HostFunction, Arc<Block>) {
    let block = Arc::new(Block::allocate(config.block_bytes()));
    let host = HostFunction::over(&block, config, Arc::new(Regions::default()));
    (host, block)
}

pub(super) fn device(block: &Arc<Block>) -> Result<DeviceFunction, NotEmpty> {
    DeviceFunction::over(block, config(), Arc::new(Regions::default()))
}

const BUFFER: Slice = Slice {
    offset: 0,
    len: 2048,
    region: RegionId(0),
};

fn destroy(context: u32) -> SendDescriptor<'static> {
    SendDescriptor::DestroyContext {
        context: ContextId(context),
    }
}

fn reset(epoch: u32) -> RecvDescriptor {
    RecvDescriptor::Reset { epoch }
}

#[test]
fn the_next_device_begins_where_the_host_has_cleared() {
    let (mut host, block) = host(config());
    let queue = &mut host.queues[0];
    for life in 0..20 {
        let mut device = device(&block).expect("the rings are empty");
        let theirs = &mut device.queues[0];
        let mut gather = Gather::EMPTY;
        for context in 0..5 {
            queue.send.post(&destroy(context)).expect("room");
        }
        queue.commands.post(&destroy(9)).expect("room");
        assert!(queue.small.push(BUFFER) && queue.small.push(BUFFER));
        let _ = queue.publish();
        // It dies with some of that taken, and something reported.
        for _ in 0..life % 4 {
            assert!(theirs.send.take(&mut gather).is_some());
        }
        theirs.send.publish();
        theirs.small.pop();
        assert!(theirs.recv.push(reset(life)));
        theirs.recv.publish();
        assert!(theirs.recv.push(reset(99)), "and something more");
        drop(device);

        assert_eq!(queue.recv.pop(), Some(reset(life)));
        assert_eq!(queue.recv.pop(), None);
        queue.send.post(&destroy(7)).expect("room");
        queue.clear();
        assert_eq!(queue.send.completed(), queue.send.posted());
        assert_eq!(queue.small.free(8), 8);
    }
}

#[test]
fn a_ring_with_something_on_it_is_not_taken() {
    let (mut host, block) = host(config());
    assert!(device(&block).is_ok());
    host.queues[0].send.post(&destroy(1)).expect("room");
    let _ = host.queues[0].publish();
    assert_eq!(device(&block).unwrap_err(), NotEmpty);
    host.queues[0].clear();
    assert!(device(&block).is_ok());
}

/// Counts at which adding up would wrap, and heads beyond tails.
#[test]
fn counts_that_no_ring_can_have_are_not_taken() {
    let (_host, block) = host(config());
    let (tail, head) = (&block.words()[0], &block.words()[16]);
    for (at_tail, at_head, is_taken) in [
        (1 << 62, 1 << 62, true),
        ((1 << 62) + 1, (1 << 62) + 1, false),
        (u64::MAX, u64::MAX, false),
        (u64::MAX, 0, false),
        (0, 1, false),
        (7, 7, true),
    ] {
        tail.store(at_tail, Ordering::Relaxed);
        head.store(at_head, Ordering::Relaxed);
        assert_eq!(device(&block).is_ok(), is_taken, "{at_tail} {at_head}");
    }
}

#[test]
fn settings_that_no_function_can_have_are_named() {
    let good = config();
    assert_eq!(good.check(), Ok(()));
    for queues in [0, 65, u16::MAX] {
        let bad = FunctionConfig { queues, ..good };
        assert_eq!(bad.check(), Err(BadConfig::Queues(queues)));
    }
    for entries in [0, 3, 1 << 21, u32::MAX] {
        for bad in [
            FunctionConfig {
                send_entries: entries,
                ..good
            },
            FunctionConfig {
                command_entries: entries,
                ..good
            },
            FunctionConfig {
                receive_entries: entries,
                ..good
            },
            FunctionConfig {
                small_entries: entries,
                ..good
            },
            FunctionConfig {
                large_entries: entries,
                ..good
            },
        ] {
            assert_eq!(bad.check(), Err(BadConfig::Entries(entries)));
        }
    }
}
