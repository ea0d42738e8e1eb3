//! What a host learns of the NIC before it has a function, and what it asks for.

use nic::ring::toe::{ToeCommand, ToeId};
use nic::ring::{ContextId, ErrorCode, FunctionConfig, RecvDescriptor, SendDescriptor};
use nic::{Features, Nic, NicConfig, ToeConfig};
use wire::ethernet::MacAddr;

use super::life::Process;
use super::rig::{Raw, Rig, config, path};
use crate::message::{Answer, Request};
use crate::{Client, Identity, Refusal, VERSION};

fn read(rig: &mut Rig, raw: &Raw) -> Identity {
    let mut words = Identity::default().words();
    let count = words.len() as u64;
    for (at, word) in (0..).zip(&mut words) {
        match rig.ask(raw, &Request::Identify(at), None) {
            Some(Answer::Identity { word: is, words }) => {
                assert_eq!(words, count);
                *word = is;
            }
            other => panic!("{other:?}"),
        }
    }
    Identity::of(words)
}

fn ask(rig: &mut Rig, raw: &Raw, features: Features) -> Option<Answer> {
    rig.ask(raw, &Request::Features(features), None)
}

#[test]
fn a_host_reads_what_the_nic_offers() {
    let mut rig = Rig::new();
    let raw = rig.dial();
    let identity = read(&mut rig, &raw);
    let most = crate::Limits::default();
    assert_eq!(identity.version, u64::from(VERSION));
    assert_eq!(identity.features, Features::ALL.bits());
    assert_eq!(identity.protocols & 0b110, 0b110, "TLS and NVMe/TCP");
    assert_eq!((identity.mtu, identity.listeners), (1500, 256));
    assert_eq!((identity.queues, identity.send_entries), (16, 1 << 14));
    assert_eq!(identity.contexts, u64::from(most.config.contexts));
    assert_eq!(identity.regions, most.regions as u64);
    assert_eq!(identity.mapped_bytes, most.mapped);
    let beyond = rig.ask(&raw, &Request::Identify(u64::MAX), None);
    assert!(matches!(beyond, Some(Answer::Identity { word: 0, .. })));
}

/// N-7 of `docs/device.md`.
#[test]
fn a_feature_that_is_not_offered_is_refused_by_name() {
    let mut rig = Rig::new();
    rig.nic = Nic::new(NicConfig {
        toe: ToeConfig {
            hard_limit: 0,
            ..ToeConfig::default()
        },
        ..NicConfig::new([3; 16])
    });
    let unknown = Features::from_bits(1 << 40);
    for (asked, missing, text) in [
        (Features::ALL, Features::TOE, "the NIC does not offer toe"),
        (
            Features::CONTEXTS.union(unknown),
            unknown,
            "the NIC does not offer features 0x10000000000",
        ),
    ] {
        let raw = rig.dial();
        let refusal = Refusal::Features(missing);
        assert_eq!(ask(&mut rig, &raw, asked), Some(Answer::Refused(refusal)));
        assert_eq!(refusal.to_string(), text);
    }
    let raw = rig.dial();
    let offered = Features::ALL.without(Features::TOE);
    assert_eq!(ask(&mut rig, &raw, offered), Some(Answer::Agreed));
}

#[test]
fn features_are_agreed_before_the_function_is_there() {
    let mut rig = Rig::new();
    let host = rig.host();
    let late = ask(&mut rig, &host, Features::CONTEXTS);
    assert_eq!(late, Some(Answer::Refused(Refusal::Meaningless)));
}

/// D-9 of `docs/device.md`.
#[test]
fn a_function_has_the_features_that_its_host_asks_for() {
    let (path, mac) = (path(), MacAddr([2, 0, 0, 0, 0, 1]));
    let _process = Process::start(&[(path.clone(), mac)], 1500);
    for (features, errors) in [
        (
            Features::ALL,
            [ErrorCode::NoContext, ErrorCode::Unsupported],
        ),
        (
            Features::NONE,
            [ErrorCode::Unsupported, ErrorCode::Unsupported],
        ),
    ] {
        let wanted = FunctionConfig {
            features,
            ..config()
        };
        let (mut client, mut function) = Client::connect(&path, wanted).expect("a NIC");
        assert_eq!(function.config.features, features);
        let may_hand_off = function.config.toe_connections > 0;
        assert_eq!(may_hand_off, features.intersects(Features::TOE));
        let offered = client.identity().map(|identity| identity.features);
        assert_eq!(offered, Some(Features::ALL.bits()));
        let queue = &mut function.queues[0];
        let destroy = SendDescriptor::DestroyContext {
            context: ContextId(3),
        };
        // On the wrong ring in any case.
        let close = SendDescriptor::Toe(ToeCommand::Close {
            toe: ToeId {
                index: 0,
                generation: 0,
            },
        });
        queue.send.post(&destroy).expect("room");
        queue.send.post(&close).expect("room");
        if queue.publish() {
            client.ring();
        }
        for expected in errors {
            let error = loop {
                match queue.recv.pop() {
                    Some(RecvDescriptor::Completion { error, .. }) => break error,
                    _ => std::thread::yield_now(),
                }
            };
            assert_eq!(error, expected, "with {features}");
        }
    }
}
