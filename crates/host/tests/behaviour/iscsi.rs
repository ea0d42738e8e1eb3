//! An iSCSI client on a stack, against a target that does all that the protocol allows.

mod target;

use std::net::SocketAddr;

use l5p::iscsi::initiator;
use proptest::prelude::*;
use wire::iscsi::{
    AsyncMessage, DataIn, LoginStatus, Lun, Pdu, ReadyToTransfer, Residual, ResponseNumbers,
};

use super::disk::{self, DISK};
use crate::pair::{CLIENT, Connected as _, PORT, SERVER, hosts, slice, v4};
use host::disk::{Access, Client as _, Event, Operation, SubmitError};
use host::iscsi::{Chap, Client, Config, Failure, Options};
use host::pdus::PduOffload;
use target::{PLAIN, Style, Target};

const NAME: &str = "iqn.2024-01.org.example:disk";
const CHAP_SECRET: &[u8] = b"correct horse";

type World = disk::World<Client, Target>;

fn world(style: Style, adjust: impl FnOnce(&mut Options)) -> World {
    let mut pair = hosts();
    let target = Target::new(&mut pair, style);
    let mut options = Options {
        address: SocketAddr::new(v4(SERVER), PORT),
        session: Config {
            name: "iqn.2024-01.org.example:host".into(),
            target: Some(NAME.into()),
            lun: Lun::default(),
            isid: [0x80, 1, 2, 3, 0, 0],
            chap: None,
            header_digest: true,
            data_digest: true,
            depth: 16,
            max_data: 64 << 10,
        },
        offload: PduOffload::ALL,
        map_threshold: 4096,
    };
    adjust(&mut options);
    let client = Client::new(pair.now(), options);
    World::new(pair, target, client)
}

fn styles() -> impl Strategy<Value = Style> {
    let behaviour = (
        any::<bool>(),
        any::<bool>(),
        1usize..5,
        prop_oneof![Just(1u32), Just(3), Just(64)],
        prop_oneof![Just(None), (5usize..12).prop_map(Some)],
    );
    (
        any::<(bool, bool)>(),
        prop_oneof![Just(512u32), Just(4100), Just(60_000)],
        prop_oneof![Just(512u32), Just(16 << 10), Just(1 << 20)],
        behaviour,
    )
        .prop_map(|((header_digest, data_digest), segment, burst, rest)| {
            let (immediate, collapses, batch, window, grumbles) = rest;
            Style {
                header_digest,
                data_digest,
                segment,
                burst,
                immediate,
                collapses,
                batch,
                window,
                grumbles,
                chap: false,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_the_unit_has_and_what_is_written_is_what_it_gets(
        style in styles(),
        offload in any::<(bool, bool, bool)>(),
        loss in prop_oneof![Just(0.0), Just(0.01)],
        seed in any::<u64>(),
        lens in prop::collection::vec(1u32..200, 1..6),
        depth in 1u16..20,
    ) {
        let mut world = world(style, |options| {
            options.offload = PduOffload {
                placement: offload.0,
                receive_digest: offload.1,
                transmit_digest: offload.2,
            };
            options.session.depth = depth;
        });
        world.ready();
        world.move_everything(&lens, depth.into(), (loss, seed));
        let count = |name| world.pair.counter(CLIENT, name);
        prop_assert!(offload.0 || count("IscsiRxBytesPlaced") == 0);
        prop_assert!(offload.1 && style.data_digest || count("IscsiRxDigestsDevice") == 0);
        prop_assert!(offload.2 && style.data_digest || count("IscsiTxPdusDevice") == 0);
        world.client.shutdown();
        world.run_until(|world| world.events.last() == Some(&Event::Ended(None)));
    }
}

#[test]
fn in_order_all_data_is_placed_and_all_digests_are_the_nics() {
    for (header_digest, data_digest) in [(false, false), (true, false), (false, true), (true, true)]
    {
        for placement in [false, true] {
            let style = Style {
                header_digest,
                data_digest,
                ..PLAIN
            };
            let mut world = world(style, |options| options.offload.placement = placement);
            world.ready();
            for at in 0..4 {
                world.submit(Operation::Read, (1 + 3 * at) * (16 << 10), 32 << 10);
            }
            world.run_until(|world| world.results.len() == 4);
            let count = |name| world.pair.counter(CLIENT, name);
            let expected = if placement {
                (128 << 10, 0)
            } else {
                (0, 128 << 10)
            };
            let figures = (count("IscsiRxBytesPlaced"), count("IscsiRxBytesCopied"));
            // Answers to the questions before are copied.
            assert_eq!(figures.0, expected.0);
            assert!(
                (expected.1..expected.1 + 512).contains(&figures.1),
                "{figures:?}"
            );
            let by_software = count("IscsiRxDigestsSw");
            let by_nic = count("IscsiRxDigestsDevice");
            assert_eq!((by_nic > 0, by_software), (data_digest, 0), "{style:?}");
        }
    }
}

#[test]
fn a_discovery_session_names_the_targets() {
    let mut world = world(PLAIN, |options| options.session.target = None);
    world.ready();
    let names: Vec<_> = world
        .client
        .targets()
        .iter()
        .map(|target| target.name.clone())
        .collect();
    assert_eq!(names, [NAME.to_owned(), format!("{NAME}-2")]);
    assert_eq!(world.client.targets()[0].portals, ["192.0.2.1:3260,1"]);
    world.client.shutdown();
    world.run_until(|world| world.events.last() == Some(&Event::Ended(None)));
}

#[test]
fn a_secret_is_proved_without_being_shown() {
    let chap = |secret: &[u8]| {
        Some(Chap {
            user: "me".into(),
            secret: secret.to_vec(),
        })
    };
    let style = Style {
        chap: true,
        ..PLAIN
    };
    let mut good = world(style, |options| options.session.chap = chap(CHAP_SECRET));
    good.ready();
    for wrong in [None, chap(b"wrong horse")] {
        let mut refused = world(style, |options| options.session.chap = wrong);
        refused.run_until(|world| !world.events.is_empty());
        let status = LoginStatus::AUTHENTICATION_FAILURE;
        let failure = Failure::Session(initiator::Failure::Refused(status));
        assert_eq!(refused.events, [Event::Ended(Some(failure))]);
    }
}

#[test]
fn a_target_that_is_not_there_is_told() {
    let mut world = world(PLAIN, |options| {
        options.session.target = Some("iqn.2024-01.org.example:tape".into());
    });
    world.run_until(|world| !world.events.is_empty());
    let failure = Failure::Session(initiator::Failure::Refused(LoginStatus::NOT_FOUND));
    assert_eq!(world.events, [Event::Ended(Some(failure))]);
    world.pair.assert_no_sockets(CLIENT);
}

#[test]
fn pings_are_answered() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    for _ in 0..5 {
        world.server.ping();
    }
    world.run_until(|world| world.server.pings == 5);
}

#[test]
fn what_can_be_no_request_is_refused_before_it_is_sent() {
    let mut world = world(PLAIN, |options| options.session.depth = 1);
    let access = |operation, offset, len| Access {
        operation,
        offset,
        len,
    };
    let slice = slice(world.region, 0, 4096);
    let read = access(Operation::Read, 0, 512);
    assert_eq!(
        world.client.submit(read, &[slice]),
        Err(SubmitError::NotConnected)
    );
    world.ready();
    let beyond = access(Operation::Read, DISK as u64, 512);
    let refused = SubmitError::Range {
        offset: DISK as u64,
        len: 512,
    };
    assert_eq!(world.client.submit(beyond, &[slice]), Err(refused));
    assert!(world.client.submit(read, &[slice]).is_ok());
    assert_eq!(world.client.submit(read, &[slice]), Err(SubmitError::Full));
}

#[test]
fn requests_end_with_the_connection() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.lose_everything(|target| target.socket.unwrap());
}

/// A read, and a write whose first bytes came with the command: the target has both, and answers neither. Gives their task tags.
fn in_flight(world: &mut World) -> (u32, u32) {
    world.server.is_mute = true;
    world.submit(Operation::Read, 0, 16 << 10);
    world.submit(Operation::Write, 0, 16 << 10);
    world.run_until(|world| !world.server.held.is_empty() && !world.server.writes.is_empty());
    let write = *world.server.writes.keys().next().unwrap();
    let read = world.server.held[0].task_tag;
    world.server.outgoing.clear();
    world.server.is_mute = false;
    (read, write)
}

/// What a target may say that ends the session, and with which words.
#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    fn data_in(task_tag: u32, offset: u32, data_len: u32) -> Pdu {
        Pdu::DataIn(DataIn {
            is_final: true,
            status: None,
            task_tag,
            numbers: ResponseNumbers::default(),
            data_sn: 0,
            offset,
            residual: Residual::None,
            data_len,
        })
    }
    fn ready(task_tag: u32, r2t_sn: u32, offset: u32) -> Pdu {
        Pdu::ReadyToTransfer(ReadyToTransfer {
            lun: Lun::default(),
            task_tag,
            transfer_tag: 5,
            numbers: ResponseNumbers::default(),
            r2t_sn,
            offset,
            len: 512,
        })
    }
    // By the tags of a read and of a write.
    type Case = (fn(u32, u32) -> Vec<Pdu>, &'static str);
    let cases: [Case; 6] = [
        (|_, _| vec![data_in(0xabcd_0000, 0, 8)], "names no task"),
        (|read, _| vec![data_in(read, 0, 1 << 15)], "outside of"),
        (|read, _| vec![ready(read, 0, 0)], "names no task"),
        (|_, write| vec![ready(write, 3, 4096)], "R2TSN is 3"),
        (|_, write| vec![ready(write, 0, 0)], "outside of"),
        (
            |_, write| vec![ready(write, 0, 4096), ready(write, 1, 4608)],
            "may not come now",
        ),
    ];
    for (pdus, words) in cases {
        let mut world = world(PLAIN, |options| options.session.depth = 2);
        world.ready();
        let (read, write) = in_flight(&mut world);
        world.server.held.clear();
        for pdu in pdus(read, write) {
            let data = vec![0; pdu.lengths().data_len as usize];
            world.server.outgoing.push_back((pdu, data));
        }
        world.run_until(|world| world.events.len() > 1);
        let Some(Event::Ended(Some(failure))) = world.events.last() else {
            panic!("{words}");
        };
        let failure = failure.to_string();
        assert!(failure.contains(words), "{failure}: {words}");
        world.run_until(|world| world.results.len() == 2);
    }
}

#[test]
fn a_write_is_not_done_before_all_of_it_was_asked_for() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    let (_, write) = in_flight(&mut world);
    let command = world.server.writes.remove(&write).unwrap().command;
    world.server.respond(&command, 0, Vec::new());
    world.run_until(|world| world.results.len() == 2);
    let failures: Vec<_> = world
        .results
        .iter()
        .filter_map(|(_, result)| Some(result.as_ref().err()?.to_string()))
        .collect();
    assert_eq!(failures, ["4096 of 16384 bytes were moved"]);
}

#[test]
fn a_target_that_asks_for_a_logout_gets_one_when_all_is_answered() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    in_flight(&mut world);
    let message = AsyncMessage {
        lun: Lun::default(),
        numbers: world.server.status_numbers(),
        event: 1,
        parameters: [0; 3],
        data_len: 0,
    };
    world
        .server
        .outgoing
        .push_back((Pdu::AsyncMessage(message), Vec::new()));
    let write = *world.server.writes.keys().next().unwrap();
    world.server.writes.get_mut(&write).unwrap().r2ts = 0;
    world.server.go_on_writing(write);
    world.run_until(|world| world.events.len() > 1);
    let failure = Failure::Session(initiator::Failure::TargetEnded(1));
    assert_eq!(world.events.last(), Some(&Event::Ended(Some(failure))));
    assert!(world.results.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(world.results.len(), 2);
}

#[test]
fn what_is_answered_before_the_end_is_not_lost() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.server.is_mute = true;
    world.submit(Operation::Write, 0, 4096);
    world.run_until(|world| !world.server.outgoing.is_empty());
    world.server.is_mute = false;
    let message = AsyncMessage {
        lun: Lun::default(),
        numbers: world.server.status_numbers(),
        event: 2,
        parameters: [0; 3],
        data_len: 0,
    };
    world
        .server
        .outgoing
        .push_back((Pdu::AsyncMessage(message), Vec::new()));
    world.run_until(|world| world.events.len() > 1 && !world.results.is_empty());
    assert!(world.results[0].1.is_ok());
}

#[test]
fn requests_that_are_sent_again_are_answered_before_the_logout() {
    let style = Style {
        grumbles: Some(2),
        ..PLAIN
    };
    let mut world = world(style, |_| {});
    world.ready();
    for at in 0..6 {
        world.submit(Operation::Read, at * 8192, 8192);
    }
    world.client.shutdown();
    world.run_until(|world| world.events.len() > 1);
    assert_eq!(world.events.last(), Some(&Event::Ended(None)));
    assert!(world.results.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(world.results.len(), 6);
}
