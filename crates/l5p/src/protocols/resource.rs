//! What many contexts share: made once by the device, of bytes of the host's.

use std::any::Any;
use std::sync::Arc;

/// Most bytes that a resource can be made of.
pub const MAX_RESOURCE: u32 = 64 << 10;

/// The host's name for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(pub u16);

/// What [`Protocol::make_resource`](super::Protocol::make_resource) has made. It lives as long as a context uses it.
#[derive(Clone, Debug)]
pub struct Resource {
    made: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

impl Resource {
    /// Something that takes so many bytes of memory.
    pub fn new<T: Any + Send + Sync>(made: Arc<T>, bytes: usize) -> Resource {
        Resource { made, bytes }
    }

    /// It, if it is of this type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.made).downcast().ok()
    }

    /// Whether anything else has it: a clone of this, or an engine.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.made) > 1
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
