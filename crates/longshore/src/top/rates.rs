//! What has changed between two samples, by the second.

use std::collections::HashMap;
use std::time::Duration;

use super::sample::{Sample, State};
use crate::control::{CounterGroup, Glossary, Socket};

/// All services.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// In the order of the command line.
    pub services: Vec<ServiceRates>,
}

/// One service.
#[derive(Clone, Debug)]
pub struct ServiceRates {
    /// Its name.
    pub name: String,
    /// What it does; or why that is unknown.
    pub activity: Result<Activity, String>,
}

/// What a service does.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The number of its process.
    pub process: Option<i32>,
    /// Bytes of resident memory.
    pub resident_bytes: u64,
    /// Its threads.
    pub threads: Vec<ThreadLoad>,
    /// Its counters.
    pub counters: Vec<CounterRate>,
    /// Its connections.
    pub connections: Vec<Connection>,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct ThreadLoad {
    /// Its number.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// The share of a core that it takes.
    pub share: f64,
}

/// A counter.
#[derive(Clone, Debug)]
pub struct CounterRate {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// By how much it grows; nothing of what can also fall.
    pub per_second: Option<f64>,
    /// It counts what was dropped or refused, or the search for a place in the stream.
    pub is_trouble: bool,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// As `ss` shows it.
    pub socket: Socket,
    /// Bytes of payload received in a second.
    pub received_per_second: f64,
    /// Bytes of payload acknowledged in a second.
    pub acked_per_second: f64,
}

impl Rates {
    /// Those of `now`, since `before`. What is in `now` alone has none.
    pub fn between(before: &Sample, now: &Sample) -> Rates {
        let glossary = Glossary::new();
        let services = now.services.iter().map(|reading| {
            let earlier = before.services.iter().find(|it| it.name == reading.name);
            // Each is asked by a thread of its own, at its own time.
            let passed = earlier.map_or(Duration::ZERO, |it| reading.at - it.at);
            let seconds = passed.as_secs_f64().max(1e-3);
            let earlier = earlier.and_then(|it| it.state.as_ref().ok());
            // One that was started again counts from zero.
            let is_same = |earlier: &&State| {
                let now = reading.state.as_ref().ok();
                now.is_some_and(|now| now.process == earlier.process)
            };
            let since = Since {
                earlier: earlier.filter(is_same),
                seconds,
            };
            ServiceRates {
                name: reading.name.clone(),
                activity: match &reading.state {
                    Ok(state) => Ok(since.activity(state, &glossary)),
                    Err(why) => Err(why.clone()),
                },
            }
        });
        Rates {
            services: services.collect(),
        }
    }
}

/// What a service was before, if it was there, and how long ago that is.
#[derive(Clone, Copy)]
struct Since<'a> {
    earlier: Option<&'a State>,
    seconds: f64,
}

impl Since<'_> {
    fn activity(&self, state: &State, glossary: &Glossary) -> Activity {
        Activity {
            process: state.process.map(|process| process.as_raw_pid()),
            resident_bytes: state.resident_bytes,
            threads: self.threads(state),
            counters: self.counters(state, glossary),
            connections: self.connections(state),
        }
    }

    /// A count's growth in a second; nothing when it was not there before, or is another's that began anew.
    fn rate(&self, before: Option<u64>, now: u64) -> f64 {
        let grown = before.and_then(|before| now.checked_sub(before));
        grown.unwrap_or(0) as f64 / self.seconds
    }

    fn threads(&self, state: &State) -> Vec<ThreadLoad> {
        let before = self.earlier.map_or(&[][..], |earlier| &earlier.threads);
        let before: HashMap<i32, u64> = before.iter().map(|it| (it.id, it.ran_ns)).collect();
        let loads = state.threads.iter().map(|thread| ThreadLoad {
            id: thread.id,
            name: thread.name.clone(),
            share: self.rate(before.get(&thread.id).copied(), thread.ran_ns) / 1e9,
        });
        loads.collect()
    }

    fn counters(&self, state: &State, glossary: &Glossary) -> Vec<CounterRate> {
        let mut rates = Vec::new();
        for group in &state.groups {
            let kind = glossary.kind_of(group);
            let before = self.group(&group.name);
            for (at, (name, value)) in group.counters.iter().enumerate() {
                let explanation = glossary.explain(&group.name, name).unwrap_or_default();
                rates.push(CounterRate {
                    group: group.name.clone(),
                    name: name.clone(),
                    value: *value,
                    per_second: (!kind.is_gauge(name)).then(|| {
                        let before = before.and_then(|before| counter(before, at, name));
                        self.rate(before, *value)
                    }),
                    is_trouble: !kind.is_gauge(name) && is_trouble(name, explanation),
                });
            }
        }
        rates
    }

    fn group(&self, name: &str) -> Option<&CounterGroup> {
        let mut groups = self.earlier?.groups.iter();
        groups.find(|group| group.name == name)
    }

    fn connections(&self, state: &State) -> Vec<Connection> {
        let before = self.earlier.map_or(&[][..], |earlier| &earlier.sockets);
        let before: HashMap<_, _> = before
            .iter()
            .filter_map(|it| Some(((&it.local, &it.remote), it.tcp.as_ref()?)))
            .collect();
        let connections = state.sockets.iter().filter_map(|socket| {
            let now = socket.tcp.as_ref()?;
            let before = before.get(&(&socket.local, &socket.remote));
            let rate = |before: Option<u64>, now: u64| self.rate(before, now);
            Some(Connection {
                socket: socket.clone(),
                received_per_second: rate(before.map(|it| it.bytes_received), now.bytes_received),
                acked_per_second: rate(before.map(|it| it.bytes_acked), now.bytes_acked),
            })
        });
        connections.collect()
    }
}

/// A counter's value; it is where it was, or, of a service of another version, somewhere else.
fn counter(group: &CounterGroup, at: usize, name: &str) -> Option<u64> {
    let place = group.counters.get(at).filter(|(other, _)| other == name);
    let found = place.or_else(|| group.counters.iter().find(|(other, _)| other == name));
    found.map(|(_, value)| *value)
}

/// Whether a counter tells of what an operator looks for first.
fn is_trouble(name: &str, explanation: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let named = ["drop", "resync", "retrans", "error", "refused", "timeout"];
    let explained = ["dropped", "discarded", "refused"];
    named.iter().any(|word| name.contains(word))
        || explained.iter().any(|word| explanation.contains(word))
}
