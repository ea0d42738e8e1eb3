//! A negotiation that the target asks for in the full feature phase (RFC 7143 §7.2, §11.9.1).

use wire::iscsi::{MOST_DATA, NO_TAG, TextResponse, pairs};

use super::login::{Failed, number, put};
use super::{Agreed, Failure};

/// Answers of the target at most.
const MAX_ROUNDS: u8 = 16;
/// Bytes of text in one answer at most.
const MAX_TEXT: usize = 64 << 10;

/// A negotiation as far as it is. The initiator asks for nothing; it answers.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    rounds: u8,
    /// What came of an answer in several parts.
    text: Vec<u8>,
}

impl Negotiation {
    /// Takes in a part of an answer. The text of the next request; `None`: it is over.
    pub(super) fn answer(
        &mut self,
        agreed: &mut Agreed,
        response: &TextResponse,
        part: &[u8],
    ) -> Result<Option<Vec<u8>>, Failed> {
        self.rounds += 1;
        let has_no_tag = !response.is_final && response.transfer_tag == NO_TAG;
        if self.rounds > MAX_ROUNDS || self.text.len() + part.len() > MAX_TEXT || has_no_tag {
            return Err(Failure::TextTooLong.into());
        }
        self.text.extend(part);
        let mut answers = Vec::new();
        if !response.continues {
            take_keys(agreed, &std::mem::take(&mut self.text), &mut answers)?;
        }
        Ok((!response.is_final).then_some(answers))
    }
}

/// What the target declares is kept to; its offers are answered.
fn take_keys(agreed: &mut Agreed, text: &[u8], answers: &mut Vec<u8>) -> Result<(), Failed> {
    for pair in pairs(text) {
        let pair = pair?;
        match pair.key {
            // What the connection was set up with is the most even if the target takes more.
            "MaxRecvDataSegmentLength" => {
                let most = &mut agreed.outgoing.max_data;
                *most = number(&pair, 512..=MOST_DATA)?.min(*most);
            }
            "TargetAlias" | "TargetAddress" | "TargetName" => {}
            _ if pair.value == "NotUnderstood" => {}
            // Others are for the login.
            key => put(answers, key, "Reject"),
        }
    }
    Ok(())
}
