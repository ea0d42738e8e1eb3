//! What a client says, line by line.

use std::time::Duration;

use super::protocol::{Answer, Request};

/// Bytes of a request line, at most.
const MOST_LINE: usize = 4096;
/// How long a client may neither ask nor read.
pub const IDLE: Duration = Duration::from_secs(10);

/// The client has sent a line that is longer than any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than any request")]
pub struct TooLong;

/// One client's requests.
#[derive(Debug)]
pub struct Conversation {
    /// It is of the user who has started the server, or of root.
    is_trusted: bool,
    input: Vec<u8>,
}

impl Conversation {
    /// With a client that has said nothing yet. One that is not trusted may ask to be attached, and nothing else.
    pub fn new(is_trusted: bool) -> Conversation {
        Conversation {
            is_trusted,
            input: Vec::new(),
        }
    }

    /// Takes what came.
    ///
    /// # Errors
    /// The client is to be let go of then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.input.extend_from_slice(bytes);
        let has_line = self.input.iter().take(MOST_LINE).any(|&byte| byte == b'\n');
        match has_line || self.input.len() <= MOST_LINE {
            true => Ok(()),
            false => Err(TooLong),
        }
    }

    /// The next request; or what to answer to a line that is none, or that this client may not ask.
    pub fn next_request(&mut self) -> Option<Result<Request, Answer>> {
        let end = self.input.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.input.drain(..=end).collect();
        Some(match serde_json::from_slice::<Request>(&line) {
            Ok(request) if self.is_trusted || request == Request::Attach => {
                probes::control_request(&|| probes::ControlRequested {
                    request: request.as_probed(),
                });
                Ok(request)
            }
            Ok(_) => {
                let only = "only the user who started it may ask that";
                Err(Answer::Error(only.to_owned()))
            }
            Err(error) => Err(Answer::Error(format!("no request: {error}"))),
        })
    }
}

/// An answer as it is written.
///
/// # Errors
/// None of the answers that there are can fail.
pub fn line(answer: &Answer) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}
