use wire::nvme::command::Shutdown;
use wire::nvme::{C2HData, FatalErrorStatus, Pdu};

use super::*;

#[test]
fn commands_in_flight_are_tried_again_after_a_reconnect() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_io = false;
    let ids: Vec<CommandId> = (0..10).map(|n| pair.read(n)).collect();
    pair.run();
    pair.host.handle_lost(pair.now, 1, "reset".into());
    assert!(matches!(pair.host.poll_event(), Some(Event::Lost(_))));
    assert!(pair.completions().is_empty());
    pair.run();
    assert_eq!(pair.closed.len(), 3);
    pair.peer.answers_io = true;
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.host.poll_event(), Some(Event::Ready));
    let mut done = pair.completions();
    done.sort_by_key(|done| done.id.index());
    assert_eq!(done.len(), 10);
    for (done, id) in done.iter().zip(&ids) {
        assert_eq!((done.id, done.status), (*id, Status::SUCCESS));
    }
}

#[test]
fn without_retries_commands_fail_when_the_connection_is_lost() {
    let mut pair = Pair::ready(Config {
        retries: 0,
        ..config()
    });
    pair.peer.answers_io = false;
    for n in 0..10 {
        pair.read(n);
    }
    pair.run();
    pair.host.handle_lost(pair.now, 0, "reset".into());
    let done = pair.completions();
    assert_eq!(statuses(&done), [Status::HOST_PATHING_ERROR; 10]);
    let blocks = Blocks { start: 0, count: 1 };
    let io = Io::Read { blocks, fua: false };
    let access = Access { nsid: 1, io };
    assert_eq!(pair.host.submit(access), Err(SubmitError::NotConnected));
    pair.pass(Duration::from_secs(2));
    assert!(pair.host.is_ready());
}

#[test]
fn attempts_are_further_and_further_apart_and_end() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_io = false;
    pair.read(0);
    pair.run();
    pair.peer.reachable = false;
    pair.host.handle_lost(pair.now, 0, "reset".into());
    pair.run();
    let mut waits = Vec::new();
    while let Some(at) = pair.host.poll_timeout() {
        waits.push(at - pair.now);
        pair.completions();
        pair.step();
    }
    assert_eq!(waits[..3], [500, 1000, 2000].map(Duration::from_millis));
    assert_eq!(*waits.last().unwrap(), Duration::from_secs(10));
    let total: Duration = waits.iter().sum();
    assert!(total > Duration::from_secs(580) && total <= Duration::from_secs(600));
    assert_eq!(statuses(&pair.completions()), [Status::HOST_PATHING_ERROR]);
}

#[test]
fn a_final_refusal_ends_the_attempts() {
    let mut pair = Pair::ready(config());
    pair.peer.connect = (Status::CONNECT_INVALID_HOST.do_not_retry(), 0);
    pair.host.handle_lost(pair.now, 0, "reset".into());
    pair.run();
    pair.pass(Duration::from_secs(1));
    assert!(pair.host.is_ended());
}

#[test]
fn a_connection_that_cannot_be_made_at_first_is_not_tried_again() {
    let mut pair = Pair::new(config());
    pair.peer.reachable = false;
    pair.run();
    assert!(matches!(
        pair.failure(),
        Failure::Transport { queue: 0, .. }
    ));
    assert!(pair.host.is_ended());
}

#[test]
fn a_broken_pdu_closes_all_and_tells_the_controller_on_its_connection() {
    let mut pair = Pair::ready(config());
    let stray = Pdu::C2HData(C2HData {
        cccid: 3,
        data_offset: 0,
        data_len: 512,
        last: true,
        success: true,
    });
    let error = FatalError::field(8);
    let refused = pair.host.handle_header(pair.now, 2, &stray);
    assert_eq!(refused, Err(error));
    pair.run();
    let closed = [
        (0, Closing::Lost),
        (1, Closing::Lost),
        (2, Closing::Reported(error)),
    ];
    assert_eq!(pair.closed, closed);
    let failure = Failure::Protocol { queue: 2, error };
    assert_eq!(pair.failure(), failure);
    // What is still in the pipe means nothing.
    let late = pair.host.handle_header(pair.now, 2, &stray);
    assert_eq!(late, Err(FatalError::of(FatalErrorStatus::SEQUENCE)));
}

#[test]
fn a_read_whose_memory_was_spoilt_is_repeated_once() {
    let mut pair = Pair::ready(Config {
        retries: 0,
        ..config()
    });
    for spoilt in [1, 2] {
        pair.read(0);
        for _ in 0..spoilt {
            pair.run();
            let id = pair.host.poll_ended().unwrap();
            let done = pair.host.release(id, false);
            if let Some(done) = done {
                assert_eq!(spoilt, 2);
                assert_eq!(done.status, Status::TRANSIENT_TRANSPORT_ERROR);
                assert_eq!(pair.host.release(id, true), None);
            }
        }
        pair.run();
        assert_eq!(pair.completions().len(), 2 - spoilt);
    }
}

#[test]
fn a_damaged_command_is_tried_as_often_as_configured() {
    let mut pair = Pair::ready(Config {
        retries: 2,
        ..config()
    });
    pair.read(0);
    let mut tries = 0;
    let done = loop {
        pair.run();
        let id = pair.host.poll_ended().unwrap();
        tries += 1;
        if let Some(done) = pair.host.release(id, false) {
            break done;
        }
    };
    assert_eq!(tries, 3);
    assert_eq!(done.status, Status::TRANSIENT_TRANSPORT_ERROR);
}

#[test]
fn a_shutdown_tells_the_controller() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_io = false;
    pair.read(0);
    pair.run();
    pair.host.shutdown(pair.now);
    pair.run();
    assert_eq!(pair.peer.configuration.shutdown(), Shutdown::Normal);
    assert_eq!(pair.host.poll_event(), Some(Event::Ended(None)));
    assert!(pair.closed.iter().all(|(_, how)| *how == Closing::InOrder));
    assert_eq!(statuses(&pair.completions()), [Status::ABORTED_BY_HOST]);
    assert_eq!(pair.host.poll_timeout(), None);
}

/// Another namespace in the place of namespace 1.
fn replace(peer: &mut Peer, how: usize) {
    let namespace = peer.namespaces.get_mut(&1).unwrap();
    match how {
        0 => namespace.format.lbads = 12,
        1 => namespace.nguid = [5; 16],
        2 => namespace.eui64 = [5; 8],
        _ => drop(peer.uuids.insert(1, [5; 16])),
    }
}

#[test]
fn commands_do_not_go_to_another_namespace_after_a_reconnect() {
    for how in 0..4 {
        let mut pair = Pair::ready(config());
        pair.peer.answers_io = false;
        for n in 0..10 {
            pair.read(n);
        }
        pair.run();
        pair.host.handle_lost(pair.now, 1, "reset".into());
        assert!(pair.completions().is_empty());
        pair.read(10);
        pair.peer.io.clear();
        replace(&mut pair.peer, how);
        pair.run();
        pair.pass(Duration::from_secs(2));
        assert!(pair.host.is_ready());
        assert_eq!(pair.peer.io, [], "no command goes");
        let refused = Status::INVALID_NAMESPACE.do_not_retry();
        assert_eq!(statuses(&pair.completions()), [refused; 11]);
        let events: Vec<Event> = std::iter::from_fn(|| pair.host.poll_event()).collect();
        assert_eq!(events[1..], [Event::NamespaceReplaced(1), Event::Ready]);
        let io = Io::Flush;
        let refused = pair.host.submit(Access { nsid: 1, io });
        assert_eq!(refused, Err(SubmitError::Replaced(1)));
        pair.host.submit(Access { nsid: 4, io }).unwrap();
    }
}

#[test]
fn a_namespace_that_grows_is_the_same() {
    let mut pair = Pair::ready(config());
    pair.peer.answers_io = false;
    pair.read(0);
    pair.run();
    pair.host.handle_lost(pair.now, 1, "reset".into());
    assert!(pair.completions().is_empty());
    pair.peer.answers_io = true;
    pair.peer.namespaces.get_mut(&1).unwrap().nsze = 2000;
    pair.pass(Duration::from_secs(2));
    pair.read(1999);
    pair.run();
    assert_eq!(statuses(&pair.completions()), [Status::SUCCESS; 2]);
}
