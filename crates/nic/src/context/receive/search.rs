//! Finding messages in a stream whose headers were lost: the searching and tracking states of Autonomous NIC offloads, Figure 7.

use l5p::{Judgement, Layer5};
use wire::SeqNum;

/// Longest message that is followed.
pub(super) const MAX_MESSAGE: u32 = 1 << 30;

/// Searching: looks for the magic pattern, also where it is split over two packets in sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanner<H> {
    /// The last bytes before the next packet: too few to judge them alone.
    carry: Carry<H>,
}

/// A few bytes of a header that is split over packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry<H> {
    bytes: H,
    len: u8,
}

impl<H: AsRef<[u8]> + AsMut<[u8]>> Carry<H> {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes.as_ref()[..usize::from(self.len)]
    }

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    /// Takes bytes from the front of `input` until there are `wanted`; gives how many it took.
    fn fill(&mut self, wanted: usize, input: &[u8]) -> usize {
        let have = self.len();
        let taken = input.len().min(wanted - have);
        self.bytes.as_mut()[have..have + taken].copy_from_slice(&input[..taken]);
        self.len += taken as u8;
        taken
    }

    /// Keeps the last `keep` bytes of itself followed by `input`.
    fn slide(&mut self, keep: usize, input: &[u8]) {
        if input.len() >= keep {
            self.clear();
            self.fill(keep, &input[input.len() - keep..]);
            return;
        }
        let kept = self.len().min(keep - input.len());
        let from = self.len() - kept;
        self.bytes.as_mut().copy_within(from..from + kept, 0);
        self.len = kept as u8;
        self.fill(keep, input);
    }
}

impl<H: AsRef<[u8]> + AsMut<[u8]> + Copy + Default> Scanner<H> {
    /// Forgets the bytes before a gap.
    pub(super) fn interrupt(&mut self) {
        self.carry.clear();
    }

    /// Searches the next bytes of the stream. Gives the tracker of the first presumed header, and whether its
    /// bytes began in earlier packets: then `at` is 0, else `at` is the header's place in `bytes`.
    pub(super) fn find<L: Layer5<Header = H>>(
        &mut self,
        layer5: &L,
        start: SeqNum,
        bytes: &[u8],
    ) -> Option<(Tracker<H>, usize)> {
        if let Some(tracker) = self.find_split(layer5, start, bytes) {
            return Some((tracker, 0));
        }
        let last = (bytes.len() + 1).saturating_sub(L::MIN_HEADER_LEN);
        let found = (0..last).find(|&at| {
            let rest = &bytes[at..];
            is_header(layer5, &rest[..rest.len().min(L::HEADER_LEN)])
        });
        if let Some(at) = found {
            return Some((Tracker::new(start + at as u32, Carry::default()), at));
        }
        self.carry.slide(L::HEADER_LEN - 1, bytes);
        None
    }

    /// A header whose first bytes are in the carry.
    fn find_split<L: Layer5<Header = H>>(
        &mut self,
        layer5: &L,
        start: SeqNum,
        bytes: &[u8],
    ) -> Option<Tracker<H>> {
        let carried = self.carry.len();
        for skipped in 0..carried {
            let mut presumed = Carry::default();
            presumed.fill(L::HEADER_LEN, &self.carry.as_slice()[skipped..]);
            let beginning = presumed;
            presumed.fill(L::HEADER_LEN, bytes);
            if is_header(layer5, presumed.as_slice()) {
                let guess = start - (carried - skipped) as u32;
                return Some(Tracker::new(guess, beginning));
            }
        }
        None
    }
}

fn is_header<L: Layer5>(layer5: &L, bytes: &[u8]) -> bool {
    matches!(layer5.judge(bytes), Judgement::Message { len } if is_plausible::<L>(len))
}

/// Longer messages would make sequence numbers incomparable.
fn is_plausible<L: Layer5>(len: u32) -> bool {
    (L::MIN_HEADER_LEN..=MAX_MESSAGE as usize).contains(&(len as usize))
}

/// Tracking: from a presumed header on, follows the messages by their length and judges each next header, while
/// the L5 software is asked about the first one.
#[derive(Clone, Debug)]
pub(super) struct Tracker<H> {
    guess: SeqNum,
    /// Messages from the guess up to `next`.
    messages: u32,
    /// The length of these messages; 0 if they do not have one.
    len: u32,
    /// First byte of the last of them.
    last: SeqNum,
    /// First byte of the next header to be judged.
    next: SeqNum,
    /// What came of that header already.
    partial: Carry<H>,
}

/// The stream is not what the guess says: search on from this place in the bytes given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) search_from: usize,
}

impl<H: AsRef<[u8]> + AsMut<[u8]>> Tracker<H> {
    fn new(guess: SeqNum, partial: Carry<H>) -> Self {
        Self {
            guess,
            messages: 0,
            len: 0,
            last: guess,
            next: guess,
            partial,
        }
    }

    /// The presumed header that the L5 software is asked about.
    pub(super) fn guess(&self) -> SeqNum {
        self.guess
    }

    /// First byte of the next header.
    pub(super) fn next(&self) -> SeqNum {
        self.next
    }

    /// Messages between the guess and the next header.
    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    /// The length of the messages between the guess and the next header, if there are some, and they have one.
    pub(super) fn one_len(&self) -> Option<u32> {
        (self.len > 0).then_some(self.len)
    }

    /// First byte of the last of these messages.
    pub(super) fn last_message(&self) -> SeqNum {
        self.last
    }

    /// The bytes of the next header that have come already.
    pub(super) fn partial(&self) -> &[u8] {
        self.partial.as_slice()
    }

    /// Follows the messages through the bytes that begin at `start`. `contiguous`: no byte is missing before them.
    pub(super) fn follow<L: Layer5<Header = H>>(
        &mut self,
        layer5: &L,
        start: SeqNum,
        bytes: &[u8],
        contiguous: bool,
    ) -> Result<(), Lost> {
        let awaited = self.next + self.partial.len() as u32;
        let header_missing = awaited.before(start) || (self.partial.len() > 0 && !contiguous);
        if header_missing {
            return Err(Lost { search_from: 0 });
        }
        let end = start + bytes.len() as u32;
        loop {
            let awaited = self.next + self.partial.len() as u32;
            if awaited.at_or_after(end) {
                return Ok(());
            }
            let at = start.distance_to(awaited) as usize;
            self.partial.fill(L::HEADER_LEN, &bytes[at..]);
            match layer5.judge(self.partial.as_slice()) {
                Judgement::Message { len } if is_plausible::<L>(len) => {
                    if self.messages > 0 && self.len != len {
                        self.len = 0;
                    } else {
                        self.len = len;
                    }
                    self.messages += 1;
                    self.last = self.next;
                    self.next += len;
                    self.partial.clear();
                }
                Judgement::TooShort if self.partial.len() < L::HEADER_LEN => {}
                _ => return Err(Lost { search_from: at }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
