use wire::nvme::command::{
    Admin, Configuration, ConnectReply, ControllerStatus, ShutdownStatus, Version,
};
use wire::nvme::identify::Cns;

use super::*;

#[test]
fn a_controller_is_set_up_and_its_namespaces_are_known() {
    let pair = Pair::ready(config());
    assert_eq!(pair.peer.configuration, Configuration::ENABLED);
    let nsids: Vec<u32> = pair.host.namespaces().iter().map(|ns| ns.nsid).collect();
    assert_eq!(nsids, [1, 4]);
    let namespace = &pair.host.namespaces()[1];
    assert_eq!(namespace.ids.uuid, Some([4; 16]));
    assert_eq!((namespace.block_size(), namespace.size()), (512, 512_000));
    let limits = pair.host.limits();
    assert_eq!((limits.io_queues, limits.depth), (2, 4));
    assert_eq!((limits.max_transfer, limits.in_capsule), (128 << 10, 8192));
    assert_eq!(pair.host.id(), 7);
    assert_eq!(pair.peer.keep_alive_ms, 15_000);
    assert!(pair.closed.is_empty());
}

#[test]
fn a_slow_controller_is_asked_until_it_is_ready() {
    let mut pair = Pair::new(config());
    let busy = ControllerStatus::new(false, false, ShutdownStatus::None);
    for _ in 0..3 {
        pair.peer.status.push_front(busy);
    }
    pair.run();
    assert!(!pair.host.is_ready());
    pair.pass(Duration::from_secs(1));
    assert!(pair.host.is_ready());
}

#[test]
fn a_controller_that_never_gets_ready_is_given_up() {
    let mut pair = Pair::new(config());
    pair.peer.status = [ControllerStatus::new(false, false, ShutdownStatus::None)].into();
    pair.run();
    pair.pass(Duration::from_secs(60));
    assert!(matches!(pair.failure(), Failure::TimedOut { .. }));
    assert_eq!(pair.closed, [(0, Closing::Lost)]);
}

#[test]
fn a_fatal_status_is_told() {
    let mut pair = Pair::new(config());
    pair.peer.status = [ControllerStatus::new(false, true, ShutdownStatus::None)].into();
    pair.run();
    assert_eq!(pair.failure(), Failure::ControllerFatal);
}

#[test]
fn fewer_queues_are_used_than_asked_for_if_fewer_are_granted() {
    let mut pair = Pair::new(config());
    pair.peer.queues_granted = 1;
    pair.run();
    assert_eq!(pair.host.limits().io_queues, 1);
    assert!(pair.host.is_ready() && pair.host.queue(2).is_none());
}

#[test]
fn limits_of_the_command_set_are_asked_of_newer_controllers_only() {
    for (version, asks) in [
        (Version::new(1, 3, 0), false),
        (Version::new(2, 0, 0), true),
    ] {
        let mut pair = Pair::new(config());
        pair.peer.version = version;
        pair.run();
        let limits = |admin: &Admin| matches!(admin, Admin::Identify(identify) if identify.cns == Cns::COMMAND_SET_CONTROLLER);
        assert_eq!(pair.peer.asked.iter().any(limits), asks);
        assert!(pair.host.is_ready());
    }
}

#[test]
fn refusals_say_what_to_do() {
    let mut pair = Pair::new(config());
    pair.peer.connect = (Status::CONNECT_INVALID_HOST.do_not_retry(), 0);
    pair.run();
    let failure = pair.failure().to_string();
    assert!(failure.contains("nqn.2014-08.org.nvmexpress:uuid:host; allow it there"));

    let mut pair = Pair::new(config());
    let invalid = ConnectReply::Invalid {
        in_data: true,
        offset: 256,
    };
    let status = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
    pair.peer.connect = (status, invalid.to_dword());
    pair.run();
    let failure = pair.failure().to_string();
    assert!(failure.contains("no subsystem nqn.2024-01.test:one"));
}

#[test]
fn a_shutdown_keeps_what_else_was_configured() {
    let mut pair = Pair::new(config());
    pair.peer.min_page_shift = 2;
    pair.run();
    let enabled = pair.peer.configuration;
    assert_eq!((enabled.page_shift(), enabled.enabled()), (2, true));
    pair.host.shutdown(pair.now);
    pair.run();
    assert_eq!(pair.peer.configuration, enabled.with_normal_shutdown());
}

#[test]
fn authentication_is_refused() {
    let mut pair = Pair::new(config());
    let reply = ConnectReply::Accepted {
        controller: 7,
        authentication: true,
    };
    pair.peer.connect.1 = reply.to_dword();
    pair.run();
    assert_eq!(pair.failure(), Failure::AuthenticationRequired);
}

#[test]
fn an_unfit_controller_is_refused() {
    for spoil in [
        |peer: &mut Peer| peer.data.sgls = 0,
        |peer: &mut Peer| peer.data.ioccsz = 3,
        |peer: &mut Peer| peer.data.icdoff = 1,
        |peer: &mut Peer| peer.data.kas = 0,
        |peer: &mut Peer| peer.data.cntlid = 8,
    ] {
        let mut pair = Pair::new(config());
        spoil(&mut pair.peer);
        pair.run();
        assert!(matches!(pair.failure(), Failure::Unfit(_)));
        assert!(pair.host.is_ended());
    }
}

#[test]
fn commands_beyond_the_limits_are_refused() {
    let mut pair = Pair::ready(config());
    let mut refused = |nsid, io| pair.host.submit(Access { nsid, io }).unwrap_err();
    let read = |start, count| Io::Read {
        blocks: Blocks { start, count },
        fua: false,
    };
    assert_eq!(refused(2, read(0, 1)), SubmitError::NoNamespace(2));
    assert_eq!(refused(1, read(1000, 1)), SubmitError::OutOfRange);
    assert_eq!(refused(1, read(0, 0)), SubmitError::OutOfRange);
    let too_long = SubmitError::TooLong {
        bytes: 257 * 512,
        limit: 128 << 10,
    };
    assert_eq!(refused(1, read(0, 257)), too_long);
}

#[test]
fn as_many_commands_wait_as_were_configured() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_io = false;
    let ids: Vec<CommandId> = (0..16).map(|n| pair.read(n)).collect();
    let blocks = Blocks { start: 0, count: 1 };
    let io = Io::Read { blocks, fua: false };
    let access = Access { nsid: 1, io };
    assert_eq!(pair.host.submit(access), Err(SubmitError::Full));
    pair.run();
    // Two queues of four.
    assert_eq!(pair.peer.io.len(), 8);
    pair.peer.answers_io = true;
    for (queue, entry) in std::mem::take(&mut pair.peer.io) {
        for (pdu, _) in pair.peer.answer_io(&entry) {
            pair.host.handle_header(pair.now, queue, &pdu).unwrap();
            pair.host.handle_end(pair.now, queue, true, &[]);
        }
    }
    pair.run();
    let mut done: Vec<CommandId> = pair.completions().iter().map(|done| done.id).collect();
    done.sort_by_key(|id| id.index());
    assert_eq!(done, ids);
    assert_eq!(pair.host.outstanding(), 0);
}
