use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustix::process::Pid;

use super::rates::{Activity, CounterRate, Rates};
use super::sample::{Reading, Sample, State};
use super::tables::{self, Selection};
use super::text;
use super::threads::Thread;
use super::view::{Reaction, View};
use crate::control::{CounterGroup, Socket};

fn socket(remote: &str, received: u64, acked: u64) -> Socket {
    serde_json::from_value(serde_json::json!({
        "state": "ESTAB", "receive_queue": 0, "send_queue": 0, "local": "10.9.0.2:443", "remote": remote, "owner": "nic",
        "tcp": {
            "congestion": "cubic", "ca_state": "open", "timestamps": true, "sack": true, "ecn": false, "wscale": null, "rto_us": 200_000, "backoff": 0,
            "rtt_us": 1_500, "rttvar_us": 10, "minrtt_us": 1_000, "mss": 1448, "advmss": 1448, "cwnd": 14480, "ssthresh": null,
            "snd_wnd": 65535, "rcv_wnd": 65535, "rcv_space": 65535, "bytes_sent": acked, "bytes_retrans": 2896, "bytes_acked": acked,
            "bytes_received": received, "segs_out": 1, "segs_in": 1, "unacked": 0, "sacked": 0, "lost": 0, "notsent": 0, "retrans": 0,
            "timeouts": 0, "undos": 0, "dsack_dups": 0, "reordering_seen": false,
        },
        "tls": {
            "version": "1.3", "cipher": "aes-gcm-128", "tx": "device", "rx": "sw", "records_sent": 1, "records_full": 0,
            "records_partial": 0, "records_none": 0, "resync_requests": 0, "key_updates": 0,
        },
    }))
    .unwrap()
}

/// A service after so many requests.
fn after(process: i32, requests: u64) -> State {
    State {
        process: Pid::from_raw(process),
        threads: vec![Thread {
            process,
            id: process,
            name: "longshore".to_owned(),
            ran_ns: requests * 1_000_000,
        }],
        resident_bytes: 32 << 20,
        groups: vec![
            CounterGroup::new(
                "port",
                [
                    ("tx_packets", requests * 10),
                    ("tx_bytes", requests * 10_000),
                    ("rx_packets", requests),
                    ("rx_bytes", requests * 100),
                ],
            ),
            CounterGroup::new(
                "nic",
                [("rx_csum_bad", requests / 100), ("toe_connections", 7)],
            ),
            CounterGroup::new("http", [("requests", requests)]),
        ],
        sockets: vec![
            socket("10.9.0.1:51000", requests * 100, requests * 10_000),
            socket("10.9.0.1:51001", 5, 5),
        ],
    }
}

fn sample(at: Instant, state: Result<State, String>) -> Sample {
    let name = "serve".to_owned();
    let services = vec![Reading { name, at, state }];
    Sample { services }
}

fn between(before: State, now: State) -> Rates {
    let begin = Instant::now();
    let before = sample(begin, Ok(before));
    Rates::between(&before, &sample(begin + Duration::from_secs(2), Ok(now)))
}

fn only(rates: &Rates) -> &Activity {
    rates.services[0].activity.as_ref().unwrap()
}

fn counter<'a>(rates: &'a Rates, name: &str) -> &'a CounterRate {
    let mut counters = only(rates).counters.iter();
    counters.find(|counter| counter.name == name).unwrap()
}

#[test]
fn counts_become_rates_and_what_can_fall_does_not() {
    let rates = between(after(7, 1000), after(7, 3000));
    assert_eq!(counter(&rates, "requests").per_second, Some(1000.0));
    assert_eq!(counter(&rates, "toe_connections").per_second, None);
    assert!(counter(&rates, "rx_csum_bad").is_trouble);
    assert!(!counter(&rates, "requests").is_trouble);
    assert_eq!(only(&rates).threads[0].share, 1.0);
    let connection = &only(&rates).connections[0];
    assert_eq!(connection.received_per_second, 100_000.0);
    assert_eq!(connection.acked_per_second, 10_000_000.0);
}

#[test]
fn a_service_that_holds_the_others_up_does_not_change_their_rates() {
    let begin = Instant::now();
    let pair = |first: u64, second: u64, requests: u64| {
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut both = sample(at(first), Ok(after(7, requests))).services;
        both.extend(sample(at(second), Err("does not answer".to_owned())).services);
        both[1].name = "hangs".to_owned();
        Sample { services: both }
    };
    let rates = Rates::between(&pair(0, 5, 1000), &pair(1, 1, 2000));
    assert_eq!(counter(&rates, "requests").per_second, Some(1000.0));
}

#[test]
fn a_service_that_was_started_again_has_no_rates_of_the_one_before() {
    let rates = between(after(7, 1000), after(8, 3000));
    assert_eq!(counter(&rates, "requests").per_second, Some(0.0));
    let counted_anew = between(after(7, 3000), after(7, 1000));
    assert_eq!(counter(&counted_anew, "requests").per_second, Some(0.0));
}

#[test]
fn a_service_that_does_not_answer_is_told_of() {
    let begin = Instant::now();
    let down = sample(begin, Err("nothing listens".to_owned()));
    let rates = Rates::between(&down, &down);
    let row = &tables::services(&rates).rows[0];
    assert_eq!(row[0], "serve");
    assert_eq!(row.last().unwrap(), "down: nothing listens");
    // And when it is back, it has no rates until the second look.
    let back = sample(begin + Duration::from_secs(1), Ok(after(7, 1000)));
    let rates = Rates::between(&down, &back);
    assert_eq!(counter(&rates, "requests").per_second, Some(0.0));
}

#[test]
fn tables_have_the_busiest_first_and_what_was_asked_for() {
    let rates = between(after(7, 1000), after(7, 3000));
    let services = tables::services(&rates);
    assert_eq!(
        services.rows[0],
        [
            "serve", "7", "100.0", "32 MiB", "2", "2", "2/2", "0/2", "up"
        ]
    );
    let traffic = tables::traffic(&rates);
    assert_eq!(
        traffic.rows,
        [["serve", "port", "1.00k", "800k", "10.0k", "80.0M"]]
    );
    let counters = tables::counters(&rates, &Selection::default());
    assert_eq!(counters.rows[0][2], "tx_bytes");
    let filter = "csum".to_owned();
    let filtered = tables::counters(&rates, &Selection { filter });
    assert_eq!(
        filtered.rows,
        [["serve", "nic", "rx_csum_bad", "30", "10.0"]]
    );
    let connections = tables::connections(&rates, &Selection::default());
    assert_eq!(connections.rows[0][3], "10.9.0.1:51000");
    assert_eq!(
        connections.rows[1][4..],
        ["nic", "device", "sw", "0", "0", "1.50k", "2896"]
    );
}

#[test]
fn a_report_has_all_tables_in_columns() {
    let rates = between(after(7, 1000), after(7, 3000));
    let report = text::report(&rates, &Selection::default());
    for title in [
        "services:",
        "threads:",
        "traffic:",
        "counters:",
        "connections:",
    ] {
        assert!(report.contains(title), "{title} in {report}");
    }
    let traffic = report.split("\n\n").find(|it| it.starts_with("traffic"));
    let expected = "\
traffic:
  service  part  rx packet/s  rx bit/s  tx packet/s  tx bit/s
  serve    port        1.00k      800k        10.0k     80.0M";
    assert_eq!(traffic, Some(expected));
}

struct Screen {
    view: View,
    terminal: Terminal<TestBackend>,
}

impl Screen {
    fn new(width: u16, height: u16) -> Screen {
        Screen {
            view: View::new(Duration::from_secs(1), Selection::default()),
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
        }
    }

    fn press(&mut self, code: KeyCode) -> Reaction {
        self.view.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn seen(&mut self) -> String {
        let view = &mut self.view;
        self.terminal.draw(|frame| view.draw(frame)).unwrap();
        self.terminal.backend().to_string()
    }
}

#[test]
fn keys_lead_through_the_views() {
    let mut screen = Screen::new(120, 40);
    assert!(screen.seen().contains("asking the services"));
    screen.view.update(between(after(7, 1000), after(7, 3000)));
    let seen = screen.seen();
    for part in [
        "32 MiB",
        "threads",
        "traffic",
        "80.0M",
        "toe_connections",
        "rx_csum_bad",
    ] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    screen.press(KeyCode::Tab);
    assert!(screen.seen().contains("http"));
    screen.press(KeyCode::Tab);
    assert!(screen.seen().contains("10.9.0.1:51001"));

    // A filter is typed, q and all.
    screen.press(KeyCode::Char('/'));
    for character in "q:51000".chars() {
        assert_eq!(screen.press(KeyCode::Char(character)), Reaction::Draw);
    }
    assert!(!screen.seen().contains("10.9.0.1:51000"));
    screen.press(KeyCode::Esc);
    assert!(screen.seen().contains("10.9.0.1:51000"));
    assert_eq!(screen.press(KeyCode::Char('q')), Reaction::Quit);
}

#[test]
fn a_pause_keeps_what_is_seen_and_the_interval_has_bounds() {
    let mut screen = Screen::new(120, 40);
    screen.view.update(between(after(7, 1000), after(7, 3000)));
    screen.press(KeyCode::Char(' '));
    screen.view.update(between(after(7, 3000), after(7, 3000)));
    let seen = screen.seen();
    assert!(seen.contains("80.0M") && seen.contains("paused"), "{seen}");
    for _ in 0..20 {
        screen.press(KeyCode::Char('-'));
    }
    let faster = screen.press(KeyCode::Char('-'));
    assert_eq!(faster, Reaction::Interval(Duration::from_millis(250)));
}

#[test]
fn scrolling_ends_at_the_last_row_and_small_terminals_do() {
    let mut screen = Screen::new(60, 8);
    screen.view.update(between(after(7, 1000), after(7, 3000)));
    screen.press(KeyCode::Tab);
    for _ in 0..5 {
        screen.press(KeyCode::PageDown);
    }
    let seen = screen.seen();
    assert!(seen.contains("5–7 of 7"), "{seen}");
    for (width, height) in [(1, 1), (10, 3), (300, 2)] {
        let mut screen = Screen::new(width, height);
        screen.view.update(between(after(7, 1000), after(7, 3000)));
        for _ in 0..3 {
            screen.seen();
            screen.press(KeyCode::Tab);
        }
    }
}
