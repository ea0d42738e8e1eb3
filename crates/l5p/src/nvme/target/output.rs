//! PDUs to the host.

use std::time::Instant;

use wire::nvme::command::CompletionEntry;
use wire::nvme::{C2HData, CapsuleResp, Digests, ICResp, Pdu, R2T};

use super::action::{Action, Outgoing, Source};
use super::answer::{PIECE, View};
use super::command::{Command, State, Work};
use super::connection::{Connection, Phase};
use super::ids::{CommandRef, ConnectionId};
use super::machine::Target;

/// What a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The digests of both directions.
    pub digests: Digests,
    /// HPDA: how the host wants data aligned; data for the controller is not aligned (CPDA is 0).
    pub alignment: u8,
}

/// What the first command that is ready sends next.
enum Next {
    Data { sent: u32, len: u32 },
    Ask { offset: u32, len: u32 },
    Respond,
}

impl Target {
    /// What `id` agreed on: the framing of the PDUs behind the ICResp.
    #[must_use]
    pub fn negotiated(&self, id: ConnectionId) -> Option<Negotiated> {
        let connection = self.connections.get(id.index, id.generation)?;
        Some(Negotiated {
            digests: connection.digests,
            alignment: connection.alignment,
        })
    }

    /// The next PDU for the host. It stays the next one until [`Target::pdu_sent`] says that it was sent.
    pub fn peek_pdu(&mut self, now: Instant, id: ConnectionId) -> Option<Outgoing<'_>> {
        self.now = now;
        let connection = self.connections.get_mut(id.index, id.generation)?;
        if let Phase::Answering { .. } = connection.phase {
            let answer = connection.ic_resp(self.config.limits.h2c_data);
            return Some(without_data(Pdu::ICResp(answer)));
        }
        let (slot, next) = connection.next()?;
        let command = connection.command(slot).expect("it is ready");
        let (sent, len) = match next {
            Next::Respond => {
                return Some(without_data(Pdu::CapsuleResp(connection.response(command))));
            }
            Next::Ask { offset, len } => {
                return Some(without_data(Pdu::R2T(R2T {
                    cccid: command.cid,
                    ttag: slot,
                    offset,
                    len,
                })));
            }
            Next::Data { sent, len } => (sent, len),
        };
        let piece = piece(&command.work, len - sent, self.config.limits.c2h_data);
        let pdu = Pdu::C2HData(connection.c2h_data(command, sent, piece, sent + piece == len));
        let Work::Answer(answer) = &command.work else {
            let data = Source::Command {
                command: CommandRef {
                    connection: id,
                    slot,
                },
                offset: sent,
                len: piece,
            };
            return Some(Outgoing { pdu, data });
        };
        let Phase::Admin(controller) = connection.phase else {
            unreachable!("only admin queues have such commands");
        };
        let view = View {
            config: &self.config,
            subsystems: &self.subsystems,
            controller: self
                .controllers
                .get(controller.index, controller.generation)?,
            shared: &self.shared,
            discovery_generation: self.discovery_generation,
            now,
        };
        let bytes = &mut self.piece[..piece as usize];
        answer.write(&view, sent.into(), bytes);
        Some(Outgoing {
            pdu,
            data: Source::Bytes(bytes),
        })
    }

    /// The PDU of [`Target::peek_pdu`] has been handed to the connection.
    pub fn pdu_sent(&mut self, id: ConnectionId) {
        let c2h_data = self.config.limits.c2h_data;
        let r2t_deadline = self.now + self.config.limits.r2t;
        let Some(connection) = self.connections.get_mut(id.index, id.generation) else {
            return;
        };
        if let Phase::Answering { deadline } = connection.phase {
            connection.phase = Phase::Connecting { deadline };
            return;
        }
        let Some((slot, next)) = connection.next() else {
            return;
        };
        let success_is_response = connection.no_flow_control;
        let command = connection.command_mut(slot).expect("it is ready");
        match next {
            Next::Respond => {
                connection.unqueue();
                connection.finish(slot);
            }
            Next::Ask { .. } => {
                let State::Receiving(transfer) = &mut command.state else {
                    unreachable!("only they ask");
                };
                transfer.r2t_sent();
                if transfer.next_r2t().is_none() {
                    connection.unqueue();
                }
                connection.r2t_sent(r2t_deadline);
                self.expect_deadline(r2t_deadline);
            }
            Next::Data { sent, len } => {
                let sent = sent + piece(&command.work, len - sent, c2h_data);
                command.state = State::Sending { sent, len };
                if sent < len {
                    return;
                }
                let release = std::mem::replace(&mut command.buffer, false);
                if success_is_response {
                    connection.unqueue();
                    connection.finish(slot);
                } else {
                    command.state = State::Responding;
                }
                if release {
                    self.actions.push_back(Action::Release(CommandRef {
                        connection: id,
                        slot,
                    }));
                }
            }
        }
    }

    /// Whether `id` has something to send.
    #[must_use]
    pub fn has_pdu(&self, id: ConnectionId) -> bool {
        self.connections
            .get(id.index, id.generation)
            .is_some_and(|c| !c.ready.is_empty() || matches!(c.phase, Phase::Answering { .. }))
    }
}

/// Bytes of the next C2HData of a command that has `left` to send.
fn piece(work: &Work, left: u32, c2h_data: u32) -> u32 {
    let most = match work {
        Work::Answer(_) => PIECE as u32,
        _ => c2h_data,
    };
    most.min(left)
}

fn without_data(pdu: Pdu) -> Outgoing<'static> {
    Outgoing {
        pdu,
        data: Source::None,
    }
}

impl Connection {
    /// The first command that has something to send, and what.
    fn next(&mut self) -> Option<(u16, Next)> {
        loop {
            let slot = *self.ready.front()?;
            let next = match self.command(slot).map(|command| &command.state) {
                Some(State::Sending { sent, len }) => Some(Next::Data {
                    sent: *sent,
                    len: *len,
                }),
                Some(State::Responding) => Some(Next::Respond),
                Some(State::Receiving(transfer)) => {
                    let asked = transfer.next_r2t();
                    asked.map(|(offset, len)| Next::Ask { offset, len })
                }
                _ => None,
            };
            match next {
                Some(next) => return Some((slot, next)),
                None => self.unqueue(),
            }
        }
    }

    fn ic_resp(&self, max_h2c_data: u32) -> ICResp {
        ICResp {
            pfv: 0,
            cpda: 0,
            digests: self.digests,
            max_h2c_data,
        }
    }

    fn c2h_data(&self, command: &Command, offset: u32, len: u32, last: bool) -> C2HData {
        C2HData {
            cccid: command.cid,
            data_offset: offset,
            data_len: len,
            last,
            success: last && self.no_flow_control,
        }
    }

    fn response(&self, command: &Command) -> CapsuleResp {
        let entry = CompletionEntry {
            result: command.result,
            sq_head: match self.no_flow_control {
                true => 0xffff,
                false => self.sq_head,
            },
            cid: command.cid,
            status: command.status,
        };
        CapsuleResp {
            cqe: entry.to_bytes(),
        }
    }
}
