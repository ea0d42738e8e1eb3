use super::*;
use crate::control::CounterGroup;

fn explained(group: &str, names: impl IntoIterator<Item = &'static str>) {
    let glossary = Glossary::new();
    let kind = glossary.kinds().iter().find(|kind| (kind.is_of)(group));
    let kind = kind.expect("every group is of a kind");
    let mut count = 0;
    for name in names {
        count += 1;
        assert!(kind.explain(name).is_some(), "{name} of {group}");
        assert!(glossary.explain(group, name).is_some(), "{name} of {group}");
    }
    assert!(count > 0, "{group} is empty");
}

fn names(counters: impl Iterator<Item = (&'static str, u64)>) -> Vec<&'static str> {
    counters.map(|(name, _)| name).collect()
}

#[test]
fn every_counter_of_every_group_has_an_explanation() {
    explained("nic", names(nic::Counters::default().iter()));
    explained("ls0", names(linux::Counters::default().iter()));
    explained("http", names(ServeCounters::default().iter()));
    explained("nvme", names(TargetCounters::default().iter()));
    explained("frontend web", names(FrontendCounters::default().iter()));
    explained("pool app", names(PoolCounters::default().iter()));
    explained("pool app", names(PoolState::default().iter()));
    let backend = "backend app/10.9.0.1:80";
    explained(backend, names(ServerCounters::default().iter()));
    explained(backend, names(ServerState::default().iter()));
    explained("thread", names(crate::nic_process::Meter::start().iter()));
    let world = sim::World::new(sim::WorldConfig::default());
    explained("host", names(world.stack_ref(0).counters()));
}

#[test]
fn every_counter_of_a_port_and_of_what_wraps_it_has_an_explanation() {
    use port::Port as _;
    let (end, _other) = port::memory::link(port::memory::LinkConfig::for_mtu(1500));
    let end = port::impair::Impair::new(end, port::impair::Impairments::default(), 1);
    let mut of_port = Vec::new();
    end.counters(&mut |name, _| of_port.push(name));
    assert!(of_port.len() > 12, "{of_port:?}");
    for group in ["port", "wire", "ls0 tap"] {
        explained(group, of_port.iter().copied());
    }
    let others = ["tx_super_frames", "rx_errors", "queues", "capture_packets"];
    explained("wire", others);
}

#[test]
fn explanations_are_short_sentences_and_no_name_is_explained_twice() {
    for kind in Glossary::new().kinds() {
        for (at, (name, text)) in kind.counters.iter().enumerate() {
            let len = text.chars().count();
            assert!((10..=100).contains(&len), "{name}: {len} characters");
            assert!(
                text.ends_with('.') && !text.contains("these"),
                "{name}: {text}"
            );
            let mut chars = text.chars();
            let [first, second] = [chars.next(), chars.next()].map(|it| it.expect("long enough"));
            // A name like iSCSI, or that of a counter.
            let is_name = second.is_uppercase() || text.contains('_');
            assert!(!first.is_lowercase() || is_name, "{name}: {text}");
            let twice = kind.counters[..at].iter().any(|(other, _)| other == name);
            assert!(!twice, "{name} of {}", kind.name);
        }
    }
}

#[test]
fn an_interface_that_is_called_as_another_kind_is_explained_all_the_same() {
    let glossary = Glossary::new();
    let text = glossary.explain("host", "tx_csum_sw");
    assert!(text.is_some_and(|text| text.contains("software")));
    assert_eq!(glossary.explain("nic", "no_such_counter"), None);
}

#[test]
fn stat_prints_the_explanation_behind_each_counter() {
    let groups = [CounterGroup::new(
        "nic",
        [("tx_packets", 5), ("rx_bytes", 0), ("rx_no_such", 1)],
    )];
    let text = crate::control::print::explained(&groups, false);
    let line = "     tx_packets: 5  Frames sent to the wire or to another function";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("     rx_no_such: 1\n"), "{text}");
    assert!(!text.contains("rx_bytes"));
}

#[test]
fn the_glossary_prints_as_text_and_as_markdown() {
    let (text, markdown) = (
        crate::control::print::glossary(),
        crate::control::print::glossary_markdown(),
    );
    for name in [
        "rx_tls_resumed",
        "TcpInSegs",
        "tls_untracked",
        "queue_overflows",
    ] {
        assert!(text.contains(name), "{name}");
        assert!(markdown.contains(&format!("| `{name}` | ")), "{name}");
    }
}

#[test]
fn what_is_told_as_it_stands_now_is_a_gauge() {
    for kind in Glossary::new().kinds() {
        for (name, text) in &kind.counters {
            let stands_now = text.contains(" now") || text.starts_with("1 w");
            assert!(!stands_now || kind.is_gauge(name), "{name}: {text}");
        }
    }
}

#[test]
fn every_gauge_and_every_counter_in_bytes_is_one_that_there_is() {
    let glossary = Glossary::new();
    let is_known = |name: &str| {
        glossary
            .kinds()
            .iter()
            .any(|kind| kind.explain(name).is_some())
    };
    for name in GAUGES.iter().chain(&IN_BYTES) {
        assert!(is_known(name), "{name}");
    }
}

#[test]
fn a_group_is_of_the_kind_that_has_its_counters() {
    let glossary = Glossary::new();
    let group = |name: &str, counter: &str| CounterGroup::new(name, [(counter, 1)]);
    let part = |name, counter| glossary.kind_of(&group(name, counter)).part;
    assert_eq!(part("nic", "toe_handoffs"), "nic");
    assert_eq!(
        part("nic", "tx_super_frames"),
        "driver",
        "an interface named nic"
    );
    assert_eq!(part("ls0 tap", "queues"), "port");
    assert_eq!(part("ls0", "tls_flows"), "driver");
    assert_eq!(part("pool app", "waiting"), "pool");
    let backend = group("backend app/10.9.0.1:80", "checks");
    let labels = glossary.kind_of(&backend).labels(&backend.name);
    let expected = [
        ("pool", "app".to_owned()),
        ("backend", "10.9.0.1:80".to_owned()),
    ];
    assert_eq!(labels, expected);
}
