//! The answers of several stacks as one.

use super::protocol::{Answer, CounterGroup};

/// What is shown of each of several workers by itself, and what it counts; totals of everything are beside it.
pub const WORKER_EXPLANATIONS: &[(&str, &str)] = &[
    (
        "rx_packets",
        "Frames received by the worker's own queue; of longshore nic, those for its hosts.",
    ),
    (
        "tx_packets",
        "Frames sent; of longshore nic, those of its hosts.",
    ),
    (
        "rx_passed_on",
        "Frames that came by this worker's queue and were passed on to another worker.",
    ),
    (
        "rx_passed",
        "Frames that another worker passed on to this one.",
    ),
    (
        "rx_pass_dropped",
        "Frames for another worker dropped because its ring was full.",
    ),
    ("tx_passed", "Frames sent to another worker's hosts."),
    (
        "tx_pass_dropped",
        "Frames for another worker's hosts dropped because its ring was half full.",
    ),
    ("asleep_cycles", "Cycles waiting."),
    ("connections", "Connections accepted."),
    ("connections_open", "Connections open now."),
    ("requests", "Requests received."),
    ("commands", "Commands received."),
];

/// Of which the total is the highest: each worker's says the same, or how bad it is.
const HIGHEST: [&str; 6] = [
    "MemLevel",
    "draining",
    "panic",
    "panics",
    "went_down",
    "went_up",
];
/// Of which it is the lowest: a backend is up where all take it to be.
const LOWEST: [&str; 1] = ["up"];

/// One answer for all of them, given in the order of the workers. The first error is the answer, if there is one.
pub fn one_of(answers: Vec<Answer>) -> Answer {
    let mut answers = answers.into_iter();
    let Some(first) = answers.next() else {
        return Answer::Error("there is no stack".to_owned());
    };
    match first {
        Answer::Error(_) => first,
        Answer::Stat(groups) => {
            let mut all = vec![groups];
            for answer in answers {
                match answer {
                    Answer::Stat(groups) => all.push(groups),
                    other => return other,
                }
            }
            Answer::Stat(totals(&all, is_of_service))
        }
        Answer::Sockets(mut sockets) => {
            for answer in answers {
                match answer {
                    Answer::Sockets(others) => sockets.extend(others),
                    other => return other,
                }
            }
            Answer::Sockets(sockets)
        }
        Answer::Restored(mut count) => {
            for answer in answers {
                match answer {
                    Answer::Restored(others) => count += others,
                    other => return other,
                }
            }
            Answer::Restored(count)
        }
        first => answers.find(|it| *it != first).unwrap_or(first),
    }
}

/// The groups of the NICs of one process as one listing, given in the order of their cores.
pub fn totals_of_nics(all: &[Vec<CounterGroup>]) -> Vec<CounterGroup> {
    totals(all, is_of_nic)
}

/// Each group with the sum of all workers', then a few counters of each worker: those that `is_shown`, by their groups.
fn totals(
    all: &[Vec<CounterGroup>],
    is_shown: fn(group: &str, counter: &str) -> bool,
) -> Vec<CounterGroup> {
    let mut totals: Vec<CounterGroup> = Vec::new();
    for group in all.iter().flatten() {
        match totals.iter_mut().find(|it| it.name == group.name) {
            Some(total) => add(total, group),
            None => totals.push(group.clone()),
        }
    }
    for (worker, groups) in all.iter().enumerate() {
        let names = WORKER_EXPLANATIONS.iter().map(|(name, _)| *name);
        let counters = names.filter_map(|name| Some((name, of_worker(groups, name, is_shown)?)));
        totals.push(CounterGroup::new(&format!("worker {worker}"), counters));
    }
    totals
}

/// Adds what another worker has counted.
fn add(total: &mut CounterGroup, group: &CounterGroup) {
    for (name, total) in &mut total.counters {
        let Some(value) = value(group, name) else {
            continue;
        };
        *total = match name.as_str() {
            name if HIGHEST.contains(&name) => value.max(*total),
            name if LOWEST.contains(&name) => value.min(*total),
            _ => total.wrapping_add(value),
        };
    }
}

/// What a worker has counted at its port, and for its clients: all frontends together.
fn is_of_service(group: &str, _: &str) -> bool {
    matches!(group, "port" | "http" | "nvme") || group.starts_with("frontend ")
}

/// What a NIC has counted for its hosts, what passed between it and others, and for how long it slept.
fn is_of_nic(group: &str, counter: &str) -> bool {
    match group {
        "nic" => true,
        "wire" => counter.contains("_pass"),
        "thread" => counter == "asleep_cycles",
        _ => false,
    }
}

/// The sum over the groups of which a counter is shown.
fn of_worker(
    groups: &[CounterGroup],
    name: &str,
    is_shown: fn(group: &str, counter: &str) -> bool,
) -> Option<u64> {
    let values = groups.iter().filter(|group| is_shown(&group.name, name));
    values
        .filter_map(|group| value(group, name))
        .reduce(u64::wrapping_add)
}

fn value(group: &CounterGroup, name: &str) -> Option<u64> {
    let counter = group.counters.iter().find(|(it, _)| it == name)?;
    Some(counter.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(received: u64, level: u64, requests: u64) -> Answer {
        Answer::Stat(vec![
            CounterGroup::new("port", [("rx_packets", received)]),
            CounterGroup::new("host", [("MemLevel", level), ("TcpInSegs", 10)]),
            CounterGroup::new("http", [("requests", requests)]),
        ])
    }

    #[test]
    fn counters_are_summed_and_those_of_each_worker_follow() {
        let answer = one_of(vec![stat(3, 1, 2), stat(4, 0, 5)]);
        let expected = Answer::Stat(vec![
            CounterGroup::new("port", [("rx_packets", 7)]),
            CounterGroup::new("host", [("MemLevel", 1), ("TcpInSegs", 20)]),
            CounterGroup::new("http", [("requests", 7)]),
            CounterGroup::new("worker 0", [("rx_packets", 3), ("requests", 2)]),
            CounterGroup::new("worker 1", [("rx_packets", 4), ("requests", 5)]),
        ]);
        assert_eq!(answer, expected);
    }

    #[test]
    fn a_worker_has_the_clients_of_all_frontends_and_a_backend_is_up_where_all_say_so() {
        let of = |web: u64, up: u64, went_down: u64| {
            let backend = [("up", up), ("went_down", went_down), ("requests", web)];
            Answer::Stat(vec![
                CounterGroup::new("frontend web", [("requests", web)]),
                CounterGroup::new("frontend api", [("requests", 1)]),
                CounterGroup::new("backend app/10.9.0.1:1", backend),
            ])
        };
        let backend = [("up", 0), ("went_down", 2), ("requests", 7)];
        let expected = Answer::Stat(vec![
            CounterGroup::new("frontend web", [("requests", 7)]),
            CounterGroup::new("frontend api", [("requests", 2)]),
            CounterGroup::new("backend app/10.9.0.1:1", backend),
            CounterGroup::new("worker 0", [("requests", 4)]),
            CounterGroup::new("worker 1", [("requests", 5)]),
        ]);
        assert_eq!(one_of(vec![of(3, 1, 1), of(4, 0, 2)]), expected);
    }

    #[test]
    fn a_nic_has_the_frames_of_its_hosts_and_what_passed_to_others() {
        let of = |frames: u64| {
            let wire = [("rx_packets", 100), ("tx_passed", frames)];
            let thread = [("driver_cycles", 5), ("asleep_cycles", frames)];
            vec![
                CounterGroup::new("nic", [("rx_packets", frames), ("rx_bytes", 9)]),
                CounterGroup::new("wire", wire),
                CounterGroup::new("thread", thread),
            ]
        };
        let mut first = of(3);
        first.insert(0, CounterGroup::new("ls0", [("rx_packets", 50)]));
        let worker = |name, frames| {
            let counted = [
                ("rx_packets", frames),
                ("tx_passed", frames),
                ("asleep_cycles", frames),
            ];
            CounterGroup::new(name, counted)
        };
        let totals = totals_of_nics(&[first, of(4)]);
        assert_eq!(totals[0].name, "ls0");
        let wire = [("rx_packets", 200), ("tx_passed", 7)];
        assert_eq!(totals[2], CounterGroup::new("wire", wire));
        assert_eq!(totals[4..], [worker("worker 0", 3), worker("worker 1", 4)]);
    }

    #[test]
    fn a_group_that_one_worker_alone_has_is_there() {
        let pool = CounterGroup::new("pool old", [("waiting", 1)]);
        let answer = one_of(vec![
            Answer::Stat(Vec::new()),
            Answer::Stat(vec![pool.clone()]),
        ]);
        let Answer::Stat(groups) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(groups[0], pool);
    }

    #[test]
    fn what_goes_wrong_with_one_is_the_answer() {
        let error = Answer::Error("gone".to_owned());
        assert_eq!(one_of(vec![stat(1, 0, 1), error.clone()]), error);
        assert_eq!(one_of(vec![Answer::Restored(1), error.clone()]), error);
        assert_eq!(one_of(vec![Answer::Done, error.clone()]), error);
        assert_eq!(one_of(vec![error.clone(), Answer::Done]), error);
        assert_eq!(one_of(vec![error.clone(), stat(1, 0, 1)]), error);
        let restored = vec![Answer::Restored(1), Answer::Restored(2)];
        assert_eq!(one_of(restored), Answer::Restored(3));
    }
}
