//! The memory of commands: what waits for it, who has it, and when it is free again.
//!
//! ```text
//!  waiting ──▶ granted ──▶ mapped ──▶ (host's data) ──▶ unmapping ──▶ at the store ─┐
//!                 │                                                                 ├─▶ released ──▶ free
//!                 └──────▶ at the store ──▶ being sent ────────────────────────────-┘     when TCP and the NIC are done
//! ```

use l5p::nvme::target::{
    CommandRef, FilledBy, Host, Limits, Memory, Operation, Owner, StoreRequest,
};
use nic::ring::{RegionId, Slice};
use wire::nvme::command::Status;

use super::pool::{Freed, Pool, Run};
use super::shares::{Shares, Waiting};
use super::{TargetError, zeroed};
use crate::SocketId;
use crate::nvme::store::{Extent, MemoryId, Stores};
use crate::pdus::{Unmapped, Unmapping};
use crate::stack::Stack;

/// `O_DIRECT` wants memory aligned so.
const ALIGNMENT: u64 = 4096;

/// The memory of all commands.
pub(super) struct Memories {
    pool: Pool,
    /// Where the pool's first byte is, for stores.
    pool_memory: MemoryId,
    capsules: Capsules,
    /// By connection and slot.
    grants: Vec<Vec<Grant>>,
    /// Hosts, what they have of the pool, and their commands that wait.
    shares: Shares,
    /// What the NIC is to let go of.
    unmapping: Vec<Leaving>,
}

/// Memory for the data of capsules: each slot of each connection has its own.
struct Capsules {
    region: RegionId,
    memory: MemoryId,
    start: u64,
    slot_len: u32,
    slots: u32,
}

/// What a command has.
#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    run: Option<Run>,
    /// Its host's.
    share: u32,
    len: u32,
    /// The NIC may write to it.
    mapped_by: Option<SocketId>,
}

/// A run that the NIC may still write to.
struct Leaving {
    unmapping: Unmapping,
    then: Then,
}

/// What follows when the NIC has let go.
enum Then {
    /// The store has its turn.
    Store(StoreRequest),
    /// The run is free.
    Release(Run),
}

impl Memories {
    pub(super) fn new(
        stack: &mut Stack,
        stores: &mut Stores,
        limits: &Limits,
        bytes: u64,
    ) -> Result<Memories, TargetError> {
        let aligned = |start: *mut u8| (start as u64).next_multiple_of(ALIGNMENT) - start as u64;
        // A Compare has its data and what is read side by side.
        let largest = 2 * limits.data;
        let bytes = bytes.max(2 * u64::from(largest));
        let region = zeroed(stack, bytes + ALIGNMENT)?;
        let start = aligned(region.as_ptr());
        let id = stack.register(region.clone(), "memory of commands")?;
        stack.watch(id);
        let pool_memory = stores.add_memory(region, true);

        let slots = limits.queue_entries;
        let slot_len = limits.in_capsule.next_multiple_of(512);
        let all = limits.places() as u64 * u64::from(slots) * u64::from(slot_len);
        let region = zeroed(stack, all + ALIGNMENT)?;
        let capsules = Capsules {
            start: aligned(region.as_ptr()),
            region: stack.register(region.clone(), "memory of capsules")?,
            memory: stores.add_memory(region, false),
            slot_len,
            slots,
        };
        Ok(Memories {
            pool: Pool::new(id, start, bytes, largest),
            pool_memory,
            capsules,
            grants: vec![Vec::new(); limits.places()],
            shares: Shares::default(),
            unmapping: Vec::new(),
        })
    }

    /// Bytes in use, and in all.
    pub(super) fn usage(&self) -> (u64, u64) {
        (self.pool.in_use(), self.pool.bytes())
    }

    /// Whether commands wait, or memory is in use.
    pub(super) fn is_busy(&self) -> bool {
        self.shares.is_waited_for() || self.pool.in_use() > 0
    }

    /// Whether the NIC is still to let go of something.
    pub(super) fn is_settling(&self) -> bool {
        !self.unmapping.is_empty()
    }

    /// A command of this host waits for memory.
    pub(super) fn wait(&mut self, host: Host, command: CommandRef, len: u32, filled_by: FilledBy) {
        let waiting = Waiting {
            command,
            len,
            filled_by,
        };
        self.grant_mut(command).share = self.shares.wait(host, waiting);
    }

    /// Gives memory to the command whose turn it is.
    pub(super) fn grant(&mut self) -> Option<(CommandRef, FilledBy)> {
        let granted = self.shares.grant(&mut self.pool)?;
        let Waiting {
            command,
            len,
            filled_by,
        } = granted.waiting;
        let grant = self.grant_mut(command);
        (grant.run, grant.len) = (Some(granted.run), len);
        Some((command, filled_by))
    }

    /// Has the NIC place the data of R2Ts of `command` where it belongs, if there are at least `least` bytes of it.
    pub(super) fn map(
        &mut self,
        stack: &mut Stack,
        socket: SocketId,
        command: CommandRef,
        least: u32,
    ) -> bool {
        let grant = self.grant_of(command);
        let Some(run) = grant.run.filter(|_| grant.len >= least) else {
            return false;
        };
        let slice = self.pool.slice(run, 0, grant.len);
        let mapped = stack.map_buffer(socket, command.slot, &[slice]);
        if mapped {
            self.grant_mut(command).mapped_by = Some(socket);
        }
        mapped
    }

    /// Sets a store to work for a command, when the NIC has let go of its memory.
    pub(super) fn store(&mut self, stack: &mut Stack, stores: &mut Stores, request: StoreRequest) {
        let Owner::Command(command) = request.owner else {
            return stores.submit(request, None, None);
        };
        let grant = self.grant_of(command);
        let unmapping = grant.mapped_by.and_then(|socket| {
            self.grant_mut(command).mapped_by = None;
            stack.unmap_buffer(socket, command.slot)
        });
        match unmapping {
            None => self.submit(stores, command, request),
            Some(unmapping) => self.unmapping.push(Leaving {
                unmapping,
                then: Then::Store(request),
            }),
        }
    }

    fn submit(&self, stores: &mut Stores, command: CommandRef, request: StoreRequest) {
        let grant = self.grant_of(command);
        let in_pool = |offset: u32, len: u32| {
            let slice = self.pool.slice(grant.run?, offset, len);
            Some(Extent {
                memory: self.pool_memory,
                offset: slice.offset,
                len,
            })
        };
        let data = |memory: Memory, len: u32| match memory {
            Memory::Buffer => in_pool(0, len),
            Memory::InCapsule => Some(Extent {
                memory: self.capsules.memory,
                offset: self.capsules.offset(command),
                len,
            }),
        };
        let (data, scratch) = match request.operation {
            Operation::Read { len, .. } => (in_pool(0, len), None),
            Operation::Write { len, memory, .. } => (data(memory, len), None),
            Operation::Compare { len, memory, .. } => match memory {
                Memory::Buffer => (in_pool(0, len), in_pool(len, len)),
                Memory::InCapsule => (data(memory, len), in_pool(0, len)),
            },
            Operation::Deallocate { ranges, memory, .. } => {
                (data(memory, u32::from(ranges) * 16), None)
            }
            Operation::WriteZeroes { .. } | Operation::Flush => (None, None),
        };
        stores.submit(request, data, scratch);
    }

    /// Bytes of the memory that a command was given.
    pub(super) fn slice(&self, command: CommandRef, offset: u32, len: u32) -> Slice {
        let run = self.grant_of(command).run.expect("it was given memory");
        self.pool.slice(run, offset, len)
    }

    /// Where the data of a command's capsule goes.
    pub(super) fn in_capsule(&self, command: CommandRef, len: u32) -> Slice {
        assert!(len <= self.capsules.slot_len);
        Slice {
            region: self.capsules.region,
            offset: self.capsules.offset(command),
            len,
        }
    }

    /// So many bytes of a command's memory are being sent.
    pub(super) fn sent(&mut self, command: CommandRef, len: u32) {
        if let Some(run) = self.grant_of(command).run {
            self.pool.sent(run, len);
        }
    }

    /// TCP and the NIC use this no more.
    pub(super) fn sent_is_done(&mut self, slice: Slice) {
        let freed = self.pool.give_back(slice);
        self.freed(freed);
    }

    fn freed(&mut self, freed: Option<Freed>) {
        if let Some(freed) = freed {
            self.shares.give_back(freed);
        }
    }

    fn release_run(&mut self, run: Run) {
        let freed = self.pool.release(run);
        self.freed(freed);
    }

    /// The command has no more use for its memory, or waits for it no more.
    pub(super) fn release(&mut self, stack: &mut Stack, command: CommandRef) {
        let grant = std::mem::take(self.grant_mut(command));
        let Some(run) = grant.run else {
            return self.shares.forget(grant.share, command);
        };
        let unmapping = grant
            .mapped_by
            .and_then(|socket| stack.unmap_buffer(socket, command.slot));
        match unmapping {
            Some(unmapping) => self.unmapping.push(Leaving {
                unmapping,
                then: Then::Release(run),
            }),
            None => self.release_run(run),
        }
    }

    /// Goes on with what the NIC has let go of. `fail` is told of commands whose memory someone on the path had the NIC spoil.
    /// Whether there was any.
    pub(super) fn settle(
        &mut self,
        stack: &mut Stack,
        stores: &mut Stores,
        mut fail: impl FnMut(Owner, Status),
    ) -> bool {
        let mut progress = false;
        let mut at = 0;
        while at < self.unmapping.len() {
            let unmapped = stack.poll_unmap(&self.unmapping[at].unmapping);
            if unmapped == Unmapped::Pending {
                at += 1;
                continue;
            }
            progress = true;
            match (self.unmapping.swap_remove(at).then, unmapped) {
                (Then::Release(run), _) => self.release_run(run),
                (Then::Store(request), Unmapped::Tainted) => {
                    fail(request.owner, Status::TRANSIENT_TRANSPORT_ERROR);
                }
                (Then::Store(request), _) => {
                    if let Owner::Command(command) = request.owner {
                        self.submit(stores, command, request);
                    }
                }
            }
        }
        progress
    }

    fn grant_of(&self, command: CommandRef) -> Grant {
        let grants = &self.grants[command.connection.index()];
        grants
            .get(usize::from(command.slot))
            .copied()
            .unwrap_or_default()
    }

    fn grant_mut(&mut self, command: CommandRef) -> &mut Grant {
        let grants = &mut self.grants[command.connection.index()];
        let slot = usize::from(command.slot);
        if grants.len() <= slot {
            grants.resize(slot + 1, Grant::default());
        }
        &mut grants[slot]
    }
}

impl Capsules {
    fn offset(&self, command: CommandRef) -> u64 {
        let place = command.connection.index() as u64 * u64::from(self.slots);
        self.start + (place + u64::from(command.slot)) * u64::from(self.slot_len)
    }
}
