use super::*;

/// A connection, as the server sees it.
struct Life {
    requests: u32,
    content: u64,
    /// Packets with payload that the server sends: the header, and each page by itself.
    sent: u32,
}

fn lives(workload: Workload, count: usize) -> Vec<Life> {
    const MSS: u32 = 1448;
    let segments = |content: u32| {
        let pages = content / PAGE * PAGE.div_ceil(MSS);
        1 + pages + (content % PAGE).div_ceil(MSS)
    };
    let mut client = workload.client(7, 0);
    let life = |_| {
        client.connect();
        let mut life = Life {
            requests: 0,
            content: 0,
            sent: 0,
        };
        while let Some(request) = client.next_request() {
            life.requests += 1;
            life.content += u64::from(request.content);
            life.sent += segments(request.content);
        }
        life
    };
    (0..count).map(life).collect()
}

/// Share of the packets that the longest connections send, given the share that these are of all.
fn by_the_longest(lives: &mut [Life], share: f64) -> f64 {
    lives.sort_by_key(|life| std::cmp::Reverse(life.sent));
    let sent = |lives: &[Life]| lives.iter().map(|life| f64::from(life.sent)).sum::<f64>();
    sent(&lives[..(lives.len() as f64 * share) as usize]) / sent(lives)
}

fn requests_per_connection(lives: &[Life]) -> f64 {
    lives
        .iter()
        .map(|life| f64::from(life.requests))
        .sum::<f64>()
        / lives.len() as f64
}

fn content_per_request(lives: &[Life]) -> f64 {
    let content: u64 = lives.iter().map(|life| life.content).sum();
    let requests: u32 = lives.iter().map(|life| life.requests).sum();
    content as f64 / f64::from(requests)
}

/// Connection handoff policies §3.3 and Figure 4: half of the connections send less than 10 % of all packets, and less than 10 % send more than 45 %, in
/// all workloads.
#[test]
fn most_packets_are_of_a_few_connections() {
    for workload in Workload::ALL {
        let mut lives = lives(workload, 60_000);
        let half = by_the_longest(&mut lives, 0.5);
        assert!(half > 0.9, "{workload}: half of them send {half}");
        let tenth = by_the_longest(&mut lives, 0.1);
        assert!(tenth > 0.45, "{workload}: a tenth of them sends {tenth}");
    }
}

/// Connection handoff policies §5.2: with the longest 10 % of the World Cup's connections, the NIC would process over 60 % of packets.
#[test]
fn a_tenth_of_the_world_cup_sends_most() {
    let tenth = by_the_longest(&mut lives(Workload::WorldCup, 60_000), 0.1);
    assert!((0.6..0.75).contains(&tenth), "{tenth}");
}

/// From Figure 8, all at 400 MIPS: requests over connections, and HTTP content over requests.
#[test]
fn requests_and_bytes_are_those_of_figure_8() {
    // Over a long time; what begins with new connections and ends after seconds sees less of the long ones and of large files.
    for (workload, requests, content) in [
        (Workload::WorldCup, 25.83 / 3.8, 1355e6 / 8.0 / 25830.0),
        (Workload::Ibm, 31.6 / 2.6, 638e6 / 8.0 / 31600.0),
        (
            Workload::SpecWeb99Static,
            14.9 / 5.8,
            1417e6 / 8.0 / 14900.0,
        ),
        (Workload::SpecWeb99, 10.2 / 3.7, 990e6 / 8.0 / 10200.0),
    ] {
        let lives = lives(workload, 60_000);
        let ratio = requests_per_connection(&lives) / requests;
        assert!((0.9..1.25).contains(&ratio), "{workload}: requests {ratio}");
        let ratio = content_per_request(&lives) / content;
        assert!((0.9..1.25).contains(&ratio), "{workload}: content {ratio}");
    }
}

/// SPECweb99: files of 0.1 to 900 KiB in four classes, a class for 35, 50, 14 and 1 % of the requests; 70 % of them are on persistent
/// connections; nobody takes more than the paper's clients did.
#[test]
fn specweb99_is_as_spec_describes_it() {
    let mut client = Workload::SpecWeb99.client(1, 1);
    let mut classes = [0u32; 4];
    let (mut persistent, mut dynamic, mut all) = (0, 0, 0);
    for _ in 0..40_000 {
        client.connect();
        let mut on_this = 0;
        while let Some(request) = client.next_request() {
            on_this += 1;
            let class = (0..4).find(|class| request.content < 1024 * 10u32.pow(*class));
            classes[class.expect("no file is larger") as usize] += 1;
            dynamic += u32::from(request.kind == Content::Dynamic);
            let rate = f64::from(request.content) * 8.0 / request.at_least().as_secs_f64();
            assert!(rate < 1.25 * 400_000.0, "{rate}");
        }
        assert!(on_this == 1 || (5..=15).contains(&on_this));
        all += on_this;
        if on_this > 1 {
            persistent += on_this;
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(all);
    for (count, published) in classes.into_iter().zip([0.35, 0.5, 0.14, 0.01]) {
        assert!((share(count) - published).abs() < 0.01, "{classes:?}");
    }
    assert!((share(persistent) - 0.7).abs() < 0.02);
    assert!((share(dynamic) - 0.3).abs() < 0.01);
}

#[test]
fn the_static_variant_has_no_dynamic_content() {
    let mut client = Workload::SpecWeb99Static.client(1, 1);
    for _ in 0..1000 {
        client.connect();
        while let Some(request) = client.next_request() {
            assert_eq!(request.kind, Content::Static);
        }
    }
}

#[test]
fn equal_seeds_draw_the_same_and_clients_are_their_own() {
    let drawn = |seed, index| {
        let mut client = Workload::Ibm.client(seed, index);
        let wait = client.connect();
        let mut requests = Vec::new();
        while requests.len() < 50 {
            match client.next_request() {
                Some(request) => requests.push(request),
                None => assert_eq!(client.connect(), Duration::ZERO),
            }
        }
        (wait, requests)
    };
    assert_eq!(drawn(1, 5), drawn(1, 5));
    assert_ne!(drawn(1, 5), drawn(2, 5));
    assert_ne!(drawn(1, 5), drawn(1, 6));
}

#[test]
fn clients_come_at_the_start_and_send_at_least_one_request() {
    for workload in Workload::ALL {
        for index in 0..workload.clients() {
            let mut client = workload.client(3, index);
            assert!(client.connect() <= ARRIVAL);
            let request = client.next_request().expect("a connection has a request");
            assert_eq!(
                request.enqueues(),
                1 + request.content.div_ceil(PAGE),
                "the header, then pages"
            );
        }
    }
}

#[test]
fn names_are_read_back() {
    for workload in Workload::ALL {
        assert_eq!(workload.to_string().parse(), Ok(workload));
    }
    let error = "worldcup98".parse::<Workload>().unwrap_err();
    assert!(error.to_string().contains("take worldcup"));
}
