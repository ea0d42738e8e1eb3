//! Whatever the link does, the bytes arrive, once and in order, and both sides end.

use std::time::Duration;

use proptest::prelude::*;
use tcp::{Algorithm, Config, State};

use crate::pair::{App, Link, Pair, Reader, Setup};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_unhurried_exchange_completes() {
    let app = App { total: 1_000_000, ..App::default() };
    let mut pair = Pair::new(Setup { apps: [app; 2], ..Setup::default() });
    pair.run_to_end(HOUR);
    assert_eq!(pair.sides[0].resent_out + pair.sides[1].resent_out, 0);
    pair.run(HOUR);
    assert!(pair.sides.iter().all(|side| side.state() == State::Closed), "TIME-WAIT ends too");
}
