//! The login: who is there, and what both can do (RFC 7143 §6).

use wire::iscsi::{
    DEFAULT_MAX_DATA, LoginRequest, LoginResponse, MOST_DATA, Opcode, Pair, Phase, ProtocolError,
    RequestNumbers, Stage, pairs,
};

use super::chap::binary;
use super::{Agreed, Config, Failure};

/// Requests of one login at most.
const MAX_ROUNDS: u8 = 16;
/// Bytes of text in one answer at most.
const MAX_TEXT: usize = 64 << 10;
/// Task tag of all requests of a login.
const TAG: u32 = 0;

/// A login as far as it is.
#[derive(Debug)]
pub(super) struct Login {
    stage: Stage,
    /// The stage that the latest request was ready to go on to.
    next: Option<Stage>,
    rounds: u8,
    /// What came of an answer in several parts.
    text: Vec<u8>,
    agreed: Agreed,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step {
    /// This is to be sent, with this text.
    Send(LoginRequest, Vec<u8>),
    /// The session is in full feature phase.
    Done(Agreed),
}

impl Login {
    /// The first request.
    pub fn new(config: &Config) -> (Login, LoginRequest, Vec<u8>) {
        let mut login = Login {
            stage: Stage::Security,
            next: None,
            rounds: 0,
            text: Vec::new(),
            agreed: Agreed::DEFAULT,
        };
        let methods = match config.chap {
            Some(_) => "CHAP,None",
            None => "None",
        };
        let mut text = Vec::new();
        put(&mut text, "InitiatorName", &config.name);
        match &config.target {
            Some(target) => {
                put(&mut text, "TargetName", target);
                put(&mut text, "SessionType", "Normal");
            }
            None => put(&mut text, "SessionType", "Discovery"),
        }
        put(&mut text, "AuthMethod", methods);
        let request = login.request(config, Some(Stage::Operational), text.len());
        (login, request, text)
    }

    /// Takes in an answer.
    pub fn answer(
        &mut self,
        config: &Config,
        response: &LoginResponse,
        text: &[u8],
    ) -> Result<Step, Failed> {
        let is_answer = response.task_tag == TAG
            && (!response.status.is_success()
                || response.stage == self.stage
                    && response.next.is_none_or(|next| self.next == Some(next)));
        if !is_answer {
            return Err(ProtocolError::OutOfTurn(Opcode::LoginResponse).into());
        }
        self.text.extend(text);
        if self.text.len() > MAX_TEXT {
            return Err(Failure::TextTooLong.into());
        }
        if response.continues {
            return self.go_on(config, None, Vec::new());
        }
        let text = std::mem::take(&mut self.text);
        let pairs = pairs(&text).collect::<Result<Vec<_>, _>>()?;
        if response.status.is_redirection() {
            let address = pairs.iter().find(|pair| pair.key == "TargetAddress");
            let address = address.map_or("another address", |pair| pair.value);
            return Err(Failure::Redirected(shortened(address)).into());
        }
        if !response.status.is_success() {
            return Err(Failure::Refused(response.status).into());
        }
        match self.stage {
            Stage::Security => self.authenticate(config, response, &pairs),
            _ => self.operate(config, response, &pairs),
        }
    }

    fn authenticate(
        &mut self,
        config: &Config,
        response: &LoginResponse,
        pairs: &[Pair<'_>],
    ) -> Result<Step, Failed> {
        if response.next == Some(Stage::Operational) {
            self.stage = Stage::Operational;
            let offer = offer(config);
            return self.go_on(config, Some(Stage::FullFeature), offer);
        }
        let find = |key| pairs.iter().find(|pair| pair.key == key);
        let mut text = Vec::new();
        if let Some(algorithm) = find("CHAP_A") {
            let chap = config.chap.as_ref();
            let chap = chap.ok_or_else(|| Failure::Authentication("CHAP".to_owned()))?;
            if algorithm.value != "5" {
                return Err(wrong(algorithm).into());
            }
            let number = find("CHAP_I").ok_or_else(|| missing("CHAP_I"))?;
            let identifier = self::number(number, 0..=255)? as u8;
            let pair = find("CHAP_C").ok_or_else(|| missing("CHAP_C"))?;
            let challenge = binary(pair.value).filter(|bytes| (1..=1024).contains(&bytes.len()));
            let challenge = challenge.ok_or_else(|| wrong(pair))?;
            put(&mut text, "CHAP_N", &chap.user);
            put(&mut text, "CHAP_R", &chap.response(identifier, &challenge));
            return self.go_on(config, Some(Stage::Operational), text);
        }
        match find("AuthMethod").map(|pair| pair.value) {
            Some("CHAP") if config.chap.is_some() => {
                put(&mut text, "CHAP_A", "5");
                self.go_on(config, None, text)
            }
            Some("None") | None => self.go_on(config, Some(Stage::Operational), text),
            Some(method) => Err(Failure::Authentication(shortened(method)).into()),
        }
    }

    fn operate(
        &mut self,
        config: &Config,
        response: &LoginResponse,
        pairs: &[Pair<'_>],
    ) -> Result<Step, Failed> {
        let mut answers = Vec::new();
        for pair in pairs {
            self.take_key(config, pair, &mut answers)?;
        }
        if response.next == Some(Stage::FullFeature) {
            let mut agreed = self.agreed;
            agreed.incoming.phase = Phase::FullFeature;
            agreed.incoming.max_data = config.max_data;
            agreed.outgoing.phase = Phase::FullFeature;
            return Ok(Step::Done(agreed));
        }
        self.go_on(config, Some(Stage::FullFeature), answers)
    }

    /// Takes in a key of the target: an answer to ours, a declaration, or an offer, which is answered.
    fn take_key(
        &mut self,
        config: &Config,
        pair: &Pair<'_>,
        answers: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let Agreed {
            incoming, outgoing, ..
        } = &mut self.agreed;
        // A key that is not negotiated keeps its default.
        if ["Reject", "Irrelevant", "NotUnderstood"].contains(&pair.value) {
            return Ok(());
        }
        match pair.key {
            "HeaderDigest" => {
                let has = digest(pair, config.header_digest)?;
                (incoming.header_digest, outgoing.header_digest) = (has, has);
            }
            "DataDigest" => {
                let has = digest(pair, config.data_digest)?;
                (incoming.data_digest, outgoing.data_digest) = (has, has);
            }
            "MaxRecvDataSegmentLength" => outgoing.max_data = number(pair, 512..=MOST_DATA)?,
            "ImmediateData" => self.agreed.immediate_data = is_yes(pair)?,
            "FirstBurstLength" => {
                self.agreed.first_burst = number(pair, 512..=MOST_DATA)?.min(FIRST_BURST);
            }
            "MaxBurstLength" => {
                self.agreed.max_burst = number(pair, 512..=MOST_DATA)?.min(MAX_BURST);
            }
            // These can be answered by what was offered only, or are declared.
            "InitialR2T"
            | "MaxConnections"
            | "MaxOutstandingR2T"
            | "DataPDUInOrder"
            | "DataSequenceInOrder"
            | "ErrorRecoveryLevel"
            | "DefaultTime2Wait"
            | "DefaultTime2Retain"
            | "TargetAlias"
            | "TargetPortalGroupTag"
            | "TargetAddress"
            | "TargetName" => {}
            key => put(answers, key, "NotUnderstood"),
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        config: &Config,
        next: Option<Stage>,
        text: Vec<u8>,
    ) -> Result<Step, Failed> {
        if self.rounds == MAX_ROUNDS || text.len() > DEFAULT_MAX_DATA as usize {
            return Err(Failure::Endless.into());
        }
        Ok(Step::Send(self.request(config, next, text.len()), text))
    }

    fn request(&mut self, config: &Config, next: Option<Stage>, len: usize) -> LoginRequest {
        self.rounds += 1;
        self.next = next;
        LoginRequest {
            stage: self.stage,
            next,
            continues: false,
            isid: config.isid,
            tsih: 0,
            task_tag: TAG,
            cid: 0,
            numbers: RequestNumbers::default(),
            data_len: len as u32,
        }
    }
}

/// FirstBurstLength that is offered.
const FIRST_BURST: u32 = 256 << 10;
/// MaxBurstLength that is offered.
const MAX_BURST: u32 = 1 << 20;

/// All keys of operation.
fn offer(config: &Config) -> Vec<u8> {
    let digest = |is_wanted| if is_wanted { "CRC32C,None" } else { "None" };
    let mut text = Vec::new();
    let mut put = |key, value: &str| put(&mut text, key, value);
    put("HeaderDigest", digest(config.header_digest));
    put("DataDigest", digest(config.data_digest));
    put("MaxRecvDataSegmentLength", &config.max_data.to_string());
    put("DefaultTime2Wait", "2");
    put("DefaultTime2Retain", "0");
    put("ErrorRecoveryLevel", "0");
    if config.target.is_some() {
        put("InitialR2T", "Yes");
        put("ImmediateData", "Yes");
        put("MaxBurstLength", &MAX_BURST.to_string());
        put("FirstBurstLength", &FIRST_BURST.to_string());
        put("MaxOutstandingR2T", "1");
        put("MaxConnections", "1");
        put("DataPDUInOrder", "Yes");
        put("DataSequenceInOrder", "Yes");
    }
    text
}

pub(super) fn put(text: &mut Vec<u8>, key: &str, value: &str) {
    Pair { key, value }.emit(text);
}

fn wrong(pair: &Pair<'_>) -> Failure {
    Failure::Key {
        key: pair.key.to_owned(),
        value: shortened(pair.value),
    }
}

/// A text of the target's for a message.
fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

fn missing(key: &str) -> Failure {
    Failure::Key {
        key: key.to_owned(),
        value: "nothing".to_owned(),
    }
}

pub(super) fn number(
    pair: &Pair<'_>,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, Failure> {
    let digits = pair.value.strip_prefix("0x");
    let number = match digits.or_else(|| pair.value.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => pair.value.parse(),
    };
    let number = number.ok().filter(|number| range.contains(number));
    number.ok_or_else(|| wrong(pair))
}

fn is_yes(pair: &Pair<'_>) -> Result<bool, Failure> {
    match pair.value {
        "Yes" => Ok(true),
        "No" => Ok(false),
        _ => Err(wrong(pair)),
    }
}

/// Whether digests are in use. One that was not offered can't be chosen.
fn digest(pair: &Pair<'_>, is_wanted: bool) -> Result<bool, Failure> {
    match pair.value {
        "CRC32C" if is_wanted => Ok(true),
        "None" => Ok(false),
        _ => Err(wrong(pair)),
    }
}

/// Why a login ends: what it came to, or a breach of the protocol.
#[derive(Debug)]
pub(super) enum Failed {
    Failure(Failure),
    Protocol(ProtocolError),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed::Failure(failure)
    }
}

impl From<ProtocolError> for Failed {
    fn from(error: ProtocolError) -> Failed {
        Failed::Protocol(error)
    }
}
