use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn a_pdu_stays_until_its_last_byte_is_acknowledged() {
    let mut writer = Writer::new(5);
    writer.push(SeqNum(100), 50);
    writer.push(SeqNum(150), 10);
    writer.acknowledged(SeqNum(149));
    assert_eq!(writer.release_point(SeqNum(149)), SeqNum(100));
    assert_eq!(writer.message_state(SeqNum(149)).unwrap().index, 5);
    writer.acknowledged(SeqNum(150));
    assert_eq!(writer.message_state(SeqNum(149)), None);
    assert_eq!(writer.release_point(SeqNum(150)), SeqNum(150));
    writer.acknowledged(SeqNum(160));
    assert!(writer.is_empty());
    assert_eq!(writer.release_point(SeqNum(160)), SeqNum(160));
    assert_eq!(writer.index(), 7);
}

proptest! {
    #[test]
    fn every_byte_has_its_pdu_and_no_other(
        start in any::<u32>(),
        pdus in vec((0..30u32, 1..200u32), 1..20),
        una in 0..4000u32,
    ) {
        let mut writer = Writer::new(0);
        let mut at = SeqNum(start);
        // The PDU of each byte, by its start and number.
        let mut owners = Vec::new();
        for (index, (gap, len)) in pdus.iter().enumerate() {
            owners.resize(owners.len() + *gap as usize, None);
            at += *gap;
            writer.push(at, *len);
            owners.resize(owners.len() + *len as usize, Some((at, *len, index as u64)));
            at += *len;
        }
        let una = una.min(owners.len() as u32);
        let acknowledged = SeqNum(start) + una;
        writer.acknowledged(acknowledged);
        for (offset, owner) in owners.iter().enumerate() {
            let owner = owner.filter(|(start, len, _)| acknowledged.before(*start + *len));
            let found = writer.message_state(SeqNum(start) + offset as u32);
            prop_assert_eq!(found.map(|pdu| (pdu.start, pdu.len, pdu.index)), owner);
        }
        let inside = owners.get(una as usize).copied().flatten();
        let expected = inside.map_or(acknowledged, |(start, _, _)| start);
        prop_assert_eq!(writer.release_point(acknowledged), expected);
    }
}
