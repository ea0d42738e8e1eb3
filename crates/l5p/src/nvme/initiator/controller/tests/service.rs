use wire::nvme::command::{Admin, AsyncEvent};

use super::*;

#[test]
fn a_controller_is_kept_alive() {
    let mut pair = Pair::ready(config());
    pair.pass(Duration::from_secs(60));
    assert!(pair.host.is_ready());
    assert_eq!(pair.peer.keep_alives, 8);
}

#[test]
fn a_controller_that_keeps_silent_is_lost() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_keep_alive = false;
    pair.peer.reachable = false;
    pair.pass(Duration::from_secs(25));
    assert!(matches!(pair.failure(), Failure::TimedOut { .. }));
    assert!(!pair.host.is_ready() && !pair.host.is_ended());
    assert_eq!(pair.closed.len(), 3 + 2);
}

#[test]
fn a_command_that_takes_too_long_ends_the_connection() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_io = false;
    pair.read(0);
    pair.run();
    pair.pass(Duration::from_secs(40));
    let limit = Duration::from_secs(30);
    let what = "a command";
    assert_eq!(pair.failure(), Failure::TimedOut { what, limit });
}

#[test]
fn namespaces_are_read_again_when_they_change() {
    let mut pair = Pair::ready(config());
    let namespace = pair.peer.namespaces[&1];
    pair.peer.namespaces.remove(&4);
    pair.peer.namespaces.insert(9, namespace);
    for (pdu, _) in pair.peer.event(AsyncEvent::NAMESPACES_CHANGED) {
        pair.host.handle_header(pair.now, 0, &pdu).unwrap();
        pair.host.handle_end(pair.now, 0, true, &[]);
    }
    pair.run();
    assert_eq!(pair.host.poll_event(), Some(Event::NamespacesChanged));
    let nsids: Vec<u32> = pair.host.namespaces().iter().map(|ns| ns.nsid).collect();
    assert_eq!(nsids, [1, 9]);
    assert!(pair.peer.event_cid.is_some());
    let log_was_read =
        |admin: &Admin| matches!(admin, Admin::GetLogPage(page) if !page.retain_event);
    assert!(pair.peer.asked.iter().any(log_was_read));
}

#[test]
fn a_namespace_with_blocks_of_no_size_leaves_the_others_in_use() {
    for lbads in [0, 8, 32] {
        let mut pair = Pair::ready(config());
        let mut namespace = pair.peer.namespaces[&1];
        namespace.format.lbads = lbads;
        pair.peer.namespaces.insert(2, namespace);
        for (pdu, _) in pair.peer.event(AsyncEvent::NAMESPACES_CHANGED) {
            pair.host.handle_header(pair.now, 0, &pdu).unwrap();
            pair.host.handle_end(pair.now, 0, true, &[]);
        }
        let id = pair.read(0);
        pair.run();
        assert_eq!(pair.host.poll_event(), Some(Event::NamespacesChanged));
        assert!(pair.host.is_ready() && pair.closed.is_empty());
        let namespaces = pair.host.namespaces().iter();
        let usable: Vec<_> = namespaces.map(|it| (it.nsid, it.is_usable())).collect();
        assert_eq!(usable, [(1, true), (2, false), (4, true)]);
        let ends = pair.completions();
        assert_eq!((ends[0].id, ends[0].status), (id, Status::SUCCESS));
    }
}

#[test]
fn other_events_are_told() {
    let mut pair = Pair::ready(config());
    let event = AsyncEvent {
        kind: 1,
        information: 2,
        log_page: 2,
    };
    for (pdu, _) in pair.peer.event(event) {
        pair.host.handle_header(pair.now, 0, &pdu).unwrap();
        pair.host.handle_end(pair.now, 0, true, &[]);
    }
    assert_eq!(pair.host.poll_event(), Some(Event::Notice(event)));
}

#[test]
fn another_namespace_in_the_place_of_one_that_went_is_refused_until_that_is_back() {
    let mut pair = Pair::ready(config());
    let namespace = pair.peer.namespaces[&1];
    let change = |pair: &mut Pair, uuid: Option<u8>| {
        pair.peer.namespaces.remove(&1);
        if let Some(uuid) = uuid {
            pair.peer.namespaces.insert(1, namespace);
            pair.peer.uuids.insert(1, [uuid; 16]);
        }
        for (pdu, _) in pair.peer.event(AsyncEvent::NAMESPACES_CHANGED) {
            pair.host.handle_header(pair.now, 0, &pdu).unwrap();
            pair.host.handle_end(pair.now, 0, true, &[]);
        }
        pair.run();
        let submitted = pair.host.submit(Access {
            nsid: 1,
            io: Io::Flush,
        });
        submitted.map(drop)
    };
    assert_eq!(change(&mut pair, None), Err(SubmitError::NoNamespace(1)));
    assert_eq!(change(&mut pair, Some(2)), Err(SubmitError::Replaced(1)));
    assert_eq!(change(&mut pair, Some(1)), Ok(()));
}
