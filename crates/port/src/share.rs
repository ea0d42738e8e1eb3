//! A queue that one process hands over to another, while connections of the former go on.
//!
//! ```text
//!               ┌──────────── queue of the device ◀── both send ──┐
//!               ▼ all that is received                            │
//!           successor ── frames of the predecessor's flows ──▶ predecessor
//!               │ the others                    SOCK_SEQPACKET     │
//!               ▼                                                  ▼
//!             its NIC                                           its NIC
//! ```
//!
//! The two share the queue's open file. The successor reads it, knows the flows that the predecessor had when it stopped to read, which
//! gets no new ones, and passes their frames on as they came, header of virtio-net and all. A call of the system and a copy are what
//! that costs for each frame that is passed on, until the last of those connections has ended.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use wire::FlowKey;
use wire::packet::{Subject, subject};

/// What a process receives of a queue's frames.
#[derive(Debug, Default)]
pub enum Share {
    /// All of them.
    #[default]
    Whole,
    /// All but those of another process's flows, to which they are passed on.
    Divided(Arc<Passing>),
    /// Those that another process passes on by this socket, a frame in each of its packets.
    Passed(OwnedFd),
    /// None.
    Nothing,
}

/// Flows whose frames are another process's, and the ways to there.
#[derive(Debug)]
pub struct Passing {
    /// By which way, of flows in the direction that [`canonical`] gives them. Peers choose them: the hash has a secret key.
    flows: HashMap<FlowKey, usize>,
    /// A socket to each worker of the other process.
    ways: Vec<OwnedFd>,
    is_gone: AtomicBool,
    passed_on: AtomicU64,
    dropped: AtomicU64,
}

impl Passing {
    /// Passes on by each of these ways the frames of the flows beside it, in either direction.
    #[must_use]
    pub fn new(ways: Vec<(OwnedFd, Vec<FlowKey>)>) -> Passing {
        let mut flows = HashMap::new();
        let mut sockets = Vec::new();
        for (way, (socket, of_it)) in ways.into_iter().enumerate() {
            flows.extend(of_it.into_iter().map(|flow| (canonical(flow), way)));
            sockets.push(socket);
        }
        Passing {
            flows,
            ways: sockets,
            is_gone: AtomicBool::new(false),
            passed_on: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Frames that were passed on, and those that were lost because the other process did not take them in time.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.passed_on), count(&self.dropped))
    }

    /// Passes a frame on if it is the other process's, which gets a copy too of what neighbours say of themselves. Whether it is that
    /// process's alone. `raw` is the frame with the header that is before it on the queue.
    pub(crate) fn takes(&self, frame: &[u8], raw: &[u8]) -> bool {
        if self.is_gone.load(Ordering::Relaxed) {
            return false;
        }
        match subject(frame) {
            Subject::Flow(flow) => match self.flows.get(&canonical(flow)) {
                Some(&way) => self.pass_on(way, raw),
                None => false,
            },
            Subject::Neighbours => {
                // The worker there gives it to the others.
                self.pass_on(0, raw);
                false
            }
            Subject::Other => false,
        }
    }

    /// False if the other process is gone: what was its own is this one's, which knows nothing of it.
    fn pass_on(&self, way: usize, raw: &[u8]) -> bool {
        let count = match send(
            &self.ways[way],
            raw,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(_) => &self.passed_on,
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNREFUSED) => {
                self.is_gone.store(true, Ordering::Relaxed);
                return false;
            }
            Err(_) => &self.dropped,
        };
        count.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// The one of both directions that is the lesser.
fn canonical(flow: FlowKey) -> FlowKey {
    flow.min(flow.reversed())
}

/// A port can't be shared.
pub(crate) fn unshared() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "only queues of a TAP device can be handed over",
    )
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;

    const OURS: ([u8; 4], u16) = ([10, 9, 0, 2], 443);
    const PEER: ([u8; 4], u16) = ([10, 9, 0, 1], 40_000);

    fn ethernet(kind: u16) -> Vec<u8> {
        [&[0; 12][..], &kind.to_be_bytes()].concat()
    }

    /// An IPv4 packet of this protocol.
    fn ip(protocol: u8, src: [u8; 4], dst: [u8; 4], upper: &[u8]) -> Vec<u8> {
        let len = (20 + upper.len() as u16).to_be_bytes();
        let head = [0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        [&head[..], &src, &dst, upper].concat()
    }

    fn tcp(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> Vec<u8> {
        let mut upper = vec![0; 20];
        upper[..2].copy_from_slice(&src.1.to_be_bytes());
        upper[2..4].copy_from_slice(&dst.1.to_be_bytes());
        upper[12] = 0x50;
        ip(6, src.0, dst.0, &upper)
    }

    fn frame(packet: &[u8]) -> Vec<u8> {
        [ethernet(0x0800), packet.to_vec()].concat()
    }

    fn flow(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> FlowKey {
        FlowKey::new(SocketAddr::from(src), SocketAddr::from(dst))
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// What has come to the other process.
    fn came(way: &OwnedFd) -> Option<Vec<u8>> {
        let mut bytes = [0; 2048];
        let (_, len) = recv(way, &mut bytes, RecvFlags::empty()).ok()?;
        Some(bytes[..len].to_vec())
    }

    #[test]
    fn frames_of_the_other_processs_flows_are_passed_on_whole_and_others_are_not() {
        let (other, theirs) = pair();
        let passing = Passing::new(vec![(other, vec![flow(OURS, PEER)])]);
        let mut raw = vec![7; 12];
        let its = frame(&tcp(PEER, OURS));
        raw.extend_from_slice(&its);
        assert!(passing.takes(&its, &raw));
        assert_eq!(came(&theirs), Some(raw));
        let own = frame(&tcp((PEER.0, 40_001), OURS));
        assert!(!passing.takes(&own, &own));
        assert_eq!(came(&theirs), None);
        assert_eq!(passing.counts(), (1, 0));
    }

    #[test]
    fn an_icmp_error_goes_where_the_packet_goes_that_it_quotes() {
        let (other, theirs) = pair();
        let passing = Passing::new(vec![(other, vec![flow(OURS, PEER)])]);
        let quoted = tcp(OURS, PEER);
        let message = [&[3, 4, 0, 0, 0, 0, 0x05, 0][..], &quoted].concat();
        let error = frame(&ip(1, [10, 9, 0, 9], OURS.0, &message));
        assert!(passing.takes(&error, &error));
        assert!(came(&theirs).is_some());
    }

    #[test]
    fn what_neighbours_say_is_heard_by_both_and_by_one_worker_of_the_other() {
        let (ways, theirs): (Vec<_>, Vec<_>) = (0..2).map(|_| pair()).unzip();
        let passing = Passing::new(ways.into_iter().map(|way| (way, Vec::new())).collect());
        let arp = [&ethernet(0x0806)[..], &[0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
        assert!(!passing.takes(&arp, &arp));
        let heard = theirs.iter().filter_map(came);
        assert_eq!(heard.count(), 1, "that worker gives it to the others");
    }

    #[test]
    fn what_finds_no_room_is_lost_and_what_the_other_process_has_left_is_not_passed_on() {
        let (other, theirs) = pair();
        let passing = Passing::new(vec![(other, vec![flow(OURS, PEER)])]);
        let its = frame(&tcp(PEER, OURS));
        while passing.counts().1 == 0 {
            assert!(passing.takes(&its, &its));
        }
        drop(theirs);
        assert!(!passing.takes(&its, &its));
        assert!(!passing.takes(&its, &its));
    }
}
