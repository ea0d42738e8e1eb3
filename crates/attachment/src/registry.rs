//! Which slabs are attached, and what a request means in terms of them.

use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use l5p::Direction;
use l5p::nvme::Parameters;
use l5p::tls::CryptoInfo;
use rustix::io::Errno;
use wire::SeqNum;

use crate::admission::{Admitted, Shown};
use crate::attached::Attached;
use crate::facts::SocketFacts;
use crate::mapping::{Closer, FileIdentity};
use crate::memory::DataMemory;
use crate::message::{Answer, Request, Resume, SlotId};
use crate::slab::{BadSlab, Slab, Slot};

/// What libraries may attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots in all slabs together. A user may have at most as many as are left to others.
    pub slots: u32,
    /// Slabs of one connection.
    pub slabs_per_connection: u16,
    /// Bytes of all memories for data together, shared in the same way.
    pub memory: u64,
    /// Memories for data of one connection.
    pub memories_per_connection: u16,
}

impl Default for Limits {
    /// A million slots, which take 4 GiB of addresses and of memory what is used of them; 64 GiB for data, of which the same holds; 256 slabs and 8
    /// memories for data of a connection.
    fn default() -> Limits {
        Limits {
            slots: 1 << 20,
            slabs_per_connection: 256,
            memory: 64 << 30,
            memories_per_connection: 8,
        }
    }
}

/// One use of a slot in an attached slab.
#[derive(Clone, Debug)]
pub struct SlotRef {
    slab: Arc<Slab>,
    index: u32,
    generation: u32,
}

impl SlotRef {
    /// A use of a slot; `None` if the slab has none of this index.
    pub fn new(slab: &Arc<Slab>, index: u32, generation: u32) -> Option<SlotRef> {
        (index < slab.slots()).then(|| SlotRef {
            slab: Arc::clone(slab),
            index,
            generation,
        })
    }

    /// Its memory.
    #[inline]
    pub fn slot(&self) -> Slot<'_> {
        self.slab
            .slot(self.index)
            .expect("the index was checked when the reference was made")
    }

    /// Which use of the slot it is.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What names the slot among those of all slabs, whatever its use.
    pub fn place(&self) -> (FileIdentity, u32) {
        (self.slab.identity(), self.index)
    }
}

impl PartialEq for SlotRef {
    fn eq(&self, other: &SlotRef) -> bool {
        self.place() == other.place() && self.generation == other.generation
    }
}

impl Eq for SlotRef {}

/// A request for the connection that a slot stands for.
#[derive(Debug)]
pub enum SlotRequest {
    /// See [`Request::SetKeys`].
    SetKeys {
        /// The connection's slot.
        slot: SlotRef,
        /// Which direction the keys are for.
        direction: Direction,
        /// The keys.
        info: CryptoInfo,
        /// A boundary of records that the library knows, after the NIC was restarted.
        resume: Option<Resume>,
        /// The connection's socket.
        socket: SocketFacts,
    },
    /// See [`Request::Stop`].
    Stop {
        /// The connection's slot.
        slot: SlotRef,
        /// Which direction.
        direction: Direction,
        /// The connection's socket.
        socket: SocketFacts,
    },
    /// See [`Request::Release`].
    Release {
        /// The connection's slot.
        slot: SlotRef,
        /// The socket's cookie; 0 if the library does not say.
        cookie: u64,
        /// The library's user.
        tenant: u32,
    },
    /// See [`Request::Pdus`].
    Pdus {
        /// The connection's slot.
        slot: SlotRef,
        /// Where data may go.
        memory: Arc<DataMemory>,
        /// What was agreed on for what the peer sends.
        parameters: Parameters,
        /// The connection's socket.
        socket: SocketFacts,
    },
    /// See [`Request::Settle`].
    Settle {
        /// The connection's slot.
        slot: SlotRef,
    },
}

impl SlotRequest {
    /// Takes the slot for this request, which has this number if it has one.
    fn take_slot(&self, number: Option<(Direction, u32)>) -> Result<(), Refusal> {
        match (self, number) {
            (
                SlotRequest::SetKeys { slot, .. }
                | SlotRequest::Stop { slot, .. }
                | SlotRequest::Pdus { slot, .. },
                Some((direction, number)),
            ) if slot.slot().last_request(direction) != number => Err(Refusal::Late),
            // A process that has closed the socket may have had it freed. Another one has it still.
            (SlotRequest::SetKeys { slot, .. } | SlotRequest::Pdus { slot, .. }, _)
                if !slot.slot().take_back(slot.generation()) =>
            {
                Err(Refusal::OtherUse(slot.index))
            }
            _ => Ok(()),
        }
    }
}

/// What a request means.
#[derive(Debug)]
pub enum Resolved {
    /// A slab, or memory, is attached, and this is the answer.
    Attached(Answer),
    /// It is for a connection.
    SlotRequest(SlotRequest),
}

/// Why a request means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The descriptor that belongs to it did not come.
    #[error("the request came without its descriptor")]
    NoDescriptor,
    /// It names a slab or a slot that there is not.
    #[error("slot {index} of slab {slab} is not attached")]
    NoSlot {
        /// Number of the slab.
        slab: u16,
        /// Index of the slot.
        index: u32,
    },
    /// It names a use of a slot that another one has followed.
    #[error("slot {0} has had another use since")]
    OtherUse(u32),
    /// It names memory that there is not.
    #[error("memory {0} is not attached")]
    NoMemory(u16),
    /// The file is no slab, or no memory for data.
    #[error(transparent)]
    BadSlab(#[from] BadSlab),
    /// More slabs than allowed.
    #[error("the NIC has no room for more slabs, slots or memory of this user")]
    TooMany,
    /// The library has asked for something else since, without waiting for the answer.
    #[error("the library gave this request up")]
    Late,
    /// The NIC can't offload this socket.
    #[error("the NIC can't have the socket: {0}")]
    Socket(Errno),
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer::refused(match refusal {
            Refusal::NoDescriptor => Errno::BADF,
            Refusal::NoSlot { .. }
            | Refusal::OtherUse(_)
            | Refusal::NoMemory(_)
            | Refusal::Late => Errno::STALE,
            Refusal::BadSlab(_) => Errno::INVAL,
            Refusal::TooMany => Errno::NOSPC,
            Refusal::Socket(error) => error,
        })
    }
}

/// What one library's connection has attached, by the numbers that it was given.
#[derive(Debug, Default)]
pub struct Tenant {
    uid: u32,
    slabs: Vec<Arc<Slab>>,
    memories: Vec<Arc<DataMemory>>,
}

impl Tenant {
    /// A connection of this user's, which has nothing attached.
    pub fn new(uid: u32) -> Tenant {
        Tenant {
            uid,
            ..Tenant::default()
        }
    }

    /// Whose connection it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    fn slot(&self, id: SlotId) -> Result<SlotRef, Refusal> {
        let slab = self.slabs.get(usize::from(id.slab));
        let slot = slab.and_then(|slab| SlotRef::new(slab, id.index, id.generation));
        slot.ok_or(Refusal::NoSlot {
            slab: id.slab,
            index: id.index,
        })
    }
}

/// The slabs and memories of all libraries.
#[derive(Debug)]
pub struct Registry {
    slabs: Attached<Slab>,
    memories: Attached<DataMemory>,
    limits: Limits,
    /// Tells this NIC from those before and after it; never 0.
    nic: u32,
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new(Limits::default(), None)
    }
}

impl Registry {
    /// Nothing is attached yet. What no connection needs any more is unmapped and closed by `closer`, or without one where it is dropped.
    pub fn new(limits: Limits, closer: Option<Closer>) -> Registry {
        Registry {
            slabs: Attached::new(limits.slots.into(), closer.clone()),
            memories: Attached::new(limits.memory, closer),
            limits,
            nic: RandomState::new().hash_one(()) as u32 | 1,
        }
    }

    /// Answers a request: an attachment itself, an order by what `nic` says to it.
    pub fn answer(
        &mut self,
        tenant: &mut Tenant,
        asked: Admitted,
        nic: impl FnOnce(SlotRequest) -> Answer,
    ) -> Answer {
        match self.resolve(tenant, asked) {
            Ok(Resolved::Attached(answer)) => answer,
            Ok(Resolved::SlotRequest(order)) => nic(order),
            Err(refusal) => refusal.into(),
        }
    }

    /// What a request means. An attachment is done at once.
    ///
    /// # Errors
    /// A refusal, which is an [`Answer`] too.
    pub fn resolve(&mut self, tenant: &mut Tenant, asked: Admitted) -> Result<Resolved, Refusal> {
        let nic = self.nic;
        let attached = |number: u16| {
            Resolved::Attached(Answer {
                slab: number,
                ..Answer::at(SeqNum(nic))
            })
        };
        let number = asked.request.number();
        let order = match (asked.request, asked.shown) {
            (Request::Attach, Shown::Memory(file)) => {
                return self.attach(tenant, file).map(attached);
            }
            (Request::Memory, Shown::Memory(file)) => {
                return self.add_memory(tenant, file).map(attached);
            }
            (Request::SetKeys(keys), Shown::Socket(socket)) => SlotRequest::SetKeys {
                slot: tenant.slot(keys.slot)?,
                direction: keys.direction,
                info: keys.info,
                resume: keys.resume,
                socket,
            },
            (
                Request::Stop {
                    slot, direction, ..
                },
                Shown::Socket(socket),
            ) => SlotRequest::Stop {
                slot: tenant.slot(slot)?,
                direction,
                socket,
            },
            (Request::Pdus(pdus), Shown::Socket(socket)) => {
                let memory = tenant.memories.get(usize::from(pdus.memory));
                SlotRequest::Pdus {
                    slot: tenant.slot(pdus.slot)?,
                    memory: Arc::clone(memory.ok_or(Refusal::NoMemory(pdus.memory))?),
                    parameters: pdus.parameters,
                    socket,
                }
            }
            (Request::Release { slot, cookie }, _) => SlotRequest::Release {
                slot: tenant.slot(slot)?,
                cookie,
                tenant: tenant.uid,
            },
            (Request::Settle { slot }, _) => SlotRequest::Settle {
                slot: tenant.slot(slot)?,
            },
            _ => return Err(Refusal::NoDescriptor),
        };
        order.take_slot(number)?;
        Ok(Resolved::SlotRequest(order))
    }

    fn attach(&mut self, tenant: &mut Tenant, file: OwnedFd) -> Result<u16, Refusal> {
        let number = tenant.slabs.len() as u16;
        if number >= self.limits.slabs_per_connection {
            return Err(Refusal::TooMany);
        }
        let slab = self.slabs.admit(Slab::open(file)?, tenant.uid);
        tenant.slabs.push(slab.ok_or(Refusal::TooMany)?);
        Ok(number)
    }

    fn add_memory(&mut self, tenant: &mut Tenant, file: OwnedFd) -> Result<u16, Refusal> {
        let number = tenant.memories.len() as u16;
        if number >= self.limits.memories_per_connection {
            return Err(Refusal::TooMany);
        }
        let memory = self.memories.admit(DataMemory::open(file)?, tenant.uid);
        tenant.memories.push(memory.ok_or(Refusal::TooMany)?);
        Ok(number)
    }
}
