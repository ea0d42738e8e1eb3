//! Frames that lie in several places: a port that can hands them to the system as they lie, without a copy in between.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use shared::SharedSlice;

use crate::Fill;
use crate::meta::Meta;

/// A frame whose head is in the buffer that the port gave, and whose other bytes lie where its source has them.
#[derive(Debug)]
pub struct Parts<'a> {
    /// Bytes at the front of the buffer. Of a super-frame they are its headers at least.
    pub head: usize,
    /// What goes along with it.
    pub meta: Meta,
    lent: [SharedSlice<'a>; Parts::MAX_LENT],
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
            lent: [SharedSlice::NOTHING; Parts::MAX_LENT],
            count: 0,
        }
    }

    /// Appends bytes, which others may write until the system has read them.
    ///
    /// # Panics
    /// When there are [`MAX_LENT`](Self::MAX_LENT) places already.
    pub fn lend(&mut self, bytes: impl Into<SharedSlice<'a>>) {
        self.lent[self.count] = bytes.into();
        self.count += 1;
    }

    /// What is not in the buffer, in order.
    #[must_use]
    pub fn lent(&self) -> &[SharedSlice<'a>] {
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
        let piece = |bytes: SharedSlice<'_>| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut all = [piece(front.into()); 1 + Parts::MAX_LENT];
        for (to, bytes) in all[1..].iter_mut().zip(self.lent()) {
            *to = piece(*bytes);
        }
        let count = 1 + self.count as libc::c_int;
        // SAFETY: the first `count` pieces are valid for reads as long as `front` and what is lent; the system reads them, once each.
        let written = unsafe { libc::writev(fd.as_raw_fd(), all.as_ptr(), count) };
        usize::try_from(written)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    /// Copies what is lent behind the head, so that the frame is whole there. Gives its length.
    ///
    /// # Panics
    /// When the buffer is too small.
    pub fn gather(&self, buffer: &mut [u8]) -> usize {
        let mut end = self.head;
        for part in self.lent() {
            let start = end;
            end += part.len();
            part.copy_to(&mut buffer[start..end]);
        }
        end
    }
}

/// Where a port gets frames from.
pub trait Source {
    /// The next frame: its head in `buffer`, which has [`max_frame`](crate::Capabilities::max_frame) bytes, the rest lent until
    /// the next call. `None` without a frame.
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
