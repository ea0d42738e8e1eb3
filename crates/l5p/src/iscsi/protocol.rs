//! iSCSI in the list of protocols, and the names of its counters, after those of NVMe/TCP.

use wire::iscsi::DIGEST_LEN;

use super::{Engine, Parameters};
use crate::pdus::counters::counters;
use crate::{Direction, Protocol, Resource};

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "iscsi";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = DIGEST_LEN;
    counters!("iscsi", "Iscsi", "iSCSI", digests);

    fn create(
        parameters: &Parameters,
        direction: Direction,
        _: Option<&Resource>,
    ) -> Option<Engine> {
        Some(Engine::new(parameters, direction))
    }
}
