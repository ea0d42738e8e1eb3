//! Frames that lie in several places: a port that can hands them to the system as they lie, without a copy in between.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::Fill;
use crate::meta::Meta;

/// A frame whose head is in the buffer that the port gave, and whose other bytes lie where its source has them.
#[derive(Debug)]
pub struct Parts<'a> {
    /// Bytes at the front of the buffer. Of a super-frame they are its headers at least.
    pub head: usize,
    /// What goes along with it.
    pub meta: Meta,
    lent: [IoSlice<'a>; Parts::MAX_LENT],
    count: usize,
}

impl<'a> Parts<'a> {
    /// Most places of a frame beside its head.
    pub const MAX_LENT: usize = 8;

    /// A frame of which only the head is there.
    #[must_use]
    pub fn new(head: usize, meta: Meta) -> Parts<'a> {
        Parts {
            head,
            meta,
            lent: [IoSlice::new(&[]); Parts::MAX_LENT],
            count: 0,
        }
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// When there are [`MAX_LENT`](Self::MAX_LENT) places already.
    pub fn lend(&mut self, bytes: &'a [u8]) {
        self.lent[self.count] = IoSlice::new(bytes);
        self.count += 1;
    }

    /// What is not in the buffer, in order.
    #[must_use]
    pub fn lent(&self) -> &[IoSlice<'a>] {
        &self.lent[..self.count]
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub fn len(&self) -> usize {
        let lent = self.lent().iter().map(|part| part.len());
        self.head + lent.sum::<usize>()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes a frame whose head, behind what the system wants before it, is in `front`.
    pub(crate) fn write(&self, fd: &OwnedFd, front: &[u8]) -> Result<usize, Errno> {
        let mut all = [IoSlice::new(front); 1 + Parts::MAX_LENT];
        all[1..=self.count].copy_from_slice(self.lent());
        rustix::io::writev(fd, &all[..=self.count])
    }

    /// Copies what is lent behind the head, so that the frame is whole there. Gives its length.
    ///
    /// # Panics
    /// When the buffer is too small.
    pub fn gather(&self, buffer: &mut [u8]) -> usize {
        let mut end = self.head;
        for part in self.lent() {
            buffer[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        end
    }
}

/// Where a port gets frames from.
pub trait Source {
    /// The next frame: its head in `buffer`, which has [`max_frame`](crate::Capabilities::max_frame) bytes, the rest lent until
    /// the next call. `None` if there is none.
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>>;
}

/// A source of frames that are in the buffer as a whole.
pub(crate) struct Whole<'a, 'f>(pub(crate) &'a mut Fill<'f>);

impl Source for Whole<'_, '_> {
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>> {
        let (len, meta) = (self.0)(buffer)?;
        assert!(
            len <= buffer.len(),
            "a frame of {len} bytes is beyond its buffer"
        );
        Some(Parts::new(len, meta))
    }
}
