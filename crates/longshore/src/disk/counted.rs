//! What the NIC did of the work for a disk.

use serde::Serialize;

use crate::tally::tally;

tally! {
    /// What a host counts of a protocol of disks.
    pub struct Counted {
        pub placed: u64,
        pub copied: u64,
        pub checked_by_nic: u64,
        pub checked_by_host: u64,
        pub made_by_nic: u64,
        pub made_by_host: u64,
    }
}

/// Which part of the work the NIC did; `None` where there was none.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Shares {
    /// Of the bytes of data that came, those that the NIC had placed.
    placed_share: Option<f64>,
    /// Of the data digests of what came, those that the NIC had checked.
    checked_share: Option<f64>,
    /// Of the PDUs that were sent, those whose digests the NIC made.
    made_share: Option<f64>,
}

impl Counted {
    /// From a stack's counters, whose names begin with `prefix`.
    pub(crate) fn of<'a>(prefix: &str, counters: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let mut counted = Self::default();
        for (name, value) in counters {
            match name.strip_prefix(prefix) {
                Some("RxBytesPlaced") => counted.placed = value,
                Some("RxBytesCopied") => counted.copied = value,
                Some("RxDigestsDevice") => counted.checked_by_nic = value,
                Some("RxDigestsSw") => counted.checked_by_host = value,
                Some("TxPdusDevice") => counted.made_by_nic = value,
                Some("TxPdusSw" | "TxPdusFallback") => counted.made_by_host += value,
                _ => {}
            }
        }
        counted
    }

    /// What of it the NIC did. PDUs without data digests have nothing that the NIC could make.
    pub(crate) fn shares(&self, data_digest: bool) -> Shares {
        let made = share(self.made_by_nic, self.made_by_host);
        Shares {
            placed_share: share(self.placed, self.copied),
            checked_share: share(self.checked_by_nic, self.checked_by_host),
            made_share: made.filter(|_| data_digest),
        }
    }
}

impl Shares {
    /// For the terminal.
    pub(super) fn lines(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("data placed by the NIC", self.placed_share),
            ("digests checked by the NIC", self.checked_share),
            ("PDUs with digests made by the NIC", self.made_share),
        ]
    }
}

/// The part of both; `None` if there is nothing.
fn share(part: u64, rest: u64) -> Option<f64> {
    (part + rest > 0).then(|| part as f64 / (part + rest) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_did_too_is_the_rest() {
        let counters = [
            ("NvmeTcpRxBytesPlaced", 3),
            ("NvmeTcpRxBytesCopied", 1),
            ("NbdRxBytesCopied", 100),
            ("NvmeTcpTxPdusSw", 2),
            ("NvmeTcpTxPdusFallback", 2),
            ("NvmeTcpTxPdusDevice", 4),
        ];
        let counted = Counted::of("NvmeTcp", counters.into_iter());
        let shares = counted.shares(true);
        assert_eq!(shares.placed_share, Some(0.75));
        assert_eq!(shares.checked_share, None);
        assert_eq!(shares.made_share, Some(0.5));
        assert_eq!(counted.shares(false).made_share, None);
        let later = (counted - counted).shares(true);
        assert_eq!(later.placed_share, None);
    }
}
