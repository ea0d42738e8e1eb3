use super::*;

fn flow(port: u16) -> FlowKey {
    FlowKey {
        src: (IpAddr::from([10, 0, 0, 1]), port),
        dst: (IpAddr::from([10, 0, 0, 2]), 443),
    }
}

#[test]
fn flows_spread_evenly_over_the_queues() {
    let hasher = FlowHasher::new(&[7; 16]);
    let key = hasher.rss_key(1);
    for mut rss in [Rss::new(4), Rss::keyed(4, key)] {
        let mut packets = [0u32; 4];
        for port in 0..4096 {
            let steering = rss.steer_tcp(hasher.hash(&flow(port)), &flow(port));
            packets[usize::from(steering.queue)] += 1;
        }
        for count in packets {
            assert!((800..1250).contains(&count), "{packets:?}");
        }
    }
}

#[test]
fn each_number_gives_a_key() {
    let keys = [(7, 1), (7, 2), (8, 1)].map(|(secret, number)| {
        let RssKey(key) = FlowHasher::new(&[secret; 16]).rss_key(number);
        assert!(
            key.chunks(8)
                .zip(key.chunks(8).skip(1))
                .all(|(word, next)| word != next)
        );
        key
    });
    assert!(keys[0] != keys[1] && keys[0] != keys[2]);
}

/// What is printed of a function goes to logs.
#[test]
fn a_key_is_not_printed() {
    let key = RssKey([0xab; RSS_KEY_BYTES]);
    let rss = Rss::keyed(4, key);
    for printed in [
        format!("{rss:?}"),
        format!("{:?}", rss.settings()),
        format!("{key:?}"),
    ] {
        assert!(!printed.contains("171"), "{printed}");
    }
}

/// A flow whose hash is the one of no flow at all.
#[test]
fn the_first_segment_is_steered_by_its_flow() {
    let mut rss = Rss::keyed(4, RssKey([3; RSS_KEY_BYTES]));
    let expected = rss.steer_tcp(1, &flow(1));
    rss.reset();
    assert_eq!(rss.steer_tcp(0, &flow(1)), expected);
}

/// The last flow is remembered; another key, table or flow is seen all the same.
#[test]
fn what_is_set_holds_for_the_next_segment() {
    let hasher = FlowHasher::new(&[7; 16]);
    let mut rss = Rss::keyed(4, RssKey([3; RSS_KEY_BYTES]));
    let steer = |rss: &mut Rss, port| rss.steer_tcp(hasher.hash(&flow(port)), &flow(port));
    let first = steer(&mut rss, 1);
    assert_eq!(steer(&mut rss, 1), first);
    let mut settings = rss.settings();
    settings.table = [2; RSS_ENTRIES];
    rss.set(settings);
    let moved = steer(&mut rss, 1);
    assert_eq!((moved.queue, moved.hash), (2, first.hash));
    settings.key = RssKey(std::array::from_fn(|at| at as u8));
    rss.set(settings);
    assert_ne!(steer(&mut rss, 1).hash, first.hash);
    settings.types = HashTypes::NONE.with(HashType::Ipv4);
    rss.set(settings);
    let addresses = steer(&mut rss, 1);
    assert_eq!(addresses.hash_type, Some(HashType::Ipv4));
    assert_eq!(steer(&mut rss, 2), addresses);
    settings.types = HashTypes::NONE;
    rss.set(settings);
    assert_eq!(steer(&mut rss, 1), Steering::default());
    rss.reset();
    assert_eq!(steer(&mut rss, 1), first);
}

#[test]
fn hash_depends_on_secret_and_on_direction() {
    let hasher = FlowHasher::new(&[7; 16]);
    let reversed = FlowKey {
        src: flow(1).dst,
        dst: flow(1).src,
    };
    assert_ne!(hasher.hash(&flow(1)), hasher.hash(&reversed));
    assert_ne!(
        hasher.hash(&flow(1)),
        FlowHasher::new(&[8; 16]).hash(&flow(1))
    );
    assert_eq!(hasher.hash(&flow(1)), hasher.hash(&flow(1)));
}

#[test]
fn addresses_of_both_families_hash() {
    let hasher = FlowHasher::new(&[7; 16]);
    let six = FlowKey {
        src: (IpAddr::from([1u16, 2, 3, 4, 5, 6, 7, 8]), 1),
        dst: (IpAddr::from([1u16, 2, 3, 4, 5, 6, 7, 9]), 1),
    };
    assert_ne!(hasher.hash(&six), hasher.hash(&flow(1)));
}

/// `cargo test -p longshore-nic cost_of_a_hash -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn cost_of_a_hash() {
    const ROUNDS: u32 = 4000;
    let hasher = FlowHasher::new(&[7; 16]);
    let key = hasher.rss_key(1);
    let toeplitz = Toeplitz::new(&key);
    let four: Vec<FlowKey> = (0..1024).map(flow).collect();
    let mut six = four.clone();
    for flow in &mut six {
        let port = flow.src.1;
        flow.src.0 = IpAddr::from([0x2001, 0xdb8, 0, port, port, 6, 7, 8]);
        flow.dst.0 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, port]);
    }
    let processor_time = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        (now.tv_sec * 1_000_000_000 + now.tv_nsec) as f64
    };
    // The best round: other load on the machine takes the caches away.
    let time = |name: &str, flows: &[FlowKey], hash: &dyn Fn(&FlowKey) -> u64| {
        let round = |_| {
            let start = processor_time();
            for flow in flows {
                std::hint::black_box(hash(std::hint::black_box(flow)));
            }
            (processor_time() - start) / flows.len() as f64
        };
        let best = (0..ROUNDS).map(round).fold(f64::MAX, f64::min);
        println!("{name:18} {best:5.1} ns");
    };
    time("Toeplitz's tables", &four[..1], &|_| {
        std::hint::black_box(Toeplitz::new(std::hint::black_box(&key)));
        0
    });
    for (version, flows) in [("IPv4", &four), ("IPv6", &six)] {
        time(&format!("{version}, SipHash-1-3"), flows, &|flow| {
            hasher.hash(flow)
        });
        time(&format!("{version}, Toeplitz"), flows, &|flow| {
            toeplitz.of_ports(flow).into()
        });
    }
}
