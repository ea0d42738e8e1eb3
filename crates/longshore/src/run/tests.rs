use kernel_tls::{Counter, Counters};

use super::summary::{CountersFile, text};

#[test]
fn the_counters_come_back_from_their_file() {
    let file = CountersFile::create().expect("a directory for temporary files");
    let counters = file.read().expect("the file");
    assert!(counters.iter().all(|(_, value)| value == 0));
    assert_eq!(counters.iter().count() * 8, Counters::LEN);
}

#[test]
fn a_summary_says_what_was_done_or_how_to_have_it_done() {
    let counters = Counters::default();
    assert!(text("nginx", &counters).contains("ssl_conf_command"));
    counters.add(Counter::TlsTxSw, 2);
    counters.add(Counter::TxRecords, 1234);
    counters.add(Counter::TxBytes, 5 << 20);
    let summary = text("nginx", &counters);
    assert!(summary.contains("5.00 MiB in 1,234 records, of 2 sockets"));
}
