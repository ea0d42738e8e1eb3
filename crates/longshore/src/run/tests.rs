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
    assert!(text("nginx", &counters, false).contains("ssl_conf_command"));
    counters.add(Counter::TlsTxSw, 2);
    counters.add(Counter::TxRecords, 1234);
    counters.add(Counter::TxBytes, 5 << 20);
    let summary = text("nginx", &counters, false);
    assert!(summary.contains("5.00 MiB in 1,234 records, on 2 sockets"));
}

#[test]
fn a_summary_tells_what_the_nic_did() {
    let counters = Counters::default();
    counters.add(Counter::TlsTxDevice, 3);
    counters.add(Counter::TlsTxSw, 1);
    counters.add(Counter::TxDeviceRecords, 1000);
    counters.add(Counter::TxDeviceBytes, 3 << 20);
    counters.add(Counter::TxZerocopyBytes, 2 << 20);
    counters.add(Counter::TlsRxDevice, 2);
    counters.add(Counter::RxDeviceRecords, 77);
    let summary = text("nginx", &counters, false);
    assert!(summary.contains("on 4 sockets"));
    assert!(summary.contains("77 of the records by the NIC (TlsRxDevice 2, TlsRxSw 0)"));
    assert!(summary.contains("3.00 MiB in 1,000 records by the NIC (TlsTxDevice 3, TlsTxSw 1)"));
    assert!(summary.contains("tx_zerocopy_bytes 2,097,152"));
    assert!(!summary.contains("tx_device_refused"));
}
