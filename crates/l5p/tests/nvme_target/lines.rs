//! What a target says and is told, as lines of text.

use l5p::nvme::target::{Action, CommandRef, ConnectionId, Operation, Owner, Place};
use testkit::written;
use wire::nvme::command::{CompletionEntry, DataPointer, SubmissionEntry};
use wire::nvme::{CapsuleCmd, Pdu};

pub fn connection(id: ConnectionId) -> String {
    match id.machine() {
        0 => format!("c{}", id.index()),
        machine => format!("m{machine}c{}", id.index()),
    }
}

pub fn command(command: CommandRef) -> String {
    format!("{}.{}", connection(command.connection), command.slot)
}

/// A PDU with its data.
pub fn pdu(pdu: &Pdu, data: &[u8]) -> String {
    let mut text = match pdu {
        Pdu::CapsuleCmd(capsule) => submission(capsule),
        Pdu::CapsuleResp(response) => completion(&CompletionEntry::parse(&response.cqe)),
        Pdu::ICReq(request) => format!("{request:?}"),
        Pdu::ICResp(response) => format!("{response:?}"),
        Pdu::H2CData(data) => format!("{data:?}"),
        Pdu::C2HData(data) => format!("{data:?}"),
        Pdu::R2T(r2t) => format!("{r2t:?}"),
        Pdu::H2CTermReq(request) | Pdu::C2HTermReq(request) => format!("{request:?}"),
    };
    if !data.is_empty() {
        text = format!("{text} | {}", written::bytes(data));
    }
    text
}

fn submission(capsule: &CapsuleCmd) -> String {
    let entry = SubmissionEntry::parse(&capsule.sqe);
    let data = match entry.data {
        DataPointer::NONE => String::new(),
        DataPointer::InCapsule { offset: 0, len } => format!(" in capsule {len}"),
        DataPointer::Transport { len } => format!(" data {len}"),
        other => format!(" {other:?}"),
    };
    let (opcode, cid, nsid) = (entry.opcode, entry.cid, entry.nsid);
    let dwords: Vec<String> = entry
        .cdw10
        .iter()
        .map(|dword| format!("{dword:x}"))
        .collect();
    let dwords = dwords.join(" ");
    let flags = entry.flags;
    format!("command {opcode:02x} {flags:02x} cid {cid} nsid {nsid:x}{data} [{dwords}]")
}

fn completion(entry: &CompletionEntry) -> String {
    let CompletionEntry {
        result,
        sq_head,
        cid,
        status,
    } = entry;
    format!("response cid {cid} {status}, result {result:x} head {sq_head}")
}

/// Where data belongs.
pub fn place(place: Place) -> String {
    match place {
        Place::InCapsule { command: at, len } => format!("{len} in the capsule of {}", command(at)),
        Place::Command {
            command: at,
            offset,
            len,
        } => format!("{len} at {offset} of {}", command(at)),
        other => format!("{other:?}"),
    }
}

pub fn action(action: &Action) -> String {
    match *action {
        Action::Buffer {
            command: of,
            len,
            filled_by,
        } => format!("buffer {} {len} {filled_by:?}", command(of)),
        Action::Store(request) => {
            let owner = match request.owner {
                Owner::Command(of) => command(of),
                Owner::Controller(_) => "shutdown".into(),
            };
            format!(
                "store {} for {owner}: {}",
                request.store.0,
                operation(&request.operation)
            )
        }
        Action::Release(of) => format!("release {}", command(of)),
        Action::Close {
            connection: of,
            why,
        } => format!("close {}: {why}", connection(of)),
        Action::Wake { machine } => format!("wake {machine}"),
    }
}

fn operation(operation: &Operation) -> String {
    format!("{operation:?}").replace("{ ", "").replace(" }", "")
}
