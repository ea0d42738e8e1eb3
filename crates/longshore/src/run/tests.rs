use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use kernel_tls::{Counter, Counters};

use super::library::preload;
use super::summary::{CountersFile, text};

#[test]
fn the_counters_come_back_from_their_file() {
    let file = CountersFile::create().expect("a directory for temporary files");
    let counters = file.read().expect("the file");
    assert!(counters.iter().all(|(_, value)| value == 0));
    assert_eq!(counters.iter().count() * 8, Counters::LEN);
}

#[test]
fn the_counters_do_not_go_where_another_users_link_points() {
    let own = format!("longshore-run-link.{}", std::process::id());
    let names = ["", ".target", ".free"].map(|end| format!("{own}{end}"));
    let [link, target, _] = names.each_ref().map(|name| std::env::temp_dir().join(name));
    symlink(&target, &link).expect("a link");
    let [taken, _, free] = names;
    let file = CountersFile::create_as([taken, free].into_iter());
    let (file, was_written) = (file.expect("another name"), target.exists());
    std::fs::remove_file(&link).expect("the link is left alone");
    assert!(!was_written);
    let mode = std::fs::metadata(file.path()).expect("the file").mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = file.path().to_owned();
    drop(file);
    assert!(!path.exists());
}

#[test]
fn a_library_whose_path_the_dynamic_linker_takes_apart_is_refused() {
    for path in ["/a b/libktls.so", "/a:b/libktls.so", "/$LIB/libktls.so"] {
        let error = preload(Path::new(path)).expect_err(path).to_string();
        assert!(error.contains(path) && error.contains("--library"));
    }
    let whole = preload(Path::new("/usr/lib/longshore/libktls.so")).expect("as it is");
    let text = whole.to_string_lossy();
    assert!(text.starts_with("/usr/lib/longshore/libktls.so"));
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
