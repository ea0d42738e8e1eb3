//! What the function tells a VMM of its regions and interrupts.

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{IrqInfo, ServerRegion};

use crate::config_space::{BYTES, REGISTERS_BYTES, VECTORS_BYTES};

/// All regions. None can be mapped: a doorbell is written only when the NIC sleeps, and is to wake it then.
pub(crate) fn regions() -> Vec<ServerRegion> {
    let of = |index| {
        let size = match index {
            VFIO_PCI_BAR0_REGION_INDEX => REGISTERS_BYTES.into(),
            VFIO_PCI_BAR2_REGION_INDEX => VECTORS_BYTES.into(),
            VFIO_PCI_CONFIG_REGION_INDEX => BYTES as u64,
            _ => 0,
        };
        let flags = match size {
            0 => 0,
            _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
        };
        ServerRegion {
            region_info: vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                index,
                flags,
                size,
                ..Default::default()
            },
            sparse_areas: Vec::new(),
            mmap_fd: None,
        }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(of).collect()
}

/// All kinds of interrupts: MSI-X with so many vectors.
pub(crate) fn interrupts(vectors: u16) -> Vec<IrqInfo> {
    let of = |index| match index {
        VFIO_PCI_MSIX_IRQ_INDEX => IrqInfo {
            index,
            flags: VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE,
            count: vectors.into(),
        },
        _ => IrqInfo {
            index,
            flags: 0,
            count: 0,
        },
    };
    (0..VFIO_PCI_NUM_IRQS).map(of).collect()
}
