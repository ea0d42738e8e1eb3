//! Names of sessions, and whose each socket is.

use host::SocketId;

/// A session. A key of an ended session stays invalid: slots are told apart by generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A server: its pool, and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerKey {
    pub(super) pool: usize,
    pub(super) server: usize,
}

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A session's client.
    Client(SessionKey),
    /// A session's connection to a server.
    Server(SessionKey),
    /// An idle connection to a server.
    Idle(ServerKey),
    /// A health check.
    Check(ServerKey),
}

/// The role of every socket, by [`SocketId::index`].
#[derive(Debug, Default)]
pub struct Roles {
    table: Vec<Option<(SocketId, Role)>>,
}

impl Roles {
    /// Gives a socket a role, in place of the one that it had.
    pub fn set(&mut self, id: SocketId, role: Role) {
        let index = id.index();
        if self.table.len() <= index {
            self.table.resize(index + 1, None);
        }
        self.table[index] = Some((id, role));
    }

    /// The socket is given up.
    pub fn clear(&mut self, id: SocketId) {
        if let Some(slot) = self.table.get_mut(id.index())
            && slot.is_some_and(|(owner, _)| owner == id)
        {
            *slot = None;
        }
    }

    /// What a socket is for.
    pub fn of(&self, id: SocketId) -> Option<Role> {
        let (owner, role) = (*self.table.get(id.index())?)?;
        (owner == id).then_some(role)
    }
}
