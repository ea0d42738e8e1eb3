//! Contexts of connections that come back while the device waits for them.

use std::time::{Duration, Instant};

use l5p::Layers;
use l5p::tls::Direction;
use nic::ring::toe::{RestoreReason, ToeCommand, ToeEvent};
use nic::ring::{
    ContextId, CreateContext, ErrorCode, RecoverContext, RecvDescriptor, SendDescriptor, SendFlags,
    Verify,
};
use nic::{Nic, NicConfig};
use testkit::fixtures::aes_128_gcm;

use super::bare::{Bare, OURS, run, toe};

const CONTEXT: ContextId = ContextId(3);
/// Bytes of a record, header and tag included.
const RECORD: u32 = 1000;

/// A connection whose one record was sent, and is to be sent again: the device asks for its context.
fn asking() -> (Nic, Bare, Instant) {
    let mut nic = Nic::new(NicConfig::new([9; 16]));
    let now = Instant::now();
    let mut host = Bare::attach(&mut nic, 1, |config| config.contexts = 8);
    host.write_record(RECORD);
    let create = SendDescriptor::CreateContext(&CreateContext {
        context: CONTEXT,
        direction: Direction::Transmit,
        flow: host.flow(0),
        tcpsn: OURS,
        layers: Layers::of(&aes_128_gcm()),
    });
    let queue = &mut host.queues[0];
    queue.send.post(&create).expect("room");
    let _ = queue.publish();
    host.hand_off(&mut nic, now, 0);
    let payload = [host.slice(RECORD)];
    host.command(
        0,
        ToeCommand::Send {
            toe: toe(0),
            seq: OURS,
            context: Some(CONTEXT),
            flags: SendFlags::NONE,
            payload: &payload,
        },
    );
    assert_eq!(run(&mut nic, now).len(), 1);
    // Nothing acknowledges it.
    let later = now + Duration::from_secs(5);
    while nic.poll_timeout().is_some_and(|at| at <= later) {
        run(&mut nic, later);
    }
    let asks = |it: &ToeEvent| matches!(it, ToeEvent::Recover { tcpsn, .. } if *tcpsn == OURS);
    assert!(host.events().iter().any(asks));
    (nic, host, later)
}

/// The answer: back to the record's beginning.
fn recover(host: &mut Bare) {
    host.post(
        0,
        &SendDescriptor::RecoverContext {
            recover: RecoverContext {
                context: CONTEXT,
                start: OURS,
                index: 0,
                len: RECORD,
                resume: OURS,
                verify: Verify::None,
                inner: None,
                toe: Some(toe(0)),
            },
            prefix: &[],
        },
    );
}

#[test]
fn a_context_is_brought_to_where_its_connection_goes_on() {
    let (mut nic, mut host, now) = asking();
    recover(&mut host);
    host.command(
        0,
        ToeCommand::Resume {
            toe: toe(0),
            context: CONTEXT,
            tcpsn: OURS,
            len: RECORD,
        },
    );
    assert_eq!(run(&mut nic, now).len(), 1, "it is sent again");
    assert_eq!(nic.counters().toe_stale_commands, 0);
}

/// An answer that crosses with the connection's way back would have its host's own packets refused.
#[test]
fn a_context_stays_where_it_is_when_its_connection_has_come_back() {
    let (mut nic, mut host, now) = asking();
    host.command(0, ToeCommand::Restore { toe: toe(0) });
    recover(&mut host);
    assert!(run(&mut nic, now).is_empty());
    assert_eq!(nic.counters().toe_stale_commands, 1);
    let restored = ToeEvent::Restored {
        toe: toe(0),
        reason: RestoreReason::Asked,
    };
    assert_eq!(host.events(), [restored]);
    // The host goes on with the next record.
    host.post_segment(CONTEXT, OURS + RECORD, RECORD);
    assert_eq!(run(&mut nic, now).len(), 1);
    assert_eq!(host.received(0), []);
}

/// It belongs to a connection, or on the send ring.
#[test]
fn a_recovery_for_nobody_is_refused() {
    let (mut nic, mut host, now) = asking();
    let recover = |toe| SendDescriptor::RecoverContext {
        recover: RecoverContext {
            context: CONTEXT,
            start: OURS,
            index: 0,
            len: RECORD,
            resume: OURS,
            verify: Verify::None,
            inner: None,
            toe,
        },
        prefix: &[],
    };
    host.post(0, &recover(None));
    let queue = &mut host.queues[0];
    queue.send.post(&recover(Some(toe(0)))).expect("room");
    let _ = queue.publish();
    run(&mut nic, now);
    let reported = host.received(0);
    let unsupported = |it: &RecvDescriptor| {
        matches!(
            it,
            RecvDescriptor::Completion {
                error: ErrorCode::Unsupported,
                ..
            } | RecvDescriptor::Toe(ToeEvent::CommandFailed {
                error: ErrorCode::Unsupported,
                ..
            })
        )
    };
    assert_eq!(
        reported.iter().filter(|it| unsupported(it)).count(),
        2,
        "{reported:?}"
    );
}

/// A connection names the context that could not do its work, also when it has made another since.
#[test]
fn the_context_is_named_that_a_connection_could_not_be_sent_through() {
    let (mut nic, mut host, now) = asking();
    let queue = &mut host.queues[0];
    let destroy = SendDescriptor::DestroyContext { context: CONTEXT };
    queue.send.post(&destroy).expect("room");
    let _ = queue.publish();
    run(&mut nic, now);
    host.command(
        0,
        ToeCommand::Resume {
            toe: toe(0),
            context: CONTEXT,
            tcpsn: OURS,
            len: RECORD,
        },
    );
    run(&mut nic, now);
    let restored = ToeEvent::Restored {
        toe: toe(0),
        reason: RestoreReason::Transmit {
            error: ErrorCode::NoContext,
            context: Some(CONTEXT),
        },
    };
    assert_eq!(host.events(), [restored]);
}
