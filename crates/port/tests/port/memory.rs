use std::time::{Duration, Instant};

use port::memory::{LinkConfig, link};
use port::{Meta, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frames::{numbered, receive, receive_bytes, send, send_plain};

#[test]
fn frames_pass_in_both_directions() {
    let (mut left, mut right) = link(LinkConfig::for_mtu(1500));
    let now = Instant::now();
    let meta = Meta {
        gso_size: 1448,
        needs_checksum: Some((34, 16)),
        checksum_valid: true,
    };
    send(&mut left, now, &numbered(3), meta);
    send_plain(&mut right, now, &numbered(2));
    let received = receive(&mut right, now);
    assert_eq!(
        received,
        numbered(3)
            .into_iter()
            .map(|frame| (frame, meta))
            .collect::<Vec<_>>()
    );
    assert_eq!(receive_bytes(&mut left, now), numbered(2));
}

#[test]
fn a_super_frame_passes_and_a_plain_link_has_room_for_the_mtu() {
    let now = Instant::now();
    let (mut left, mut right) = link(LinkConfig::for_mtu(1500));
    assert!(left.capabilities().tso && left.capabilities().max_frame >= 65_535 + 14);
    let frame = vec![5; 65_549];
    send_plain(&mut left, now, std::slice::from_ref(&frame));
    assert_eq!(receive_bytes(&mut right, now), [frame]);

    let plain = LinkConfig {
        super_frames: false,
        ..LinkConfig::for_mtu(9000)
    };
    assert_eq!(link(plain).0.capabilities().max_frame, 9018);
}

#[test]
fn a_link_that_is_full_takes_frames_again_after_they_are_received() {
    let now = Instant::now();
    let config = LinkConfig {
        super_frames: false,
        capacity: 0,
        ..LinkConfig::for_mtu(1500)
    };
    let (mut left, mut right) = link(config);
    let fill_up = |left: &mut port::memory::End| {
        left.transmit(now, &mut |_| Some((1500, Meta::default())))
            .unwrap()
    };
    let room = fill_up(&mut left);
    assert!(room >= 4);
    assert_eq!(fill_up(&mut left), 0);
    assert_eq!(receive(&mut right, now).len(), room);
    assert!(fill_up(&mut left) >= room - 1);
}

#[test]
fn an_end_that_was_dropped_is_an_unplugged_cable() {
    let now = Instant::now();
    let (mut left, mut right) = link(LinkConfig::for_mtu(1500));
    send_plain(&mut left, now, &numbered(2));
    drop(left);
    assert!(!right.is_connected());
    assert_eq!(receive_bytes(&mut right, now), numbered(2));
    for _ in 0..10 {
        send(&mut right, now, &vec![vec![0; 60_000]; 10], Meta::default());
    }
}

#[test]
fn a_sleeping_end_is_woken_by_a_frame_and_by_room() {
    let config = LinkConfig {
        eventfd: true,
        super_frames: false,
        capacity: 0,
        ..LinkConfig::for_mtu(1500)
    };
    let (mut left, mut right) = link(config);
    let now = Instant::now();

    assert!(right.prepare_sleep());
    assert!(!is_readable(&right));
    send_plain(&mut left, now, &numbered(1));
    assert!(is_readable(&right));
    right.cancel_sleep();
    assert!(!is_readable(&right));
    assert!(!right.prepare_sleep(), "a frame is there");
    assert_eq!(receive(&mut right, now).len(), 1);

    while left
        .transmit(now, &mut |_| Some((1500, Meta::default())))
        .unwrap()
        > 0
    {}
    assert!(left.prepare_sleep());
    assert!(!is_readable(&left));
    receive(&mut right, now);
    assert!(is_readable(&left));
}

#[test]
fn two_threads_that_sleep_lose_no_wakeup() {
    const ROUNDS: u32 = 5_000;
    let config = LinkConfig {
        eventfd: true,
        ..LinkConfig::for_mtu(1500)
    };
    let (mut left, mut right) = link(config);
    let echo = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let frame = wait(&mut right);
            send_plain(&mut right, Instant::now(), &[frame]);
        }
    });
    for frame in numbered(ROUNDS) {
        send_plain(&mut left, Instant::now(), std::slice::from_ref(&frame));
        assert_eq!(wait(&mut left), frame);
    }
    echo.join().expect("the echo ends well");
}

fn wait(end: &mut port::memory::End) -> Vec<u8> {
    loop {
        if let Some(frame) = receive_bytes(end, Instant::now()).pop() {
            return frame;
        }
        if end.prepare_sleep() {
            let fd = end.fd().expect("an eventfd");
            let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&seconds(10))).unwrap();
            assert_eq!(ready, 1, "a wake-up was lost");
        }
        end.cancel_sleep();
    }
}

fn is_readable(end: &port::memory::End) -> bool {
    let fd = end.fd().expect("an eventfd");
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&seconds(0))).unwrap() == 1
}

fn seconds(seconds: u64) -> Timespec {
    Duration::from_secs(seconds)
        .try_into()
        .expect("a short time")
}
