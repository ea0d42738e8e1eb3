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
//! The two share the queue's open file. The successor reads it, knows the flows that the predecessor had when it stopped to read, and the
//! local ports from which that one may still open others, and passes their frames on as they came, header of virtio-net and all. A call of
//! the system and a copy are what that costs for each frame that is passed on, until the last of those connections has ended.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use wire::FlowKey;
use wire::packet::{Steering, Subject, subject};

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

/// Local ports of outgoing connections: those of a range but for some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    range: Range<u32>,
    /// Those that are not meant, sorted, each once.
    except: Vec<u16>,
}

impl Ports {
    /// Those of `range` but for `except`.
    #[must_use]
    pub fn new(range: Range<u32>, mut except: Vec<u16>) -> Ports {
        except.retain(|&port| range.contains(&port.into()));
        except.sort_unstable();
        except.dedup();
        Ports { range, except }
    }

    /// The range.
    #[must_use]
    pub fn range(&self) -> &Range<u32> {
        &self.range
    }

    /// Those of the range that are not meant, in their order.
    #[must_use]
    pub fn except(&self) -> &[u16] {
        &self.except
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn has(&self, port: u16) -> bool {
        self.range.contains(&port.into()) && self.except.binary_search(&port).is_err()
    }
}

/// The connections of another process with the same addresses: those that it has, and all that it may still open.
#[derive(Debug)]
pub struct Foreign {
    /// The worker there, of flows from the peer to here. Peers choose them: the hash has a secret key.
    flows: HashMap<FlowKey, usize>,
    ports: Ports,
    steering: Steering,
}

impl Foreign {
    /// Flows from here to their peers, by worker; the local ports from which others may be opened; and which worker those are.
    #[must_use]
    pub fn new(flows: Vec<Vec<FlowKey>>, ports: Ports, steering: Steering) -> Foreign {
        let by_worker = flows.into_iter().enumerate();
        let flows = by_worker.flat_map(|(worker, of_it)| {
            let inward = of_it.into_iter().map(|flow| flow.reversed());
            inward.map(move |flow| (flow, worker))
        });
        Foreign {
            flows: flows.collect(),
            ports,
            steering,
        }
    }

    /// The worker there that a flow is, or would be; the flow is given as it comes, from the peer to here. `None`: it is none of that process's.
    #[must_use]
    pub fn worker(&self, flow: &FlowKey) -> Option<usize> {
        let known = self.flows.get(flow).copied();
        known.or_else(|| {
            let is_its = self.ports.has(flow.dst.1);
            is_its.then(|| self.steering.worker(flow))
        })
    }
}

/// Frames that are another process's, and the ways to there.
#[derive(Debug)]
pub struct Passing {
    foreign: Arc<Foreign>,
    /// A socket to each worker of the other process.
    ways: Vec<OwnedFd>,
    is_gone: AtomicBool,
}

/// What has become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassOutcome {
    /// It is this process's.
    Not,
    /// This process's, and the other one has a copy.
    Copied,
    /// It is the other process's, which has it.
    On,
    /// The same, but it found no room on the way.
    Lost,
}

impl Passing {
    /// Passes on by each of these ways, to a worker each, the frames of these connections, in either direction.
    #[must_use]
    pub fn new(foreign: Arc<Foreign>, ways: Vec<OwnedFd>) -> Passing {
        Passing {
            foreign,
            ways,
            is_gone: AtomicBool::new(false),
        }
    }

    /// Passes a frame on if it is the other process's, which gets a copy too of what neighbours say of themselves. `raw` is the frame with
    /// the header that is before it on the queue.
    pub(crate) fn take(&self, frame: &[u8], raw: &[u8]) -> PassOutcome {
        if self.is_gone.load(Ordering::Relaxed) {
            return PassOutcome::Not;
        }
        match subject(frame) {
            Subject::Flow(flow) => match self.foreign.worker(&flow) {
                Some(worker) => self.pass_on(worker, raw),
                None => PassOutcome::Not,
            },
            // The worker there gives it to the others.
            Subject::Neighbours => match self.pass_on(0, raw) {
                PassOutcome::On => PassOutcome::Copied,
                _ => PassOutcome::Not,
            },
            Subject::Other => PassOutcome::Not,
        }
    }

    /// [`PassOutcome::Not`] if the other process is gone: what was its own is this one's, which knows nothing of it.
    fn pass_on(&self, worker: usize, raw: &[u8]) -> PassOutcome {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(&self.ways[worker], raw, flags) {
            Ok(_) => PassOutcome::On,
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNREFUSED) => {
                self.is_gone.store(true, Ordering::Relaxed);
                PassOutcome::Not
            }
            Err(_) => PassOutcome::Lost,
        }
    }
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

    /// A process with one worker that has this connection, and may open others from some ports.
    fn foreign() -> Arc<Foreign> {
        let ports = Ports {
            range: 60_000..60_100,
            except: vec![60_007],
        };
        let flows = vec![vec![flow(OURS, PEER)]];
        Arc::new(Foreign::new(flows, ports, Steering::new(&[7; 16], 1)))
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
        let passing = Passing::new(foreign(), vec![other]);
        let mut raw = vec![7; 12];
        let its = frame(&tcp(PEER, OURS));
        raw.extend_from_slice(&its);
        assert_eq!(passing.take(&its, &raw), PassOutcome::On);
        assert_eq!(came(&theirs), Some(raw));
        let own = frame(&tcp((PEER.0, 40_001), OURS));
        assert_eq!(passing.take(&own, &own), PassOutcome::Not);
        assert_eq!(came(&theirs), None);
    }

    #[test]
    fn what_comes_for_ports_that_were_left_to_the_other_process_is_passed_on() {
        let (other, theirs) = pair();
        let passing = Passing::new(foreign(), vec![other]);
        let backend = ([10, 9, 0, 1], 8080);
        let answer = |port| frame(&tcp(backend, (OURS.0, port)));
        for (port, passed) in [
            (60_000, PassOutcome::On),
            (60_099, PassOutcome::On),
            (59_999, PassOutcome::Not),
            (60_100, PassOutcome::Not),
            // There the successor listens.
            (60_007, PassOutcome::Not),
        ] {
            let answer = answer(port);
            assert_eq!(passing.take(&answer, &answer), passed, "port {port}");
            assert_eq!(came(&theirs).is_some(), passed == PassOutcome::On);
        }
        // A peer's port of that range is no port of ours.
        let client = frame(&tcp((PEER.0, 60_001), OURS));
        assert_eq!(passing.take(&client, &client), PassOutcome::Not);
        let quoted = tcp((OURS.0, 60_001), backend);
        let message = [&[3, 4, 0, 0, 0, 0, 0x05, 0][..], &quoted].concat();
        let error = frame(&ip(1, [10, 9, 0, 9], OURS.0, &message));
        assert_eq!(passing.take(&error, &error), PassOutcome::On);
    }

    #[test]
    fn of_several_workers_each_gets_what_its_own_steering_would_give_it() {
        let (ways, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| pair()).unzip();
        let ports = Ports {
            range: 60_000..60_100,
            except: Vec::new(),
        };
        let steering = Steering::new(&[7; 16], 3);
        let foreign = Foreign::new(vec![Vec::new(); 3], ports, steering);
        let passing = Passing::new(Arc::new(foreign), ways);
        for port in 60_000..60_100 {
            let outward = flow((OURS.0, port), PEER);
            let answer = frame(&tcp(PEER, (OURS.0, port)));
            assert_eq!(passing.take(&answer, &answer), PassOutcome::On);
            assert!(came(&theirs[steering.worker(&outward)]).is_some());
        }
    }

    #[test]
    fn an_icmp_error_goes_where_the_packet_goes_that_it_quotes() {
        let (other, theirs) = pair();
        let passing = Passing::new(foreign(), vec![other]);
        let quoted = tcp(OURS, PEER);
        let message = [&[3, 4, 0, 0, 0, 0, 0x05, 0][..], &quoted].concat();
        let error = frame(&ip(1, [10, 9, 0, 9], OURS.0, &message));
        assert_eq!(passing.take(&error, &error), PassOutcome::On);
        assert!(came(&theirs).is_some());
    }

    #[test]
    fn what_neighbours_say_is_heard_by_both_and_by_one_worker_of_the_other() {
        let (ways, theirs): (Vec<_>, Vec<_>) = (0..2).map(|_| pair()).unzip();
        let passing = Passing::new(foreign(), ways);
        let arp = [&ethernet(0x0806)[..], &[0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
        assert_eq!(passing.take(&arp, &arp), PassOutcome::Copied);
        let heard = theirs.iter().filter_map(came);
        assert_eq!(heard.count(), 1, "that worker gives it to the others");
    }

    #[test]
    fn what_finds_no_room_is_lost_and_what_the_other_process_has_left_is_not_passed_on() {
        let (other, theirs) = pair();
        let passing = Passing::new(foreign(), vec![other]);
        let its = frame(&tcp(PEER, OURS));
        while passing.take(&its, &its) == PassOutcome::On {}
        assert_eq!(passing.take(&its, &its), PassOutcome::Lost);
        drop(theirs);
        assert_eq!(passing.take(&its, &its), PassOutcome::Not);
        assert_eq!(passing.take(&its, &its), PassOutcome::Not);
    }
}
