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
        queues: None,
        core: None,
    };
    let text = "rings:/run/a.sock,mac=02:00:00:00:00:07";
    assert_eq!(text.parse(), Ok(HostOption::Rings(given)));
    let own: HostOption = "rings:/run/a.sock".parse().unwrap();
    assert_eq!("rings:/run/a.sock".parse(), Ok(own.clone()), "each time");
    assert_ne!("rings:/run/b.sock".parse(), Ok(own));
    let guest = "vfio-user:/run/a.sock,queues=2,mac=02:00:00:00:00:07".parse();
    let Ok(HostOption::Guest(guest)) = guest else {
        panic!("{guest:?}");
    };
    assert_eq!(guest.queues, Some(2));
    let placed = "rings:/run/a.sock,core=3".parse();
    let Ok(HostOption::Rings(placed)) = placed else {
        panic!("{placed:?}");
    };
    assert_eq!(placed.core, Some(3));
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
fn a_wrong_host_or_wire_is_named_with_a_right_one() {
    for (text, wrong, right) in [
        ("ls0", "unknown host `ls0`", "tap:NAME"),
        ("tap:", "``", "1 to 15 characters"),
        ("tap:ls%d", "`ls%d`", "without"),
        ("tap:a b", "`a b`", "without"),
        ("tap:sixteen-letters-", "`sixteen-letters-`", "1 to 15"),
        ("tap:ls0,10.9.0.1/24", "`10.9.0.1/24`", "ip=10.9.0.1/24"),
        ("tap:ls0,ip=10.9.0.1", "`10.9.0.1`", "10.0.0.2/24"),
        ("rings:", "no socket", "rings:SOCKET"),
        (
            "rings:/run/a,ip=10.9.0.1/24",
            "`ip=10.9.0.1/24`",
            "mac=ADDRESS",
        ),
        (
            "rings:/run/a,mac=03:00:00:00:00:01",
            "`03:00:00:00:00:01`",
            "unicast",
        ),
        (
            "rings:/run/a,mac=02:00:00:00:00:01,mac=02:00:00:00:00:02",
            "`mac=02:00:00:00:00:02`",
            "once",
        ),
        ("vfio-user:", "no socket", "vfio-user:SOCKET"),
        ("vfio-user:/run/a,queues=17", "`17` queues", "1 to 16"),
        ("vfio-user:/run/a,queues=1,queues=2", "`queues=2`", "once"),
        ("rings:/run/a,queues=1", "`queues=1`", "mac=ADDRESS"),
        ("rings:/run/a,core=-1", "`-1` is no core", "0 for the first"),
        ("rings:/run/a,core=0,core=1", "`core=1`", "once"),
        ("mem:/run/a", "unknown host `mem`", "rings:SOCKET"),
    ] {
        let error = text.parse::<HostOption>().unwrap_err();
        assert!(error.contains(wrong) && error.contains(right), "{error}");
    }
    for text in ["", "eth0", "mem:x", "wifi:eth0"] {
        let error = text.parse::<WireOption>().unwrap_err();
        let named = error.contains(&format!("unknown wire `{text}`"));
        assert!(named && error.contains("packet:IFACE"), "{error}");
    }
    let error = "packet:".parse::<WireOption>().unwrap_err();
    assert!(error.contains("interface's name"), "{error}");
}

/// As the help is shown: a line that is too long would be wrapped, and could not be pasted.
#[test]
fn examples_of_the_help_fit_its_width() {
    let texts = [
        super::EXAMPLES,
        crate::lb::options::EXAMPLES,
        crate::run::EXAMPLES,
    ];
    for line in texts.iter().flat_map(|text| text.lines()) {
        assert!(line.len() <= 100, "{line}");
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
