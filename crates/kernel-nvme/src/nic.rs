//! The NIC below the sockets, if there is one: connections that it helps with, and when it is done with memory.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use attachment::pdus::{Generation, Pdus};
use attachment::{
    Client, ClientError, Direction, Errno, Lifecycle, PduOffload, SharedSlab, Slab, SlotId,
};
use l5p::nvme::Parameters;
use rustix::net::RecvFlags;
use wire::SeqNum;

use crate::commands::Written;
use crate::memory::Memory;

/// Connections at a time, and those whose slots are not free again yet.
const SLOTS: u32 = 256;
/// How long the NIC has for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether it is still there, or there again.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// A use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotName {
    index: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// It has not answered in time, and is asked no more. It may write to our memory still.
    Silent,
    /// It is gone: nothing writes to our memory.
    Gone,
}

/// The attachment to a NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    control: PathBuf,
    attached: Attached,
    slab: Arc<Slab>,
    health: Health,
    looked_at: Option<Instant>,
    /// A thread attaches to the NIC that has come: it may take its time to answer, and data goes on meanwhile.
    attaching: Option<JoinHandle<Result<Attached, ClientError>>>,
    /// Slots of connections that have ended, which the NIC could not be told: it has them until it is told, or gone.
    unreleased: Vec<SlotName>,
}

/// A connection to a NIC, which has slab and memory.
#[derive(Debug)]
struct Attached {
    client: Client,
    shared: SharedSlab,
    memory_number: u16,
}

impl Nic {
    /// Attaches to the NIC behind a control socket, and shares the memory with it.
    pub(crate) fn attach(control: &Path, memory: &Memory) -> Result<Nic, ClientError> {
        let slab = Slab::create(SLOTS).map_err(ClientError::Refused)?;
        Ok(Nic {
            control: control.to_owned(),
            attached: connect(control, &slab, memory)?,
            slab: Arc::new(slab),
            health: Health::Good,
            looked_at: None,
            attaching: None,
            unreleased: Vec::new(),
        })
    }

    /// Looks whether the NIC is there, and attaches to the one that has taken its place: true once it has. What the one before knew of connections the new
    /// one does not. Waits for neither.
    pub(crate) fn is_another(&mut self, now: Instant, memory: &Arc<Memory>) -> bool {
        if let Some(done) = self.attaching.take_if(|attaching| attaching.is_finished()) {
            let attached = done.join().ok().and_then(Result::ok);
            return attached.is_some_and(|attached| self.is_attached(attached));
        }
        let looked_lately = self.looked_at.is_some_and(|at| now < at + LOOK);
        if looked_lately {
            return false;
        }
        self.looked_at = Some(now);
        if self.has_ended() && self.attaching.is_none() {
            let (control, slab, memory) = (self.control.clone(), self.slab.clone(), memory.clone());
            let thread = std::thread::Builder::new().name("nic".into());
            let attaching = thread.spawn(move || connect(&control, &slab, &memory));
            // Without a thread it is tried again.
            self.attaching = attaching.ok();
        }
        false
    }

    /// There is a connection to a NIC again: whether it is another one.
    fn is_attached(&mut self, attached: Attached) -> bool {
        let before = std::mem::replace(&mut self.attached, attached);
        self.health = Health::Good;
        // One that does not say which it is counts as another.
        let nic = self.attached.shared.nic;
        let is_another = nic == 0 || nic != before.shared.nic;
        for name in std::mem::take(&mut self.unreleased) {
            match is_another {
                true => self.free(name),
                false => self.release(name),
            }
        }
        is_another
    }

    /// When to look again, although nothing comes of a NIC that is not there.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let looked_at = self.looked_at.filter(|_| self.health == Health::Gone);
        looked_at.map(|at| at + LOOK)
    }

    /// The NIC that this slot was shared with is no more: nothing is written there.
    pub(crate) fn free(&mut self, name: SlotName) {
        if let Some(slot) = self.slab.slot(name.index) {
            slot.free(name.generation);
        }
    }

    /// Has the NIC help with a connection whose next received byte begins a PDU. `None` when it does not.
    pub(crate) fn start(
        &mut self,
        parameters: Parameters,
        socket: BorrowedFd<'_>,
    ) -> Option<(SlotName, SeqNum)> {
        if self.health != Health::Good {
            return None;
        }
        let (index, generation) = self.slab.claim()?;
        let name = SlotName { index, generation };
        let slot = self.slab.slot(index)?;
        let pdus = PduOffload {
            slot: self.id(name),
            number: slot.next_request(Direction::Receive),
            memory: self.attached.memory_number,
            parameters,
        };
        match self.attached.client.start_pdus(pdus, socket) {
            Ok(tcpsn) => Some((name, tcpsn)),
            Err(error) => {
                // Without an answer it is not to be done any more.
                slot.next_request(Direction::Receive);
                self.note(&error);
                match self.health {
                    Health::Silent => self.unreleased.push(name),
                    // It knows nothing of the slot, or is no more.
                    Health::Good | Health::Gone => self.free(name),
                }
                None
            }
        }
    }

    /// What is shared of a connection.
    pub(crate) fn pdus(&self, name: SlotName) -> Pdus<'_> {
        let slot = self.slab.slot(name.index);
        slot.expect("a name is of a slot that there is").pdus()
    }

    /// Has the NIC take mappings back at once of which it was told that they have ended.
    pub(crate) fn settle(&mut self, name: SlotName) {
        let id = self.id(name);
        self.ask(|client| client.settle(id));
    }

    /// The connection is about to be closed. A NIC that can't be told is told when it is there again.
    pub(crate) fn release(&mut self, name: SlotName) {
        let id = self.id(name);
        // No other process has it.
        self.ask(|client| client.release(id, 0));
        if self.health != Health::Good {
            self.unreleased.push(name);
        }
    }

    /// What the NIC has written for a mapping that it was told to end.
    pub(crate) fn written(&mut self, name: SlotName, tag: u16, generation: Generation) -> Written {
        if !self.is_in_use(name) {
            return Written::Unknown;
        }
        match self.pdus(name).ended_mapping(tag, generation) {
            Some(bytes) => Written::Bytes(bytes),
            None if self.has_ended() => Written::Unknown,
            None => Written::Pending,
        }
    }

    /// Whether the NIC takes mappings.
    pub(crate) fn is_there(&self) -> bool {
        self.health == Health::Good
    }

    /// Whether the NIC is no more. This asks the system.
    fn has_ended(&mut self) -> bool {
        let mut byte = [0_u8];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let looked = rustix::net::recv(&self.attached.client, &mut byte, flags);
        if !matches!(looked, Err(Errno::AGAIN) | Ok((_, 1..))) {
            self.health = Health::Gone;
        }
        self.health == Health::Gone
    }

    fn is_in_use(&self, name: SlotName) -> bool {
        let in_use = Lifecycle::InUse {
            generation: name.generation,
        };
        let slot = self.slab.slot(name.index);
        slot.is_some_and(|slot| slot.lifecycle() == in_use)
    }

    fn id(&self, name: SlotName) -> SlotId {
        SlotId {
            slab: self.attached.shared.number,
            index: name.index,
            generation: name.generation,
        }
    }

    fn ask(&mut self, ask: impl FnOnce(&mut Client) -> Result<(), ClientError>) {
        if self.health == Health::Good
            && let Err(error) = ask(&mut self.attached.client)
        {
            self.note(&error);
        }
    }

    fn note(&mut self, error: &ClientError) {
        match error {
            ClientError::Refused(_) => {}
            ClientError::Gone(Errno::AGAIN) => self.health = Health::Silent,
            ClientError::Gone(_) | ClientError::Untrusted(_) => self.health = Health::Gone,
        }
    }
}

/// A connection to the NIC behind a control socket, which has slab and memory then.
fn connect(control: &Path, slab: &Slab, memory: &Memory) -> Result<Attached, ClientError> {
    let mut client = Client::connect(control, TIMEOUT)?;
    let shared = client.attach(slab)?;
    let memory_number = client.add_memory(memory.data())?;
    Ok(Attached {
        client,
        shared,
        memory_number,
    })
}

#[cfg(test)]
mod tests;
