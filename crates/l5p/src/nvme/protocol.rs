//! NVMe/TCP in the list of protocols: its parameters as bytes, and the names of its counters, those of mlx5 where it has one.

use wire::nvme::DIGEST_LEN;

use super::{Engine, Parameters};
use crate::pdus::counters::counters;
use crate::{Direction, Protocol, Resource};

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "nvme-tcp";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = DIGEST_LEN;
    counters!("nvmeotcp", "NvmeTcp", "NVMe/TCP", digests);

    fn create(
        parameters: &Parameters,
        direction: Direction,
        _: Option<&Resource>,
    ) -> Option<Engine> {
        Some(Engine::new(parameters, direction))
    }
}

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = Parameters::ENCODED_LEN;

    fn encode(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        Parameters::from_bytes(bytes.try_into().ok()?).ok()
    }

    fn tags(&self) -> u16 {
        self.commands
    }
}
