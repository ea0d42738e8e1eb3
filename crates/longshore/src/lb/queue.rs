//! Requests that wait for a backend with room, in the order in which they came.

use std::collections::VecDeque;

use super::keys::SessionKey;

/// The queue of a pool. Who is first is *called* when there may be room: it has left the queue, and the room is kept for
/// it until it answers.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<(Ticket, SessionKey)>,
    called: u64,
    next: Ticket,
}

/// A place in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Queue {
    /// Those who wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Those who are to be served before a newcomer.
    pub fn ahead(&self) -> u64 {
        self.waiting.len() as u64 + self.called
    }

    /// Takes a newcomer in.
    pub fn enter(&mut self, key: SessionKey) -> Ticket {
        let ticket = self.next;
        self.next.0 += 1;
        self.waiting.push_back((ticket, key));
        ticket
    }

    /// Takes one in again that was called in vain: it has its place as before.
    pub fn reenter(&mut self, ticket: Ticket, key: SessionKey) {
        let at = self.waiting.partition_point(|(other, _)| *other < ticket);
        self.waiting.insert(at, (ticket, key));
    }

    /// Calls as many as there is `room` for.
    pub fn call(&mut self, room: u64, woken: &mut VecDeque<SessionKey>) {
        while self.called < room
            && let Some((_, key)) = self.waiting.pop_front()
        {
            self.called += 1;
            woken.push_back(key);
        }
    }

    /// One that was called is here.
    pub fn answer(&mut self) {
        self.called -= 1;
    }

    /// One leaves that waits or was called.
    pub fn leave(&mut self, key: SessionKey, woken: &mut VecDeque<SessionKey>) {
        match self.waiting.iter().position(|(_, waiting)| *waiting == key) {
            Some(at) => drop(self.waiting.remove(at)),
            None => {
                woken.retain(|called| *called != key);
                self.answer();
            }
        }
    }
}
