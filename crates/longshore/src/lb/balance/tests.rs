use super::*;

fn candidates(weights: &[u32], active: &[u32]) -> Vec<Candidate> {
    weights
        .iter()
        .zip(active)
        .enumerate()
        .map(|(index, (&weight, &active))| Candidate {
            index,
            weight,
            active,
            identity: hash_of(format!("10.0.0.{index}:80").as_bytes()),
        })
        .collect()
}

#[test]
fn turns_are_smooth_and_proportional() {
    let mut chooser = Chooser::new(Balance::RoundRobin, 3);
    let servers = candidates(&[3, 1, 1], &[0; 3]);
    let order: String = (0..10)
        .filter_map(|_| chooser.choose(servers.iter().copied(), 0))
        .map(|index| char::from(b'A' + index as u8))
        .collect();
    assert_eq!(order, "ABACAABACA");
}

#[test]
fn a_server_that_was_away_gets_no_flood() {
    let mut chooser = Chooser::new(Balance::RoundRobin, 2);
    let servers = candidates(&[1, 1], &[0; 2]);
    for _ in 0..1000 {
        assert_eq!(chooser.choose(servers[..1].iter().copied(), 0), Some(0));
    }
    let back: Vec<_> = (0..10)
        .filter_map(|_| chooser.choose(servers.iter().copied(), 0))
        .collect();
    assert_eq!(back.iter().filter(|index| **index == 1).count(), 5);
}

#[test]
fn least_connections_counts_by_weight_and_takes_turns_among_equals() {
    let mut chooser = Chooser::new(Balance::LeastConnections, 3);
    let busy = candidates(&[1, 1, 4], &[2, 2, 6]);
    assert_eq!(chooser.choose(busy.iter().copied(), 0), Some(2));
    let idle = candidates(&[1, 1, 1], &[0; 3]);
    let mut seen: Vec<_> = (0..3)
        .filter_map(|_| chooser.choose(idle.iter().copied(), 0))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
}

/// As nginx and HAProxy have it.
#[test]
fn requests_one_after_the_other_go_round_by_weight_with_least_connections() {
    let mut chooser = Chooser::new(Balance::LeastConnections, 3);
    let idle = candidates(&[1, 2, 1], &[0; 3]);
    let mut counts = [0; 3];
    for _ in 0..40 {
        counts[chooser.choose(idle.iter().copied(), 0).unwrap()] += 1;
    }
    assert_eq!(counts, [10, 20, 10]);
}

#[test]
fn only_the_keys_of_a_lost_server_move() {
    let mut chooser = Chooser::new(Balance::ConsistentHash, 5);
    let all = candidates(&[1; 5], &[0; 5]);
    let mut counts = [0; 5];
    for key in 0..10_000u64 {
        let key = hash_of(&key.to_le_bytes());
        let before = chooser.choose(all.iter().copied(), key).unwrap();
        counts[before] += 1;
        let rest = all.iter().copied().filter(|candidate| candidate.index != 2);
        let after = chooser.choose(rest, key).unwrap();
        assert_eq!(before == after, before != 2);
    }
    assert!(
        counts.iter().all(|&n| (1800..2200).contains(&n)),
        "{counts:?}"
    );
}

#[test]
fn hashing_respects_weights() {
    let mut chooser = Chooser::new(Balance::ConsistentHash, 2);
    let servers = candidates(&[1, 3], &[0; 2]);
    let second = (0..10_000u64)
        .filter(|key| {
            let key = hash_of(&key.to_le_bytes());
            chooser.choose(servers.iter().copied(), key) == Some(1)
        })
        .count();
    assert!((7300..7700).contains(&second), "{second}");
}

#[test]
fn an_empty_pool_has_no_next_server() {
    for balance in [
        Balance::RoundRobin,
        Balance::LeastConnections,
        Balance::ConsistentHash,
    ] {
        assert_eq!(Chooser::new(balance, 0).choose(std::iter::empty(), 7), None);
    }
}
