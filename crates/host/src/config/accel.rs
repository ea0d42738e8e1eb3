//! What of AccelTCP a stack asks of its NIC.

use std::fmt;
use std::str::FromStr;

/// Which parts of connections' lives the NIC is asked to take over (AccelTCP). What it refuses the host does itself.
///
/// Written and parsed as `setup,teardown,splice,lazy-tcb`, `all` or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accel {
    /// The NIC answers SYNs to listeners that [allow it](crate::ListenOptions::accel), by cookies, and hands up connections that are
    /// established.
    pub setup: bool,
    /// The NIC finishes connections that [`Stack::close`](crate::Stack::close) gives up: sends what is left and the FIN
    /// until both are acknowledged, and keeps the flow in TIME-WAIT.
    pub teardown: bool,
    /// The NIC relays between two connections once they are spliced.
    pub splice: bool,
    /// A connection that the NIC has set up has no full control block until it needs one: a second segment, or a response
    /// without a close. Nothing to do without `setup`; and without effect where connections have
    /// [keep-alive](tcp::Config::keep_alive), which is a full control block's timer: a quasi control block has none, and a peer that
    /// vanishes would not be found out.
    pub lazy_tcb: bool,
}

impl Accel {
    /// The host does everything.
    pub const NONE: Self = Self {
        setup: false,
        teardown: false,
        splice: false,
        lazy_tcb: false,
    };

    /// The NIC does all that it can.
    pub const ALL: Self = Self {
        setup: true,
        teardown: true,
        splice: true,
        lazy_tcb: true,
    };

    /// Every part by its name.
    fn parts(self) -> [(&'static str, bool); 4] {
        [
            ("setup", self.setup),
            ("teardown", self.teardown),
            ("splice", self.splice),
            ("lazy-tcb", self.lazy_tcb),
        ]
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let mut separator = "";
        for (name, _) in self.parts().into_iter().filter(|(_, on)| *on) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

/// A text that names no part of AccelTCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown feature `{0}`; use none, all, or some of setup,teardown,splice,lazy-tcb")]
pub struct AccelError(String);

impl FromStr for Accel {
    type Err = AccelError;

    fn from_str(text: &str) -> Result<Self, AccelError> {
        match text.trim() {
            "none" => return Ok(Self::NONE),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let mut accel = Self::NONE;
        for name in text.split(',').map(str::trim) {
            match name {
                "setup" => accel.setup = true,
                "teardown" => accel.teardown = true,
                "splice" => accel.splice = true,
                "lazy-tcb" => accel.lazy_tcb = true,
                other => return Err(AccelError(other.to_owned())),
            }
        }
        Ok(accel)
    }
}

#[cfg(test)]
mod tests;
