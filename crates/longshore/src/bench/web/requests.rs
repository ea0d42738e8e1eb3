//! What the client asks for.

use clap::Args;

use crate::bench::parameters::Parameters;
use crate::size::between;

/// A file, again and again on some connections.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Requests {
    /// Size of the file to request, up to 1G
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = between(1, 1 << 30))]
    pub file_bytes: u64,

    /// Connections open at once, up to 20000, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,

    /// Seconds per mode and round, up to 600
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
}

impl Parameters {
    /// With the options of what is asked for.
    pub fn requests(self, requests: &Requests) -> Self {
        self.size("file_bytes", requests.file_bytes)
            .value("connections", requests.connections)
            .value("seconds", requests.seconds)
    }
}
