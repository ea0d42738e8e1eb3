//! NBD in the list of protocols, and the names of its counters, after those of NVMe/TCP.

use super::{Engine, Parameters};
use crate::pdus::counters::counters;
use crate::{Direction, Protocol, Resource};

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "nbd";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = 0;
    counters!("nbd", "Nbd", "NBD");

    fn create(
        parameters: &Parameters,
        direction: Direction,
        _: Option<&Resource>,
    ) -> Option<Engine> {
        Some(Engine::new(parameters, direction))
    }
}
