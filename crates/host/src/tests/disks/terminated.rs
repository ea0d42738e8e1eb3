//! Connections that one side ends by a TermReq (NVMe/TCP 1.0 §3.5.1).

use wire::nvme::command::{
    CONNECT_DATA_LEN, CompletionEntry, Configuration, ConnectData, DYNAMIC_CONTROLLER, DataPointer,
    Fabrics, Property, Status, SubmissionEntry,
};
use wire::nvme::{CapsuleCmd, FatalErrorStatus, ICReq, TermReq};

use super::*;
use crate::nvme::{FatalError, Framing, Negotiated, Pdu, PduOffload, Role, opening};
use crate::pdus::{DataDigest, Destination, PduData, PduError, PduSink};
use crate::tests::pair::Fate;
use crate::{CloseReason, SocketError, SocketId};

/// What came to a host that is played by hand.
#[derive(Default)]
struct Log(Vec<Pdu>);

impl PduSink<Framing> for Log {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        self.0.push(*pdu);
        Ok(Destination::Inline)
    }

    fn end(&mut self, _digest: DataDigest, _data: &[u8]) -> Result<(), FatalError> {
        Ok(())
    }
}

/// A queue whose host is played by hand.
struct ByHand {
    socket: SocketId,
    log: Log,
    end: Option<SocketError>,
    controller: u16,
}

impl ByHand {
    /// The admin queue of a controller of its own, and an I/O queue.
    fn connect(world: &mut World) -> [ByHand; 2] {
        let mut admin = ByHand::open(world);
        admin.controller = admin.join(world, 0, DYNAMIC_CONTROLLER);
        let enabled = u64::from(Configuration::ENABLED.0);
        let enable = Fabrics::PropertySet(Property::CC, enabled);
        admin.command(world, enable.entry(2), &[]);
        assert_eq!(admin.completion(world).status, Status::SUCCESS);
        let mut queue = ByHand::open(world);
        queue.controller = queue.join(world, 1, admin.controller);
        [admin, queue]
    }

    /// A connection on which PDUs go both ways.
    fn open(world: &mut World) -> ByHand {
        let (now, address) = (world.pair.now, SocketAddr::new(v4(SERVER), PORT));
        let socket = world.pair.stack(CLIENT).connect(now, address).unwrap();
        world.run_until(|world| {
            let (now, stack) = (world.pair.now, world.pair.stack(CLIENT));
            stack.start_pdus(now, socket, opening(Role::Host)).is_ok()
        });
        let mut host = ByHand {
            socket,
            log: Log::default(),
            end: None,
            controller: 0,
        };
        let request = ICReq {
            pfv: 0,
            hpda: 0,
            digests: Digests::NONE,
            max_r2t: 0,
        };
        host.send(world, &Pdu::ICReq(request), &[]);
        assert!(matches!(host.next(world), Pdu::ICResp(_)));
        let agreed = Negotiated {
            digests: Digests::NONE,
            hpda: 0,
            cpda: 0,
            max_pdu: 2 << 20,
            commands: 16,
            offload: PduOffload::NONE,
        };
        let (now, stack) = (world.pair.now, world.pair.stack(CLIENT));
        let agreed = stack.pdus_negotiated(now, socket, agreed.seen_by(Role::Host));
        assert_eq!(agreed, Ok(()));
        host
    }

    /// Makes it a queue of this number; gives the controller.
    fn join(&mut self, world: &mut World, queue: u16, controller: u16) -> u16 {
        let data = ConnectData {
            host_id: [9; 16],
            controller,
            subsystem: Nqn::new("nqn.2026-01.test:disk").unwrap(),
            host: Nqn::new("nqn.2014-08.org.nvmexpress:uuid:by-hand").unwrap(),
        };
        let connect = Fabrics::Connect {
            queue,
            entries: 32,
            no_flow_control: false,
            keep_alive: 0,
        };
        let pointer = DataPointer::InCapsule {
            offset: 0,
            len: CONNECT_DATA_LEN as u32,
        };
        let entry = connect.entry(1).with_data(pointer);
        self.command(world, entry, &data.to_bytes());
        let reply = self.completion(world);
        assert_eq!(reply.status, Status::SUCCESS);
        reply.dword0() as u16
    }

    fn completion(&mut self, world: &mut World) -> CompletionEntry {
        match self.next(world) {
            Pdu::CapsuleResp(reply) => CompletionEntry::parse(&reply.cqe),
            other => panic!("{other:?}"),
        }
    }

    fn send(&self, world: &mut World, pdu: &Pdu, data: &[u8]) {
        let (now, stack) = (world.pair.now, world.pair.stack(CLIENT));
        let sent = stack.send_pdu::<Framing>(now, self.socket, pdu, PduData::Bytes(data));
        assert_eq!(sent, Ok(()));
    }

    fn command(&self, world: &mut World, entry: SubmissionEntry, data: &[u8]) {
        let capsule = CapsuleCmd {
            sqe: entry.to_bytes(),
            data_len: data.len() as u32,
        };
        self.send(world, &Pdu::CapsuleCmd(capsule), data);
    }

    /// A write of 64 KiB, whose data the target asks for.
    fn write(&mut self, world: &mut World) {
        let blocks = blocks(0, 64 << 10);
        let pointer = DataPointer::Transport { len: 64 << 10 };
        let write = Io::Write { blocks, fua: false };
        self.command(world, write.entry(2, 1).with_data(pointer), &[]);
        assert!(matches!(self.next(world), Pdu::R2T(_)));
    }

    fn receive(&mut self, world: &mut World) {
        let (now, stack) = (world.pair.now, world.pair.stack(CLIENT));
        if let Err(error) = stack.receive_pdus(now, self.socket, &mut self.log)
            && self.end.is_none()
        {
            self.end = Some(error);
        }
    }

    /// The PDU that comes next.
    fn next(&mut self, world: &mut World) -> Pdu {
        let before = self.log.0.len();
        world.run_until(|world| {
            self.receive(world);
            self.log.0.len() > before
        });
        self.log.0[before]
    }

    fn is_known(&self, world: &World) -> bool {
        let mut queues = world.target.queues();
        queues.any(|(_, queue)| (queue.controller, queue.queue) == (self.controller, 1))
    }
}

/// The target stops, frees what the queue has, and closes the connection; other queues go on.
#[test]
fn a_queue_that_its_host_terminates_is_gone() {
    let mut world = World::new(1);
    let [_admin, mut host] = ByHand::connect(&mut world);
    host.write(&mut world);
    let in_use = world.target.memory().0;
    let header = [0x55; 24];
    let request = TermReq {
        error: FatalError::field(3),
        data_len: 24,
    };
    let began = world.pair.now;
    host.send(&mut world, &Pdu::H2CTermReq(request), &header);
    world.run_until(|world| {
        host.receive(world);
        host.end.is_some()
    });
    assert!(world.pair.now - began < Duration::from_secs(1));
    assert!(
        !host.is_known(&world)
            && !host
                .log
                .0
                .iter()
                .any(|pdu| matches!(pdu, Pdu::C2HTermReq(_)))
    );
    assert!(world.target.memory().0 < in_use, "its memory is free");
    let blocks = blocks(0, BLOCK);
    world.submit(Io::Write { blocks, fua: false }, BLOCK);
    world.succeed(1);
}

/// It does not send the data that it was asked for. The TermReq is lost once, and the host sends something meanwhile: a reset would take the TermReq away.
#[test]
fn a_host_that_goes_on_sending_is_told_why_its_queue_ends() {
    let mut world = World::new(1);
    let [_admin, mut host] = ByHand::connect(&mut world);
    host.write(&mut world);
    // The queue's end is the target's doing, 30 s later.
    let began = world.pair.now;
    world.run_until(|world| world.pair.now - began > Duration::from_secs(29));
    let mut lost = 0;
    world.pair.wire = Box::new(move |from, frame| {
        let parsed = wire::packet::parse(frame).ok();
        let payload = parsed.map_or(0, |parsed| parsed.payload_offset);
        let is_term_req = from == SERVER && payload > 0 && frame.get(payload) == Some(&3);
        lost += u32::from(is_term_req);
        match is_term_req && lost == 1 {
            true => Fate::Drop,
            false => Fate::Pass,
        }
    });
    world.run_until(|world| !host.is_known(world));
    let request = Fabrics::PropertyGet(Property::VS);
    host.command(&mut world, request.entry(3), &[]);
    let Pdu::C2HTermReq(request) = host.next(&mut world) else {
        panic!("{:?}", host.log.0);
    };
    assert_eq!(request.error.fes, FatalErrorStatus::SEQUENCE);
    world.run_until(|world| {
        host.receive(world);
        host.end.is_some()
    });
    let told = PduError::of::<Framing>(FatalError::of(FatalErrorStatus::SEQUENCE));
    let end = CloseReason::PeerRefusedPdu(told);
    assert_eq!(host.end, Some(SocketError::Closed(end)));
}
