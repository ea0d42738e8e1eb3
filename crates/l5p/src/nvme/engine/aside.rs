use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::crc32c::Crc32c;
use crate::nvme::fixture::{on_wire, stream};
use crate::tls::fixture::ranges;
use crate::{AnyOrder, Integrity, Layer5, Part, Walker};

/// Runs one PDU through an engine; the pieces with a bit in `late` come after the others, in the order that `order` gives.
/// Returns what is left of the checks, and the bytes.
fn receive(
    parameters: &crate::nvme::Parameters,
    pdu: &[u8],
    cuts: &[u32],
    late: u32,
    order: u32,
) -> (Part, Vec<u8>) {
    let mut engine = Engine::new(parameters, Direction::Receive);
    let mut walker = Walker::new(0);
    let mut output = vec![0; pdu.len()];
    walker
        .advance(&mut engine, &pdu[..24], &mut output[..24])
        .unwrap();
    let len = pdu.len() as u32;
    let message = engine.message(24, len).expect("a PDU in progress");
    let mut missing = Vec::new();
    for (n, range) in ranges(pdu.len() - 24, cuts).into_iter().enumerate() {
        let range = range.start + 24..range.end + 24;
        if late >> (n % 32) & 1 != 0 {
            walker.pass_missing(&mut engine, range.len() as u32);
            missing.push(range);
        } else {
            walker
                .advance(&mut engine, &pdu[range.clone()], &mut output[range])
                .unwrap();
        }
    }
    let mut sum = engine.residue();
    let turn = order as usize % missing.len().max(1);
    missing.rotate_left(turn);
    for range in missing {
        let (input, output) = (&pdu[range.clone()], &mut output[range.clone()]);
        sum ^= engine.transform_aside(&message, len, range.start as u32, input, output.into());
    }
    (sum, output)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn late_bytes_add_up_in_any_order(
        (parameters, samples) in stream(5000),
        cuts in vec(any::<u32>(), 0..12),
        late in any::<u32>(),
        order in any::<u32>(),
    ) {
        let pdu = on_wire(&parameters, &samples[..1]);
        let (sum, output) = receive(&parameters, &pdu, &cuts, late, order);
        prop_assert_eq!(sum, 0);
        prop_assert_eq!(output, pdu);
    }

    #[test]
    fn a_changed_byte_is_noticed_also_when_it_comes_late(
        (mut parameters, samples) in stream(500),
        cuts in vec(any::<u32>(), 0..12),
        late in any::<u32>(),
        at in any::<prop::sample::Index>(),
        change in 1..=255u8,
    ) {
        (parameters.header_digest, parameters.data_digest) = (true, true);
        let mut pdu = on_wire(&parameters, &samples[..1]);
        let padding = {
            let layout = parameters.framing().check(&pdu).unwrap().unwrap();
            layout.header_digest().end as usize..layout.data().start as usize
        };
        let at = 24 + at.index(pdu.len() - 24);
        prop_assume!(!padding.contains(&at));
        pdu[at] ^= change;
        prop_assert_ne!(receive(&parameters, &pdu, &cuts, late, 0).0, 0);
    }
}

#[test]
fn a_gap_of_a_gigabyte_costs_no_pass_over_it() {
    let parameters = crate::nvme::Parameters {
        sender: crate::nvme::Role::Controller,
        header_digest: false,
        data_digest: true,
        alignment: 0,
        max_pdu: u32::MAX,
        commands: 1,
    };
    let data_len = 1u32 << 30;
    let pdu = wire::nvme::Pdu::C2HData(wire::nvme::C2HData {
        cccid: 0,
        data_offset: 0,
        data_len,
        last: true,
        success: false,
    });
    let mut header = [0; 24];
    pdu.emit(&parameters.framing(), &mut header);
    let mut engine = Engine::new(&parameters, Direction::Receive);
    let mut walker = Walker::new(0);
    walker.absorb(&mut engine, &header).unwrap();
    walker.absorb(&mut engine, &[7]).unwrap();
    walker.pass_missing(&mut engine, data_len - 1);
    let mut digest = Crc32c::new();
    digest.update(&[7]);
    digest.update_zeros(data_len - 1);
    let check = digest.finish().to_le_bytes();
    let walked = walker.absorb(&mut engine, &check).unwrap();
    assert_eq!(walked.integrity, Integrity::Good);
    assert_eq!(engine.finish(), Integrity::Good);
}
