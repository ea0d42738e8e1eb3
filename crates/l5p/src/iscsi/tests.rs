use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;
use wire::iscsi::{
    DataIn, Lun, NO_TAG, NopIn, Pdu, ReadyToTransfer, Residual, ResponseNumbers, ScsiCommand,
    ScsiResponse,
};

use super::{Engine, Framing, Parameters, ProtocolError, Role, TaskTag};
use crate::crc32c::Crc32c;
use crate::pdus::{DataDigest, Event, MAX_FRONT, Next, PduProtocol, Reader};
use crate::{Direction, Integrity, Layer5, Parameters as _, Placement, Walker};

const TAGS: u16 = 9;
const MAX_DATA: u32 = 1 << 16;

fn parameters(header_digest: bool, data_digest: bool) -> Parameters {
    Parameters {
        sender: Role::Target,
        header_digest,
        data_digest,
        tags: TAGS,
        max_data: MAX_DATA,
    }
}

/// PDUs of a target, with as much data as they say.
fn pdus() -> impl Strategy<Value = Pdu> {
    let numbers = ResponseNumbers {
        stat_sn: 1,
        exp_cmd_sn: 2,
        max_cmd_sn: 3,
    };
    let tag = |tag| {
        TaskTag {
            tag,
            generation: 0x1234,
        }
        .to_bits()
    };
    prop_oneof![
        4 => (0..TAGS, 0..1u32 << 20, 0..4000u32, any::<bool>()).prop_map(move |(t, offset, data_len, ends)| {
            Pdu::DataIn(DataIn {
                is_final: ends,
                status: ends.then_some(0),
                task_tag: tag(t),
                numbers,
                data_sn: 0,
                offset,
                residual: Residual::None,
                data_len,
            })
        }),
        1 => (0..TAGS, 0..99u32).prop_map(move |(t, data_len)| Pdu::ScsiResponse(ScsiResponse {
            response: 0,
            status: 2,
            task_tag: tag(t),
            numbers,
            data_count: 0,
            residual: Residual::Underflow(5),
            data_len,
        })),
        1 => (0..TAGS, 1..99u32).prop_map(move |(t, len)| Pdu::ReadyToTransfer(ReadyToTransfer {
            lun: Lun::default(),
            task_tag: tag(t),
            transfer_tag: 77,
            numbers,
            r2t_sn: 0,
            offset: 4096,
            len,
        })),
        1 => Just(Pdu::NopIn(NopIn {
            lun: Lun::default(),
            task_tag: NO_TAG,
            transfer_tag: 5,
            numbers,
            data_len: 0,
        })),
    ]
}

/// A PDU as it is on the wire; its data begins at a place of a pattern.
fn bytes_of(framing: &Framing, pdu: &Pdu) -> Vec<u8> {
    let mut front = [0; MAX_FRONT];
    let layout = framing.emit(pdu, &mut front);
    let mut bytes = front[..layout.data_start as usize].to_vec();
    let data: Vec<u8> = (0..layout.data_len).map(|at| (at % 251) as u8).collect();
    let mut covered = data;
    covered.resize((layout.data_len + layout.padding) as usize, 0);
    bytes.extend(&covered);
    if layout.data_digest {
        bytes.extend(Crc32c::of(&covered).to_le_bytes());
    }
    assert_eq!(bytes.len(), layout.len() as usize);
    bytes
}

proptest! {
    #[test]
    fn a_nic_checks_and_places_what_a_target_sends_however_it_is_cut(
        pdus in vec(pdus(), 1..8),
        header_digest in any::<bool>(),
        data_digest in any::<bool>(),
        cuts in vec(1..700usize, 1..40),
        spoilt in any::<Option<prop::sample::Index>>(),
    ) {
        let parameters = parameters(header_digest, data_digest);
        let framing = parameters.framing();
        let mut wire = Vec::new();
        let mut starts = Vec::new();
        for pdu in &pdus {
            starts.push(wire.len());
            wire.extend(bytes_of(&framing, pdu));
        }
        // A byte of the data of one PDU.
        let spoilt = spoilt.filter(|_| data_digest).map(|index| index.index(pdus.len()));
        let spoilt = spoilt.filter(|at| pdus[*at].lengths().data_len > 0);
        if let Some(at) = spoilt {
            wire[starts[at] + framing.layout_of(&pdus[at]).data_start as usize] ^= 1;
        }
        let mut engine = Engine::new(&parameters, Direction::Receive);
        let mut walker = Walker::new(0);
        let mut ended = 0;
        let (mut rest, mut cuts) = (&wire[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let left = walker.to_boundary(&engine) as usize;
            let (now, later) = rest.split_at(left.min(rest.len()).min(*cuts.next().unwrap()));
            let mut copy = vec![0; now.len()];
            let walked = walker.advance(&mut engine, now, &mut copy[..]).unwrap();
            prop_assert!(copy == now);
            if walked.messages_finished > 0 {
                let end = walked.integrity;
                let expected = if spoilt == Some(ended) { Integrity::Bad } else { Integrity::Good };
                prop_assert_eq!(end, expected);
                let layout = framing.layout_of(&pdus[ended]);
                let placement = match &pdus[ended] {
                    Pdu::DataIn(data_in) if data_in.data_len > 0 => Some(Placement {
                        from: layout.data_start,
                        to: layout.data_start + layout.data_len,
                        tag: TaskTag::from_bits(data_in.task_tag).tag,
                        at: data_in.offset,
                    }),
                    _ => None,
                };
                prop_assert_eq!(engine.placement(), placement);
                ended += 1;
            }
            rest = later;
        }
        prop_assert_eq!(ended, pdus.len());
    }

    #[test]
    fn a_reader_finds_the_pdus_and_judges_their_digests(
        pdus in vec(pdus(), 1..8),
        header_digest in any::<bool>(),
        data_digest in any::<bool>(),
        cuts in vec(1..300usize, 1..40),
        spoilt in any::<Option<prop::sample::Index>>(),
    ) {
        let framing = parameters(header_digest, data_digest).framing();
        let mut wire = Vec::new();
        let mut spoilt_at = None;
        for (at, pdu) in pdus.iter().enumerate() {
            let mut bytes = bytes_of(&framing, pdu);
            if data_digest && spoilt.is_some_and(|index| index.index(pdus.len()) == at)
                && pdu.lengths().data_len > 0
            {
                *bytes.last_mut().unwrap() ^= 1;
                spoilt_at = Some(at);
            }
            wire.extend(bytes);
        }
        let mut reader = Reader::new(framing, SeqNum(0));
        let mut found = Vec::new();
        let mut digests = Vec::new();
        let (mut rest, mut cuts) = (&wire[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let most = rest.len().min(*cuts.next().unwrap());
            let (len, event) = match reader.next() {
                Next::Frame => reader.take(&rest[..most], false).unwrap(),
                Next::Data(range) => {
                    let len = most.min((range.end - range.start) as usize);
                    let mut to = vec![0; len];
                    (len, reader.copy(&rest[..len], &mut to[..], false))
                }
                Next::Waiting => panic!("no phase ends here"),
            };
            rest = &rest[len..];
            match event {
                Some(Event::Header(pdu)) => {
                    found.push(pdu);
                    if framing.layout_of(&pdu).data_len == 0 {
                        digests.push(DataDigest::None);
                    }
                }
                Some(Event::End(digest)) => digests.push(digest),
                None => {}
            }
        }
        prop_assert_eq!(&found, &pdus);
        for (at, digest) in digests.iter().enumerate() {
            let has_digest = framing.layout_of(&pdus[at]).data_digest;
            let expected = match (has_digest, spoilt_at == Some(at)) {
                (false, _) => DataDigest::None,
                (true, false) => DataDigest::Good,
                (true, true) => DataDigest::Bad,
            };
            prop_assert_eq!(*digest, expected);
        }
    }

    #[test]
    fn parameters_are_read_as_they_were_written(
        target in any::<bool>(), header_digest in any::<bool>(), data_digest in any::<bool>(),
        tags in any::<u16>(), max_data in 0..1u32 << 24, noise in any::<[u8; 8]>(),
    ) {
        let parameters = Parameters {
            sender: if target { Role::Target } else { Role::Initiator },
            header_digest,
            data_digest,
            tags,
            max_data,
        };
        let mut bytes = [0; 8];
        parameters.encode(&mut bytes);
        prop_assert_eq!(Parameters::decode(&bytes), Some(parameters));
        if let Some(parameters) = Parameters::decode(&noise) {
            parameters.encode(&mut bytes);
            prop_assert_eq!(bytes, noise);
        }
    }
}

#[test]
fn a_wrong_header_digest_is_an_error() {
    let framing = parameters(true, false).framing();
    let pdu = Pdu::NopIn(NopIn {
        lun: Lun::default(),
        task_tag: NO_TAG,
        transfer_tag: 5,
        numbers: ResponseNumbers::default(),
        data_len: 0,
    });
    let mut bytes = bytes_of(&framing, &pdu);
    bytes[51] ^= 1;
    let mut reader = Reader::new(framing, SeqNum(0));
    let refused = reader.take(&bytes, false);
    assert_eq!(refused.err(), Some(ProtocolError::HeaderDigest));
}

#[test]
fn a_tag_beyond_those_in_use_begins_no_pdu() {
    let parameters = parameters(false, false);
    let data_in = |tag| {
        Pdu::DataIn(DataIn {
            is_final: true,
            status: None,
            task_tag: TaskTag { tag, generation: 3 }.to_bits(),
            numbers: ResponseNumbers::default(),
            data_sn: 0,
            offset: 0,
            residual: Residual::None,
            data_len: 16,
        })
    };
    let judged = |parameters: &Parameters, tag| {
        let bytes = bytes_of(&parameters.framing(), &data_in(tag));
        let mut engine = Engine::new(parameters, Direction::Receive);
        engine.start(0, &bytes[..48]).map(|_| engine.placement())
    };
    assert_eq!(judged(&parameters, TAGS), None);
    assert!(judged(&parameters, TAGS - 1).unwrap().is_some());
    let without = Parameters {
        tags: 0,
        ..parameters
    };
    assert_eq!(judged(&without, 5), Some(None));
}

#[test]
fn additional_headers_of_a_command_are_skipped() {
    let parameters = Parameters {
        sender: Role::Initiator,
        ..parameters(true, true)
    };
    let framing = parameters.framing();
    let command = Pdu::ScsiCommand(ScsiCommand {
        immediate: false,
        is_final: true,
        reads: false,
        writes: true,
        lun: Lun::default(),
        task_tag: 7,
        expected_len: 512,
        numbers: wire::iscsi::RequestNumbers::default(),
        cdb: [9; 16],
        ahs_len: 200,
        data_len: 5,
    });
    let bytes = bytes_of(&framing, &command);
    assert_eq!(bytes.len(), 48 + 200 + 4 + 8 + 4);
    let mut engine = Engine::new(&parameters, Direction::Receive);
    let mut walker = Walker::new(0);
    let mut rest = &bytes[..];
    loop {
        let left = walker.to_boundary(&engine) as usize;
        let (now, later) = rest.split_at(left.min(rest.len()));
        let mut copy = vec![0; now.len()];
        let walked = walker.advance(&mut engine, now, &mut copy[..]).unwrap();
        if walked.messages_finished > 0 {
            assert_eq!(walked.integrity, Integrity::Good);
            assert!(later.is_empty());
            return;
        }
        rest = later;
    }
}
