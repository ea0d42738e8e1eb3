use port::impair::Impairment;

use super::*;
use crate::Suite;
use crate::oracle::Reads;

/// A connection that the client's stack forgets before its SYN has gone.
fn run_without_a_client(loss: f64) -> Result<Outcome, Stalled> {
    let scenario = Scenario {
        seed: 1,
        suite: Suite::DEFAULT,
        keys: Keys::Installed,
        family: Family::V4,
        mtu: 1500,
        link: Impairment {
            loss,
            ..Impairment::default()
        },
        wrap_within: None,
        plant: Vec::new(),
        workers: 1,
        context_memory: 1 << 20,
        reads: [Reads::Copied(100); 2],
        operations: [vec![Operation::Shutdown], vec![Operation::Shutdown]],
    };
    let help = Help::from(Offload::Both);
    let mut run = Run::new(&scenario, &Default::default(), help, Duration::ZERO);
    let client = run.endpoints[0].socket.expect("it connects");
    let now = run.world.now();
    run.world.stack(0).abort(now, client).expect("it is there");
    run.finish()
}

#[test]
fn a_client_that_sends_no_syn_has_stalled() {
    for loss in [0.0, 0.3] {
        let outcome = run_without_a_client(loss);
        assert!(outcome.is_err(), "a loss of {loss}");
    }
}
