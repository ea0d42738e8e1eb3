use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::ring::accel::ListenerOptions;

fn rule(number: u16, address: IpAddr, port: u16) -> InstallListener {
    InstallListener {
        rule: ListenRuleId(number),
        address,
        port,
        options: ListenerOptions {
            mss: 1460,
            window: 65_535,
            window_scale: Some(7),
            sack: true,
            backlog: 10,
            defer: false,
            hop_limit: 64,
        },
    }
}

const ANY4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const A: FunctionId = FunctionId(0);
const B: FunctionId = FunctionId(1);

fn found(listeners: &mut Listeners, function: FunctionId, to: (IpAddr, u16)) -> Option<u16> {
    listeners.find(function, to.0, to.1).map(|rule| rule.id.0)
}

#[test]
fn the_exact_address_comes_before_all_of_its_family() {
    let mut listeners = Listeners::new(8);
    for (number, address) in [(0, ANY4), (1, TWO), (2, ANY6)] {
        listeners.install(A, &rule(number, address, 80)).unwrap();
    }
    assert_eq!(found(&mut listeners, A, (TWO, 80)), Some(1));
    assert_eq!(found(&mut listeners, A, (ONE, 80)), Some(0));
    let other = Ipv6Addr::LOCALHOST.into();
    assert_eq!(found(&mut listeners, A, (other, 80)), Some(2));
    assert_eq!(found(&mut listeners, A, (ONE, 81)), None);
    assert_eq!(found(&mut listeners, B, (ONE, 80)), None);
    listeners.remove(A, ListenRuleId(1)).unwrap();
    assert_eq!(found(&mut listeners, A, (TWO, 80)), Some(0));
}

#[test]
fn numbers_and_addresses_are_used_once_by_each_function() {
    let mut listeners = Listeners::new(8);
    listeners.install(A, &rule(0, ONE, 80)).unwrap();
    let again = Err(ErrorCode::ListenerExists);
    assert_eq!(listeners.install(A, &rule(0, TWO, 80)), again);
    assert_eq!(listeners.install(A, &rule(1, ONE, 80)), again);
    let beyond = listeners.install(A, &rule(8, TWO, 80));
    assert_eq!(beyond, Err(ErrorCode::TableFull));
    assert_eq!(listeners.install(B, &rule(0, ONE, 80)), Ok(()));
    let none = Err(ErrorCode::NoListener);
    assert_eq!(listeners.remove(A, ListenRuleId(1)), none);
    assert_eq!(listeners.credit(B, ListenRuleId(3), 1), none);
    assert_eq!(listeners.remove(A, ListenRuleId(0)), Ok(()));
    assert_eq!(found(&mut listeners, B, (ONE, 80)), Some(0));
}

#[test]
fn credits_never_exceed_the_backlog() {
    let mut listeners = Listeners::new(8);
    listeners.install(A, &rule(0, ONE, 80)).unwrap();
    listeners.find(A, ONE, 80).unwrap().credits = -5;
    listeners.credit(A, ListenRuleId(0), 7).unwrap();
    assert_eq!(listeners.find(A, ONE, 80).unwrap().credits, 2);
    listeners.credit(A, ListenRuleId(0), u32::MAX).unwrap();
    assert_eq!(listeners.find(A, ONE, 80).unwrap().credits, 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is installed and removed, a lookup finds what looking at all rules finds, and only its own function's.
    #[test]
    fn finds_what_a_search_finds(
        steps in proptest::collection::vec((any::<bool>(), 0u16..2, 0u16..12, 0usize..4, 80u16..83), 1..60)
    ) {
        let addresses = [ANY4, ONE, TWO, ANY6];
        let mut listeners = Listeners::new(10);
        let mut model: Vec<(FunctionId, u16, IpAddr, u16)> = Vec::new();
        for (add, function, number, address, port) in steps {
            let (function, address) = (FunctionId(function), addresses[address]);
            if add {
                let done = listeners.install(function, &rule(number, address, port));
                let taken = model.iter().any(|&(f, n, a, p)| {
                    f == function && (n == number || (a, p) == (address, port))
                });
                prop_assert_eq!(done.is_ok(), !taken && number < 10);
                if done.is_ok() {
                    model.push((function, number, address, port));
                }
            } else {
                let done = listeners.remove(function, ListenRuleId(number));
                let before = model.len();
                model.retain(|&(f, n, ..)| (f, n) != (function, number));
                prop_assert_eq!(done.is_ok(), model.len() < before);
            }
            prop_assert_eq!(listeners.is_empty(), model.is_empty());
            for function in [A, B] {
                for (to, all) in [(ONE, ANY4), (TWO, ANY4), (Ipv6Addr::LOCALHOST.into(), ANY6)] {
                    for port in 80..83 {
                        let of = |wanted: IpAddr| {
                            let mut rules = model.iter();
                            rules.find(|&&(f, _, a, p)| (f, a, p) == (function, wanted, port))
                        };
                        let expected = of(to).or_else(|| of(all)).map(|&(_, number, ..)| number);
                        prop_assert_eq!(found(&mut listeners, function, (to, port)), expected);
                    }
                }
            }
        }
    }
}
