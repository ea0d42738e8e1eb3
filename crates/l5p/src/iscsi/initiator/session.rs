//! A session, from the first login request to the logout.

use std::collections::VecDeque;

use wire::iscsi::{
    AsyncMessage, LoginResponse, LogoutRequest, LogoutResponse, Lun, NO_TAG, NopIn, NopOut, Opcode,
    Pdu, ProtocolError, RequestNumbers, TextRequest, TextResponse,
};

use super::discovery::{SEND_TARGETS, targets};
use super::login::{Failed, Login, Step};
use super::negotiation::Negotiation;
use super::numbers::Numbers;
use super::probe::{Next, Probe};
use super::tasks::Tasks;
use super::{Agreed, Command, Config, Ended, Event, Failure, Incoming, Outgoing, Payload};

/// Task tag of what is no command: no command's tag is so large.
const OTHER_TAG: u32 = 0xffff_fffe;
/// Task tag of a negotiation, during which the logout may come.
const NEGOTIATION_TAG: u32 = 0xffff_fffd;
/// Pings of the target that are not answered yet, at most.
const MAX_CONTROL: usize = 64;
/// Bytes of an answer to a question for targets, at most.
const MAX_TEXT: usize = 1 << 20;

/// A session.
#[derive(Debug)]
pub struct Initiator {
    config: Config,
    state: State,
    numbers: Numbers,
    agreed: Agreed,
    tasks: Tasks,
    /// To be sent before all else; the numbers are still to be set.
    control: VecDeque<Outgoing>,
    /// The PDU whose data is coming.
    coming: Option<Pdu>,
    /// That the target has asked for.
    negotiation: Option<Negotiation>,
    is_leaving: bool,
    /// Why it is ended, if that was not asked for.
    reason: Option<Failure>,
    events: VecDeque<Event>,
}

/// How far it is.
#[derive(Debug)]
enum State {
    Login(Box<Login>),
    /// With the text that has come.
    Discovery(Vec<u8>),
    Probe(Box<Probe>),
    Ready,
    LoggingOut,
    Ended,
}

impl Initiator {
    /// Begins to log in: the first PDU is there to be sent.
    ///
    /// # Panics
    /// When the depth is 0, or so large that it leaves no room for other tags.
    #[must_use]
    pub fn new(config: Config) -> Initiator {
        assert!(
            (1..=1 << 15).contains(&config.depth),
            "a depth that tags allow"
        );
        let (login, request, text) = Login::new(&config);
        let first = Outgoing {
            pdu: Pdu::LoginRequest(request),
            payload: Payload::Bytes(text),
        };
        Initiator {
            tasks: Tasks::new(config.lun, config.depth),
            config,
            state: State::Login(Box::new(login)),
            numbers: Numbers::new(),
            agreed: Agreed::DEFAULT,
            control: VecDeque::from([first]),
            coming: None,
            negotiation: None,
            is_leaving: false,
            reason: None,
            events: VecDeque::new(),
        }
    }

    /// What it was begun with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the login has agreed on; before its end, what holds by default.
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Takes a command; gives its tag. `None` when the session is not [ready](Event::Ready), or as many commands as there may be are in
    /// flight.
    pub fn submit(&mut self, command: Command) -> Option<u16> {
        match self.state {
            State::Ready if !self.is_leaving => self.tasks.begin(command),
            _ => None,
        }
    }

    /// The next PDU to be sent, if there is one now.
    pub fn poll_outgoing(&mut self) -> Option<Outgoing> {
        if let Some(mut outgoing) = self.control.pop_front() {
            self.number(&mut outgoing.pdu);
            return Some(outgoing);
        }
        match self.state {
            State::Probe(_) | State::Ready => {
                self.tasks.poll_outgoing(&mut self.numbers, &self.agreed)
            }
            _ => None,
        }
    }

    /// The next command that is through. Its tag is another one's only after [`release`](Self::release).
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.tasks.poll_ended()
    }

    /// Nothing touches the memory of the command that had this tag any more.
    pub fn release(&mut self, tag: u16) {
        self.tasks.release(tag);
        self.log_out_if_idle();
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Logs out when the commands in flight are through; [`Event::Ended`] follows.
    pub fn shutdown(&mut self) {
        self.is_leaving = true;
        self.log_out_if_idle();
    }

    /// Takes in a header. Where its data goes; a PDU without data has ended with it.
    ///
    /// # Errors
    /// A breach of the protocol, which ends the connection.
    pub fn handle_header(&mut self, pdu: &Pdu) -> Result<Incoming, ProtocolError> {
        self.numbers.take(pdu)?;
        let mut incoming = Incoming::Inline;
        if let Pdu::DataIn(data_in) = pdu {
            let (tag, range) = self.tasks.data_in(data_in)?;
            if let State::Ready = self.state {
                incoming = Incoming::Data { tag, range };
            }
        }
        if pdu.lengths().data_len == 0 {
            self.handle(pdu, true, &[])?;
            return Ok(Incoming::Nothing);
        }
        self.coming = Some(*pdu);
        Ok(incoming)
    }

    /// The data of the PDU whose header came last is all there; here it is, if it goes [here](Incoming::Inline).
    ///
    /// # Errors
    /// As [`handle_header`](Self::handle_header).
    pub fn handle_end(&mut self, is_intact: bool, data: &[u8]) -> Result<(), ProtocolError> {
        match self.coming.take() {
            Some(pdu) => self.handle(&pdu, is_intact, data),
            None => Ok(()),
        }
    }

    fn handle(&mut self, pdu: &Pdu, is_intact: bool, data: &[u8]) -> Result<(), ProtocolError> {
        if let State::Ended = self.state {
            return Ok(());
        }
        if !is_intact && !matches!(pdu, Pdu::DataIn(_)) {
            return Err(ProtocolError::DataDigest(pdu.opcode()));
        }
        match pdu {
            Pdu::LoginResponse(response) => self.answer_login(response, data),
            Pdu::TextResponse(response) if response.task_tag == NEGOTIATION_TAG => {
                self.negotiate(response, data)
            }
            Pdu::TextResponse(response) => self.answer_text(response, data),
            Pdu::DataIn(data_in) => {
                if let State::Probe(probe) = &mut self.state {
                    probe.take(data_in.offset, data);
                }
                self.tasks.data_in_ended(data_in, is_intact)?;
                self.go_on_probing();
                Ok(())
            }
            Pdu::ScsiResponse(response) => {
                self.tasks.respond(response, data)?;
                self.go_on_probing();
                Ok(())
            }
            Pdu::ReadyToTransfer(ready) => self.tasks.ready(ready, &self.agreed),
            Pdu::NopIn(nop) => self.answer_ping(nop),
            Pdu::LogoutResponse(response) if self.awaits(response) => {
                let reason = self.reason.take();
                self.end(reason);
                Ok(())
            }
            Pdu::AsyncMessage(message) => {
                self.handle_async_message(message);
                Ok(())
            }
            Pdu::Reject(reject) => {
                self.end(Some(Failure::Rejected(reject.reason)));
                Ok(())
            }
            other => Err(ProtocolError::OutOfTurn(other.opcode())),
        }
    }

    fn answer_login(&mut self, response: &LoginResponse, text: &[u8]) -> Result<(), ProtocolError> {
        let State::Login(login) = &mut self.state else {
            return Err(ProtocolError::OutOfTurn(Opcode::LoginResponse));
        };
        // One that comes before the request has been sent answers nothing.
        if !self.control.is_empty() {
            return Err(ProtocolError::OutOfTurn(Opcode::LoginResponse));
        }
        match login.answer(&self.config, response, text) {
            Ok(Step::Send(request, text)) => self.push_control(Pdu::LoginRequest(request), text),
            Ok(Step::Done(agreed)) => {
                self.agreed = agreed;
                self.events.push_back(Event::Negotiated(agreed));
                if self.config.target.is_none() {
                    self.state = State::Discovery(Vec::new());
                    let question =
                        text_request(OTHER_TAG, NO_TAG, Lun::default(), SEND_TARGETS.len());
                    self.push_control(question, SEND_TARGETS.to_vec());
                } else {
                    let (probe, question) = Probe::new(self.config.lun);
                    self.state = State::Probe(Box::new(probe));
                    // No command is in flight.
                    let _ = self.tasks.begin(question);
                }
            }
            Err(Failed::Failure(failure)) => self.end(Some(failure)),
            Err(Failed::Protocol(error)) => return Err(error),
        }
        Ok(())
    }

    fn answer_text(&mut self, response: &TextResponse, part: &[u8]) -> Result<(), ProtocolError> {
        let State::Discovery(text) = &mut self.state else {
            return Err(ProtocolError::OutOfTurn(Opcode::TextResponse));
        };
        if response.task_tag != OTHER_TAG {
            return Err(ProtocolError::UnknownTask {
                opcode: Opcode::TextResponse,
                tag: response.task_tag,
            });
        }
        text.extend(part);
        let goes_on = !response.is_final;
        if text.len() > MAX_TEXT || goes_on && (part.is_empty() || response.transfer_tag == NO_TAG)
        {
            self.end(Some(Failure::TextTooLong));
        } else if response.is_final {
            let targets = targets(text)?;
            self.state = State::Ready;
            self.events.push_back(Event::Targets(targets));
            self.log_out_if_idle();
        } else {
            let question = text_request(OTHER_TAG, response.transfer_tag, response.lun, 0);
            self.push_control(question, Vec::new());
        }
        Ok(())
    }

    /// Goes on with the negotiation that the target has asked for.
    fn negotiate(&mut self, response: &TextResponse, part: &[u8]) -> Result<(), ProtocolError> {
        let Some(negotiation) = &mut self.negotiation else {
            return Err(ProtocolError::OutOfTurn(Opcode::TextResponse));
        };
        match negotiation.answer(&mut self.agreed, response, part) {
            Ok(Some(text)) => {
                let (tag, lun) = (response.transfer_tag, response.lun);
                let request = text_request(NEGOTIATION_TAG, tag, lun, text.len());
                self.push_control(request, text);
            }
            Ok(None) => self.negotiation = None,
            Err(Failed::Failure(failure)) => self.end(Some(failure)),
            Err(Failed::Protocol(error)) => return Err(error),
        }
        Ok(())
    }

    /// Whether it is the answer to a logout request that has been sent.
    fn awaits(&self, response: &LogoutResponse) -> bool {
        let mut unsent = self.control.iter().map(|outgoing| &outgoing.pdu);
        matches!(self.state, State::LoggingOut)
            && response.task_tag == OTHER_TAG
            && !unsent.any(|pdu| matches!(pdu, Pdu::LogoutRequest(_)))
    }

    /// Takes what the questions about the unit were answered with.
    fn go_on_probing(&mut self) {
        let State::Probe(probe) = &mut self.state else {
            return;
        };
        let Some(ended) = self.tasks.poll_ended() else {
            return;
        };
        self.tasks.release(ended.tag);
        match probe.ended(ended.result) {
            Ok(Next::Ask(question)) => {
                // The one before is through.
                let _ = self.tasks.begin(question);
            }
            Ok(Next::Known(unit)) => {
                self.state = State::Ready;
                self.events.push_back(Event::Ready(unit));
                self.log_out_if_idle();
            }
            Err(failure) => self.end(Some(failure)),
        }
    }

    fn answer_ping(&mut self, nop: &NopIn) -> Result<(), ProtocolError> {
        if nop.transfer_tag == NO_TAG {
            return Ok(());
        }
        if self.control.len() >= MAX_CONTROL {
            return Err(ProtocolError::OutOfTurn(Opcode::NopIn));
        }
        let answer = NopOut {
            immediate: true,
            lun: nop.lun,
            task_tag: NO_TAG,
            transfer_tag: nop.transfer_tag,
            numbers: RequestNumbers::default(),
            data_len: 0,
        };
        self.push_control(Pdu::NopOut(answer), Vec::new());
        Ok(())
    }

    /// What the target tells by itself (RFC 7143 §11.9.1): of a unit, or of the end.
    fn handle_async_message(&mut self, message: &AsyncMessage) {
        let failure = Failure::TargetEnded(message.event);
        match message.event {
            // It asks for a logout: what is in flight comes first.
            1 => {
                self.is_leaving = true;
                self.reason = Some(failure);
                self.log_out_if_idle();
            }
            2 | 3 => self.end(Some(failure)),
            // It asks for a negotiation, which an empty request begins. A logout would do too.
            4 if matches!(self.state, State::Probe(_) | State::Ready)
                && self.negotiation.is_none() =>
            {
                self.negotiation = Some(Negotiation::default());
                let request = text_request(NEGOTIATION_TAG, NO_TAG, Lun::default(), 0);
                self.push_control(request, Vec::new());
            }
            _ => {}
        }
    }

    fn log_out_if_idle(&mut self) {
        if !self.is_leaving || !matches!(self.state, State::Ready) || self.tasks.in_use() > 0 {
            return;
        }
        self.state = State::LoggingOut;
        let logout = LogoutRequest {
            immediate: true,
            reason: 0,
            task_tag: OTHER_TAG,
            cid: 0,
            numbers: RequestNumbers::default(),
        };
        self.push_control(Pdu::LogoutRequest(logout), Vec::new());
    }

    fn end(&mut self, failure: Option<Failure>) {
        self.state = State::Ended;
        self.control.clear();
        self.events.push_back(Event::Ended(failure));
    }

    fn push_control(&mut self, pdu: Pdu, text: Vec<u8>) {
        let payload = match text.is_empty() {
            true => Payload::None,
            false => Payload::Bytes(text),
        };
        self.control.push_back(Outgoing { pdu, payload });
    }

    /// Sets the numbers of what counts for nothing in the order of commands.
    fn number(&self, pdu: &mut Pdu) {
        let now = self.numbers.immediate();
        match pdu {
            Pdu::LoginRequest(request) => request.numbers = now,
            Pdu::TextRequest(request) => request.numbers = now,
            Pdu::LogoutRequest(request) => request.numbers = now,
            Pdu::NopOut(nop) => nop.numbers = now,
            _ => {}
        }
    }
}

fn text_request(task_tag: u32, transfer_tag: u32, lun: Lun, len: usize) -> Pdu {
    Pdu::TextRequest(TextRequest {
        immediate: true,
        is_final: true,
        continues: false,
        lun,
        task_tag,
        transfer_tag,
        numbers: RequestNumbers::default(),
        data_len: len as u32,
    })
}
