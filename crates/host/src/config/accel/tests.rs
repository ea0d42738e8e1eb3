use super::*;

#[test]
fn what_is_written_is_parsed_again() {
    for bits in 0..16 {
        let accel = Accel {
            setup: bits & 1 != 0,
            teardown: bits & 2 != 0,
            splice: bits & 4 != 0,
            lazy_tcb: bits & 8 != 0,
        };
        assert_eq!(accel.to_string().parse(), Ok(accel));
    }
    assert_eq!("all".parse(), Ok(Accel::ALL));
    assert_eq!(Accel::NONE.to_string(), "none");
    assert_eq!(Accel::default(), Accel::NONE);
}

#[test]
fn an_unknown_part_is_named() {
    let error = "setup,tear-down".parse::<Accel>().expect_err("unknown");
    assert!(
        error
            .to_string()
            .starts_with("unknown feature `tear-down`; use none, all, or ")
    );
    assert!("".parse::<Accel>().is_err());
    assert!("setup,none".parse::<Accel>().is_err());
}
