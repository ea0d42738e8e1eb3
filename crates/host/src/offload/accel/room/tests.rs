use super::*;

fn room(closing: u32, packet_memory: u64) -> AccelRoom {
    AccelRoom {
        closing,
        splices: 0,
        packet_memory,
    }
}

#[test]
fn the_host_stops_before_the_nic_is_full_and_goes_on_when_there_is_room() {
    let now = Instant::now();
    let mut watch = Room::default();
    assert!(watch.allows(now, 1_000_000), "nothing was told yet");
    watch.told(room(800, 8000));
    assert!(watch.allows(now, 699));
    assert!(!watch.allows(now, 700), "an eighth stays free");
    watch.told(room(100, 8000));
    assert!(!watch.allows(now, 0));
    watch.told(room(300, 1000));
    assert!(!watch.allows(now, 0), "no packet memory");
    watch.told(room(300, 1001));
    assert!(watch.allows(now, 0));
}

#[test]
fn a_refusal_is_a_pause_unless_room_is_told_of() {
    let now = Instant::now();
    let mut watch = Room::default();
    watch.refused(now);
    assert!(!watch.allows(now, 0));
    assert!(watch.allows(now + PAUSE, 0));
    watch.refused(now);
    watch.told(room(8, 8));
    assert!(watch.allows(now, 0));
}
