//! The caller's buffers.

use crate::abi::RECORD_TYPE_DATA;

/// Where a call's content goes.
pub(super) struct Target<'a, 'b> {
    pieces: &'a mut [&'b mut [u8]],
    /// Piece, and place in it.
    at: (usize, usize),
    pub(super) len: usize,
    pub(super) record_type: Option<u8>,
    pub(super) ends_record: bool,
}

impl<'a, 'b> Target<'a, 'b> {
    pub(super) fn new(pieces: &'a mut [&'b mut [u8]]) -> Self {
        Target {
            pieces,
            at: (0, 0),
            len: 0,
            record_type: None,
            ends_record: false,
        }
    }
}

impl Target<'_, '_> {
    pub(super) fn is_full(&self) -> bool {
        self.pieces[self.at.0.min(self.pieces.len())..]
            .iter()
            .enumerate()
            .all(|(index, piece)| piece.len() == if index == 0 { self.at.1 } else { 0 })
    }

    /// Where the next byte goes.
    pub(super) fn place(&self) -> ((usize, usize), usize) {
        (self.at, self.len)
    }

    /// What is behind a place is to be filled again.
    pub(super) fn go_back_to(&mut self, place: ((usize, usize), usize)) {
        (self.at, self.len) = place;
    }

    /// The next room that lies together.
    pub(super) fn contiguous(&mut self) -> &mut [u8] {
        while self.at.0 < self.pieces.len() && self.at.1 == self.pieces[self.at.0].len() {
            self.at = (self.at.0 + 1, 0);
        }
        match self.pieces.get_mut(self.at.0) {
            Some(piece) => &mut piece[self.at.1..],
            None => &mut [],
        }
    }

    /// The next `len` bytes of room that lies together were filled with application data.
    pub(super) fn advance(&mut self, len: usize) {
        self.at.1 += len;
        self.len += len;
        self.record_type = Some(RECORD_TYPE_DATA);
    }

    /// Copies as much as there is room for.
    pub(super) fn copy(&mut self, mut from: &[u8], record_type: u8) -> usize {
        let before = from.len();
        while !from.is_empty() {
            let room = self.contiguous();
            let bytes = room.len().min(from.len());
            if bytes == 0 {
                break;
            }
            room[..bytes].copy_from_slice(&from[..bytes]);
            from = &from[bytes..];
            self.at.1 += bytes;
            self.len += bytes;
        }
        self.record_type = Some(record_type);
        before - from.len()
    }
}
