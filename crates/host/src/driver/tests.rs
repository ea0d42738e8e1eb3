//! Tests of how contexts are recovered and let go.

use l5p::tls::{Algorithm, CryptoInfo, Version};
use l5p::{ContextTag, Layers, MsgState};
use nic::ring::Verify;
use wire::SeqNum;

use super::Contexts;
use super::recovery::Recovery;
use super::shadow::{LayersInfo, Shadow};
use crate::SocketId;

fn message() -> MsgState {
    MsgState {
        start: SeqNum(1000),
        len: 500,
        index: 7,
        epoch: 0,
    }
}

#[test]
fn memory_that_only_the_host_writes_is_named_up_to_where_sending_resumes() {
    let recovery = Recovery::plan(message(), SeqNum(1200), SeqNum(5000), false);
    assert_eq!((recovery.prefix, recovery.verify), (200, Verify::None));
}

#[test]
fn a_message_of_mutable_memory_that_was_sent_whole_is_verified_whole() {
    let recovery = Recovery::plan(message(), SeqNum(1200), SeqNum(1500), true);
    assert_eq!(
        (recovery.prefix, recovery.verify),
        (500, Verify::WholeMessage)
    );
    let recovery = Recovery::plan(message(), SeqNum(1000), SeqNum(9000), true);
    assert_eq!(
        (recovery.prefix, recovery.verify),
        (500, Verify::WholeMessage)
    );
}

#[test]
fn a_message_of_mutable_memory_that_was_sent_in_part_is_verified_up_to_the_frontier() {
    let again = Recovery::plan(message(), SeqNum(1100), SeqNum(1300), true);
    assert_eq!((again.prefix, again.verify), (300, Verify::Frontier));
    let onward = Recovery::plan(message(), SeqNum(1300), SeqNum(1300), true);
    assert_eq!((onward.prefix, onward.verify), (300, Verify::Frontier));
}

#[test]
fn a_message_that_was_never_sent_needs_no_proof() {
    let recovery = Recovery::plan(message(), SeqNum(1000), SeqNum(1000), true);
    assert_eq!((recovery.prefix, recovery.verify), (0, Verify::None));
}

#[test]
fn what_a_context_had_transformed_before_it_was_destroyed_still_bears_its_mark() {
    let tag = ContextTag {
        epoch: 3,
        number: 9,
    };
    let shadow = Shadow {
        socket: SocketId {
            index: 0,
            generation: 0,
        },
        layers: LayersInfo::of(&Layers::of(&CryptoInfo {
            version: Version::Tls13,
            algorithm: Algorithm::Aes128Gcm,
            key: [0; 32],
            iv: [0; 12],
            sequence: 0,
        })),
        tag: Some(tag),
        expected: None,
        frontier: SeqNum(0),
        failed: false,
        lost: false,
        errors: 0,
        erred_at: SeqNum(0),
        destroyed: false,
    };
    let mut contexts = Contexts::new(1);
    let id = contexts.allocate(shadow).expect("within the quota");
    contexts.release(id, 10);
    assert!(contexts.get(id).is_none() && contexts.get_mut(id).is_none());
    contexts.wake(9);
    assert!(contexts.allocate(shadow).is_none());
    assert_eq!(
        contexts.get_received(id).and_then(|shadow| shadow.tag),
        Some(tag)
    );
    contexts.wake(10);
    assert!(contexts.get_received(id).is_none());
    assert!(contexts.allocate(shadow).is_some());
}
