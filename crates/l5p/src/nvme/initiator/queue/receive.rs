//! What comes in. All is checked when a header comes, before a byte of its data is placed (NVMe/TCP 1.0 §3.5).

use wire::nvme::command::{CompletionEntry, Status};
use wire::nvme::{C2HData, CapsuleResp, FatalError, FatalErrorStatus, Pdu, R2T, TermReq};

use super::{CONNECT_CID, Grant, Incoming, Queue, QueueEvent, State, Transfer};
use crate::pdus::Refused;

/// Where fields are in the headers: what a refusal names.
mod at {
    pub(super) const FLAGS: u32 = 1;
    pub(super) const CCCID: u32 = 8;
    pub(super) const OFFSET: u32 = 12;
    /// CID in the completion queue entry of a CapsuleResp.
    pub(super) const RESPONSE_CID: u32 = 8 + 12;
}

/// What the end of the PDU, whose header came last, does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Current {
    Nothing,
    Completion(CompletionEntry),
    Data { cid: u16, completes: bool },
    Terminated(TermReq),
}

const SEQUENCE: FatalError = FatalError::of(FatalErrorStatus::SEQUENCE);
const OUT_OF_RANGE: FatalError = FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE);
const LIMIT: FatalError = FatalError::of(FatalErrorStatus::LIMIT_EXCEEDED);

impl Queue {
    /// Takes in a header that obeys [`Queue::framing`], and says where its data goes. [`Queue::handle_end`] must
    /// follow before the next header.
    ///
    /// # Errors
    /// What the connection must be terminated for. The queue is closed then, but [`Queue::close`] is still to be
    /// called for the commands in flight.
    pub fn handle_header(&mut self, pdu: &Pdu) -> Result<Incoming, FatalError> {
        self.current = Current::Nothing;
        match pdu {
            _ if self.state == State::Closed => Err(SEQUENCE),
            Pdu::ICResp(response) => self.handle_icresp(response).map(|()| Incoming::Nothing),
            Pdu::C2HTermReq(request) => {
                self.current = Current::Terminated(*request);
                Ok(Incoming::Discard)
            }
            Pdu::CapsuleResp(response) => self.handle_response(response),
            Pdu::C2HData(data) => self.handle_data(data),
            Pdu::R2T(r2t) => self.handle_r2t(r2t),
            Pdu::ICReq(_) | Pdu::H2CTermReq(_) | Pdu::CapsuleCmd(_) | Pdu::H2CData(_) => {
                Err(FatalError::field(0))
            }
        }
    }

    /// All of the PDU has come whose header came last. `intact`: its data digest was right, or it has no data digest.
    pub fn handle_end(&mut self, intact: bool) {
        match std::mem::replace(&mut self.current, Current::Nothing) {
            Current::Nothing => {}
            Current::Completion(entry) if self.state == State::Connecting => {
                self.handle_connect_reply(&entry);
            }
            Current::Completion(entry) => self.end(entry.cid, entry.status, entry.result),
            Current::Data { cid, completes } => {
                if let Some((command, _)) = self.commands.get_mut(cid) {
                    command.damaged |= !intact;
                }
                if completes {
                    self.end(cid, Status::SUCCESS, 0);
                }
            }
            Current::Terminated(request) => {
                self.events.push_back(QueueEvent::Terminated(request.error));
            }
        }
    }

    fn handle_response(&mut self, response: &CapsuleResp) -> Result<Incoming, FatalError> {
        let entry = CompletionEntry::parse(&response.cqe);
        match self.state {
            State::Connecting if entry.cid == CONNECT_CID => {}
            State::Live => self.check_completion(&entry)?,
            State::Connecting => return Err(FatalError::field(at::RESPONSE_CID)),
            _ => return Err(SEQUENCE),
        }
        self.current = Current::Completion(entry);
        Ok(Incoming::Nothing)
    }

    /// A completion must be that of a command that was sent. One that reports success must have moved all data: what
    /// comes later would be written into memory that the command's owner has back.
    fn check_completion(&mut self, entry: &CompletionEntry) -> Result<(), FatalError> {
        let command = self.commands.get_mut(entry.cid);
        let Some((command, covered)) = command.filter(|(command, _)| command.sent) else {
            return Err(FatalError::field(at::RESPONSE_CID));
        };
        let owing = covered.bytes() != command.transfer.len() || command.r2ts > 0;
        if entry.status.is_success() && owing {
            return Err(SEQUENCE);
        }
        Ok(())
    }

    fn handle_data(&mut self, data: &C2HData) -> Result<Incoming, FatalError> {
        if self.state != State::Live {
            return Err(SEQUENCE);
        }
        let (cid, offset, len) = (data.cccid, data.data_offset, data.data_len);
        let command = self.commands.get_mut(cid);
        let Some((command, covered)) = command.filter(|(command, _)| command.sent) else {
            return Err(FatalError::field(at::CCCID));
        };
        let Transfer::ToHost(expected) = command.transfer else {
            return Err(SEQUENCE);
        };
        if command.last {
            return Err(SEQUENCE);
        }
        if u64::from(offset) + u64::from(len) > u64::from(expected) {
            return Err(OUT_OF_RANGE);
        }
        if data.success && !data.last {
            return Err(FatalError::field(at::FLAGS));
        }
        covered.add(offset, len).map_err(refusal(SEQUENCE))?;
        if data.success && covered.bytes() != expected {
            return Err(FatalError::field(at::FLAGS));
        }
        command.last = data.last;
        self.current = Current::Data {
            cid,
            completes: data.success,
        };
        Ok(Incoming::Data {
            cid,
            token: command.token,
            offset,
            len,
        })
    }

    fn handle_r2t(&mut self, r2t: &R2T) -> Result<Incoming, FatalError> {
        if self.state != State::Live {
            return Err(SEQUENCE);
        }
        let generation = self.commands.generation(r2t.cccid);
        let command = self.commands.get_mut(r2t.cccid);
        let (Some(generation), Some((command, covered))) =
            (generation, command.filter(|(command, _)| command.sent))
        else {
            return Err(FatalError::field(at::CCCID));
        };
        let Transfer::ToController(expected) = command.transfer else {
            return Err(FatalError::field(at::CCCID));
        };
        if u64::from(r2t.offset) + u64::from(r2t.len) > u64::from(expected) {
            return Err(OUT_OF_RANGE);
        }
        if command.r2ts >= self.config.max_r2ts.max(1) {
            return Err(LIMIT);
        }
        let again = FatalError::field(at::OFFSET);
        covered.add(r2t.offset, r2t.len).map_err(refusal(again))?;
        command.r2ts += 1;
        self.grants.push_back(Grant {
            cid: r2t.cccid,
            generation,
            ttag: r2t.ttag,
            offset: r2t.offset,
            len: r2t.len,
        });
        Ok(Incoming::Nothing)
    }
}

/// Bytes that come, or are asked for, `again`; or in more pieces than anybody needs.
fn refusal(again: FatalError) -> impl Fn(Refused) -> FatalError {
    move |refused| match refused {
        Refused::Overlap => again,
        Refused::Scattered => LIMIT,
    }
}
