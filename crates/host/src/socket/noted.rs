//! What reads a socket's content and takes notes of the NIC's on it.

use l5p::Note;
use tcp::Accepted;

use crate::http::Response;
use crate::layer5::Session;
use crate::pattern::Scan;

/// A reader of content that takes notes.
#[derive(Debug)]
pub(crate) enum Noted {
    /// It is searched for patterns.
    Scan(Box<Scan>),
    /// It is an HTTP response.
    Response(Box<Response>),
}

impl Noted {
    /// TCP has taken this of a packet's payload of `len` bytes, of which the NIC has said this.
    pub fn arrived(&mut self, taken: Accepted, len: u32, notes: &[Note]) {
        match self {
            Noted::Scan(scan) => scan.arrived(taken, len, notes),
            Noted::Response(response) => response.arrived(taken, len, notes),
        }
    }

    pub fn session_mut(&mut self) -> &mut dyn Session {
        match self {
            Noted::Scan(scan) => &mut **scan,
            Noted::Response(response) => &mut **response,
        }
    }

    pub fn scan_mut(&mut self) -> Option<&mut Scan> {
        match self {
            Noted::Scan(scan) => Some(scan),
            Noted::Response(_) => None,
        }
    }

    pub fn response(&self) -> Option<&Response> {
        match self {
            Noted::Response(response) => Some(response),
            Noted::Scan(_) => None,
        }
    }
}
