use super::*;

#[test]
fn what_is_printed_reads_as_the_same() {
    for (text, printed) in [
        ("off", "off"),
        ("fcfs", "fcfs"),
        ("t20", "t20"),
        ("443=t4,80=fcfs", "off,443=t4,80=fcfs"),
        (" 443 = off , predict", "predict,443=off"),
    ] {
        let handoff: Handoff = text.parse().expect(text);
        assert_eq!(handoff.to_string(), printed);
        assert_eq!(printed.parse(), Ok(handoff));
    }
    assert_eq!("off".parse(), Ok(Handoff::default()));
}

#[test]
fn a_policy_for_one_port_leaves_the_others_with_the_host() {
    let handoff: Handoff = "443=t4".parse().unwrap();
    assert_eq!(handoff.selection, Selection::Off);
    assert_eq!(handoff.per_port, [(443, Selection::Threshold(4))]);
    assert!(handoff.is_on());
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let error = |text: &str| text.parse::<Handoff>().unwrap_err().to_string();
    assert!(error("fastest").contains("`fastest`"));
    assert!(error("").contains("fcfs"));
    assert!(error("t0").contains("t4"));
    assert!(error("80=").contains("fcfs"));
    for text in ["http=t4", "0=t4", "65536=t4", "=t4"] {
        assert!(error(text).contains("1 to 65535"), "{text}");
    }
    assert!(error("fcfs,t4").contains("all ports"));
    assert!(error("80=t4,80=off").contains("port 80"));
}
