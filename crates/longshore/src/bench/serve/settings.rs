//! Options of `longshore bench serve`.

use clap::Args;

use crate::bench::settings::Rounds;
use crate::bench::web::requests::Requests;

/// Settings of `bench serve`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    pub requests: Requests,

    #[command(flatten)]
    pub rounds: Rounds,
}
