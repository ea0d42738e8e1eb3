use super::*;

const PEER: u8 = 2;

fn flow(port: u16) -> FlowKey {
    let address = |host: u8, port: u16| std::net::SocketAddr::from(([10, 0, 0, host], port));
    FlowKey::new(address(1, 80), address(PEER, port))
}

fn entry() -> TimeWaitEntry {
    TimeWaitEntry {
        snd_nxt: SeqNum(1),
        rcv_nxt: SeqNum(1000),
        rcv_wnd: 1000,
        window: 1000,
        timestamps: None,
    }
}

/// A peer that repeats its FIN for ever, or opens the same flow again and again, costs no more memory than one that rests.
#[test]
fn a_table_takes_bounded_memory_however_often_flows_are_renewed() {
    let mut now = Instant::now();
    let mut table = TimeWait::new(now, 100, Duration::from_secs(60), [1; 16]);
    table.insert(now, flow(1), entry());
    let fin = Header {
        seq: SeqNum(999),
        flags: Flags::FIN | Flags::ACK,
        ..Header::default()
    };
    for _ in 0..10_000 {
        now += Duration::from_micros(10);
        let verdict = table.handle_segment(now, &flow(1).reversed(), &fin, 0);
        assert!(matches!(verdict, Verdict::Reply(_)));
        table.insert(now, flow(2), entry());
    }
    assert_eq!(table.len(), 2);
    assert!(table.order.len() <= 200, "{}", table.order.len());
    // They rest until the end all the same.
    table.handle_timeout(now + Duration::from_secs(59));
    assert_eq!(table.len(), 2);
    table.handle_timeout(now + Duration::from_secs(61));
    assert!(table.is_empty() && table.order.is_empty());
}

/// As a process does that takes another one's place.
#[test]
fn entries_of_one_table_answer_in_another_as_they_would_have_in_the_first() {
    let start = Instant::now();
    let mut first = TimeWait::new(start, 100, Duration::from_secs(60), [1; 16]);
    let stamped = TimeWaitEntry {
        timestamps: Some((7, 1000)),
        ..entry()
    };
    first.insert(start, flow(1), stamped);
    first.insert(start + Duration::from_secs(50), flow(2), entry());
    first.withhold(start, flow(3), false);
    assert_eq!(first.flows().count(), 3);

    let now = start + Duration::from_secs(30);
    let mut second = TimeWait::new(now, 100, Duration::from_secs(60), [2; 16]);
    for (flow, entry) in first.entries(now) {
        second.insert(now, flow, entry);
    }
    assert_eq!(second.len(), 2, "the NIC answers for the third");
    let later = now + Duration::from_secs(5);
    let fin = Header {
        seq: SeqNum(999),
        flags: Flags::FIN | Flags::ACK,
        ..Header::default()
    };
    let of_peer = flow(1).reversed();
    let answers = [&mut first, &mut second].map(|it| it.handle_segment(later, &of_peer, &fin, 0));
    assert!(matches!(answers[0], Verdict::Reply(_)));
    assert_eq!(answers[0], answers[1]);
    // The FIN has begun the first one's time anew.
    let count = |milliseconds| {
        let then = start + Duration::from_millis(milliseconds);
        first.entries(then).count()
    };
    assert_eq!([94_999, 95_000, 109_999, 110_000].map(count), [2, 1, 1, 0]);
}
