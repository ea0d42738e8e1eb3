//! The list of protocols, and how the rings name stacks of them.

use std::collections::HashSet;

use super::*;
use crate::nvme;
use crate::tls::{Algorithm, CryptoInfo, Version};
use wire::nvme::Role;

fn crypto() -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes128Gcm,
        key: [7; 32],
        iv: [9; 12],
        sequence: 1 << 40,
    }
}

fn pdus() -> nvme::Parameters {
    nvme::Parameters {
        sender: Role::Controller,
        header_digest: true,
        data_digest: true,
        alignment: 0,
        max_pdu: 1 << 20,
        commands: 128,
    }
}

#[test]
fn counters_have_one_name_and_one_event_each() {
    let mut names = HashSet::new();
    for protocol in PROTOCOLS {
        let mut events = HashSet::new();
        for counter in protocol.counters {
            assert!(
                names.insert(counter.name),
                "{} is there twice",
                counter.name
            );
            assert!(
                events.insert(counter.event),
                "{:?} is there twice",
                counter.event
            );
            assert!(counter.explanation.ends_with('.'), "{}", counter.name);
        }
    }
}

#[test]
fn a_stack_is_read_as_it_was_encoded() {
    let layers = Layers::of(&crypto()).carrying(&pdus());
    let read = Layers::decode(layers.ids_word(), layers.encoded()).unwrap();
    assert_eq!(read.ids(), [ProtocolId(1), ProtocolId(2)]);
    assert_eq!(CryptoInfo::decode(read.parameters(0)), Some(crypto()));
    assert_eq!(nvme::Parameters::decode(read.parameters(1)), Some(pdus()));
    assert_eq!(format!("{read:?}"), r#"["tls", "nvme-tcp"]"#);
    assert_eq!(Layers::of(&pdus()).inside(&crypto()), layers);
}

#[test]
fn unknown_ids_and_gaps_between_ids_are_refused() {
    let parameters = [0; MAX_PARAMETERS];
    for ids in [0, 0xff, 0x0001_0001_u32 << 8, 0x01_0101, 0xff01] {
        let refused = Layers::decode(ids, &parameters);
        assert_eq!(refused.unwrap_err(), UnknownLayers { ids }, "{ids:#x}");
    }
    assert!(
        Layers::decode(1, &parameters[..8]).is_err(),
        "too few bytes"
    );
}

#[test]
fn only_a_single_layer_is_seekable() {
    assert!(Layers::of(&crypto()).is_seekable());
    assert!(!Layers::of(&crypto()).carrying(&pdus()).is_seekable());
    assert!(!Layers::of(&pdus()).is_seekable());
}
