//! The answers of several stacks as one.

use super::protocol::{Answer, CounterGroup};

/// What is shown of each of several workers by itself, and what it counts; totals of everything are beside it.
pub const WORKER_EXPLANATIONS: &[(&str, &str)] = &[
    ("rx_packets", "Frames received by the worker's own queue."),
    ("tx_packets", "Frames sent."),
    (
        "rx_passed_on",
        "Frames that came by this worker's queue and were passed on to another worker.",
    ),
    ("rx_passed", "Frames that came by another worker's queue."),
    (
        "rx_pass_dropped",
        "Frames for another worker dropped because its ring was full.",
    ),
    ("connections", "Connections accepted."),
    ("connections_open", "Connections open now."),
    ("requests", "Requests received."),
];

/// Of which the total is the highest.
const LEVELS: [&str; 1] = ["MemLevel"];

/// One answer for all of them, given in the order of the workers. The first error is the answer, if there is one.
pub fn one_of(answers: Vec<Answer>) -> Answer {
    let mut answers = answers.into_iter();
    let Some(first) = answers.next() else {
        return Answer::Error("there is no stack".to_owned());
    };
    match first {
        Answer::Stat(groups) => {
            let mut all = vec![groups];
            for answer in answers {
                match answer {
                    Answer::Stat(groups) => all.push(groups),
                    other => return other,
                }
            }
            Answer::Stat(totals(&all))
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
        other => other,
    }
}

/// Each group with the sum of all workers', then a few counters of each worker.
fn totals(all: &[Vec<CounterGroup>]) -> Vec<CounterGroup> {
    let mut totals = all[0].clone();
    for group in &mut totals {
        for (name, total) in &mut group.counters {
            let others = all[1..].iter();
            let values = others.filter_map(|groups| find(groups, &group.name, name));
            *total = match LEVELS.contains(&name.as_str()) {
                true => values.fold(*total, u64::max),
                false => values.fold(*total, u64::wrapping_add),
            };
        }
    }
    for (worker, groups) in all.iter().enumerate() {
        let counters = WORKER_EXPLANATIONS.iter().filter_map(|(name, _)| {
            let value = ["port", "http"]
                .iter()
                .find_map(|it| find(groups, it, name));
            Some((*name, value?))
        });
        totals.push(CounterGroup::new(&format!("worker {worker}"), counters));
    }
    totals
}

fn find(groups: &[CounterGroup], group: &str, name: &str) -> Option<u64> {
    let group = groups.iter().find(|it| it.name == group)?;
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
    fn what_goes_wrong_with_one_is_the_answer() {
        let error = Answer::Error("gone".to_owned());
        assert_eq!(one_of(vec![stat(1, 0, 1), error.clone()]), error);
        assert_eq!(one_of(vec![Answer::Restored(1), error.clone()]), error);
        let restored = vec![Answer::Restored(1), Answer::Restored(2)];
        assert_eq!(one_of(restored), Answer::Restored(3));
    }
}
