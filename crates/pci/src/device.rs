//! What a VMM's requests come to.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rings::guest::{Attached, Gone, Line, Memory};
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
};

use crate::config_space::{ConfigSpace, VECTORS_BYTES};
use crate::interrupts::{Bells, Vectors};
use crate::registers::{Action, Given, Registers};
use crate::threads::Threads;

/// Bytes of one access.
const MOST_BYTES: usize = 4096;
/// The refusal of sizes and quotas, which are not even numbers for the NIC here.
const BAD_SIZES: u8 = 4;

/// Most parts of memory that are kept for the NIC's next process: no more than a NIC takes.
const MOST_MEMORY: usize = 64;

/// The device of one VMM. When it is dropped, the NIC's function goes.
#[derive(Debug)]
pub(crate) struct Device {
    line: Line,
    /// What the VMM has mapped, for the NIC's next process.
    memory: Vec<(Memory, File)>,
    config: ConfigSpace,
    registers: Registers,
    /// BAR 2. What is written there is the VMM's concern, which has given eventfds for vectors.
    table: Vec<u8>,
    vectors: Arc<Vectors>,
    /// The function that is there.
    function: Option<Attached>,
    /// Its interrupts. They end with the function on the NIC, not here.
    bells: Option<Bells>,
}

impl Device {
    /// Of a VMM that has come.
    ///
    /// # Errors
    /// When the NIC has gone.
    pub(crate) fn new(line: Line, threads: Threads) -> Result<Device, Gone> {
        let registers = Registers::new(offered(&line)?);
        let vectors = registers.queues() + 1;
        Ok(Device {
            line,
            memory: Vec::new(),
            config: ConfigSpace::new(vectors),
            registers,
            table: vec![0; VECTORS_BYTES as usize],
            vectors: Arc::new(Vectors::new(vectors, threads)),
            function: None,
            bells: None,
        })
    }

    /// MSI-X vectors: one for each queue, and one for events.
    pub(crate) fn vectors(&self) -> u16 {
        self.registers.queues() + 1
    }

    /// What has the VMM's eventfds.
    pub(crate) fn interrupts(&self) -> &Arc<Vectors> {
        &self.vectors
    }

    fn act(&mut self, action: Action) {
        let done = match action {
            Action::Enable => self.enable(),
            Action::Disable => self.disable(),
            Action::Reset => self.detach(),
            Action::Ring => {
                self.function.iter().for_each(Attached::ring);
                Ok(())
            }
        };
        self.check(done);
    }

    /// Goes on with the NIC's next process, at the other end of this line. The driver hears that its function has gone, and that there is a NIC.
    pub(crate) fn go_on_with(&mut self, line: Line) {
        self.check(Err(Gone));
        self.bells = None;
        match self.take_up(line) {
            Ok(true) => self.set_link(true),
            Ok(false) => tracing::warn!("a guest's NIC has come back with other limits"),
            Err(gone) => tracing::debug!("not gone on with: {gone}"),
        }
    }

    /// Has another process of the NIC map the machine's memory. False when it offers something else than the driver knows.
    fn take_up(&mut self, line: Line) -> Result<bool, Gone> {
        if !self.registers.offer(&offered(&line)?) {
            return Ok(false);
        }
        for (memory, file) in &self.memory {
            if let Err(refusal) = line.map(*memory, file.as_fd())? {
                warn_of(memory, refusal);
            }
        }
        self.line = line;
        Ok(true)
    }

    /// Takes note of a NIC that has gone: the function is not there any more.
    fn check(&mut self, done: Result<(), Gone>) {
        if done.is_err() {
            self.line.close();
            self.function = None;
            self.fail();
            self.set_link(false);
        }
    }

    /// Tells the driver, if there was a function.
    fn fail(&mut self) {
        if self.registers.failed() {
            self.vectors.fire(self.registers.queues());
        }
    }

    /// Tells the driver, if it is news.
    fn set_link(&mut self, has_link: bool) {
        if self.registers.set_link(has_link) {
            self.vectors.fire(self.registers.queues());
        }
    }

    fn enable(&mut self) -> Result<(), Gone> {
        if !self.config.is_bus_master() {
            self.registers
                .refused(rings::Refusal::BadMemory.code() as u8);
            return Ok(());
        }
        let Some((config, rings)) = self.registers.wanted() else {
            self.registers.refused(BAD_SIZES);
            return Ok(());
        };
        let mut attached = match self.line.set_up(config, rings)? {
            Ok(attached) => attached,
            Err(refusal) => {
                tracing::info!("refused a guest's function: {refusal}");
                self.registers.refused(refusal.code() as u8);
                return Ok(());
            }
        };
        let bells = std::mem::take(&mut attached.bells);
        let events = self.registers.queues();
        match Bells::start(bells, Arc::clone(&self.vectors), events) {
            Ok(bells) => {
                (self.function, self.bells) = (Some(attached), Some(bells));
                self.registers.enabled();
                Ok(())
            }
            Err(error) => {
                tracing::warn!("a guest's function has no thread for its interrupts: {error}");
                self.registers.refused(rings::Refusal::NoRoom.code() as u8);
                self.line.remove()
            }
        }
    }

    fn disable(&mut self) -> Result<(), Gone> {
        self.detach()?;
        self.registers.disabled();
        Ok(())
    }

    /// The NIC touches nothing of the function afterwards.
    fn detach(&mut self) -> Result<(), Gone> {
        self.bells.iter().for_each(Bells::expect_end);
        if self.function.take().is_some() {
            self.line.remove()?;
        }
        self.bells = None;
        Ok(())
    }

    /// Takes note of a function that has gone by itself: its interrupts' end has told the driver.
    fn notice(&mut self) {
        if self.bells.as_ref().is_some_and(Bells::have_ended) {
            self.bells = None;
            let done = self.detach();
            self.registers.failed();
            self.check(done);
        }
    }

    /// Without Bus Master Enable the function reaches no memory, and has no interrupt to say so.
    fn lose_bus(&mut self) {
        let done = self.detach();
        self.registers.failed();
        self.check(done);
    }

    /// As after power-on, but for the memory that is mapped, and the eventfds.
    pub(crate) fn restart(&mut self) {
        let done = self.detach();
        self.registers.reset();
        self.check(done);
        self.config.reset();
        self.table.fill(0);
    }

    pub(crate) fn region_read(
        &mut self,
        region: u32,
        offset: u64,
        data: &mut [u8],
    ) -> io::Result<()> {
        check_access(offset, data)?;
        self.notice();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => self.config.read(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => self.registers.read(offset, data),
            VFIO_PCI_BAR2_REGION_INDEX => {
                for (at, byte) in (offset as usize..).zip(data) {
                    *byte = self.table.get(at).copied().unwrap_or(0xff);
                }
            }
            _ => data.fill(0xff),
        }
        Ok(())
    }

    pub(crate) fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        check_access(offset, data)?;
        self.notice();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                let resets = self.config.write(offset, data);
                if resets {
                    self.restart();
                } else if self.function.is_some() && !self.config.is_bus_master() {
                    self.lose_bus();
                }
            }
            VFIO_PCI_BAR0_REGION_INDEX => {
                if let Some(action) = self.registers.write(offset, data) {
                    self.act(action);
                }
            }
            VFIO_PCI_BAR2_REGION_INDEX => {
                let places = self.table.iter_mut().skip(offset as usize);
                places.zip(data).for_each(|(place, byte)| *place = *byte);
            }
            _ => {}
        }
        Ok(())
    }

    /// Has the NIC map memory of the machine's. Gives the file back if it is not kept.
    #[must_use]
    pub(crate) fn map(&mut self, memory: Memory, file: Option<File>) -> Option<File> {
        let Some(file) = file else {
            warn_of(&memory, rings::Refusal::BadFile);
            return None;
        };
        let mapped = self.line.map(memory, file.as_fd());
        let left = match mapped {
            Ok(Err(refusal)) => {
                warn_of(&memory, refusal);
                Some(file)
            }
            _ if self.memory.len() < MOST_MEMORY => {
                self.memory.push((memory, file));
                None
            }
            _ => Some(file),
        };
        self.check(mapped.map(|_| ()));
        left
    }

    /// Takes memory between these addresses away from the NIC. Gives its files.
    #[must_use]
    pub(crate) fn unmap(&mut self, address: u64, len: u64) -> Vec<(Memory, File)> {
        if self.registers.has_rings_in(address, len) {
            let done = self.detach();
            self.fail();
            self.check(done);
        }
        let end = address.saturating_add(len);
        let goes = |it: &Memory| it.address < end && it.address.saturating_add(it.len) > address;
        let gone = self.memory.extract_if(.., |(memory, _)| goes(memory));
        let gone = gone.collect();
        let done = self.line.unmap(address, len);
        self.check(done);
        gone
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let done = self.detach();
        self.check(done);
    }
}

/// What the NIC at the other end of the line has for a function.
fn offered(line: &Line) -> Result<Given, Gone> {
    let (mac, mtu) = line.address()?;
    let identity = line.identity()?;
    Ok(Given { identity, mac, mtu })
}

fn warn_of(memory: &Memory, refusal: rings::Refusal) {
    let address = memory.address;
    tracing::warn!("a guest's memory at {address:#x} is out of the NIC's reach: {refusal}");
}

fn check_access(offset: u64, data: &[u8]) -> io::Result<()> {
    match data.len() <= MOST_BYTES && offset <= 1 << 20 {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}
