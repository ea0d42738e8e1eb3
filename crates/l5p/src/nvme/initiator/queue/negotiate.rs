//! The connection's beginning: ICReq, ICResp, Connect (NVMe/TCP 1.0 §3.4.1, NVMe Base 2.0 §6.3).

use wire::nvme::command::{CONNECT_DATA_LEN, CompletionEntry, ConnectReply, DataPointer, Fabrics};
use wire::nvme::{CapsuleCmd, FatalError, FatalErrorStatus, ICReq, ICResp, Pdu};

use super::{CONNECT_CID, Negotiated, Outgoing, Payload, Queue, QueueEvent, State};

/// Header, digests and padding of the longest PDU header.
const MAX_OVERHEAD: u32 = 256;
/// Where DGST is in ICResp.
const DGST_AT: u32 = 11;

impl Queue {
    /// ICReq, or Connect, if it is its turn.
    pub(super) fn poll_opening(&mut self) -> Option<Outgoing> {
        match self.state {
            State::Fresh => {
                self.state = State::Initializing;
                Some(Outgoing {
                    pdu: Pdu::ICReq(ICReq {
                        pfv: 0,
                        hpda: self.config.hpda,
                        digests: self.config.digests,
                        max_r2t: self.config.max_r2ts.max(1) - 1,
                    }),
                    payload: Payload::None,
                    begins: None,
                })
            }
            State::Negotiated => {
                self.state = State::Connecting;
                Some(self.connect())
            }
            _ => None,
        }
    }

    fn connect(&self) -> Outgoing {
        let data = DataPointer::InCapsule {
            offset: 0,
            len: CONNECT_DATA_LEN as u32,
        };
        let connect = Fabrics::Connect {
            queue: self.config.id,
            entries: u32::from(self.config.depth) + 1,
            no_flow_control: self.config.no_flow_control,
            keep_alive: self.config.keep_alive,
        };
        Outgoing {
            pdu: Pdu::CapsuleCmd(CapsuleCmd {
                sqe: connect.entry(CONNECT_CID).with_data(data).to_bytes(),
                data_len: CONNECT_DATA_LEN as u32,
            }),
            payload: Payload::Connect(Box::new(self.config.identity)),
            begins: None,
        }
    }

    /// ICResp came. The digests must be those that were asked for, as Linux's host insists: fewer would leave data
    /// unprotected that was to be protected, more were never offered.
    pub(super) fn handle_icresp(&mut self, response: &ICResp) -> Result<(), FatalError> {
        if self.state != State::Initializing {
            return Err(FatalError::of(FatalErrorStatus::SEQUENCE));
        }
        if response.digests != self.config.digests {
            return Err(FatalError::field(DGST_AT));
        }
        let negotiated = Negotiated {
            digests: response.digests,
            cpda: response.cpda,
            hpda: self.config.hpda,
            max_h2c_data: response.max_h2c_data,
            max_pdu: self.config.max_transfer.saturating_add(MAX_OVERHEAD),
        };
        self.negotiated = Some(negotiated);
        self.state = State::Negotiated;
        self.events.push_back(QueueEvent::Negotiated(negotiated));
        Ok(())
    }

    /// The completion of Connect came.
    pub(super) fn handle_connect_reply(&mut self, reply: &CompletionEntry) {
        let success = reply.status.is_success();
        let event = match ConnectReply::from_dword(reply.dword0(), success) {
            ConnectReply::Accepted {
                authentication: true,
                ..
            } => QueueEvent::AuthenticationRequired,
            ConnectReply::Accepted { controller, .. } => QueueEvent::Connected { controller },
            reply_dword => QueueEvent::Refused {
                status: reply.status,
                reply: reply_dword,
            },
        };
        self.state = match event {
            QueueEvent::Connected { .. } => State::Live,
            _ => State::Closed,
        };
        self.events.push_back(event);
    }
}
