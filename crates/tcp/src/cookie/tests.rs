use proptest::prelude::*;
use wire::tcp::Timestamps;

use super::*;

const KEY: [u8; 16] = *b"a secret of ours";

fn syn(isn: u32, mss: u16, shift: Option<u8>, sack: bool) -> Header {
    Header {
        seq: SeqNum(isn),
        options: Options {
            mss: Some(mss),
            window_scale: shift,
            sack_permitted: sack,
            ..Options::default()
        },
        ..Header::default()
    }
}

/// The first ACK of a peer that has got the SYN-ACK with these numbers.
fn ack(syn: &Header, sequence: SeqNum, echo: u32) -> Header {
    Header {
        seq: syn.seq + 1,
        ack: sequence + 1,
        options: Options {
            timestamps: Some(Timestamps { val: 7, echo }),
            ..Options::default()
        },
        ..Header::default()
    }
}

#[test]
fn of_other_segments_the_filter_lets_one_in_256_through() {
    let syn_cookies = SynCookies::filtered(Instant::now(), KEY);
    let mut through = 0;
    // A flow that goes on after its handshake: both numbers advance as they do in practice.
    for step in 1..=65_536u32 {
        let header = Header {
            seq: SeqNum(77) + step * 1448,
            ack: SeqNum(1 << 20) + step / 2 * 1448,
            ..Header::default()
        };
        through += u32::from(syn_cookies.might_open(&header));
    }
    assert!((128..512).contains(&through), "{through} of 65536");
}

#[test]
fn a_period_has_keys_of_its_own() {
    let now = Instant::now();
    let mut syn_cookies = SynCookies::filtered(now, KEY);
    let syn = syn(1, 1460, None, false);
    let mut seen = Vec::new();
    for period in 0..64 {
        syn_cookies.advance(now + PERIOD * period);
        let sequence = syn_cookies.sequence(9, &syn);
        assert_eq!(sequence.0 >> 31, period & 1);
        assert!(!seen.contains(&sequence));
        seen.push(sequence);
    }
    // Time that jumps far ahead, and keys that are asked for an old time.
    syn_cookies.advance(now + PERIOD * 100_000);
    let sequence = syn_cookies.sequence(9, &syn);
    syn_cookies.advance(now);
    assert_eq!(syn_cookies.sequence(9, &syn), sequence);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_filtered_cookie_brings_its_syn_back_while_it_is_fresh(
        isn: u32, mss in 536u16.., shift in proptest::option::of(0u8..15), sack: bool,
        flow: u64, clock: u32, made in 0u64..300_000, later in 0u64..300_000,
    ) {
        let now = Instant::now();
        let mut syn_cookies = SynCookies::filtered(now, KEY);
        syn_cookies.advance(now + Duration::from_millis(made));
        let syn = syn(isn, mss, shift, sack);
        let (sequence, echo) = (syn_cookies.sequence(flow, &syn), syn_cookies.timestamp(clock, &syn.options));
        syn_cookies.advance(now + Duration::from_millis(made + later));
        let ack = ack(&syn, sequence, echo);
        let opened = syn_cookies.open(flow, clock.wrapping_add(later as u32), &ack);
        let periods = (made + later) / 64_000 - made / 64_000;
        if periods <= 1 {
            prop_assert!(syn_cookies.might_open(&ack));
            let cookie = opened.expect("it is fresh");
            prop_assert!(cookie.mss <= mss && MSS_CLASSES.contains(&cookie.mss));
            prop_assert_eq!((cookie.window_scale, cookie.sack), (shift, sack));
        } else {
            prop_assert_eq!(opened, None);
        }
    }

    /// The clock that begins with a cookie goes on with it, whatever is made in between.
    #[test]
    fn a_cookie_tells_its_clock_again(
        isn: u32, mss in 536u16.., shift in proptest::option::of(0u8..15), sack: bool,
        flow: u64, made in 0u32..300_000, later in 0u32..64_000,
    ) {
        let now = Instant::now();
        let mut syn_cookies = SynCookies::filtered(now, KEY);
        syn_cookies.advance(now + Duration::from_millis(made.into()));
        let syn = syn(isn, mss, shift, sack);
        let (sequence, beginning) = syn_cookies.bake(flow, &syn);
        let clock = beginning.wrapping_add(made);
        let echo = syn_cookies.timestamp(clock, &syn.options);
        prop_assert_eq!(sequence, syn_cookies.sequence(flow, &syn));
        syn_cookies.advance(now + Duration::from_millis((made + later).into()));
        let (cookie, told) = syn_cookies.open_timed(flow, made + later, &ack(&syn, sequence, echo)).expect("it is fresh");
        prop_assert_eq!(told, clock.wrapping_add(later));
        prop_assert_eq!((cookie.window_scale, cookie.sack), (shift, sack));
        let other = syn_cookies.open_timed(flow, made.wrapping_sub(64), &ack(&syn, sequence, echo));
        prop_assert!(other.is_none(), "an echo of the future");
    }

    /// Any bit of what the peer brings back matters, but for those of the timestamp that say what it may use.
    #[test]
    fn a_filtered_cookie_with_a_flipped_bit_is_not_good(
        isn: u32, flow: u64, clock: u32, bit in 0u32..32, other in 0u32..64,
    ) {
        let syn_cookies = SynCookies::filtered(Instant::now(), KEY);
        let syn = syn(isn, 1460, Some(7), true);
        let (sequence, echo) = (syn_cookies.sequence(flow, &syn), syn_cookies.timestamp(clock, &syn.options));
        let good = ack(&syn, sequence, echo);
        prop_assert!(syn_cookies.open(flow, clock, &good).is_some());
        let (mut seq, mut number) = (good, good);
        seq.seq = SeqNum(good.seq.0 ^ 1 << bit);
        number.ack = SeqNum(good.ack.0 ^ 1 << bit);
        prop_assert!(syn_cookies.open(flow, clock, &seq).is_none());
        prop_assert!(syn_cookies.open(flow, clock, &number).is_none());
        prop_assert!(syn_cookies.open(flow ^ 1 << other, clock, &good).is_none());
        let stale = ack(&syn, sequence, echo.wrapping_sub(128_000 + 32));
        let early = ack(&syn, sequence, clock.wrapping_add(1));
        prop_assert!(syn_cookies.open(flow, clock, &stale).is_none());
        prop_assert!(syn_cookies.open(flow, clock, &early).is_none());
        let mut bare = good;
        bare.options.timestamps = None;
        prop_assert!(syn_cookies.open(flow, clock, &bare).is_none());
    }
}
