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
    Reported(AccelRoom),
}

impl Rooms {
    /// Tells a function's host if it has to know. False when that waits for room in its receive ring.
    pub(super) fn report(&mut self, function: &mut Function, room: AccelRoom) -> bool {
        let at = usize::from(function.id.0);
        if at >= self.known.len() {
            self.known.resize(at + 1, None);
        }
        let is_due = match self.known[at].get_or_insert(Known::Nothing(room)) {
            Known::Nothing(first) => room != *first,
            Known::Reported(reported) => differs(reported, &room),
        };
        if !is_due {
            return true;
        }
        let reported = function.report(0, RecvDescriptor::AccelRoom(room));
        if reported {
            self.known[at] = Some(Known::Reported(room));
        }
        reported
    }

    /// The function has gone; another one may come in its place.
    pub(super) fn forget(&mut self, function: FunctionId) {
        if let Some(known) = self.known.get_mut(usize::from(function.0)) {
            *known = None;
        }
    }
}

/// Whether any of it has changed by more than an eighth, or from or to nothing.
fn differs(reported: &AccelRoom, now: &AccelRoom) -> bool {
    let pairs = [
        (u64::from(reported.closing), u64::from(now.closing)),
        (u64::from(reported.splices), u64::from(now.splices)),
        (reported.packet_memory, now.packet_memory),
    ];
    pairs.into_iter().any(|(reported, now)| {
        now.abs_diff(reported) > reported.max(now) / 8 || (reported == 0) != (now == 0)
    })
}
