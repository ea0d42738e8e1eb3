use std::net::{IpAddr, Ipv4Addr};

use port::Meta;
use port::exchange::{Exchange, ExchangeConfig};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use wire::FlowKey;
use wire::ethernet::{self, EtherType, MacAddr};
use wire::packet::{Destination, Steering, emit_tcp_headers};
use wire::tcp::Header;

const CONFIG: ExchangeConfig = ExchangeConfig {
    max_frame: 2000,
    capacity: 16 << 10,
    eventfd: false,
};

fn steering(workers: u16) -> Steering {
    Steering::new(&[3; 16], workers)
}

/// A segment of one of many flows, or for each worker.
fn frame(flow: Option<u16>, number: u32) -> Vec<u8> {
    let [from, to] = [MacAddr::local(1), MacAddr::local(2)];
    let mut frame = vec![0; 100];
    let Some(port) = flow else {
        let header = ethernet::Header {
            destination: MacAddr::BROADCAST,
            source: from,
            ether_type: EtherType::ARP,
        };
        header.emit(&mut frame);
        frame[60..64].copy_from_slice(&number.to_le_bytes());
        return frame;
    };
    let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let flow = FlowKey {
        src: (address(1), port),
        dst: (address(2), 443),
    };
    let header = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        ..Header::default()
    };
    let len = emit_tcp_headers(&mut frame, from, to, &flow, &header, 4, 64);
    frame.truncate(len);
    frame.extend_from_slice(&number.to_le_bytes());
    frame
}

fn counter(exchange: &Exchange, name: &str) -> u64 {
    let mut found = None;
    exchange.counters(&mut |counter, value| {
        if counter == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter {name}"))
}

/// What the worker gets, of its own queue, and passes on.
fn sort(exchange: &mut Exchange, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut own = Vec::new();
    for frame in frames {
        exchange.sort(frame, Meta::default(), &mut |frame, _| {
            own.push(frame.to_vec())
        });
    }
    own
}

fn receive(exchange: &mut Exchange) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while exchange.receive(&mut |frame, _| got.push(frame.to_vec())) > 0 {}
    got
}

proptest! {
    /// By whatever queue a frame comes: its worker gets it once, in the queue's order, and no other worker does.
    #[test]
    fn each_frame_reaches_its_worker(
        workers in 1u16..6,
        batches in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(prop::option::weighted(0.9, any::<u16>()), 0..20)),
            0..20,
        ),
    ) {
        let steering = steering(workers);
        let mut exchanges = Exchange::between(steering, CONFIG).unwrap();
        let mut number = 0;
        for (queue, flows) in batches {
            let queue = queue.index(workers.into());
            let mut frames = Vec::new();
            for flow in flows {
                frames.push(frame(flow, number));
                number += 1;
            }
            let mut got: Vec<_> = exchanges.iter().map(|_| Vec::new()).collect();
            got[queue] = sort(&mut exchanges[queue], &frames);
            exchanges[queue].publish();
            for (worker, exchange) in exchanges.iter_mut().enumerate() {
                got[worker].extend(receive(exchange));
                let is_its = |frame: &&Vec<u8>| match steering.destination(frame) {
                    Destination::Worker(its) => its == worker,
                    Destination::All => true,
                    Destination::Any => worker == queue,
                };
                let expected: Vec<_> = frames.iter().filter(is_its).cloned().collect();
                prop_assert_eq!(&got[worker], &expected);
            }
        }
    }
}

/// A port whose flow is the worker's.
fn flow_of(steering: Steering, worker: usize) -> u16 {
    let is_its =
        |port: &u16| steering.destination(&frame(Some(*port), 0)) == Destination::Worker(worker);
    (1..).find(is_its).unwrap()
}

#[test]
fn a_worker_that_does_not_run_loses_frames_and_holds_up_no_other() {
    const SENT: u32 = 1000;
    let steering = steering(2);
    let mut exchanges = Exchange::between(steering, CONFIG).unwrap();
    let flow = flow_of(steering, 1);
    let frames: Vec<_> = (0..SENT).map(|at| frame(Some(flow), at)).collect();
    assert!(sort(&mut exchanges[0], &frames).is_empty());
    exchanges[0].publish();
    let got = receive(&mut exchanges[1]);
    assert!(!got.is_empty());
    assert_eq!(got, frames[..got.len()], "the first ones, in order");
    let dropped = counter(&exchanges[0], "rx_pass_dropped");
    assert_eq!(got.len() as u64 + dropped, SENT.into());
    assert_eq!(counter(&exchanges[1], "rx_passed"), got.len() as u64);
    // There is room again.
    sort(&mut exchanges[0], &frames[..1]);
    exchanges[0].publish();
    assert_eq!(receive(&mut exchanges[1]), frames[..1]);
}

#[test]
fn what_is_passed_on_to_a_worker_that_has_gone_is_lost() {
    let steering = steering(2);
    let mut exchanges = Exchange::between(steering, CONFIG).unwrap();
    drop(exchanges.pop());
    let flow = flow_of(steering, 1);
    let frames: Vec<_> = (0..1000).map(|at| frame(Some(flow), at)).collect();
    assert!(sort(&mut exchanges[0], &frames).is_empty());
    exchanges[0].publish();
    assert_eq!(counter(&exchanges[0], "rx_pass_dropped"), 0);
}

/// The pauses end at every point of the other side's way to sleep, so that a wake-up that can be lost is.
#[test]
fn a_worker_that_sleeps_is_woken() {
    const FRAMES: u32 = 3000;
    let steering = steering(2);
    let config = ExchangeConfig {
        eventfd: true,
        ..CONFIG
    };
    let exchanges = Exchange::between(steering, config).unwrap();
    let [mut sender, mut sleeper]: [Exchange; 2] = exchanges.try_into().unwrap();
    let (ack, acks) = std::sync::mpsc::channel();
    let woken = std::thread::spawn(move || {
        let mut got = 0;
        while got < FRAMES {
            let received = sleeper.receive(&mut |_, _| {}) as u32;
            got += received;
            if received > 0 {
                ack.send(()).unwrap();
            } else if sleeper.prepare_sleep() {
                let fd = PollFd::from_borrowed_fd(sleeper.fd().unwrap(), PollFlags::IN);
                let limit = rustix::event::Timespec {
                    tv_sec: 20,
                    tv_nsec: 0,
                };
                let ready = poll(&mut [fd], Some(&limit)).unwrap();
                assert_eq!(ready, 1, "a wake-up was lost");
            }
            sleeper.cancel_sleep();
        }
    });
    let flow = flow_of(steering, 1);
    for at in 0..FRAMES {
        for _ in 0..u64::from(at) * 7919 % 500 {
            std::hint::spin_loop();
        }
        sort(&mut sender, &[frame(Some(flow), at)]);
        sender.publish();
        acks.recv().unwrap();
    }
    woken.join().unwrap();
}

#[test]
fn a_batch_is_seen_at_once_and_own_frames_by_nobody_else() {
    const BATCH: u32 = 40;
    let steering = steering(2);
    let config = ExchangeConfig {
        eventfd: true,
        ..CONFIG
    };
    let mut exchanges = Exchange::between(steering, config).unwrap();
    let is_woken = |exchange: &Exchange| {
        let fd = PollFd::from_borrowed_fd(exchange.fd().unwrap(), PollFlags::IN);
        let now = rustix::event::Timespec::default();
        poll(&mut [fd], Some(&now)).unwrap() == 1
    };
    let [own, other] = [0, 1].map(|worker| flow_of(steering, worker));
    let frames = |flow| (0..BATCH).map(move |at| frame(Some(flow), at));
    assert!(exchanges[1].prepare_sleep());
    let mine: Vec<_> = frames(own).collect();
    assert_eq!(sort(&mut exchanges[0], &mine), mine);
    exchanges[0].publish();
    assert!(!is_woken(&exchanges[1]));

    let theirs: Vec<_> = frames(other).collect();
    assert!(sort(&mut exchanges[0], &theirs).is_empty());
    assert!(!is_woken(&exchanges[1]));
    assert!(
        receive(&mut exchanges[1]).is_empty(),
        "before it is published"
    );
    exchanges[0].publish();
    assert!(is_woken(&exchanges[1]));
    exchanges[1].cancel_sleep();
    assert_eq!(receive(&mut exchanges[1]), theirs);
}

/// A batch larger than the ring would else be lost but for its beginning.
#[test]
fn of_a_large_batch_a_worker_is_woken_for_the_beginning() {
    let steering = steering(2);
    let config = ExchangeConfig {
        max_frame: 2000,
        capacity: 64 << 10,
        eventfd: true,
    };
    let mut exchanges = Exchange::between(steering, config).unwrap();
    let flow = flow_of(steering, 1);
    let frames: Vec<_> = (0..100)
        .map(|at| {
            let mut frame = frame(Some(flow), at);
            frame.resize(1900, 0);
            frame
        })
        .collect();
    assert!(exchanges[1].prepare_sleep());
    let mut got = Vec::new();
    for part in frames.chunks(20) {
        sort(&mut exchanges[0], part);
        let fd = PollFd::from_borrowed_fd(exchanges[1].fd().unwrap(), PollFlags::IN);
        let now = rustix::event::Timespec::default();
        assert_eq!(poll(&mut [fd], Some(&now)).unwrap(), 1, "before the end");
        exchanges[1].cancel_sleep();
        got.extend(receive(&mut exchanges[1]));
        assert!(exchanges[1].prepare_sleep());
    }
    exchanges[0].publish();
    got.extend(receive(&mut exchanges[1]));
    assert_eq!(got, frames);
    assert_eq!(counter(&exchanges[0], "rx_pass_dropped"), 0);
}
