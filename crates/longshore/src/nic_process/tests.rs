use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use wire::ethernet::MacAddr;

use super::options::{HostOption, RingsOption, TapOption, WireOption};
use super::supervisor::{FAILED, Verdict, judge};

#[test]
fn hosts_and_wires_are_read_from_the_command_line() {
    let host = "tap:ls0,ip=10.9.0.1/24,ip=fd09::1/64".parse();
    let Ok(HostOption::Tap(host)) = host else {
        panic!("{host:?}");
    };
    assert_eq!(host.tap, "ls0");
    assert_eq!(host.addresses.len(), 2);
    assert_eq!(host.addresses[1].to_string(), "fd09::1/64");
    let plain = TapOption {
        tap: "ls0".to_owned(),
        addresses: Vec::new(),
    };
    assert_eq!("tap:ls0".parse(), Ok(HostOption::Tap(plain)));
    let given = RingsOption {
        socket: "/run/a.sock".into(),
        mac: MacAddr([2, 0, 0, 0, 0, 7]),
    };
    let text = "rings:/run/a.sock,mac=02:00:00:00:00:07";
    assert_eq!(text.parse(), Ok(HostOption::Rings(given)));
    let own: HostOption = "rings:/run/a.sock".parse().unwrap();
    assert_eq!("rings:/run/a.sock".parse(), Ok(own.clone()), "each time");
    assert_ne!("rings:/run/b.sock".parse(), Ok(own));
    for (text, wire) in [
        ("tap:ls1", WireOption::Tap("ls1".to_owned())),
        ("packet:eth0", WireOption::Packet("eth0".to_owned())),
        ("xdp:eth0", WireOption::Xdp("eth0".to_owned())),
        ("mem", WireOption::Mem),
    ] {
        assert_eq!(text.parse(), Ok(wire));
    }
}

#[test]
fn what_is_no_host_or_wire_is_named_with_what_would_be_one() {
    for text in [
        "ls0",
        "tap:",
        "tap:ls%d",
        "tap:a b",
        "tap:ls0,10.9.0.1/24",
        "tap:ls0,ip=10.9.0.1",
        "rings:",
        "rings:/run/a,ip=10.9.0.1/24",
        "rings:/run/a,mac=03:00:00:00:00:01",
        "rings:/run/a,mac=02:00:00:00:00:01,mac=02:00:00:00:00:01",
        "mem:/run/a",
    ] {
        let error = text.parse::<HostOption>().unwrap_err();
        assert!(error.contains(text), "{error}");
    }
    for text in ["", "eth0", "packet:", "mem:x", "wifi:eth0"] {
        let error = text.parse::<WireOption>().unwrap_err();
        assert!(error.contains("packet:IFACE"), "{error}");
    }
}

#[test]
fn a_worker_that_dies_is_started_again_and_one_that_ends_is_not() {
    let exited = |code: i32| ExitStatus::from_raw(code << 8);
    let (killed, ended) = (ExitStatus::from_raw(9), ExitStatus::from_raw(15));
    assert_eq!(judge(exited(0), false), Verdict::Over(0));
    assert_eq!(judge(exited(1), false), Verdict::Over(1));
    assert_eq!(judge(exited(1), true), Verdict::Again);
    assert_eq!(judge(exited(FAILED.into()), false), Verdict::Again);
    assert_eq!(judge(exited(101), true), Verdict::Again);
    assert_eq!(judge(killed, false), Verdict::Again);
    assert_eq!(judge(ended, false), Verdict::Over(0));
}
