//! What is shown, as tables of text: on a terminal, and line by line.

use super::rates::{Activity, CounterRate, Rates, ServiceRates};
use crate::report::{bytes, prefixed};

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it is about.
    pub title: &'static str,
    /// Heads of its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// It is of numbers, which stand at its right.
    pub is_number: bool,
}

/// What to show of everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Rows that have this in them; all of them if it is empty.
    pub filter: String,
}

impl Selection {
    fn has(&self, row: &[String]) -> bool {
        self.filter.is_empty() || row.iter().any(|cell| cell.contains(&self.filter))
    }
}

impl Table {
    fn new(title: &'static str, columns: &[(&'static str, bool)]) -> Table {
        let columns = columns
            .iter()
            .map(|&(name, is_number)| Column { name, is_number });
        Table {
            title,
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    fn with(mut self, rows: impl IntoIterator<Item = Vec<String>>, selection: &Selection) -> Table {
        let shown = rows.into_iter().filter(|row| selection.has(row));
        self.rows.extend(shown);
        self
    }

    /// Characters that a column takes.
    pub fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| cell.chars().count());
        let head = self.columns[column].name.chars().count();
        widths.max().unwrap_or(0).max(head)
    }
}

/// Services: whether they answer, what they take and what they have.
pub fn services(rates: &Rates) -> Table {
    let columns = [
        ("service", false),
        ("process", true),
        ("CPU %", true),
        ("memory", true),
        ("conns", true),
        ("NIC's", true),
        ("TLS tx", true),
        ("TLS rx", true),
        ("state", false),
    ];
    let rows = rates
        .services
        .iter()
        .map(|service| match &service.activity {
            Ok(activity) => up(&service.name, activity),
            Err(why) => {
                let mut row = vec![service.name.clone()];
                row.resize(columns.len() - 1, String::new());
                row.push(format!("down: {why}"));
                row
            }
        });
    Table::new("services", &columns).with(rows, &Selection::default())
}

fn up(name: &str, activity: &Activity) -> Vec<String> {
    let connections = &activity.connections;
    let of_nic = connections.iter().filter(|it| it.socket.owner.is_some());
    // Of those that encrypt, how many the NIC does it for.
    let tls = |way: fn(&crate::control::TlsFigures) -> &str| {
        let sessions = connections.iter().filter_map(|it| it.socket.tls.as_ref());
        let all = sessions.clone().count();
        let device = sessions.filter(|tls| way(tls) == "device").count();
        format!("{device}/{all}")
    };
    let load: f64 = activity.threads.iter().map(|thread| thread.share).sum();
    vec![
        name.to_owned(),
        activity
            .process
            .map(|it| it.to_string())
            .unwrap_or_default(),
        percent(load),
        bytes(activity.resident_bytes),
        connections.len().to_string(),
        of_nic.count().to_string(),
        tls(|tls| &tls.tx),
        tls(|tls| &tls.rx),
        "up".to_owned(),
    ]
}

/// Threads and the share of a core that each takes.
pub fn threads(rates: &Rates) -> Table {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (service, activity) in active(rates) {
        for thread in &activity.threads {
            let row = vec![
                service.name.clone(),
                thread.name.clone(),
                thread.id.to_string(),
                percent(thread.share),
            ];
            rows.push((thread.share, row));
        }
    }
    let columns = [
        ("service", false),
        ("thread", false),
        ("id", true),
        ("CPU %", true),
    ];
    Table::new("threads", &columns).with(highest_first(rows), &Selection::default())
}

/// Packets and bits through each interface.
pub fn traffic(rates: &Rates) -> Table {
    let columns = [
        ("service", false),
        ("part", false),
        ("rx packet/s", true),
        ("rx bit/s", true),
        ("tx packet/s", true),
        ("tx bit/s", true),
    ];
    let mut rows = Vec::new();
    for (service, activity) in active(rates) {
        let mut groups: Vec<&str> = Vec::new();
        for counter in &activity.counters {
            if counter.name == "rx_packets" && !groups.contains(&counter.group.as_str()) {
                groups.push(&counter.group);
            }
        }
        for group in groups {
            let rate = |name: &str| rate_of(&activity.counters, group, name);
            let bits = |name: &str| rate(name).map(|bytes| bytes * 8.0);
            let shown = |rate: Option<f64>| rate.map(prefixed).unwrap_or_default();
            rows.push(vec![
                service.name.clone(),
                group.to_owned(),
                shown(rate("rx_packets")),
                shown(bits("rx_bytes")),
                shown(rate("tx_packets")),
                shown(bits("tx_bytes")),
            ]);
        }
    }
    Table::new("traffic", &columns).with(rows, &Selection::default())
}

/// What tells of drops, refusals, retransmissions and resyncs: what happens now first.
pub fn trouble(rates: &Rates) -> Table {
    let is_wanted = |counter: &CounterRate| counter.is_trouble && counter.value > 0;
    let columns = counter_columns();
    let rows = counter_rows(rates, is_wanted);
    Table::new("drops, refusals, retransmissions, resyncs", &columns)
        .with(rows, &Selection::default())
}

/// What can also fall: contexts, connections, memory.
pub fn in_use(rates: &Rates) -> Table {
    let is_wanted = |counter: &CounterRate| counter.per_second.is_none() && counter.value > 0;
    let columns = counter_columns();
    let rows = counter_rows(rates, is_wanted).map(|mut row| {
        row.pop();
        row
    });
    Table::new("in use", &columns[..columns.len() - 1]).with(rows, &Selection::default())
}

/// What grows fastest.
pub fn busiest(rates: &Rates) -> Table {
    let grows = |counter: &CounterRate| counter.per_second.is_some_and(|rate| rate > 0.0);
    let rows = counter_rows(rates, grows);
    Table::new("busiest counters", &counter_columns()).with(rows, &Selection::default())
}

/// Every counter that is not zero: what grows fastest first.
pub fn counters(rates: &Rates, selection: &Selection) -> Table {
    let rows = counter_rows(rates, |counter| counter.value > 0);
    Table::new("counters", &counter_columns()).with(rows, selection)
}

fn counter_columns() -> [(&'static str, bool); 5] {
    [
        ("service", false),
        ("part", false),
        ("counter", false),
        ("value", true),
        ("per second", true),
    ]
}

fn counter_rows(
    rates: &Rates,
    is_wanted: impl Fn(&CounterRate) -> bool,
) -> impl Iterator<Item = Vec<String>> {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (service, activity) in active(rates) {
        for counter in activity.counters.iter().filter(|it| is_wanted(it)) {
            let row = vec![
                service.name.clone(),
                counter.group.clone(),
                counter.name.clone(),
                counter.value.to_string(),
                counter.per_second.map(prefixed).unwrap_or_default(),
            ];
            rows.push((counter.per_second.unwrap_or(0.0), row));
        }
    }
    highest_first(rows)
}

/// Connections: what carries most first.
pub fn connections(rates: &Rates, selection: &Selection) -> Table {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (service, activity) in active(rates) {
        for connection in &activity.connections {
            let socket = &connection.socket;
            let tls = |way: fn(&crate::control::TlsFigures) -> &str| {
                socket.tls.as_ref().map(|it| way(it).to_owned())
            };
            let (rtt, retrans) = match &socket.tcp {
                Some(tcp) => (prefixed(tcp.rtt_us as f64), tcp.bytes_retrans.to_string()),
                None => Default::default(),
            };
            let bits = |bytes: f64| prefixed(bytes * 8.0);
            let row = vec![
                service.name.clone(),
                socket.state.clone(),
                socket.local.clone(),
                socket.remote.clone(),
                socket.owner.clone().unwrap_or_else(|| "host".to_owned()),
                tls(|tls| &tls.tx).unwrap_or_default(),
                tls(|tls| &tls.rx).unwrap_or_default(),
                bits(connection.received_per_second),
                bits(connection.acked_per_second),
                rtt,
                retrans,
            ];
            let carried = connection.received_per_second + connection.acked_per_second;
            rows.push((carried, row));
        }
    }
    let columns = [
        ("service", false),
        ("state", false),
        ("local", false),
        ("peer", false),
        ("owner", false),
        ("TLS tx", false),
        ("TLS rx", false),
        ("rx bit/s", true),
        ("tx bit/s", true),
        ("RTT µs", true),
        ("retrans", true),
    ];
    Table::new("connections", &columns).with(highest_first(rows), selection)
}

fn active(rates: &Rates) -> impl Iterator<Item = (&ServiceRates, &Activity)> {
    let services = rates.services.iter();
    services.filter_map(|service| Some((service, service.activity.as_ref().ok()?)))
}

fn rate_of(counters: &[CounterRate], group: &str, name: &str) -> Option<f64> {
    let mut counters = counters.iter();
    let found = counters.find(|it| it.group == group && it.name == name);
    found.and_then(|counter| counter.per_second)
}

fn highest_first(mut rows: Vec<(f64, Vec<String>)>) -> impl Iterator<Item = Vec<String>> {
    rows.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    rows.into_iter().map(|(_, row)| row)
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}
