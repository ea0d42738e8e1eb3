//! Telling the hosts how much room is left, so that they stop asking before it is gone.

use crate::function::Function;
use crate::ring::RecvDescriptor;
use crate::ring::accel::AccelRoom;
use crate::switch::FunctionId;

/// What each function knows.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    known: Vec<Option<Known>>,
}

#[derive(Debug, Clone, Copy)]
enum Known {
    /// Nothing: this much was there when it came, and is still.
    Nothing(AccelRoom),
    Told(AccelRoom),
}

impl Rooms {
    /// Tells a function's host if it has to know. False when that waits for room in its receive ring.
    pub(super) fn tell(&mut self, function: &mut Function, room: AccelRoom) -> bool {
        let at = usize::from(function.id.0);
        if at >= self.known.len() {
            self.known.resize(at + 1, None);
        }
        let is_due = match self.known[at].get_or_insert(Known::Nothing(room)) {
            Known::Nothing(first) => room != *first,
            Known::Told(told) => differs(told, &room),
        };
        if !is_due {
            return true;
        }
        let told = function.tell(0, RecvDescriptor::AccelRoom(room));
        if told {
            self.known[at] = Some(Known::Told(room));
        }
        told
    }

    /// The function has gone; another one may come in its place.
    pub(super) fn forget(&mut self, function: FunctionId) {
        if let Some(known) = self.known.get_mut(usize::from(function.0)) {
            *known = None;
        }
    }
}

/// Whether any of it has changed by more than an eighth, or from or to nothing.
fn differs(told: &AccelRoom, now: &AccelRoom) -> bool {
    let pairs = [
        (u64::from(told.closing), u64::from(now.closing)),
        (u64::from(told.splices), u64::from(now.splices)),
        (told.packet_memory, now.packet_memory),
    ];
    pairs
        .into_iter()
        .any(|(told, now)| now.abs_diff(told) > told.max(now) / 8 || (told == 0) != (now == 0))
}
