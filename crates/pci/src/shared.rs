//! A device that two threads have: the one that its VMM's requests come to, and one that hears of the NIC's next process. While one of them has the
//! device, it neither examines nor closes a file of the VMM's.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rings::guest::{Memory, is_memory};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use crate::device::Device;
use crate::files::examined;
use crate::interrupts::may_be_eventfd;
use crate::threads::Threads;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    device: Arc<Mutex<Device>>,
    threads: Threads,
}

impl Shared {
    /// Of the socket with these threads.
    pub(crate) fn new(device: Device, threads: Threads) -> Shared {
        let device = Arc::new(Mutex::new(device));
        Shared { device, threads }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerBackend for Shared {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.lock().region_read(region, offset, data)
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.lock().region_write(region, offset, data)
    }

    /// Memory that can't be mapped is left out: the NIC refuses descriptors that name it.
    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        len: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        let is_wanted = |file: &File| is_memory(file.as_fd());
        let file = examined(&self.threads, file.into_iter().collect(), is_wanted)?.pop();
        let (Some(file), true) = (file, flags.contains(DmaMapFlags::READ)) else {
            return Ok(());
        };
        let memory = Memory {
            address,
            offset,
            len,
            writable: flags.contains(DmaMapFlags::WRITE),
        };
        let left = self.lock().map(memory, file);
        drop(left);
        Ok(())
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, len: u64) -> io::Result<()> {
        let (address, len) = match flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            true => (0, u64::MAX),
            false => (address, len),
        };
        let left = self.lock().unmap(address, len);
        drop(left);
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.lock().restart();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        let files = examined(&self.threads, files, may_be_eventfd)?;
        if index != VFIO_PCI_MSIX_IRQ_INDEX || flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return Ok(());
        }
        let vectors = Arc::clone(self.lock().interrupts());
        let end = start.saturating_add(count).min(vectors.count());
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            // As many as it says, or none: then these vectors have none.
            let files = files.into_iter().chain(std::iter::repeat_with(|| None));
            vectors.set((start..end).zip(files));
        } else if flags & VFIO_IRQ_SET_DATA_NONE != 0 && count == 0 {
            vectors.clear();
        } else if flags & VFIO_IRQ_SET_DATA_NONE != 0 {
            (start..end).for_each(|vector| vectors.fire(vector as u16));
        }
        Ok(())
    }
}
