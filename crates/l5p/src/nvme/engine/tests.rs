use proptest::collection::vec;
use proptest::prelude::*;
use wire::nvme::{C2HData, H2CData, R2T};

use super::*;
use crate::nvme::Role;
use crate::nvme::fixture::{COMMANDS, Sample, framed, on_wire, stream};
use crate::pdus::engine::{Field, runs};
use crate::tls::fixture::ranges;
use crate::{Integrity, Judgement, Layer5, Walker};

/// Sends a stream through an engine in the given pieces, of which every other may be absorbed only.
fn walk(
    parameters: &Parameters,
    direction: Direction,
    stream: &[u8],
    cuts: &[u32],
    absorb: bool,
) -> (Vec<u8>, Integrity, u64) {
    let mut engine = Engine::new(parameters, direction);
    let mut walker = Walker::new(0);
    let mut output = stream.to_vec();
    let mut integrity = Integrity::Good;
    for (n, range) in ranges(stream.len(), cuts).into_iter().enumerate() {
        let input = &stream[range.clone()];
        let walked = match absorb && n % 2 == 0 {
            true => walker.absorb(&mut engine, input),
            false => walker.advance(&mut engine, input, &mut output[range]),
        };
        if walked.expect("headers where they must be").integrity == Integrity::Bad {
            integrity = Integrity::Bad;
        }
    }
    (output, integrity, walker.index())
}

fn controller() -> Parameters {
    Parameters {
        sender: Role::Controller,
        header_digest: true,
        data_digest: true,
        alignment: 0,
        max_pdu: 1 << 20,
        commands: COMMANDS,
    }
}

fn c2h_data(cccid: u16, data_offset: u32, data: &[u8]) -> Sample {
    Sample {
        pdu: Pdu::C2HData(C2HData {
            cccid,
            data_offset,
            data_len: data.len() as u32,
            last: false,
            success: false,
        }),
        data: data.to_vec(),
    }
}

#[test]
fn data_pdus_tell_where_their_data_belong() {
    let parameters = controller();
    let wire = on_wire(&parameters, &[c2h_data(5, 4096, &[1; 512])]);
    let mut engine = Engine::new(&parameters, Direction::Receive);
    engine.start(0, &wire[..24]);
    assert_eq!(
        engine.placement(),
        Some(Placement {
            from: 28,
            to: 540,
            tag: 5,
            at: 4096
        })
    );
    let from_host = Parameters {
        sender: Role::Host,
        header_digest: false,
        ..parameters
    };
    let sample = Sample {
        pdu: Pdu::H2CData(H2CData {
            cccid: 1000,
            ttag: 7,
            data_offset: 8,
            data_len: 4,
            last: true,
        }),
        data: vec![1; 4],
    };
    let wire = on_wire(&from_host, &[sample]);
    let mut engine = Engine::new(&from_host, Direction::Receive);
    engine.start(0, &wire[..24]);
    let placement = engine.placement().unwrap();
    assert_eq!((placement.tag, placement.at), (7, 8));
    assert_eq!((placement.from, placement.to), (24, 28));
    let ready = Sample {
        pdu: Pdu::R2T(R2T {
            cccid: 1,
            ttag: 1,
            offset: 0,
            len: 1,
        }),
        data: vec![],
    };
    let wire = on_wire(&parameters, &[ready]);
    let mut engine = Engine::new(&parameters, Direction::Receive);
    engine.start(0, &wire[..24]);
    assert_eq!(engine.placement(), None);
}

#[test]
fn a_tag_that_was_never_given_out_is_no_header() {
    let parameters = controller();
    let engine = Engine::new(&parameters, Direction::Receive);
    let judge = |cccid| {
        let wire = on_wire(&parameters, &[c2h_data(cccid, 0, &[1])]);
        engine.judge(&wire[..24])
    };
    assert_eq!(judge(COMMANDS - 1), Judgement::Message { len: 33 });
    assert_eq!(judge(COMMANDS), Judgement::NotAHeader);
}

#[test]
fn data_beyond_all_buffers_is_no_header() {
    let parameters = controller();
    let engine = Engine::new(&parameters, Direction::Receive);
    let mut wire = on_wire(&parameters, &[c2h_data(1, 0, &[1; 4])]);
    wire[12..16].fill(0xff);
    assert_eq!(engine.judge(&wire[..24]), Judgement::NotAHeader);
}

#[test]
fn an_engine_is_small() {
    assert!(size_of::<Engine>() <= 112, "{}", size_of::<Engine>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_pieces_give_what_software_gives(
        (parameters, samples) in stream(3000),
        cuts in vec(any::<u32>(), 0..24),
        absorb in any::<bool>(),
    ) {
        let wire = on_wire(&parameters, &samples);
        let dummy = framed(&parameters, &samples);
        let (sent, _, index) = walk(&parameters, Direction::Transmit, &dummy, &cuts, false);
        prop_assert_eq!(&sent, &wire);
        prop_assert_eq!(index, samples.len() as u64);
        let (received, integrity, index) =
            walk(&parameters, Direction::Receive, &wire, &cuts, absorb);
        prop_assert_eq!(&received, &wire);
        prop_assert_eq!(integrity, Integrity::Good);
        prop_assert_eq!(index, samples.len() as u64);
    }

    #[test]
    fn a_digest_is_made_also_when_what_comes_before_it_is_absorbed(
        (parameters, samples) in stream(3000),
        cuts in vec(any::<u32>(), 0..8),
    ) {
        let wire = on_wire(&parameters, &samples);
        let dummy = framed(&parameters, &samples);
        let (sent, _, _) = walk(&parameters, Direction::Transmit, &dummy, &cuts, true);
        for (n, range) in ranges(wire.len(), &cuts).into_iter().enumerate() {
            if n % 2 == 1 {
                prop_assert_eq!(&sent[range.clone()], &wire[range]);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed_where_a_digest_covers_it(
        (parameters, samples) in stream(300),
        cuts in vec(any::<u32>(), 0..8),
        at in any::<prop::sample::Index>(),
        change in 1..=255u8,
    ) {
        let one = &samples[..1];
        let mut wire = on_wire(&parameters, one);
        let layout = parameters.framing().check(&wire).unwrap().unwrap();
        // A change of the first 24 bytes may lead out of step.
        let at = 24 + at.index(wire.len() - 24 + 1);
        prop_assume!(at < wire.len());
        wire[at] ^= change;
        let judged = Judged {
            layout: parts(&layout),
            header_digest: layout.header_digest,
            placement: None,
        };
        let covered = runs(&judged, at as u32, 1).all(|run| match run.field {
            Field::Header | Field::HeaderDigest => layout.header_digest,
            Field::Data | Field::DataDigest => layout.data_digest,
            Field::Padding => false,
        });
        let (_, integrity, _) = walk(&parameters, Direction::Receive, &wire, &cuts, false);
        prop_assert_eq!(integrity == Integrity::Bad, covered);
    }

    #[test]
    fn what_is_refused_early_is_refused_whole(
        (parameters, samples) in stream(40),
        at in 0..24usize,
        value in any::<u8>(),
    ) {
        let mut wire = on_wire(&parameters, &samples);
        wire[at] = value;
        let engine = Engine::new(&parameters, Direction::Receive);
        let whole = engine.judge(&wire[..24]);
        for end in 0..24 {
            match engine.judge(&wire[..end]) {
                Judgement::TooShort => {}
                Judgement::NotAHeader => prop_assert_eq!(whole, Judgement::NotAHeader),
                Judgement::Message { .. } => prop_assert!(false, "judged by {} bytes", end),
            }
        }
    }
}

#[test]
fn whoever_sends_may_use_any_tag() {
    let parameters = controller();
    let wire = on_wire(&parameters, &[c2h_data(0xf005, 0, &[1; 512])]);
    let judge = |direction| Engine::new(&parameters, direction).judge(&wire);
    assert_eq!(judge(Direction::Receive), Judgement::NotAHeader);
    assert_eq!(
        judge(Direction::Transmit),
        Judgement::Message {
            len: wire.len() as u32
        }
    );
}
