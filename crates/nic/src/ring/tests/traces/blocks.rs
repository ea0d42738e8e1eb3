//! Where rings lie in their block, and both sides of a function.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::super::block::Block;
use super::super::super::function::{DeviceFunction, FunctionConfig, HostFunction};
use super::super::super::gather::Gather;
use super::super::super::regions::Regions;
use super::super::super::*;
use super::super::renewal;
use super::{clip, compare};

fn destroy(context: u32) -> SendDescriptor<'static> {
    SendDescriptor::DestroyContext {
        context: ContextId(context),
    }
}

fn buffer(offset: u64) -> Slice {
    Slice {
        offset,
        len: 2048,
        region: RegionId(1),
    }
}

/// Words that are set, with their place and value.
fn set(block: &Block) -> String {
    let words = block.words().iter().enumerate();
    let set = words.map(|(at, word)| (at, word.load(Ordering::Relaxed)));
    let set = set.filter(|(_, word)| *word != 0);
    let set: Vec<String> = set.map(|(at, word)| format!("{at}:{word:x}")).collect();
    set.join(" ")
}

/// Something on each ring of each queue.
fn post_everywhere(host: &mut HostFunction, lines: &mut Vec<String>) {
    for (number, queue) in (1..).zip(&mut host.queues) {
        queue.send.post(&destroy(number)).expect("room");
        queue.commands.post(&destroy(100 + number)).expect("room");
        let pushed = [
            queue.small.push(buffer(u64::from(number))),
            queue.large.push(buffer(1000 + u64::from(number))),
        ];
        let capacities = [
            queue.send.capacity(),
            queue.commands.capacity(),
            queue.small.capacity(),
            queue.large.capacity(),
        ];
        let free = [queue.send.free(1), queue.small.free(1), queue.large.free(9)];
        let woken = queue.publish();
        lines.push(format!("{pushed:?} {capacities:?} {free:?} {woken}"));
    }
}

/// What the device has of it, and its answer.
fn take_everywhere(device: &mut DeviceFunction, lines: &mut Vec<String>) {
    let mut gather = Gather::EMPTY;
    for (epoch, queue) in (1..).zip(&mut device.queues) {
        let slept = queue.prepare_sleep();
        let sends = (
            queue.send.has_work(),
            queue.send.next(),
            queue.send.published(),
        );
        let now = (queue.send.has_work_now(), queue.commands.has_work_now());
        let sent = queue.send.take(&mut gather).map(|it| (it.index, it.bytes));
        let command = queue.commands.take(&mut gather).map(|it| it.bytes);
        let buffers = (queue.small.pop(), queue.large.pop(), queue.small.pop());
        let freed = [queue.send.has_freed(), queue.commands.has_freed()];
        queue.send.publish_before(0);
        queue.commands.publish();
        let then = [queue.send.has_freed(), queue.commands.has_freed()];
        queue.send.publish();
        queue.small.publish();
        queue.large.publish();
        let last = [queue.send.has_freed(), queue.send.has_freed()];
        let pushed = queue.recv.push(RecvDescriptor::Reset { epoch });
        queue.recv.publish();
        let woken = (queue.recv.take_wakeup(), queue.recv.free(8), pushed);
        lines.push(clip(&format!(
            "{slept} {sends:?} {now:?} {sent:?} {command:?} {buffers:?}"
        )));
        lines.push(format!("  {freed:?} {then:?} {last:?} {woken:?}"));
    }
}

fn hear_everywhere(host: &mut HostFunction, lines: &mut Vec<String>) {
    for queue in &mut host.queues {
        let posted = (queue.recv.posted(), queue.recv.taken());
        let popped = (queue.recv.pop(), queue.recv.pop(), queue.recv.taken());
        let completed = (queue.send.completed(), queue.commands.completed());
        let free = (queue.small.free(9), queue.large.free(9));
        lines.push(clip(&format!(
            "{posted:?} {popped:?} {completed:?} {free:?}"
        )));
    }
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn functions_of_several_queues_lie_as_written_down() {
    let mut lines = Vec::new();
    let config = FunctionConfig {
        queues: 3,
        send_entries: 4,
        command_entries: 8,
        receive_entries: 16,
        small_entries: 32,
        large_entries: 2,
        ..renewal::config()
    };
    for queues in [1, 2, 3, 64] {
        let config = FunctionConfig { queues, ..config };
        lines.push(format!(
            "{queues} {} {:?}",
            config.block_bytes(),
            config.check()
        ));
    }
    let block = Arc::new(Block::allocate(config.block_bytes()));
    let regions = Arc::new(Regions::default());
    let mut host = HostFunction::over(&block, config, Arc::clone(&regions));
    let mut device = DeviceFunction::over(&block, config, regions).expect("empty rings");
    lines.push(format!("tells of sent {}", device.tells_sent));
    for _ in 0..2 {
        post_everywhere(&mut host, &mut lines);
        take_everywhere(&mut device, &mut lines);
        hear_everywhere(&mut host, &mut lines);
        let words = set(&block);
        lines.push(clip(&words));
    }
    compare("functions", &lines);
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn queues_with_a_block_each_lie_as_written_down() {
    let mut lines = Vec::new();
    let config = FunctionConfig {
        queues: 2,
        ..renewal::config()
    };
    let one = FunctionConfig {
        queues: 1,
        ..config
    };
    let blocks = [(); 2].map(|()| Arc::new(Block::allocate(one.block_bytes())));
    let regions = Arc::new(Regions::default());
    let device = DeviceFunction::over_each(&blocks, config, Arc::clone(&regions));
    let mut device = device.expect("empty rings");
    lines.push(format!("{} {}", device.queues.len(), device.tells_sent));
    for block in &blocks {
        let mut host = HostFunction::over(block, one, Arc::clone(&regions));
        post_everywhere(&mut host, &mut lines);
        let refused = DeviceFunction::over_each(&blocks, config, Arc::clone(&regions)).err();
        lines.push(format!("{refused:?}"));
    }
    take_everywhere(&mut device, &mut lines);
    lines.extend(blocks.iter().map(|block| clip(&set(block))));
    compare("queue_blocks", &lines);
}

/// Who is woken by what, and when.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn sleep_and_wakeups_are_as_written_down() {
    let mut lines = Vec::new();
    let (mut host, block) = renewal::host(renewal::config());
    let mut device = renewal::device(&block).expect("empty rings");
    let (ours, theirs) = (&mut host.queues[0], &mut device.queues[0]);
    let mut gather = Gather::EMPTY;
    for posts in [[false, false], [true, false], [false, true], [true, true]] {
        for sleeps in [false, true] {
            let asleep = sleeps && theirs.prepare_sleep();
            if posts[0] {
                ours.send.post(&destroy(1)).expect("room");
            }
            if posts[1] {
                ours.commands.post(&destroy(2)).expect("room");
            }
            let woken = [ours.publish(), ours.publish()];
            let sleeps_again = theirs.prepare_sleep();
            theirs.cancel_sleep();
            lines.push(format!("{posts:?} {asleep}: {woken:?} {sleeps_again}"));
            let host_sleeps = ours.prepare_sleep();
            while theirs.send.take(&mut gather).is_some() {}
            while theirs.commands.take(&mut gather).is_some() {}
            theirs.tell_sent();
            let before = theirs.recv.take_wakeup();
            theirs.send.publish();
            theirs.commands.publish();
            theirs.tell_sent();
            theirs.tell_sent();
            let told = [theirs.recv.take_wakeup(), theirs.recv.take_wakeup()];
            lines.push(format!("  {host_sleeps} {before} {told:?}"));
            ours.cancel_sleep();
            let _ = ours.prepare_sleep();
            assert!(theirs.recv.push(RecvDescriptor::Reset { epoch: 1 }));
            theirs.recv.publish();
            let told = [theirs.recv.take_wakeup(), theirs.recv.take_wakeup()];
            let sleeps = ours.prepare_sleep();
            ours.cancel_sleep();
            lines.push(format!("  {told:?} {sleeps} {:?}", ours.recv.pop()));
            let _ = ours.publish();
        }
    }
    compare("wakeups", &lines);
}

/// Rings that are full, by each side.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn full_rings_are_as_written_down() {
    let mut lines = Vec::new();
    let (mut host, block) = renewal::host(renewal::config());
    let mut device = renewal::device(&block).expect("empty rings");
    let (ours, theirs) = (&mut host.queues[0], &mut device.queues[0]);
    let header = [7; 20];
    for slices in [0, 1, 3, 4, 14, 15, 25, 26, 36, 37] {
        let payload = vec![buffer(0); slices];
        let send = SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &payload,
        };
        let posted = ours.send.post(&send);
        let needed = SendProducer::slots_for_send(slices);
        let recovers = SendProducer::slots_for_recover(slices);
        let free = ours.send.free(needed);
        lines.push(format!(
            "send {slices}: {posted:?} {needed} {recovers} {free}"
        ));
        if free < 3 {
            let _ = ours.publish();
            while theirs.send.take(&mut Gather::EMPTY.clone()).is_some() {}
            theirs.send.publish();
        }
    }
    for _ in 0..2 {
        let pushed: Vec<bool> = (0..10).map(|at| ours.small.push(buffer(at))).collect();
        let large: Vec<bool> = (0..6).map(|at| ours.large.push(buffer(at))).collect();
        let _ = ours.publish();
        let popped = [theirs.small.pop(), theirs.large.pop()].map(|it| it.map(|it| it.offset));
        theirs.small.publish();
        theirs.large.publish();
        lines.push(format!("{pushed:?} {large:?} {popped:?}"));
        let reported: Vec<bool> = (0..10)
            .map(|epoch| theirs.recv.push(RecvDescriptor::Reset { epoch }))
            .collect();
        theirs.recv.publish();
        let free = theirs.recv.free(1);
        let popped = (ours.recv.pop(), ours.recv.pop());
        let _ = ours.publish();
        lines.push(format!(
            "{reported:?} {free} {popped:?} {}",
            theirs.recv.free(1)
        ));
    }
    compare("full_rings", &lines);
}
