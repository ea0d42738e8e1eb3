//! One connection whose records the NIC opens.

use attachment::results::{Form, Full, RESERVED, RUNS, Results, RxContextTag, Writer};
use attachment::{Asking, Questions, SlotRef};
use l5p::tls::CryptoInfo;
use wire::SeqNum;

use super::forms::{Forms, Unfit};
use crate::acknowledged::Acknowledged;
use crate::following::{Followed, Following};

/// Free words at which a connection whose runs were not read is offloaded again.
const ENOUGH_FREE: usize = RUNS * 3 / 4;

/// Where a direction of a live socket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The next byte that the program reads: the new keys hold from there on.
    pub(crate) tcpsn: SeqNum,
    /// The next byte that Linux expects.
    pub(crate) next: SeqNum,
    /// Packets that came before may lie in Linux's queue of those out of order, or be on their way there: all before this.
    pub(crate) queued: SeqNum,
}

/// Where a context is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Record `index` begins at `tcpsn`, and the device sees all of it.
    At { tcpsn: SeqNum, index: u64 },
    /// It has to find a record by itself, and ask.
    Anywhere,
}

/// Why a frame does not go to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The program has not read what was reported before.
    Full,
    /// It was decrypted, and its bytes went up differently.
    Unfit(Unfit),
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(super) slot: SlotRef,
    pub(super) keys: CryptoInfo,
    /// What the library calls these keys.
    epoch: u8,
    pub(super) following: Following,
    asking: Asking,
    writer: Writer,
    forms: Forms,
}

impl Flow {
    pub(super) fn new(slot: SlotRef, keys: CryptoInfo, start: Start) -> Flow {
        let epoch = Results::new(slot.slot().results()).announced_epoch();
        let mut flow = Flow {
            slot,
            keys,
            epoch,
            following: match start.queued.after(start.next) {
                true => Following::From(start.queued),
                false => Following::No,
            },
            asking: Asking::default(),
            writer: Writer::default(),
            forms: Forms::new(Acknowledged::new(start.next, start.queued)),
        };
        let results = Results::new(flow.slot.slot().results());
        flow.writer.acknowledge(results, start.next);
        // What another NIC has left: second copies of it end where ours do.
        for (_, run) in results.runs().filter(|(_, run)| run.form == Form::Either) {
            flow.forms.recall(run.start, run.len, run.tag);
        }
        flow
    }

    fn results(&self) -> Results<'_> {
        Results::new(self.slot.slot().results())
    }

    /// New keys, in the place of those that there were.
    pub(super) fn rekey(&mut self, slot: SlotRef, keys: CryptoInfo, start: Start) {
        if slot != self.slot {
            (self.writer, self.asking) = (Writer::default(), Asking::default());
        }
        self.slot = slot;
        self.keys = keys;
        self.epoch = self.results().announced_epoch();
        self.asking.forget();
        self.forms.give(start.next.max(start.queued));
        self.acknowledge(start.next);
        if !matches!(self.following, Following::From(_)) {
            self.following = Following::No;
        }
    }

    /// Linux has acknowledged the stream up to `position`.
    pub(super) fn acknowledge(&mut self, position: SeqNum) {
        if self.forms.acknowledge(position) {
            self.writer.acknowledge(self.results(), position);
        }
    }

    /// Whether a context may be made now, for one that was to wait.
    pub(super) fn may_follow(&self) -> bool {
        match self.following {
            Following::From(position) => self.forms.acknowledged().at_or_after(position),
            Following::Paused => Writer::free(self.results()) >= ENOUGH_FREE,
            Following::No | Following::By(_) => false,
        }
    }

    /// The tag of the next context.
    pub(super) fn next_tag(&self) -> RxContextTag {
        self.results().next_tag(self.epoch)
    }

    /// The device should stop decrypting.
    pub(super) fn is_low(&self) -> bool {
        self.writer.is_low()
    }

    /// Up to where Linux has acknowledged the stream.
    pub(super) fn acknowledged(&self) -> SeqNum {
        self.forms.acknowledged()
    }

    /// Tells of a frame that is about to go to Linux, decrypted by the context of `tag` or as it came. Gives whether some of its bytes have gone in
    /// the other form.
    pub(super) fn admit(
        &mut self,
        bytes: (SeqNum, u32),
        tag: Option<RxContextTag>,
    ) -> Result<bool, Refused> {
        let results = Results::new(self.slot.slot().results());
        let reported = self.forms.admit(bytes, tag).map_err(Refused::Unfit)?;
        // All is reported or nothing: what was reported of bytes that do not go up would be believed of their next copy.
        if reported.len() > 1 && Writer::free(results) < reported.len() + RESERVED {
            return Err(Refused::Full);
        }
        let mut is_second = false;
        for reported in reported {
            let range = (reported.start, reported.len);
            let done = match reported.form {
                Form::Decrypted => self.writer.decrypted(results, range, reported.tag),
                Form::Either => {
                    is_second = true;
                    self.writer.either(results, range, reported.tag)
                }
            };
            done.map_err(|Full| Refused::Full)?;
        }
        self.forms.remember();
        Ok(is_second)
    }
}

impl Followed for Flow {
    fn parts(&mut self) -> (&mut Following, &mut Asking, Questions<'_>) {
        let questions = Results::new(self.slot.slot().results()).questions();
        (&mut self.following, &mut self.asking, questions)
    }
}
