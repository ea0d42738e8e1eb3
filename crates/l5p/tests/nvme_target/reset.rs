//! Controller Reset: CC.EN from 1 to 0.

use l5p::nvme::target::{CloseReason, Config, ConnectionId};
use wire::nvme::Nqn;
use wire::nvme::command::{Admin, Blocks, ConnectData, EventMask, Feature, Io, Status};

use super::events::enable;
use super::rig::*;

#[test]
fn a_reset_deletes_the_io_queues_and_keeps_the_admin_queue() {
    let mut rig = Rig::new();
    let (admin, controller) = rig.admin(subsystem(), 4000);
    let first = rig.io_queue(controller, 1, 0);
    let second = rig.io_queue(controller, 2, 0);
    rig.enable(admin, false);
    rig.closed.sort_by_key(|(id, _)| *id);
    let mut expected = [first, second].map(|id| (id, CloseReason::ControllerReset));
    expected.sort_by_key(|(id, _)| *id);
    assert_eq!(rig.closed, expected);
    assert!(!rig.controller_status(admin).ready());
    // Nor can there be new ones before the host enables it again.
    let refused = rig.ask_for_io_queue(subsystem(), controller, 1);
    assert!(refused.status.is(Status::CONNECT_INVALID_PARAMETERS));
    rig.enable(admin, true);
    assert!(rig.controller_status(admin).ready());
    let io = rig.io_queue(controller, 1, 0);
    let read = Io::Read {
        blocks: Blocks { start: 0, count: 1 },
        fua: false,
    };
    assert_eq!(rig.read(io, 1, read, BLOCK).0, Status::SUCCESS);
}

#[test]
fn a_reset_forgets_features_and_requests_for_events() {
    let mut rig = Rig::new();
    let (admin, _) = rig.admin(subsystem(), 4000);
    enable(&mut rig, admin, EventMask::NAMESPACES);
    rig.command(admin, Admin::AsyncEventRequest.entry(20), &[]);
    let cache = Feature::VOLATILE_WRITE_CACHE;
    assert_eq!(rig.set_feature(admin, cache, 0), Status::SUCCESS);
    rig.enable(admin, false);
    rig.enable(admin, true);
    rig.target.remove_namespace(0, 7);
    assert!(rig.receive(admin).is_none(), "no event");
    let mut feature = |feature| rig.feature(admin, feature, 0);
    assert_eq!(feature(Feature::ASYNC_EVENT_CONFIGURATION), Ok(0));
    assert_eq!(feature(cache), Ok(1));
    assert_eq!(feature(Feature::KEEP_ALIVE_TIMER), Ok(4000), "Connect's");
    // Its identifier is free, and so are the places of such requests.
    for cid in 20..24 {
        rig.command(admin, Admin::AsyncEventRequest.entry(cid), &[]);
    }
    assert!(rig.receive(admin).is_none());
}

/// A controller's admin queue, its number and an I/O queue, of which the store has not done a write yet.
fn with_a_write_at_the_store() -> (Rig, ConnectionId, u16, ConnectionId) {
    with_a_write_at_the_store_of(config())
}

fn with_a_write_at_the_store_of(config: Config) -> (Rig, ConnectionId, u16, ConnectionId) {
    let mut rig = Rig::with(config);
    let (admin, controller) = rig.admin(subsystem(), 0);
    let io = rig.io_queue(controller, 1, 0);
    rig.at_once = false;
    let blocks = Blocks { start: 0, count: 1 };
    let write = Io::Write { blocks, fua: false }.entry(5, 1);
    rig.command(io, write.with_data(in_capsule(512)), &pattern(BLOCK, 3));
    (rig, admin, controller, io)
}

/// What was written through a queue that is deleted must not come after what is written through the next one.
#[test]
fn a_controller_is_ready_until_stores_have_done_what_a_reset_has_left_to_them() {
    let (mut rig, admin, controller, _) = with_a_write_at_the_store();
    rig.enable(admin, false);
    assert!(rig.controller_status(admin).ready(), "not idle yet");
    rig.enable(admin, true);
    let refused = rig.ask_for_io_queue(subsystem(), controller, 1);
    assert!(refused.status.is(Status::CONNECT_CONTROLLER_BUSY));
    rig.enable(admin, false);
    let asked = rig.asked.remove(0);
    rig.store(asked);
    assert!(!rig.controller_status(admin).ready());
    rig.enable(admin, true);
    rig.io_queue(controller, 1, 0);
}

/// A host may close its queues before it clears CC.EN.
#[test]
fn stores_for_a_queue_that_the_host_has_closed_are_waited_for_too() {
    let (mut rig, admin, _, io) = with_a_write_at_the_store();
    rig.target.handle_closed(io);
    rig.enable(admin, false);
    assert!(rig.controller_status(admin).ready(), "not idle yet");
    let asked = rig.asked.remove(0);
    rig.store(asked);
    assert!(!rig.controller_status(admin).ready());
}

/// Their commands have places and memory until then.
#[test]
fn queues_that_stores_still_work_for_count_as_queues() {
    let mut limited = config();
    limited.limits.connections = 3;
    let (mut rig, admin, _, io) = with_a_write_at_the_store_of(limited);
    rig.target.handle_closed(io);
    rig.target.handle_closed(admin);
    rig.act();
    let connect = |rig: &mut Rig, host: u8| {
        let data = ConnectData {
            host_id: [host; 16],
            ..connect_data(subsystem())
        };
        let id = rig.open(0);
        rig.connect_as(id, data, 0, 32, 0).status
    };
    assert_eq!(
        [6, 7].map(|host| connect(&mut rig, host)),
        [Status::SUCCESS; 2]
    );
    assert!(connect(&mut rig, 8).is(Status::CONNECT_CONTROLLER_BUSY));
    let asked = rig.asked.remove(0);
    rig.store(asked);
    rig.act();
    assert_eq!(connect(&mut rig, 8), Status::SUCCESS);
    assert!(connect(&mut rig, 9).is(Status::CONNECT_CONTROLLER_BUSY));
}

#[test]
fn a_reset_gives_a_discovery_controller_no_io_queues() {
    let mut rig = Rig::new();
    let (admin, controller) = rig.admin(Nqn::DISCOVERY, 0);
    rig.enable(admin, false);
    rig.enable(admin, true);
    assert!(
        !rig.ask_for_io_queue(Nqn::DISCOVERY, controller, 1)
            .status
            .is(Status::SUCCESS)
    );
}
