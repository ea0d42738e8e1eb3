use super::*;
use wire::SeqNum;

#[test]
fn a_handshake_is_used_once() {
    let mut replays = Replays::new(1 << 16);
    for peers in 0..1000u32 {
        assert!(replays.spend(SeqNum(peers), SeqNum(7)));
        assert!(!replays.spend(SeqNum(peers), SeqNum(7)));
        assert!(replays.spend(SeqNum(peers), SeqNum(8)));
    }
}

#[test]
fn as_many_as_asked_for_are_remembered_and_none_when_none_are() {
    // Of four times as many places most handshakes keep theirs; of few places each has its latest.
    let numbers = (0..1000u32).map(|n| (SeqNum(n.wrapping_mul(0x85eb_ca6b)), SeqNum(n ^ 0x5555)));
    let remembered = |handshakes: u32| {
        let mut replays = Replays::new(handshakes);
        numbers.clone().for_each(|(peers, ours)| {
            replays.spend(peers, ours);
        });
        let again = |(peers, ours): &(SeqNum, SeqNum)| !replays.spend(*peers, *ours);
        // The latest first: a look at another takes its place.
        numbers.clone().rev().filter(again).count()
    };
    assert_eq!(remembered(0), 0);
    let (few, many) = (remembered(100), remembered(4000));
    assert!((1..=128).contains(&few), "{few}");
    assert!((700..=1000).contains(&many), "{many}");
}
