//! What Identify answers (NVM Express Base 2.0c §5.17, NVM Command Set 1.0c §4.1.5).
//!
//! Every answer is [`LEN`] bytes. The structures here hold the fields that a fabrics host or
//! controller gives a meaning to; all others are zero when written, and ignored when read.

mod controller;
mod descriptors;
mod list;
mod namespace;

pub use controller::{ControllerData, ControllerType, NvmControllerData, sgls};
pub use descriptors::NamespaceIds;
pub use list::{NamespaceList, emit_namespace_list};
pub use namespace::{IndependentNamespaceData, LbaFormat, NamespaceData};

/// Bytes of every answer to Identify.
pub const LEN: usize = 4096;

/// The command set identifier of the NVM command set (NVM 1.0c §1.4).
pub const CSI_NVM: u8 = 0;

/// What is asked for: the CNS field (Base 2.0c §5.17.1, Figure 273).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cns(pub u8);

impl Cns {
    /// [`NamespaceData`] of one namespace.
    pub const NAMESPACE: Cns = Cns(0x00);
    /// [`ControllerData`].
    pub const CONTROLLER: Cns = Cns(0x01);
    /// The active namespaces above the NSID given, as a [`NamespaceList`].
    pub const ACTIVE_NAMESPACES: Cns = Cns(0x02);
    /// [`NamespaceIds`] of one namespace.
    pub const NAMESPACE_IDS: Cns = Cns(0x03);
    /// A namespace's data that is specific to a command set.
    pub const COMMAND_SET_NAMESPACE: Cns = Cns(0x05);
    /// A controller's data that is specific to a command set: [`NvmControllerData`].
    pub const COMMAND_SET_CONTROLLER: Cns = Cns(0x06);
    /// The active namespaces of a command set.
    pub const COMMAND_SET_ACTIVE_NAMESPACES: Cns = Cns(0x07);
    /// [`IndependentNamespaceData`].
    pub const INDEPENDENT_NAMESPACE: Cns = Cns(0x08);
}
