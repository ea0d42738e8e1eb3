//! Connections that the device runs, or is about to, while their host spreads its flows anew.

use std::time::Instant;

use nic::ring::toe::{RestoreReason, ToeCommand, ToeEvent, ToeOption};
use nic::ring::{
    FunctionConfig, HashTypes, RSS_BYTES, RSS_ENTRIES, RSS_KEY_BYTES, RecvDescriptor, RssKey,
    RssSettings, SendDescriptor,
};
use nic::{Features, Nic};
use testkit::bare::nic_config;
use testkit::toe::toe;

use super::bare::{Bare, THEIRS, receive, run};

/// All flows go to one queue from now on.
fn set(host: &mut Bare, nic: &mut Nic, now: Instant, queue: u16) {
    let settings = RssSettings {
        types: HashTypes::ALL,
        key: RssKey([5; RSS_KEY_BYTES]),
        table: [queue; RSS_ENTRIES],
    };
    host.memory.write(0, &settings.encode());
    let settings = host.slice(RSS_BYTES as u32);
    host.0.post(&SendDescriptor::SetRss { settings });
    host.publish();
    run(nic, now);
}

/// Packets and events of connections that a queue's ring has.
fn told(host: &mut Bare, queue: usize) -> (usize, Vec<ToeEvent>) {
    let (mut packets, mut events) = (0, Vec::new());
    for descriptor in host.received(queue) {
        match descriptor {
            RecvDescriptor::Packet(_) => packets += 1,
            RecvDescriptor::Toe(ToeEvent::Room { .. }) => {}
            RecvDescriptor::Toe(event) => events.push(event),
            _ => {}
        }
    }
    (packets, events)
}

#[test]
fn a_connection_keeps_the_queue_that_it_had_when_it_was_begun() {
    let (mut nic, now) = (Nic::new(nic_config()), Instant::now());
    let mut host = Bare::attach(&mut nic, 1, |config: &mut FunctionConfig| {
        (config.queues, config.features) = (2, Features::ALL);
    });
    set(&mut host, &mut nic, now, 1);
    host.begin(0, 0);
    run(&mut nic, now);
    assert_eq!(
        told(&mut host, 1),
        (0, vec![ToeEvent::Ready { toe: toe(0) }])
    );
    set(&mut host, &mut nic, now, 0);
    // What is held of it goes to that queue when it is the host's again, in its order; one of another flow does not.
    for (index, seq) in [(0, THEIRS), (1, THEIRS), (0, THEIRS + 4)] {
        let segment = host.segment(index, seq, b"held");
        receive(&mut nic, now, &segment);
    }
    run(&mut nic, now);
    assert_eq!(told(&mut host, 0).0, 1);
    host.command(0, ToeCommand::Cancel { toe: toe(0) });
    run(&mut nic, now);
    assert_eq!(told(&mut host, 0), (0, vec![]));
    assert!(told(&mut host, 1).0 > 0);
    let segment = host.segment(0, THEIRS + 8, b"the host's");
    receive(&mut nic, now, &segment);
    run(&mut nic, now);
    assert_eq!(told(&mut host, 0).0, 1);
}

/// A connection that is run is told of by its queue, and given back by it.
#[test]
fn data_of_a_connection_comes_on_its_queue() {
    let (mut nic, now) = (Nic::new(nic_config()), Instant::now());
    let mut host = Bare::attach(&mut nic, 1, |config: &mut FunctionConfig| {
        (config.queues, config.features) = (2, Features::ALL);
    });
    set(&mut host, &mut nic, now, 0);
    host.hand_off(&mut nic, now, 0);
    set(&mut host, &mut nic, now, 1);
    let segment = host.segment(0, THEIRS, b"data");
    receive(&mut nic, now, &segment);
    run(&mut nic, now);
    let (packets, events) = told(&mut host, 0);
    assert!(packets == 1 && matches!(events[0], ToeEvent::Delivered { len: 4, .. }));
    host.command(0, ToeCommand::Restore { toe: toe(0) });
    run(&mut nic, now);
    let (_, events) = told(&mut host, 0);
    assert!(
        matches!(events.last(), Some(ToeEvent::Restored { .. })),
        "{events:?}"
    );
    assert_eq!(told(&mut host, 1), (0, vec![]));
    let segment = host.segment(0, THEIRS + 4, b"more");
    receive(&mut nic, now, &segment);
    run(&mut nic, now);
    assert_eq!((told(&mut host, 0).0, told(&mut host, 1).0), (0, 1));
}

/// Its control block is written, and its event waits for room in its queue's ring.
#[test]
fn what_is_asked_of_a_connection_that_was_given_back_is_dropped() {
    let (mut nic, now) = (Nic::new(nic_config()), Instant::now());
    let mut host = Bare::attach(&mut nic, 1, |config: &mut FunctionConfig| {
        (config.queues, config.features) = (2, Features::ALL);
    });
    set(&mut host, &mut nic, now, 1);
    host.begin(0, 0);
    run(&mut nic, now);
    host.offer(0, 0);
    run(&mut nic, now);
    let toe = toe(0);
    let accepted = ToeEvent::Accepted { toe };
    assert!(told(&mut host, 1).1.contains(&accepted));
    host.fill(&mut nic, now, 1);
    host.command(0, ToeCommand::Restore { toe });
    run(&mut nic, now);
    let commands = [
        ToeCommand::Consumed { toe, bytes: 1 },
        ToeCommand::Option {
            toe,
            option: ToeOption::Cork(true),
        },
        ToeCommand::Close { toe },
        ToeCommand::Detach { toe },
        ToeCommand::Abort { toe },
    ];
    for (n, command) in (1..).zip(commands) {
        host.command(0, command);
        assert_eq!(run(&mut nic, now), Vec::<Vec<u8>>::new());
        assert_eq!(nic.counters().toe_stale_commands, n, "{command:?}");
    }
    let restored = ToeEvent::Restored {
        toe,
        reason: RestoreReason::Asked,
    };
    assert!(
        !told(&mut host, 1).1.contains(&restored),
        "there was no room"
    );
    run(&mut nic, now);
    assert!(told(&mut host, 1).1.contains(&restored));
}
