//! A device that two threads have: the one that its VMM's requests come to, and one that hears of the NIC's next process.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use crate::device::Device;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Device>>);

impl Shared {
    pub(crate) fn new(device: Device) -> Shared {
        Shared(Arc::new(Mutex::new(device)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerBackend for Shared {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.lock().region_read(region, offset, data)
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.lock().region_write(region, offset, data)
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        len: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        self.lock().dma_map(flags, offset, address, len, file)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, len: u64) -> io::Result<()> {
        self.lock().dma_unmap(flags, address, len)
    }

    fn reset(&mut self) -> io::Result<()> {
        self.lock().reset()
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        self.lock().set_irqs(index, flags, start, count, files)
    }
}
