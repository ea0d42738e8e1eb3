use super::*;
use wire::SeqNum;

#[test]
fn a_handshake_is_used_once() {
    let mut replays = Replays::default();
    for peers in 0..1000u32 {
        assert!(replays.spend(SeqNum(peers), SeqNum(7)));
        assert!(!replays.spend(SeqNum(peers), SeqNum(7)));
        assert!(replays.spend(SeqNum(peers), SeqNum(8)));
    }
}
