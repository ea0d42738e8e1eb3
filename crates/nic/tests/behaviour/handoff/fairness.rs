//! A receive ring that is not read, a send ring that is never empty, and too much load: who is held up, and who is not.

use std::time::{Duration, Instant};

use nic::ring::accel::{InstallListener, ListenRuleId};
use nic::ring::toe::{RefuseReason, RestoreReason, ToeCommand, ToeEvent};
use nic::ring::{ErrorCode, RecvDescriptor, SendDescriptor, SendFlags, Slice};
use nic::{Nic, NicConfig, ToeConfig};
use testkit::accel::listener;
use testkit::fixtures::PEER;
use testkit::frames;

use super::bare::{Bare, OURS, THEIRS, receive, run, toe};

fn device(toe: ToeConfig) -> (Nic, Instant) {
    let nic = Nic::new(NicConfig {
        toe,
        ..NicConfig::new([9; 16])
    });
    (nic, Instant::now())
}

fn restored(index: u32) -> ToeEvent {
    ToeEvent::Restored {
        toe: toe(index),
        reason: RestoreReason::Load,
    }
}

/// Connections whose news are reported on the first receive ring, and on the second.
fn one_on_each(host: &mut Bare, nic: &mut Nic, now: Instant) -> [u32; 2] {
    let mut found = [None; 2];
    for index in 0..32 {
        host.begin(0, index);
        run(nic, now);
        for (queue, found) in found.iter_mut().enumerate() {
            let ready = RecvDescriptor::Toe(ToeEvent::Ready { toe: toe(index) });
            if host.received(queue).contains(&ready) {
                *found = Some(index);
            }
        }
    }
    found.map(|found| found.expect("flows are spread over both"))
}

#[test]
fn a_receive_ring_that_nobody_reads_holds_up_no_other() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |config| {
        config.queues = 2;
        config.receive_entries = 16;
    });
    let [first, second] = one_on_each(&mut host, &mut nic, now);
    for index in [first, second] {
        host.offer(0, index);
    }
    run(&mut nic, now);
    host.received(0);
    host.received(1);
    host.fill(&mut nic, now, 0);
    for index in [first, second] {
        receive(&mut nic, now, &host.segment(index, THEIRS, b"data"));
    }
    run(&mut nic, now);
    host.command(1, ToeCommand::Restore { toe: toe(first) });
    host.command(1, ToeCommand::Restore { toe: toe(second) });
    run(&mut nic, now);
    let reported = host.received(1);
    let delivered =
        |it: &RecvDescriptor| matches!(it, RecvDescriptor::Toe(ToeEvent::Delivered { .. }));
    assert!(reported.iter().any(delivered), "{reported:?}");
    let is_restored =
        |it: &RecvDescriptor| matches!(it, RecvDescriptor::Toe(ToeEvent::Restored { .. }));
    assert!(reported.iter().any(is_restored), "{reported:?}");
    // What the first ring had no room for comes once it is read.
    host.received(0);
    run(&mut nic, now + Duration::from_millis(2));
    assert!(host.received(0).iter().any(is_restored));
}

/// Nothing that a host posts is about what it has lost already.
#[test]
fn a_reset_is_reported_before_commands_are_carried_out() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |config| {
        config.queues = 2;
        config.receive_entries = 16;
    });
    host.fill(&mut nic, now, 0);
    assert!(nic.reset_function(host.id));
    host.begin(1, 3);
    run(&mut nic, now);
    assert_eq!(nic.counters().toe_connections, 0, "it waits");
    host.received(0);
    run(&mut nic, now + Duration::from_millis(2));
    assert_eq!(nic.counters().toe_connections, 1);
    for queue in 0..2 {
        let reported = host.received(queue);
        let reset = reported
            .iter()
            .position(|it| matches!(it, RecvDescriptor::Reset { .. }));
        let ready = RecvDescriptor::Toe(ToeEvent::Ready { toe: toe(3) });
        let ready = reported.iter().position(|it| *it == ready);
        assert!(
            reset.is_some() && ready.is_none_or(|ready| Some(ready) > reset),
            "{reported:?}"
        );
    }
}

/// What a device remembers of hosts that ask and do not listen is bounded.
#[test]
fn a_host_that_does_not_hear_refusals_can_ask_no_more() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |config| {
        config.queues = 2;
        config.receive_entries = 16;
        config.command_entries = 1024;
    });
    const ASKED: u32 = 1000;
    for index in 0..ASKED {
        // Beyond its quota.
        host.begin(0, 64 + index);
    }
    run(&mut nic, now);
    let done = host.queues[0].commands.completed();
    assert!(done < 200, "{done} commands were carried out");
    let mut refused = 0;
    let mut at = now;
    while refused < ASKED {
        at += Duration::from_millis(2);
        run(&mut nic, at);
        let reported = host.received(0).into_iter().chain(host.received(1));
        let before = refused;
        for descriptor in reported {
            let reason = RefuseReason::Quota;
            let is = |it| matches!(it, RecvDescriptor::Toe(ToeEvent::Refused { reason: r, .. }) if r == reason);
            refused += u32::from(is(descriptor));
        }
        assert!(refused > before, "{refused} of {ASKED}");
    }
}

#[test]
fn a_send_ring_that_is_never_empty_does_not_starve_other_hosts_connections() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut busy = Bare::attach(&mut nic, 1, |_| {});
    let mut host = Bare::attach(&mut nic, 2, |_| {});
    host.hand_off(&mut nic, now, 0);
    host.send(0, OURS, 1000);
    assert_eq!(large_beside(&mut busy, &mut nic, now), 1);
    // Its own connections come after all that it sends by itself (Connection handoff policies §3.1).
    busy.begin(0, 0);
    large_beside(&mut busy, &mut nic, now);
    assert_eq!(busy.events(), []);
}

/// How many large frames the device sends while the send ring of a host always has small ones.
fn large_beside(busy: &mut Bare, nic: &mut Nic, now: Instant) -> usize {
    let packet = busy.segment(0, THEIRS, b"");
    let mut header = packet.clone();
    header[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    header[6..12].copy_from_slice(&packet[..6]);
    let descriptor = SendDescriptor::Send {
        header: &header,
        mss: 0,
        context: None,
        flags: SendFlags::NONE,
        payload: &[],
    };
    let mut out = vec![0; 2000];
    let sent = (0..200).map(|_| {
        let queue = &mut busy.queues[0];
        while queue.send.free(1) > 0 {
            queue.send.post(&descriptor).expect("room");
        }
        let _ = queue.publish();
        let (len, _) = nic.poll_transmit(now, &mut out).expect("it is never empty");
        nic.flush(now);
        len
    });
    sent.filter(|len| *len > 1000).count()
}

/// A host that has the device begin a segment, and then gives it no time for the rest, keeps no connection of others from sending again what was
/// lost.
#[test]
fn a_segment_that_a_host_holds_up_stops_no_timer_of_another_one() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut busy = Bare::attach(&mut nic, 1, |_| {});
    let mut host = Bare::attach(&mut nic, 2, |_| {});
    for host in [&mut busy, &mut host] {
        host.hand_off(&mut nic, now, 0);
    }
    host.send(0, OURS, 1000);
    assert_eq!(run(&mut nic, now).len(), 1);
    busy.send(0, OURS, 10_000);
    nic.poll_transmit(now, &mut [0; 2000])
        .expect("the first packet of some");
    let later = now + Duration::from_secs(3);
    assert_eq!(large_beside(&mut busy, &mut nic, later), 1);
    assert_eq!(nic.counters().toe_tx_retrans, 1);
    // What it has begun goes on when its host sends nothing by itself, and only then its own timer counts.
    let rest = run(&mut nic, later);
    assert!(rest.iter().filter(|frame| frame.len() > 1000).count() >= 6);
    assert_eq!(nic.counters().toe_tx_retrans, 1);
    run(&mut nic, later + Duration::from_millis(2));
    assert_eq!(nic.counters().toe_tx_retrans, 2);
}

/// Frames that the device makes by itself, as those of splices and answers to SYNs, leave time for the connections that it runs.
#[test]
fn frames_that_the_device_makes_do_not_starve_connections() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |_| {});
    host.hand_off(&mut nic, now, 0);
    let install = InstallListener {
        rule: ListenRuleId(0),
        address: host.flow(0).src.0,
        port: 80,
        options: listener(),
    };
    host.0.post(&SendDescriptor::InstallListener(&install));
    host.publish();
    assert_eq!(run(&mut nic, now), Vec::<Vec<u8>>::new());
    let flow = host.flow(1).reversed();
    let syn = frames::syn(&flow, THEIRS - 1, 7);
    let syn = frames::frame(PEER, host.config.mac, &flow, &syn, b"");
    receive(&mut nic, now, &syn);
    host.send(0, OURS, 1000);
    let mut out = vec![0; 2000];
    let sent = (0..200).map(|_| {
        receive(&mut nic, now, &syn);
        let (len, _) = nic
            .poll_transmit(now, &mut out)
            .expect("an answer at least");
        nic.flush(now);
        len
    });
    assert_eq!(sent.filter(|len| *len > 1000).count(), 1);
}

/// Connections on the device, and so many packets for the last ones in its queue, none of which follows on another, that it is
/// overloaded.
fn overloaded(nic: &mut Nic, hosts: &mut [Bare], now: Instant) {
    for host in hosts.iter_mut() {
        for index in 0..8 {
            host.hand_off(nic, now, index);
        }
    }
    let last = hosts.last().expect("a host");
    for n in 0..10u32 {
        for index in [6, 7] {
            receive(nic, now, &last.segment(index, THEIRS + 10 * n, b"data"));
        }
    }
}

fn few_packets() -> ToeConfig {
    ToeConfig {
        queue: 64,
        hiwat: 16,
        lowat: 4,
        ..ToeConfig::default()
    }
}

/// Whose host comes first makes no difference.
#[test]
fn those_that_load_the_device_most_are_given_back() {
    let (mut nic, now) = device(few_packets());
    let mut hosts = [1, 2].map(|number| Bare::attach(&mut nic, number, |_| {}));
    // What came of late counts, not what comes just now.
    overloaded(&mut nic, &mut hosts, now);
    run(&mut nic, now);
    for n in 10..20u32 {
        for index in [6, 7] {
            receive(
                &mut nic,
                now,
                &hosts[1].segment(index, THEIRS + 10 * n, b"data"),
            );
        }
    }
    nic.flush(now);
    let [first, second] = &mut hosts;
    assert!(
        !first
            .events()
            .iter()
            .any(|it| matches!(it, ToeEvent::Restored { .. }))
    );
    let reported = second.events();
    assert!(
        reported.contains(&restored(6)) && reported.contains(&restored(7)),
        "{reported:?}"
    );
    assert_eq!(nic.counters().toe_restored_load, 2);
}

/// How far it has come is known only then.
#[test]
fn a_connection_is_given_back_behind_the_segment_that_is_being_sent() {
    let (mut nic, now) = device(few_packets());
    let mut host = Bare::attach(&mut nic, 1, |_| {});
    for index in 0..8 {
        host.hand_off(&mut nic, now, index);
    }
    host.send(7, OURS, 10_000);
    let mut out = vec![0; 2000];
    nic.poll_transmit(now, &mut out)
        .expect("the first packet of some");
    for n in 0..20u32 {
        receive(&mut nic, now, &host.segment(7, THEIRS + 10 * n, b"data"));
    }
    nic.flush(now);
    assert_eq!(nic.counters().toe_restored_load, 0);
    let frames = run(&mut nic, now);
    assert!(!frames.is_empty());
    for n in 20..60u32 {
        receive(&mut nic, now, &host.segment(7, THEIRS + 10 * n, b"data"));
    }
    nic.flush(now);
    assert!(nic.counters().toe_restored_load > 0);
    assert!(host.events().contains(&restored(7)));
}

/// Nothing that follows would fit.
#[test]
fn a_connection_whose_data_are_refused_comes_back() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |_| {});
    host.hand_off(&mut nic, now, 5);
    let payload: Vec<Slice> = vec![host.slice(1); 40];
    for part in 0..4 {
        let command = ToeCommand::Send {
            toe: toe(5),
            seq: OURS + 40 * part,
            context: None,
            flags: SendFlags::NONE,
            payload: &payload,
        };
        host.command(0, command);
    }
    run(&mut nic, now);
    let reported = host.events();
    let [
        ToeEvent::CommandFailed {
            error: ErrorCode::TableFull,
            ..
        },
        ToeEvent::Restored { toe: whose, reason },
    ] = reported[..]
    else {
        panic!("{reported:?}");
    };
    assert_eq!(whose, toe(5));
    let (error, context) = (ErrorCode::TableFull, None);
    assert_eq!(reason, RestoreReason::Transmit { error, context });
}

/// A last segment that can't be sent is lost; the connection has ended all the same.
#[test]
fn a_connection_ends_although_its_reset_can_not_be_sent() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |_| {});
    host.hand_off(&mut nic, now, 5);
    host.command(0, ToeCommand::Abort { toe: toe(5) });
    // No room for any frame.
    assert_eq!(nic.poll_transmit(now, &mut [0; 20]), None);
    let frames = run(&mut nic, now);
    assert!(frames.is_empty());
    let reported = host.events();
    assert!(
        matches!(reported[..], [ToeEvent::Closed { .. }]),
        "{reported:?}"
    );
    assert_eq!(nic.counters().toe_connections, 0);
}

#[test]
fn a_turn_without_any_work_has_one_piece_of_it() {
    let (mut nic, now) = device(ToeConfig {
        packets_per_turn: Some(0),
        ..ToeConfig::default()
    });
    let mut host = Bare::attach(&mut nic, 1, |_| {});
    host.begin(0, 1);
    for _ in 0..4 {
        run(&mut nic, now);
    }
    assert_eq!(host.events(), [ToeEvent::Ready { toe: toe(1) }]);
}

/// A command is carried out when all has gone that was on the send ring before it, and no sooner.
#[test]
fn a_command_waits_for_what_was_on_the_send_ring_before_it() {
    let (mut nic, now) = device(ToeConfig::default());
    let mut host = Bare::attach(&mut nic, 1, |_| {});
    let refused = |host: &mut Bare, nic: &Nic| {
        let empty = Slice {
            len: 0,
            ..host.slice(0)
        };
        host.command(
            0,
            ToeCommand::Send {
                toe: toe(0),
                seq: OURS,
                context: None,
                flags: SendFlags::NONE,
                payload: &[empty],
            },
        );
        nic.counters().toe_bad_commands
    };
    // The ring of commands has been looked at.
    assert_eq!(refused(&mut host, &nic), 0);
    run(&mut nic, now);
    // Eight segments, each of sixty frames: more than a queue sends in one turn.
    let flow = host.flow(0);
    let tcp = frames::ack(&flow, OURS);
    let header = frames::headers(host.config.mac, PEER, &flow, &tcp);
    let payload = [host.slice(60_000)];
    for _ in 0..8 {
        host.0.post(&SendDescriptor::Send {
            header: &header,
            mss: 1000,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload: &payload,
        });
    }
    host.publish();
    assert_eq!(refused(&mut host, &nic), 1);
    let mut out = vec![0; 2048];
    for frame in 0..8 * 60 {
        assert_eq!(nic.counters().toe_bad_commands, 1, "after {frame} frames");
        assert!(nic.poll_transmit(now, &mut out).is_some());
    }
    assert!(nic.poll_transmit(now, &mut out).is_none());
    assert_eq!(nic.counters().toe_bad_commands, 2);
}
