use super::*;
use crate::time::{MILLISECOND, SECOND};

const MSS: u32 = 1000;

fn ack(now: Time, bytes: u32, rtt: Nanos) -> Acknowledged {
    Acknowledged {
        now,
        bytes,
        una: SeqNum((now.0 / 1000) as u32),
        nxt: SeqNum((now.0 / 1000) as u32 + 1),
        rtt: Some(rtt),
        smoothed_rtt: rtt,
    }
}

/// RFC 5681 §3.1.
#[test]
fn slow_start_doubles_each_round() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut congestion = Congestion::new(algorithm, MSS, 10);
        assert_eq!(congestion.cwnd(), 10 * MSS);
        for _ in 0..10 {
            congestion.on_ack(&ack(Time(SECOND), MSS, MILLISECOND));
        }
        assert_eq!(congestion.cwnd(), 20 * MSS);
    }
}

/// RFC 5681 §3.1: one segment per round.
#[test]
fn new_reno_avoids_congestion() {
    let mut congestion = Congestion::new(Algorithm::NewReno, MSS, 10);
    congestion.on_congestion(40 * MSS);
    assert_eq!(congestion.ssthresh(), 20 * MSS);
    congestion.set_cwnd(20 * MSS);
    for _ in 0..20 {
        congestion.on_ack(&ack(Time(SECOND), MSS, MILLISECOND));
    }
    assert_eq!(congestion.cwnd(), 21 * MSS);
}

/// RFC 9438 §4.2: W(t) = C (t - K)^3 + W_max.
#[test]
fn cubic_follows_its_curve() {
    let mut congestion = Congestion::new(Algorithm::Cubic, MSS, 10);
    congestion.set_cwnd(1000 * MSS);
    congestion.on_congestion(1000 * MSS);
    assert_eq!(congestion.ssthresh(), 700 * MSS, "§4.6: beta is 0.7");
    congestion.set_cwnd(700 * MSS);
    let rtt = 100 * MILLISECOND;
    let k = (300.0f64 / 0.4).cbrt();
    let mut now = Time(SECOND);
    let start = now;
    while now.since(start) < 15 * SECOND {
        // A window is acknowledged each round-trip time, in ten ACKs.
        for _ in 0..10 {
            congestion.on_ack(&ack(now, congestion.cwnd() / 10, rtt));
            now = now.after(rtt / 10);
        }
        let t = now.since(start) as f64 / SECOND as f64;
        let expected = 0.4 * (t - k).powi(3) + 1000.0;
        let actual = f64::from(congestion.cwnd()) / f64::from(MSS);
        assert!(
            (actual / expected - 1.0).abs() < 0.03,
            "at {t}: {actual} for {expected}"
        );
    }
}

/// RFC 9438 §4.3: on short paths it is no slower than Reno.
#[test]
fn cubic_is_friendly_to_reno() {
    let rtt = MILLISECOND;
    let mut cubic = Congestion::new(Algorithm::Cubic, MSS, 10);
    cubic.set_cwnd(20 * MSS);
    cubic.on_congestion(20 * MSS);
    cubic.set_cwnd(14 * MSS);
    let mut now = Time(SECOND);
    let mut rounds = 0;
    while cubic.cwnd() < 30 * MSS {
        for _ in 0..cubic.cwnd() / MSS {
            cubic.on_ack(&ack(now, MSS, rtt));
        }
        now = now.after(rtt);
        rounds += 1;
        assert!(rounds < 60);
    }
    assert!(
        rounds > 16,
        "and not faster than one segment a round: {rounds}"
    );
}

/// RFC 9438 §4.7: a flow that lost below its last maximum makes room.
#[test]
fn cubic_converges() {
    let mut congestion = Congestion::new(Algorithm::Cubic, MSS, 10);
    congestion.set_cwnd(1000 * MSS);
    congestion.on_congestion(1000 * MSS);
    congestion.set_cwnd(800 * MSS);
    congestion.on_congestion(800 * MSS);
    let State::Cubic(cubic) = &congestion.algorithm else {
        panic!("CUBIC")
    };
    assert_eq!(cubic.goal().w_max, 680.0);
}

/// RFC 9438 §4.8: behind a timeout the window of before is no goal.
#[test]
fn cubic_forgets_its_window_at_a_timeout() {
    let mut congestion = Congestion::new(Algorithm::Cubic, MSS, 10);
    congestion.set_cwnd(1000 * MSS);
    let before = congestion.before();
    congestion.on_congestion(1000 * MSS);
    congestion.on_timeout();
    let goal = |congestion: &Congestion| match &congestion.algorithm {
        State::Cubic(cubic) => cubic.goal().w_max,
        State::NewReno(_) => panic!("CUBIC"),
    };
    assert_eq!(goal(&congestion), 0.0);
    congestion.undo(&before);
    assert_eq!(congestion.cwnd(), 1000 * MSS);
}

/// RFC 9406: slow start ends before the queue is full.
#[test]
fn hystart_leaves_slow_start_when_the_delay_rises() {
    let mut congestion = Congestion::new(Algorithm::Cubic, MSS, 10);
    let mut rtt = 20 * MILLISECOND;
    let mut now = Time(SECOND);
    let mut rounds = 0;
    while congestion.in_slow_start() && rounds < 30 {
        let cwnd = congestion.cwnd();
        for _ in 0..cwnd / MSS {
            let acknowledged = Acknowledged {
                una: SeqNum(rounds * 10),
                nxt: SeqNum(rounds * 10 + 10),
                ..ack(now, MSS, rtt)
            };
            congestion.on_ack(&acknowledged);
        }
        now = now.after(rtt);
        rounds += 1;
        if congestion.cwnd() > 300 * MSS {
            rtt += 5 * MILLISECOND;
        }
    }
    assert!(!congestion.in_slow_start());
    assert!(congestion.cwnd() < 3000 * MSS, "{}", congestion.cwnd());
}

#[test]
fn an_undone_reduction_leaves_no_trace() {
    let mut congestion = Congestion::new(Algorithm::Cubic, MSS, 10);
    congestion.set_cwnd(100 * MSS);
    let before = congestion.before();
    congestion.on_congestion(100 * MSS);
    congestion.on_timeout();
    assert_eq!(congestion.cwnd(), MSS);
    congestion.undo(&before);
    assert_eq!(
        (congestion.cwnd(), congestion.ssthresh()),
        (100 * MSS, UNLIMITED)
    );
}
