//! Which policy chooses, and for which ports.

use std::fmt;
use std::str::FromStr;

/// How connections are chosen for the NIC (Connection handoff policies §3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// None is.
    #[default]
    Off,
    /// First come, first served: each as soon as it is established, if there is room then.
    Fcfs,
    /// Each when it enqueues to its send buffer for the so many-th time, if there is room then.
    Threshold(u32),
    /// Those that are expected to move the most packets while they take up a place on the NIC; see [`super`].
    Predict,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.pad("off"),
            Self::Fcfs => f.pad("fcfs"),
            Self::Threshold(sends) => f.pad(&format!("t{sends}")),
            Self::Predict => f.pad("predict"),
        }
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` selects nothing; take off, fcfs, predict, or t with a number of sends from 1 on, as in t4"
)]
pub struct UnknownSelection(String);

impl FromStr for Selection {
    type Err = UnknownSelection;

    fn from_str(text: &str) -> Result<Self, UnknownSelection> {
        let threshold = || {
            let digits = text.strip_prefix(['t', 'T'])?;
            let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
            let sends = digits.parse().ok().filter(|&sends| plain && sends > 0)?;
            Some(Self::Threshold(sends))
        };
        match text {
            "off" => Ok(Self::Off),
            "fcfs" => Ok(Self::Fcfs),
            "predict" => Ok(Self::Predict),
            _ => threshold().ok_or_else(|| UnknownSelection(text.to_owned())),
        }
    }
}
