//! Which slabs are attached, and what a request means in terms of them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use l5p::Direction;
use l5p::nvme::Parameters;
use l5p::tls::CryptoInfo;
use rustix::io::Errno;
use wire::SeqNum;

use crate::memory::DataMemory;
use crate::message::{Answer, Request, Resume, SlotId};
use crate::passed::Passed;
use crate::server::{Connection, Incoming};
use crate::slab::{BadSlab, Slab, SlabIdentity, Slot};

/// What libraries may attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots in all slabs together.
    pub slots: u32,
    /// Slabs of one connection.
    pub slabs_per_connection: u16,
    /// Memories for data of one connection.
    pub memories_per_connection: u16,
}

impl Default for Limits {
    /// A million slots, which take 4 GiB of addresses and of memory what is used of them; 256 slabs, and 8 memories for data.
    fn default() -> Limits {
        Limits {
            slots: 1 << 20,
            slabs_per_connection: 256,
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
    pub fn place(&self) -> (SlabIdentity, u32) {
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
pub enum Order {
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
        socket: Passed,
    },
    /// See [`Request::Stop`].
    Stop {
        /// The connection's slot.
        slot: SlotRef,
        /// Which direction.
        direction: Direction,
        /// The connection's socket.
        socket: Passed,
    },
    /// See [`Request::Release`].
    Release {
        /// The connection's slot.
        slot: SlotRef,
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
        socket: Passed,
    },
    /// See [`Request::Settle`].
    Settle {
        /// The connection's slot.
        slot: SlotRef,
    },
}

/// What a request means.
#[derive(Debug)]
pub enum Resolved {
    /// A slab, or memory, is attached, and this is the answer.
    Attached(Answer),
    /// It is for a connection.
    Order(Order),
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
    /// It names memory that there is not.
    #[error("memory {0} is not attached")]
    NoMemory(u16),
    /// The file is no slab, or no memory for data.
    #[error(transparent)]
    BadSlab(#[from] BadSlab),
    /// More slabs than allowed.
    #[error("more slabs, slots or memory than the NIC takes")]
    TooMany,
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer::refused(match refusal {
            Refusal::NoDescriptor => Errno::BADF,
            Refusal::NoSlot { .. } | Refusal::NoMemory(_) => Errno::STALE,
            Refusal::BadSlab(_) => Errno::INVAL,
            Refusal::TooMany => Errno::NOSPC,
        })
    }
}

/// The slabs of all libraries. One that several connections attach is mapped once.
#[derive(Debug, Default)]
pub struct Registry {
    slabs: HashMap<SlabIdentity, Weak<Slab>>,
    limits: Limits,
}

impl Registry {
    /// No slabs yet.
    pub fn new(limits: Limits) -> Registry {
        Registry {
            slabs: HashMap::new(),
            limits,
        }
    }

    /// What a request means. An attachment is done at once.
    ///
    /// # Errors
    /// A refusal, which is an [`Answer`] too.
    pub fn resolve(
        &mut self,
        connection: &mut Connection,
        incoming: Incoming,
    ) -> Result<Resolved, Refusal> {
        let Incoming {
            request,
            descriptor,
        } = incoming;
        let order = match request {
            Request::Attach => {
                let file = descriptor.ok_or(Refusal::NoDescriptor)?;
                let slab = self.attach(connection, file)?;
                return Ok(Resolved::Attached(Answer {
                    slab,
                    ..Answer::at(SeqNum(0))
                }));
            }
            Request::SetKeys(keys) => Order::SetKeys {
                slot: slot(connection, keys.slot)?,
                direction: keys.direction,
                info: keys.info,
                resume: keys.resume,
                socket: descriptor.ok_or(Refusal::NoDescriptor)?,
            },
            Request::Stop {
                slot: id,
                direction,
            } => Order::Stop {
                slot: slot(connection, id)?,
                direction,
                socket: descriptor.ok_or(Refusal::NoDescriptor)?,
            },
            Request::Release { slot: id } => Order::Release {
                slot: slot(connection, id)?,
            },
            Request::Memory => {
                let file = descriptor.ok_or(Refusal::NoDescriptor)?;
                let number = self.add_memory(connection, file)?;
                return Ok(Resolved::Attached(Answer {
                    slab: number,
                    ..Answer::at(SeqNum(0))
                }));
            }
            Request::Pdus(pdus) => {
                let memory = connection.memories.get(usize::from(pdus.memory));
                Order::Pdus {
                    slot: slot(connection, pdus.slot)?,
                    memory: Arc::clone(memory.ok_or(Refusal::NoMemory(pdus.memory))?),
                    parameters: pdus.parameters,
                    socket: descriptor.ok_or(Refusal::NoDescriptor)?,
                }
            }
            Request::Settle { slot: id } => Order::Settle {
                slot: slot(connection, id)?,
            },
        };
        Ok(Resolved::Order(order))
    }

    fn attach(&mut self, connection: &mut Connection, file: Passed) -> Result<u16, Refusal> {
        let number = connection.slabs.len() as u16;
        if number >= self.limits.slabs_per_connection {
            return Err(Refusal::TooMany);
        }
        let slab = Slab::open(file)?;
        self.slabs.retain(|_, slab| slab.strong_count() > 0);
        let known = self.slabs.get(&slab.identity()).and_then(Weak::upgrade);
        let slab = match known {
            Some(known) => known,
            None => {
                let slots = |slab: Arc<Slab>| u64::from(slab.slots());
                let attached: u64 = self
                    .slabs
                    .values()
                    .filter_map(Weak::upgrade)
                    .map(slots)
                    .sum();
                if attached + u64::from(slab.slots()) > u64::from(self.limits.slots) {
                    return Err(Refusal::TooMany);
                }
                let slab = Arc::new(slab);
                self.slabs.insert(slab.identity(), Arc::downgrade(&slab));
                slab
            }
        };
        connection.slabs.push(slab);
        Ok(number)
    }

    fn add_memory(&self, connection: &mut Connection, file: Passed) -> Result<u16, Refusal> {
        let number = connection.memories.len() as u16;
        if number >= self.limits.memories_per_connection {
            return Err(Refusal::TooMany);
        }
        connection.memories.push(Arc::new(DataMemory::open(file)?));
        Ok(number)
    }
}

fn slot(connection: &Connection, id: SlotId) -> Result<SlotRef, Refusal> {
    let slab = connection.slabs.get(usize::from(id.slab));
    let slot = slab.and_then(|slab| SlotRef::new(slab, id.index, id.generation));
    slot.ok_or(Refusal::NoSlot {
        slab: id.slab,
        index: id.index,
    })
}
