//! Commands and the stores: memory for a command's data, the request to its store, and what became of that.

use wire::nvme::command::Status;

use super::action::{Action, FilledBy, Operation, Owner, StoreRequest};
use super::command::{State, Work};
use super::ids::{CommandRef, ConnectionId};
use super::machine::Target;
use super::transfer::Transfer;

impl Target {
    /// There is memory for the data of `command`, as [`Action::Buffer`] asked.
    pub fn handle_buffer(&mut self, command: CommandRef) {
        let (r2t_data, id) = (self.config.limits.r2t_data, command.connection);
        let Some(connection) = self.open_mut(id) else {
            return;
        };
        let max_r2t = connection.max_r2t;
        let Some(waiting) = connection.command_mut(command.slot) else {
            return;
        };
        let (State::Waiting, Work::Store(work)) = (&waiting.state, &waiting.work) else {
            return;
        };
        if filled_by(&work.operation) == FilledBy::Host {
            let transfer = Transfer::new(work.len, r2t_data, max_r2t);
            waiting.state = State::Receiving(transfer);
            connection.queue(command.slot);
        } else {
            self.store(id, command.slot);
        }
    }

    /// A store has done, or could not do, what [`Action::Store`] asked of it.
    pub fn handle_stored(&mut self, owner: Owner, result: Result<(), Status>) {
        match owner {
            Owner::Command(command) => self.command_stored(command, result),
            Owner::Controller(controller) => self.flushed(controller, result),
        }
    }

    /// The store's turn for a command whose data, if it has any, is there.
    pub(super) fn store(&mut self, id: ConnectionId, slot: u16) {
        let connection = self.open_mut(id).expect("it is open");
        let command = connection.command_mut(slot).expect("it is in flight");
        let Work::Store(work) = &command.work else {
            unreachable!("only I/O commands have data that is stored");
        };
        let request = StoreRequest {
            owner: Owner::Command(CommandRef {
                connection: id,
                slot,
            }),
            store: work.store,
            operation: work.operation,
        };
        command.state = State::Storing;
        connection.at_store += 1;
        self.actions.push_back(Action::Store(request));
    }

    /// Asks for memory for a command.
    pub(super) fn await_buffer(&mut self, id: ConnectionId, slot: u16) {
        let connection = self.open_mut(id).expect("it is open");
        let command = connection.command_mut(slot).expect("it is in flight");
        let Work::Store(work) = &command.work else {
            unreachable!("only I/O commands need memory");
        };
        let action = Action::Buffer {
            command: CommandRef {
                connection: id,
                slot,
            },
            len: work.buffer_len(),
            filled_by: filled_by(&work.operation),
        };
        command.state = State::Waiting;
        command.buffer = true;
        self.actions.push_back(action);
    }

    fn command_stored(&mut self, reference: CommandRef, result: Result<(), Status>) {
        let CommandRef {
            connection: id,
            slot,
        } = reference;
        let Some(connection) = self.connections.get_mut(id.index, id.generation) else {
            return;
        };
        let (closed, subject) = (connection.is_closed(), connection.subject());
        let Some(command) = connection.command_mut(slot) else {
            return;
        };
        let (State::Storing, Work::Store(work)) = (&command.state, &command.work) else {
            return;
        };
        let work = *work;
        if closed {
            let buffer = command.buffer;
            connection.finish(slot);
            connection.at_store -= 1;
            if connection.at_store == 0 {
                self.connections.remove(id.index, id.generation);
                self.shared.lock().left(id);
            }
            if buffer {
                self.actions.push_back(Action::Release(reference));
            }
            return;
        }
        if let (Ok(()), Operation::Read { len, .. }) = (result, work.operation) {
            command.state = State::Sending { sent: 0, len };
            connection.queue(slot);
            connection.at_store -= 1;
        } else {
            connection.at_store -= 1;
            self.respond(id, slot, result.err().unwrap_or(Status::SUCCESS), 0);
        }
        self.count(subject, &work, result);
    }
}

/// Who fills the memory that a command is given for this.
fn filled_by(operation: &Operation) -> FilledBy {
    use super::action::Memory::Buffer;
    match operation {
        Operation::Write { memory: Buffer, .. }
        | Operation::Compare { memory: Buffer, .. }
        | Operation::Deallocate { memory: Buffer, .. } => FilledBy::Host,
        _ => FilledBy::Store,
    }
}
