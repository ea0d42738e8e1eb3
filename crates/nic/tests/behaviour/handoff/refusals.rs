//! What a host that is mistaken, or means ill, gets.

use std::time::Duration;

use nic::ToeConfig;
use nic::ring::toe::{RefuseReason, ToeCommand, ToeEvent, ToeId, ToeOffer};
use nic::ring::{ErrorCode, RecvDescriptor, RegionId, SendFlags, Slice};

use testkit::bare::drain;
use testkit::fixtures::PEER;
use testkit::link::Faults;
use testkit::toe::toe;

use super::world::{Setup, World};

fn world(toe: ToeConfig) -> World {
    World::new(&Setup {
        v6: false,
        config: tcp::Config::default(),
        link: Faults::none(Duration::from_millis(1)),
        toe,
        totals: (1000, 1000),
        nudges: false,
        seed: 1,
    })
}

/// Posts a command, and gives what the device says, but for the room it has.
fn answers(world: &mut World, command: ToeCommand<'_>) -> Vec<ToeEvent> {
    world.host.command(command);
    drain(&mut world.nic, world.now);
    world.nic.flush(world.now);
    let reported = world.host.bare.take().into_iter();
    let events = reported.filter_map(|descriptor| match descriptor {
        RecvDescriptor::Toe(ToeEvent::Room { .. }) => None,
        RecvDescriptor::Toe(event) => Some(event),
        other => panic!("{other:?}"),
    });
    events.collect()
}

fn refused(toe: ToeId, reason: RefuseReason) -> Vec<ToeEvent> {
    vec![ToeEvent::Refused { toe, reason }]
}

#[test]
fn what_may_not_be_begun() {
    let mut world = world(ToeConfig {
        hard_limit: 1,
        ..ToeConfig::default()
    });
    let flow = world.flow;
    let begin = |toe| ToeCommand::Begin { toe, flow };
    let reported = answers(&mut world, begin(toe(8)));
    assert_eq!(reported, refused(toe(8), RefuseReason::Quota));
    let reported = answers(&mut world, begin(toe(1)));
    assert_eq!(reported, [ToeEvent::Ready { toe: toe(1) }]);
    let reported = answers(&mut world, begin(toe(1)));
    assert_eq!(reported, refused(toe(1), RefuseReason::InUse));
    let reported = answers(&mut world, begin(toe(2)));
    assert_eq!(reported, refused(toe(2), RefuseReason::FlowOwned));
    let mut other = flow;
    other.dst.1 += 1;
    let command = ToeCommand::Begin {
        toe: toe(2),
        flow: other,
    };
    let reported = answers(&mut world, command);
    assert_eq!(reported, refused(toe(2), RefuseReason::HardLimit));
    let reported = answers(&mut world, ToeCommand::Cancel { toe: toe(1) });
    assert_eq!(reported, []);
    assert_eq!(world.nic.counters().toe_connections, 0);
    let reported = answers(&mut world, command);
    assert_eq!(reported, [ToeEvent::Ready { toe: toe(2) }]);
}

#[test]
fn a_nic_that_runs_none_says_so() {
    let mut world = world(ToeConfig {
        hard_limit: 0,
        ..ToeConfig::default()
    });
    let begin = ToeCommand::Begin {
        toe: toe(1),
        flow: world.flow,
    };
    let reported = answers(&mut world, begin);
    assert_eq!(reported, refused(toe(1), RefuseReason::Unsupported));
}

#[test]
fn an_offer_whose_memory_is_not_there() {
    let mut world = world(ToeConfig::default());
    let flow = world.flow;
    let slices = [(0, 511, 0), (0, 512, 9), (u64::MAX, 512, 0)];
    for (offset, len, region) in slices {
        let reported = answers(&mut world, ToeCommand::Begin { toe: toe(1), flow });
        assert_eq!(reported, [ToeEvent::Ready { toe: toe(1) }]);
        let tcb = Slice {
            offset,
            len,
            region: RegionId(region),
        };
        let offer = ToeOffer {
            toe: toe(1),
            flow,
            hop: PEER,
            hop_limit: 64,
            tcb,
        };
        let reported = answers(&mut world, ToeCommand::Offer(&offer));
        assert_eq!(reported, refused(toe(1), RefuseReason::BadMemory));
        let reported = answers(&mut world, ToeCommand::Offer(&offer));
        assert_eq!(reported, refused(toe(1), RefuseReason::NotHeld));
    }
    assert_eq!(world.nic.counters().toe_refused_tcb, 3);
    assert_eq!(world.nic.counters().toe_connections, 0);
}

#[test]
fn a_connection_that_is_not_there_is_no_error() {
    let mut world = world(ToeConfig::default());
    let toe = toe(3);
    for command in [
        ToeCommand::Restore { toe },
        ToeCommand::Consumed { toe, bytes: 9 },
        ToeCommand::Close { toe },
        ToeCommand::Abort { toe },
    ] {
        assert_eq!(answers(&mut world, command), []);
    }
    assert_eq!(world.nic.counters().toe_stale_commands, 4);
}

#[test]
fn a_send_of_nothing_is_refused() {
    let mut world = world(ToeConfig::default());
    let nothing = Slice {
        offset: 0,
        len: 0,
        region: RegionId(0),
    };
    let send = ToeCommand::Send {
        toe: toe(3),
        seq: wire::SeqNum(0),
        context: None,
        flags: SendFlags::NONE,
        payload: &[nothing],
    };
    let reported = answers(&mut world, send);
    let [ToeEvent::CommandFailed { error, index, .. }] = reported[..] else {
        panic!("{reported:?}");
    };
    assert_eq!((error, index), (ErrorCode::BadLength, 0));
}
