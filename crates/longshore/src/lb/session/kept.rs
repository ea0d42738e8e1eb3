//! Content of requests that is kept to be sent again: for each client, and for all of them, within limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of one request, with its head.
pub(super) const MOST: usize = 64 * 1024;
/// Bytes of the content of all requests.
const MOST_OF_ALL: usize = 32 << 20;

/// What is kept of all requests.
#[derive(Clone, Debug, Default)]
pub struct KeptOfAll(Arc<AtomicUsize>);

/// What is kept of one request's content: it counts until it is released.
#[derive(Debug, Default)]
pub(super) struct Kept {
    all: Option<KeptOfAll>,
    bytes: usize,
}

impl Kept {
    /// Whether so much more may be kept; it counts then.
    pub(super) fn keep(&mut self, of_all: &KeptOfAll, len: usize) -> bool {
        let KeptOfAll(total) = self.all.get_or_insert_with(|| of_all.clone());
        let may_keep = total.load(Ordering::Relaxed) + len <= MOST_OF_ALL;
        if may_keep {
            total.fetch_add(len, Ordering::Relaxed);
            self.bytes += len;
        }
        may_keep
    }

    /// It is kept no more.
    pub(super) fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(KeptOfAll(total)) = &self.all {
            total.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_together_have_no_more_than_the_limit() {
        let of_all = KeptOfAll::default();
        let mut requests: Vec<Kept> = (0..1000).map(|_| Kept::default()).collect();
        let kept = requests
            .iter_mut()
            .filter_map(|request| request.keep(&of_all, MOST).then_some(MOST));
        assert_eq!(kept.sum::<usize>(), MOST_OF_ALL);
        requests[0].release();
        drop(requests.pop());
        assert!(requests[999 - 1].keep(&of_all, MOST));
        assert!(!requests[999 - 1].keep(&of_all, 1));
        drop(requests);
        assert_eq!(of_all.0.load(Ordering::Relaxed), 0);
    }
}
