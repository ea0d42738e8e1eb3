//! Streams of PDUs over bad networks: whatever the network does and whatever the NIC does of the work, the receiver is told
//! the same, its memory holds the same, and what is sent is the same, as in software.

mod rig;
mod script;

use std::time::Duration;

use self::rig::{Cut, MEMORY, Mode, Rig};
use self::script::{Buffer, Message, Round, RoundPlan, rounds};
use crate::strategies::links::{cases, link};
use crate::strategies::scenarios::suites;
use host::Offload;
use host::nvme::PduOffload;
use host::pdus::PduData;
use l5p::crc32c::Crc32c;
use l5p::nvme::Parameters;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::Suite;
use wire::nvme::{Digests, FatalError, Pdu, PduType, Role};

fn offloads() -> impl Strategy<Value = PduOffload> {
    let any =
        any::<[bool; 3]>().prop_map(|[placement, receive_digest, transmit_digest]| PduOffload {
            placement,
            receive_digest,
            transmit_digest,
        });
    prop_oneof![3 => Just(PduOffload::ALL), 1 => any]
}

fn tls() -> impl Strategy<Value = Option<(Suite, Offload)>> {
    let offload = prop::sample::select(vec![Offload::None, Offload::Rx, Offload::Both]);
    prop_oneof![2 => Just(None), 1 => (suites(), offload).prop_map(Some)]
}

fn modes() -> impl Strategy<Value = Mode> {
    let mtu = prop_oneof![3 => Just(1500u16), 1 => 1280u16..9001];
    let alignment = prop_oneof![3 => Just(0u8), 1 => 0..32u8];
    let choices = (any::<u64>(), any::<[bool; 3]>());
    (choices, mtu, link(), tls(), alignment, offloads()).prop_map(
        |((seed, [header, data, host]), mtu, link, tls, alignment, offload)| Mode {
            seed,
            mtu,
            link,
            tls,
            digests: Digests { header, data },
            alignment,
            offload,
            role: if host { Role::Host } else { Role::Controller },
        },
    )
}

/// Lets a crafted peer send rounds of PDUs. Answers the world, unless the network gave up.
fn receive(mode: Mode, plans: &[RoundPlan]) -> Option<Rig> {
    let mut rig = match Rig::new(mode) {
        Err(Cut::Off) => return None,
        other => other.expect("nothing is wrong yet"),
    };
    let parameters = mode.parameters(mode.role.peer());
    let mut expected = vec![0xee; MEMORY];
    assert!(rig.memory.write(0, &expected));
    for (n, plan) in plans.iter().enumerate() {
        let round = Round::new(plan, &parameters, mode.seed + n as u64, &mut expected);
        match play(&mut rig, &round, &parameters) {
            Err(Cut::Off) => return None,
            other => other.expect("nothing is wrong with it"),
        }
        let mut memory = vec![0; MEMORY];
        assert!(rig.memory.read(0, &mut memory));
        if let Some(at) = (0..MEMORY).find(|&at| memory[at] != expected[at]) {
            panic!("round {n}: the memory differs at {at}: {:?}", round.buffers);
        }
    }
    Some(rig)
}

fn play(rig: &mut Rig, round: &Round, parameters: &Parameters) -> Result<(), Cut> {
    let mapped = rig.map(&round.buffers);
    let (mut stream, mut told) = (Vec::new(), Vec::new());
    for message in &round.messages {
        message.write(parameters, &mut stream);
        message.told(parameters, &mut told);
    }
    rig.write(&stream);
    rig.run_until(|rig| rig.sink.told.len() >= told.len())?;
    assert_eq!(rig.sink.told, told);
    rig.sink.told.clear();
    rig.unmap(&mapped)
}

/// Lets the stack send PDUs. Answers the world, unless the network gave up.
fn send(mode: Mode, plans: &[RoundPlan]) -> Option<Rig> {
    let mut rig = match Rig::new(mode) {
        Err(Cut::Off) => return None,
        other => other.expect("nothing is wrong yet"),
    };
    let parameters = mode.parameters(mode.role);
    let mut expected = Vec::new();
    for (n, plan) in plans.iter().enumerate() {
        let mut memory = vec![0; MEMORY];
        let mut round = Round::new(plan, &parameters, mode.seed + n as u64, &mut memory);
        for message in &mut round.messages {
            message.has_bad_digest = false;
            message.write(&parameters, &mut expected);
        }
        let sent = send_all(&mut rig, &round, &memory)
            .and_then(|()| rig.run_until(|rig| rig.read.len() >= expected.len()))
            .and_then(|()| rig.run_until_acknowledged());
        match sent {
            Err(Cut::Off) => return None,
            other => other.expect("nothing is wrong with it"),
        }
        assert!(rig.read == expected, "round {n}: the stream differs");
    }
    Some(rig)
}

/// Longest data in bytes that is sent as a copy.
const COPIED: usize = 9000;

/// Sends a round's PDUs, their data in place where they have a buffer.
fn send_all(rig: &mut Rig, round: &Round, memory: &[u8]) -> Result<(), Cut> {
    assert!(rig.memory.write(0, memory));
    for message in &round.messages {
        let slices = rig.slices(&in_buffer(round, message));
        let data = match (&message.data[..], &slices[..]) {
            ([], _) => PduData::None,
            (data, []) => PduData::Bytes(data),
            (_, slices) => PduData::Slices(slices),
        };
        rig.send(&message.pdu, data)?;
    }
    Ok(())
}

/// Where a message's data is, if it is sent in place: long data is, and that of buffers that are mapped.
fn in_buffer(round: &Round, message: &Message) -> Vec<(u64, u32)> {
    let Some((tag, at)) = message.place() else {
        return Vec::new();
    };
    let mut buffers = round.buffers.iter();
    let in_place = |buffer: &&Buffer| buffer.is_mapped || message.data.len() > COPIED;
    match buffers.find(|buffer| buffer.tag == tag).filter(in_place) {
        Some(buffer) => buffer.places(at, message.data.len() as u32),
        None => Vec::new(),
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn what_is_received_is_what_was_sent(mode in modes(), plans in rounds()) {
        receive(mode, &plans);
    }

    #[test]
    fn what_is_sent_is_what_software_would_send(mode in modes(), plans in rounds()) {
        send(mode, &plans);
    }
}

/// A PDU with one byte of its header changed, and why it is refused; the digest is that of the changed header, or not. `None` when
/// nothing is wrong with it.
fn malformed(
    parameters: &Parameters,
    message: &Message,
    (at, value): (usize, u8),
    is_digested: bool,
) -> Option<(Vec<u8>, FatalError)> {
    let framing = parameters.framing();
    let layout = framing.layout(message.pdu.pdu_type(), message.pdu.data_len());
    let mut bytes = Vec::new();
    message.write(parameters, &mut bytes);
    let (header_len, digest) = (layout.header_len(), layout.header_digest());
    bytes[at % header_len] = value;
    let (header, behind) = bytes.split_at_mut(header_len);
    if is_digested && layout.header_digest {
        behind[..4].copy_from_slice(&Crc32c::of(&*header).to_le_bytes());
    }
    if let Err(error) = framing.check(&header[..8]) {
        return Some((bytes, error));
    }
    let received = bytes[digest.start as usize..].first_chunk().copied();
    let received = received.map_or(0, u32::from_le_bytes);
    if layout.header_digest && received != Crc32c::of(&bytes[..header_len]) {
        return Some((bytes, FatalError::header_digest(received)));
    }
    let error = Pdu::parse(&bytes, &framing).err()?;
    Some((bytes, error))
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn a_malformed_pdu_is_answered_with_what_is_wrong_with_it(
        mode in modes(),
        plans in rounds(),
        change in (0..72usize, prop_oneof![any::<u8>(), 0..10u8]),
        is_digested in any::<bool>(),
    ) {
        let mode = Mode { link: Impairment::default(), ..mode };
        let mut rig = receive(mode, &plans).expect("a calm network");
        let parameters = mode.parameters(mode.role.peer());
        let round = Round::new(&plans[0], &parameters, mode.seed, &mut vec![0; MEMORY]);
        let bad = malformed(&parameters, &round.messages[0], change, is_digested);
        prop_assume!(bad.is_some());
        let (bytes, error) = bad.expect("just checked");
        rig.write(&bytes);
        let ended = rig.run_until(|_| false).expect_err("refused");
        prop_assert!(matches!(ended, Cut::Refused(refused) if refused == error), "{:?}", ended);
        rig.read_to_end();
        // A TermReq is not answered, however wrong it is (NVMe/TCP 1.0 §3.5.1).
        let claimed = PduType::from_code(bytes[0]);
        if matches!(claimed, Some(PduType::H2CTermReq | PduType::C2HTermReq)) {
            prop_assert!(rig.read.is_empty(), "{:?}", rig.read);
            return Ok(());
        }
        // Whatever else the header claims to be, at least its common part is told.
        let told = Pdu::parse(&rig.read, &mode.parameters(mode.role).framing());
        let (Ok(Pdu::C2HTermReq(told)) | Ok(Pdu::H2CTermReq(told))) = told else {
            panic!("no TermReq but {:?}", rig.read);
        };
        prop_assert_eq!(told.error, error);
        prop_assert!(told.data_len >= 8);
        prop_assert_eq!(&rig.read[24..], &bytes[..told.data_len as usize]);
    }
}

/// Long transfers and short PDUs, everything offloaded.
fn offloaded(
    role: Role,
    tls: Option<(Suite, Offload)>,
    link: Impairment,
) -> (Mode, Vec<RoundPlan>) {
    let mode = Mode {
        seed: 1,
        mtu: 1500,
        link,
        tls,
        digests: Digests::BOTH,
        alignment: 0,
        offload: PduOffload::ALL,
        role,
    };
    let transfer = script::Transfer {
        len: 100_000,
        part: 30_000,
        is_mapped: true,
        slice: 1 << 20,
        has_bad_digest: false,
    };
    let plan = RoundPlan {
        transfers: vec![transfer; 8],
        others: 20,
        is_planted: true,
        is_ascending: true,
    };
    (mode, vec![plan; 10])
}

const BYTES: u64 = 8 * 10 * 100_000;

#[test]
fn on_a_calm_network_the_nic_does_it_all() {
    for (role, tls) in both(ROLES) {
        let (mode, plans) = offloaded(role, tls, Impairment::default());
        let rig = receive(mode, &plans).expect("a calm network");
        let placed = rig.world.counter(1, "NvmeTcpRxBytesPlaced");
        // A few bytes come in the packet that completes a header which two packets share.
        assert!(
            placed * 1000 >= BYTES * 999,
            "{tls:?}: {placed} bytes placed"
        );
        assert_eq!(rig.world.counter(1, "NvmeTcpRxDigestsSw"), 0, "{tls:?}");
        let rig = send(mode, &plans).expect("a calm network");
        assert_eq!(rig.world.counter(1, "NvmeTcpTxPdusFallback"), 0, "{tls:?}");
    }
}

/// The bar of Linux's own tests (blktests nvme/056), at ten times their loss.
#[test]
fn what_the_network_loses_costs_little_offload() {
    let link = Impairment {
        loss: 0.003,
        delay: Duration::from_micros(50),
        ..Impairment::default()
    };
    for (role, tls) in both(ROLES) {
        let (mode, plans) = offloaded(role, tls, link);
        let rig = receive(mode, &plans).expect("a good network");
        let placed = rig.world.counter(1, "NvmeTcpRxBytesPlaced");
        assert!(placed * 10 >= BYTES * 9, "{tls:?}: {placed} bytes placed");
    }
}

const ROLES: [Role; 2] = [Role::Host, Role::Controller];

/// Each of them, without TLS and inside it.
fn both(roles: [Role; 2]) -> impl Iterator<Item = (Role, Option<(Suite, Offload)>)> {
    let tls = [None, Some((Suite::DEFAULT, Offload::Both))];
    roles
        .into_iter()
        .flat_map(move |role| tls.map(|tls| (role, tls)))
}
