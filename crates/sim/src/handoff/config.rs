//! What a run is: the columns of the seed's Table 3.

use std::fmt;
use std::str::FromStr;

use host::handoff::policy::Selection;

use super::Workload;

/// A configuration of the experiment. [`Display`](fmt::Display) and [`FromStr`] are the shorthand of Connection handoff policies, Table 3, as in
/// `W-4096-P-L-FCFS-400`; what it has no letter for is as in the seed: nothing is restored actively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The clients.
    pub workload: Workload,
    /// Connections that the NIC has memory for (Hard_limit); 0 for no handoff.
    pub nic_connections: u32,
    /// The NIC serves packets of host connections first.
    pub host_first: bool,
    /// The NIC limits the connections that it runs by its load.
    pub load_control: bool,
    /// In overload the NIC gives connections back, instead of waiting for them to end.
    pub active_restore: bool,
    /// How the host chooses connections.
    pub selection: Selection,
    /// Million instructions of the NIC's core per second.
    pub nic_mips: u32,
    /// Seeds all that is random.
    pub seed: u64,
}

impl Config {
    /// No handoff, everything else as in the seed's baseline.
    pub fn baseline(workload: Workload) -> Self {
        Self {
            workload,
            nic_connections: 0,
            host_first: false,
            load_control: false,
            active_restore: false,
            selection: Selection::Fcfs,
            nic_mips: 400,
            seed: 1,
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = |used, letter| if used { letter } else { 'N' };
        let text = format!(
            "{}-{}-{}-{}-{}-{}",
            self.workload.letter(),
            self.nic_connections,
            used(self.host_first, 'P'),
            used(self.load_control, 'L'),
            self.selection.to_string().to_uppercase(),
            self.nic_mips
        );
        f.pad(&text)
    }
}

/// A text that is no shorthand of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no configuration; write one as in W-4096-P-L-FCFS-400 (Connection handoff policies, Table 3)"
)]
pub struct UnknownConfig(String);

impl FromStr for Config {
    type Err = UnknownConfig;

    fn from_str(text: &str) -> Result<Self, UnknownConfig> {
        parse(text).ok_or_else(|| UnknownConfig(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Config> {
    let mut parts = text.split('-');
    let mut next = || parts.next();
    let letter = next()?;
    let workload = Workload::ALL
        .into_iter()
        .find(|workload| letter == workload.letter().to_string())?;
    let used = |part: &str, letter| match part {
        "N" => Some(false),
        part => (part == letter).then_some(true),
    };
    let config = Config {
        nic_connections: next()?.parse().ok()?,
        host_first: used(next()?, "P")?,
        load_control: used(next()?, "L")?,
        selection: next()?.to_lowercase().parse().ok()?,
        nic_mips: next()?.parse().ok()?,
        ..Config::baseline(workload)
    };
    next().is_none().then_some(config)
}
