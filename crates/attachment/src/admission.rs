//! From what a library has sent to what the NIC may have of it: facts instead of sockets, and memory only that keeps its size.
//!
//! What is done here may wait for the library's process, so a thread that carries packets leaves it to others. An [`Admitted`] request goes from one process
//! to the other as [bytes](Admitted::to_bytes), and at most one file of memory beside them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::facts::{Examine, FactsBytes, SocketFacts};
use crate::message::{Answer, BadRequest, REQUEST_BYTES, Request};
use crate::registry::Refusal;
use crate::server::Incoming;
use crate::slab::sealed_size;

/// What came along with a request.
#[derive(Debug)]
pub enum Shown {
    /// Nothing that the NIC needs.
    Nothing,
    /// A sealed file of ordinary memory.
    Memory(OwnedFd),
    /// A socket.
    Socket(SocketFacts),
}

/// A request that the NIC may look at.
#[derive(Debug)]
pub struct Admitted {
    /// What is asked for.
    pub request: Request,
    /// What came along with it.
    pub shown: Shown,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AdmittedBytes {
    request: [u8; REQUEST_BYTES],
    facts: FactsBytes,
}

/// How often a socket is looked at whose numbers have changed before the NIC has compared them with what it saw.
const MOST_LOOKS: usize = 8;

impl Incoming {
    /// Looks at what the library of `tenant` has shown, and has the `nic` answer. A socket is looked at again when the NIC answers `EAGAIN`.
    pub fn answer(
        &self,
        tenant: u32,
        linux: &mut dyn Examine,
        mut nic: impl FnMut(Admitted) -> Answer,
    ) -> Answer {
        for _ in 0..MOST_LOOKS {
            let answer = match self.admit(tenant, linux) {
                Ok(admitted) => nic(admitted),
                Err(refusal) => return refusal.into(),
            };
            if answer.result != Err(Errno::AGAIN) {
                return answer;
            }
        }
        Answer::refused(Errno::NODEV)
    }

    fn admit(&self, tenant: u32, linux: &mut dyn Examine) -> Result<Admitted, Refusal> {
        let shown = match (&self.request, &self.descriptor) {
            (Request::Release { .. } | Request::Settle { .. }, _) => Shown::Nothing,
            (_, None) => return Err(Refusal::NoDescriptor),
            (Request::Attach | Request::Memory, Some(file)) => {
                sealed_size(file.as_fd())?;
                Shown::Memory(file.try_clone().map_err(|_| Refusal::TooMany)?)
            }
            (_, Some(socket)) => {
                let facts = linux.examine(socket.as_fd(), tenant);
                Shown::Socket(facts.map_err(Refusal::Socket)?)
            }
        };
        Ok(Admitted {
            request: self.request.clone(),
            shown,
        })
    }
}

impl Admitted {
    /// Bytes of a request on its way to the NIC.
    pub const BYTES: usize = size_of::<AdmittedBytes>();

    /// It, with the file that belongs to it.
    pub fn to_bytes(&self) -> ([u8; Admitted::BYTES], Option<BorrowedFd<'_>>) {
        let mut bytes = AdmittedBytes::new_zeroed();
        bytes.request = self.request.to_bytes();
        let file = match &self.shown {
            Shown::Nothing => None,
            Shown::Memory(file) => Some(file.as_fd()),
            Shown::Socket(facts) => {
                bytes.facts = facts.to_bytes();
                None
            }
        };
        (zerocopy::transmute!(bytes), file)
    }

    /// The request in these bytes, which came with this file.
    ///
    /// # Errors
    /// See [`BadRequest`].
    pub fn from_bytes(
        bytes: &[u8; Admitted::BYTES],
        file: Option<OwnedFd>,
    ) -> Result<Admitted, BadRequest> {
        let bytes: &AdmittedBytes = zerocopy::transmute_ref!(bytes);
        let request = Request::from_bytes(&bytes.request)?;
        let shown = match (&request, file) {
            (Request::Attach | Request::Memory, Some(file)) => Shown::Memory(file),
            (Request::SetKeys(_) | Request::Stop { .. } | Request::Pdus(_), _) => {
                Shown::Socket(SocketFacts::from_bytes(&bytes.facts))
            }
            _ => Shown::Nothing,
        };
        Ok(Admitted { request, shown })
    }
}
