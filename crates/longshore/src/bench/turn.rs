//! A host's turn in a world, and what its applications have in it.

use std::time::Instant;

use host::{SocketError, SocketId, Stack};

/// What an application has in its turn: a stack, at a time, and what is said over its connections.
pub struct Talk<'a, M> {
    /// The time.
    pub now: Instant,
    /// The application's stack.
    pub stack: &'a mut Stack,
    /// The messages.
    pub messages: &'a M,
}

impl<M> Talk<'_, M> {
    /// Writes what is left of a message, as far as the socket takes it; `written` counts the bytes. Answers whether all of it is
    /// written.
    ///
    /// # Errors
    /// When the connection does not take it.
    pub fn write_rest(
        &mut self,
        socket: SocketId,
        message: &[u8],
        written: &mut u32,
    ) -> Result<bool, SocketError> {
        while (*written as usize) < message.len() {
            let rest = &message[*written as usize..];
            match self.stack.write(self.now, socket, rest) {
                Ok(len) => *written += len as u32,
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// The slot of a socket in a table by the indices of sockets.
pub fn slot<T: Clone + Default>(table: &mut Vec<T>, socket: SocketId) -> &mut T {
    let at = socket.index();
    if table.len() <= at {
        table.resize(at + 1, T::default());
    }
    &mut table[at]
}

/// Lets a stack and the application on it work as its own loop would: until nothing that is there by now is left to do. A poll
/// takes in a limited number of packets. Answers whether there was anything.
///
/// # Errors
/// The application's.
pub fn work(
    now: Instant,
    stack: &mut Stack,
    mut application: impl FnMut(&mut Stack) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    /// More than that is done in the next turn, so that nobody waits for ever.
    const POLLS: u32 = 64;
    let mut moved = false;
    for _ in 0..POLLS {
        let progress = stack.poll(now);
        application(stack)?;
        if !progress {
            break;
        }
        moved = true;
    }
    Ok(moved)
}
