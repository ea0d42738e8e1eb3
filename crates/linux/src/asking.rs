//! How often Linux is asked which socket has sent a SYN: asking costs some microseconds, and anybody whose packets Linux forwards may send SYNs.
//!
//! Half of the questions are for addresses at which sockets were found. A flood from other ones leaves them what they need; behind address translation it
//! has such an address, and takes that half too. SYNs of fenced connections' addresses are asked about at their cost. A connection that is not asked about is not tracked: its records are made in software.

use std::net::IpAddr;
use std::time::Instant;

use attachment::{Errno, Rate};
use wire::FlowKey;

use crate::sockets::{SocketAt, Sockets};

/// Questions per second of either half, and at once after a pause.
const PER_SECOND: u32 = 8192;
const BURST: u32 = 4096;
/// Addresses that are remembered: an interface has few, and one that is forgotten is found again.
const OWN: usize = 16;

/// How much may be asked.
#[derive(Debug)]
pub(crate) struct Asking {
    own: Rate,
    any: Rate,
    /// Where sockets were found, the last one first.
    addresses: Vec<IpAddr>,
}

impl Asking {
    pub(crate) fn new() -> Asking {
        let half = Rate::new(PER_SECOND, BURST);
        Asking {
            own: half,
            any: half,
            addresses: Vec::with_capacity(OWN),
        }
    }

    /// The socket that sends a SYN.
    ///
    /// # Errors
    /// `EAGAIN` when too much was asked; as for [`Sockets::look_up`].
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        sockets: &mut dyn Sockets,
    ) -> Result<Option<SocketAt>, Errno> {
        let address = flow.src.0;
        if !self.may_ask(now, address) {
            return Err(Errno::AGAIN);
        }
        let found = sockets.look_up(flow)?;
        let is_new = found.is_some() && !self.addresses.contains(&address);
        if is_new {
            self.addresses.truncate(OWN - 1);
            self.addresses.insert(0, address);
        }
        Ok(found)
    }

    fn may_ask(&mut self, now: Instant, address: IpAddr) -> bool {
        let is_own = self.addresses.contains(&address);
        is_own && self.own.take(now, 1) || self.any.take(now, 1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::sockets::SocketPhase;

    const ALL: usize = 2 * BURST as usize;

    /// Sockets of some addresses, and how often was asked about them.
    #[derive(Debug)]
    struct Below(u32, usize);

    impl Sockets for Below {
        fn look_up(&mut self, flow: &FlowKey) -> Result<Option<SocketAt>, Errno> {
            self.1 += 1;
            let socket = SocketAt {
                cookie: 1,
                phase: SocketPhase::Opening,
            };
            Ok((flow.src.0 < address(self.0)).then_some(socket))
        }

        fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
            Ok(Vec::new())
        }
    }

    fn address(low: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + low).into()
    }

    /// How many answers there are to as many questions.
    fn ask(
        asking: &mut Asking,
        now: Instant,
        sockets: &mut Below,
        low: impl IntoIterator<Item = u32>,
    ) -> usize {
        let flow = |low| FlowKey {
            src: (address(low), 1000),
            dst: (address(1 << 20), 443),
        };
        let asked = low.into_iter();
        asked
            .filter(|low| asking.ask(now, &flow(*low), sockets).is_ok())
            .count()
    }

    #[test]
    fn linux_is_asked_so_often_however_many_syns_there_are() {
        let (mut asking, mut sockets, now) = (Asking::new(), Below(100, 0), Instant::now());
        assert_eq!(ask(&mut asking, now, &mut sockets, 0..100_000), ALL / 2);
        assert_eq!(sockets.1, ALL / 2);
        let later = now + Duration::from_millis(100);
        let many = 1000..100_000;
        assert_eq!(ask(&mut asking, later, &mut sockets, many), 819);
    }

    #[test]
    fn a_flood_from_other_addresses_leaves_half_of_the_questions_to_those_with_sockets() {
        let (mut asking, mut sockets, now) = (Asking::new(), Below(2, 0), Instant::now());
        assert_eq!(ask(&mut asking, now, &mut sockets, [1]), 1);
        let flood = 1000..100_000;
        assert_eq!(ask(&mut asking, now, &mut sockets, flood), ALL / 2 - 1);
        let own = std::iter::repeat_n(1, 100_000);
        assert_eq!(ask(&mut asking, now, &mut sockets, own), ALL / 2);
        assert_eq!(ask(&mut asking, now, &mut sockets, [0, 2]), 0);
    }

    #[test]
    fn as_many_addresses_are_remembered_as_an_interface_has() {
        let (mut asking, mut sockets, now) = (Asking::new(), Below(100, 0), Instant::now());
        let own = OWN as u32;
        ask(
            &mut asking,
            now,
            &mut sockets,
            (0..own).chain(1000..100_000),
        );
        assert_eq!(ask(&mut asking, now, &mut sockets, 0..own), OWN);
        let later = now + Duration::from_secs(1);
        ask(
            &mut asking,
            later,
            &mut sockets,
            [99].into_iter().chain(1000..100_000),
        );
        assert_eq!(
            ask(&mut asking, later, &mut sockets, [0]),
            0,
            "the oldest is forgotten"
        );
        assert_eq!(ask(&mut asking, later, &mut sockets, [1, 99]), 2);
    }
}
