//! A queue against hand-made PDUs.

mod negotiation;
mod properties;
mod reads;
mod writes;

use wire::nvme::command::{
    Blocks, CompletionEntry, ConnectReply, DYNAMIC_CONTROLLER, Io, SubmissionEntry,
};
use wire::nvme::{C2HData, CapsuleResp, ICResp, Nqn, Pdu, R2T};

use super::*;

fn config() -> QueueConfig {
    QueueConfig {
        id: 1,
        depth: 8,
        digests: Digests::NONE,
        hpda: 0,
        max_r2ts: 2,
        max_h2c_data: 1 << 20,
        in_capsule: 8192,
        max_transfer: 1 << 20,
        no_flow_control: true,
        keep_alive: 0,
        identity: ConnectData {
            host_id: [1; 16],
            controller: DYNAMIC_CONTROLLER,
            subsystem: Nqn::DISCOVERY,
            host: "nqn.2014-08.org.nvmexpress:uuid:host".parse().unwrap(),
        },
    }
}

fn icresp(digests: Digests) -> Pdu {
    Pdu::ICResp(ICResp {
        pfv: 0,
        cpda: 0,
        digests,
        max_h2c_data: 64 << 10,
    })
}

fn response(cid: u16, status: Status, result: u64) -> Pdu {
    let entry = CompletionEntry {
        result,
        sq_head: 0xffff,
        cid,
        status,
    };
    Pdu::CapsuleResp(CapsuleResp {
        cqe: entry.to_bytes(),
    })
}

fn data(cccid: u16, data_offset: u32, data_len: u32, last: bool, success: bool) -> Pdu {
    Pdu::C2HData(C2HData {
        cccid,
        data_offset,
        data_len,
        last,
        success,
    })
}

fn r2t(cccid: u16, ttag: u16, offset: u32, len: u32) -> Pdu {
    Pdu::R2T(R2T {
        cccid,
        ttag,
        offset,
        len,
    })
}

/// Takes in a PDU as bytes under the queue's framing.
fn take(queue: &mut Queue, pdu: Pdu) -> Result<Incoming, FatalError> {
    let mut framing = queue.framing(Role::Controller);
    framing.max_pdu = u32::MAX;
    let mut bytes = [0; wire::nvme::MAX_HEADER_LEN];
    let len = pdu.emit(&framing, &mut bytes);
    let incoming = queue.handle_header(&Pdu::parse(&bytes[..len], &framing)?)?;
    queue.handle_end(true);
    Ok(incoming)
}

fn poll(queue: &mut Queue) -> Outgoing {
    queue.poll_pdu().expect("a PDU is due")
}

fn ended(queue: &mut Queue) -> Ended {
    match queue.poll_event() {
        Some(QueueEvent::Ended(ended)) => ended,
        other => panic!("a command should have ended: {other:?}"),
    }
}

/// A queue that is connected.
fn live_with(config: QueueConfig) -> Queue {
    let mut queue = Queue::new(config);
    assert!(matches!(poll(&mut queue).pdu, Pdu::ICReq(_)));
    let digests = queue.config().digests;
    take(&mut queue, icresp(digests)).unwrap();
    assert!(matches!(
        queue.poll_event(),
        Some(QueueEvent::Negotiated(_))
    ));
    assert!(matches!(poll(&mut queue).pdu, Pdu::CapsuleCmd(_)));
    let accepted = ConnectReply::Accepted {
        controller: 7,
        authentication: false,
    };
    let result = u64::from(accepted.to_dword());
    take(&mut queue, response(0, Status::SUCCESS, result)).unwrap();
    let connected = QueueEvent::Connected { controller: 7 };
    assert_eq!(queue.poll_event(), Some(connected));
    queue
}

fn live() -> Queue {
    live_with(config())
}

fn blocks(len: u32) -> Blocks {
    Blocks {
        start: 0,
        count: len / 512,
    }
}

fn token(n: u32) -> CommandId {
    CommandId::internal(n)
}

/// Submits a command, and gives what is sent for it.
fn submit(queue: &mut Queue, io: Io, transfer: Transfer, n: u32) -> (u16, Outgoing) {
    assert!(queue.submit(io.entry(0, 1), transfer, token(n)));
    let outgoing = poll(queue);
    let begins = outgoing.begins.expect("a command begins");
    assert_eq!(begins.token, token(n));
    (begins.cid, outgoing)
}

fn read(queue: &mut Queue, len: u32, n: u32) -> u16 {
    let io = Io::Read {
        blocks: blocks(len),
        fua: false,
    };
    submit(queue, io, Transfer::ToHost(len), n).0
}

fn write(queue: &mut Queue, len: u32, n: u32) -> (u16, Outgoing) {
    let io = Io::Write {
        blocks: blocks(len),
        fua: false,
    };
    submit(queue, io, Transfer::ToController(len), n)
}

fn entry(outgoing: &Outgoing) -> SubmissionEntry {
    match &outgoing.pdu {
        Pdu::CapsuleCmd(capsule) => SubmissionEntry::parse(&capsule.sqe),
        other => panic!("not a command: {other:?}"),
    }
}
