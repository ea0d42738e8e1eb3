//! A store in a file or on a block device.

use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use l5p::nvme::target::Operation;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use wire::nvme::command::Status;

use super::engine::{Address, Call, Step};
use super::memory::compare;
use super::opened::Opened;
use super::operation::{Next, Span, Stage, Task};
use super::outcome::{medium, status};
use super::{StoreInfo, only_reads};

/// Bytes of zeroes that are written at a time where the file system can't make them.
const ZEROES: u32 = 64 << 10;
/// `O_DIRECT` wants memory aligned so.
pub(super) const ALIGNMENT: usize = 4096;

/// A file or a device, as one thread reads and writes it.
pub(super) struct FileStore {
    file: Arc<Opened>,
    zeroes: Arc<Zeroes>,
    /// The file system has refused to make zeroes by itself.
    writes_zeroes: bool,
}

/// The end of what was to be durable in a file that has lost something.
const LOST: Status = Status::WRITE_FAULT.do_not_retry();

/// Whether a call makes something durable.
fn makes_durable(call: &Call) -> bool {
    matches!(call, Call::Sync | Call::Write { durable: true, .. })
}

/// Whether the work of a task may go on.
enum Commit {
    /// Not before this.
    Next(Next),
    /// Its last step had this result.
    Done(Option<Result<u32, Errno>>),
}

/// A page-aligned run of zeroes.
struct Zeroes(Vec<u8>);

impl Zeroes {
    fn address(&self) -> Address {
        let shift = self.0.as_ptr().align_offset(ALIGNMENT);
        Address {
            start: self.0[shift..].as_ptr().cast_mut(),
            memory: None,
        }
    }
}

impl FileStore {
    pub(super) fn new(file: Opened) -> FileStore {
        FileStore {
            file: Arc::new(file),
            zeroes: Arc::new(Zeroes(vec![0; ZEROES as usize + ALIGNMENT])),
            writes_zeroes: false,
        }
    }

    /// The same for another thread.
    pub(super) fn another(&self) -> FileStore {
        FileStore {
            file: Arc::clone(&self.file),
            zeroes: Arc::clone(&self.zeroes),
            writes_zeroes: self.writes_zeroes,
        }
    }

    pub(super) fn info(&self) -> StoreInfo {
        StoreInfo {
            bytes: self.file.bytes.load(Ordering::Acquire),
            ..self.file.info
        }
    }

    /// Looks at the file's size. Whether it has changed by whole blocks since any thread looked, and to what is not nothing.
    pub(super) fn refresh(&self) -> bool {
        let Ok(size) = (&self.file.file).seek(SeekFrom::End(0)) else {
            return false;
        };
        let shift = self.file.info.block_shift;
        let bytes = size >> shift << shift;
        bytes > 0 && self.file.bytes.swap(bytes, Ordering::AcqRel) != bytes
    }

    fn is_read_only(&self) -> bool {
        self.file.info.read_only
    }

    /// Makes durable what has been written.
    ///
    /// # Errors
    /// When the system can't, now or before.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        self.file
            .file
            .sync_data()
            .inspect_err(|error| self.file.lose(error))?;
        match self.file.has_lost() {
            true => Err(io::Error::other(format!(
                "{} could not be made durable",
                self.file.path.display()
            ))),
            false => Ok(()),
        }
    }

    /// The next step of a task, whose last one had this result.
    pub(super) fn step(&mut self, task: &mut Task, result: Option<i32>) -> Next {
        if let (Some(call), Some(result)) = (task.durable.take(), result) {
            let error = (result < 0).then(|| Errno::from_raw_os_error(-result));
            if let Some(error) = error.filter(|error| self.file.is_loss(&call, *error)) {
                self.file.lose(error);
                let status = status(&Operation::Flush, error);
                return Next::Done(Err(status.do_not_retry()));
            }
            // Another thread's call may have been told of the loss while this one was under way.
            if self.file.has_lost() {
                return Next::Done(Err(LOST));
            }
        }
        let next = self.next(task, result);
        match next {
            Next::Step(step) if makes_durable(&step.call) => {
                if self.file.has_lost() {
                    return Next::Done(Err(LOST));
                }
                task.durable = Some(step.call);
                Next::Step(step)
            }
            next => next,
        }
    }

    fn next(&mut self, task: &mut Task, result: Option<i32>) -> Next {
        let operation = task.request.operation;
        if self.is_read_only() && !only_reads(&operation) {
            return Next::Done(Err(Status::WRITE_PROTECTED.do_not_retry()));
        }
        let result = match result.map(|result| (result, u32::try_from(result))) {
            None => None,
            Some((_, Ok(len))) => Some(Ok(len)),
            Some((error, Err(_))) => Some(Err(Errno::from_raw_os_error(-error))),
        };
        let result = match self.commit(task, result) {
            Commit::Next(next) => return next,
            Commit::Done(result) => result,
        };
        match operation {
            Operation::Read { offset, len, .. } => {
                let data = data(task).at();
                self.transfer(task, result, len, |done, left| Call::Read {
                    to: data(done),
                    len: left,
                    offset: offset + u64::from(done),
                })
            }
            Operation::Write {
                offset, len, fua, ..
            } => {
                let data = data(task).at();
                self.transfer(task, result, len, |done, left| Call::Write {
                    from: data(done),
                    len: left,
                    offset: offset + u64::from(done),
                    durable: fua,
                })
            }
            Operation::Compare { offset, len, .. } => self.compare(task, result, offset, len),
            Operation::WriteZeroes { .. } => self.make_zeroes(task, result),
            Operation::Deallocate { .. } => self.deallocate(task, result),
            Operation::Flush => match result {
                None => self.step_of(Call::Sync),
                Some(result) => Next::Done(self.outcome(task, result)),
            },
        }
    }

    /// Makes durable what was written, if the task is to read nothing else, before its work begins.
    fn commit(&self, task: &mut Task, result: Option<Result<u32, Errno>>) -> Commit {
        let (Operation::Read { fua: true, .. } | Operation::Compare { fua: true, .. }) =
            task.request.operation
        else {
            return Commit::Done(result);
        };
        match (task.stage, result) {
            (Stage::Begun, _) if !self.is_read_only() => {
                task.stage = Stage::Committing;
                Commit::Next(self.step_of(Call::Sync))
            }
            (Stage::Committing, Some(Err(error))) => {
                Commit::Next(Next::Done(Err(status(&Operation::Flush, error))))
            }
            (Stage::Committing, _) => {
                task.stage = Stage::Working;
                Commit::Done(None)
            }
            (_, result) => Commit::Done(result),
        }
    }

    /// Reads or writes what is left of `len` bytes.
    fn transfer(
        &self,
        task: &mut Task,
        result: Option<Result<u32, Errno>>,
        len: u32,
        call: impl Fn(u32, u32) -> Call,
    ) -> Next {
        match result {
            None => {}
            // A file that was cut short.
            Some(Ok(0)) => return Next::Done(Err(medium(&task.request.operation))),
            Some(Ok(done)) => task.progress += u64::from(done),
            Some(Err(Errno::INTR | Errno::AGAIN)) => {}
            Some(Err(error)) => return Next::Done(Err(status(&task.request.operation, error))),
        }
        let done = task.progress as u32;
        if done >= len {
            return Next::Done(Ok(()));
        }
        self.step_of(call(done, len - done))
    }

    /// Reads `len` bytes and compares them with the host's.
    fn compare(
        &self,
        task: &mut Task,
        result: Option<Result<u32, Errno>>,
        offset: u64,
        len: u32,
    ) -> Next {
        let scratch = task.scratch.as_ref();
        let to = scratch.expect("Compare has room to read into").at();
        let next = self.transfer(task, result, len, |done, left| Call::Read {
            to: to(done),
            len: left,
            offset: offset + u64::from(done),
        });
        match next {
            Next::Done(Ok(())) => Next::Done(compare_spans(task, len)),
            next => next,
        }
    }

    /// Zeroes, by the file system if it can make them.
    fn make_zeroes(&mut self, task: &mut Task, result: Option<Result<u32, Errno>>) -> Next {
        let Operation::WriteZeroes {
            offset,
            len,
            fua,
            deallocate,
        } = task.request.operation
        else {
            return Next::Done(Ok(()));
        };
        match (task.stage, result) {
            (Stage::Begun, _) if !self.writes_zeroes => {
                task.stage = Stage::Working;
                let mode = match deallocate {
                    true => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    false => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                };
                return self.step_of(fallocate(mode, offset, len));
            }
            (Stage::Begun, _) => task.stage = Stage::WritingZeroes,
            (Stage::Working, Some(Ok(_))) => return self.sync_if(task, fua),
            (Stage::Working, Some(Err(Errno::OPNOTSUPP))) => {
                self.writes_zeroes = !deallocate;
                task.stage = Stage::WritingZeroes;
            }
            (Stage::WritingZeroes, Some(Ok(written))) if written > 0 => {
                task.progress += u64::from(written);
            }
            (Stage::WritingZeroes, Some(Ok(_))) => {
                return Next::Done(Err(Status::WRITE_FAULT));
            }
            (_, Some(Err(Errno::INTR | Errno::AGAIN))) if task.stage == Stage::WritingZeroes => {}
            (_, Some(result)) => return Next::Done(self.outcome(task, result)),
            (_, None) => {}
        }
        if task.progress >= len {
            return self.sync_if(task, fua);
        }
        let left = (len - task.progress).min(ZEROES.into());
        self.step_of(Call::Write {
            from: self.zeroes.address(),
            len: left as u32,
            offset: offset + task.progress,
            durable: false,
        })
    }

    /// Gives the room of one range after the other back. What the file system doesn't take stays as it is: the host only
    /// said that it may go.
    fn deallocate(&mut self, task: &mut Task, result: Option<Result<u32, Errno>>) -> Next {
        let ranges = match task.ranges() {
            Ok(ranges) => ranges,
            Err(status) => return Next::Done(Err(status)),
        };
        match result {
            None => {}
            Some(Err(Errno::OPNOTSUPP)) => return Next::Done(Ok(())),
            Some(Err(error)) => return Next::Done(Err(status(&task.request.operation, error))),
            Some(Ok(_)) => task.progress += 1,
        }
        match ranges.get(task.progress as usize) {
            None => Next::Done(Ok(())),
            Some(&(offset, len)) => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                self.step_of(fallocate(mode, offset, len))
            }
        }
    }

    fn sync_if(&self, task: &mut Task, durable: bool) -> Next {
        if !durable {
            return Next::Done(Ok(()));
        }
        task.stage = Stage::Syncing;
        self.step_of(Call::Sync)
    }

    fn step_of(&self, call: Call) -> Next {
        Next::Step(Step {
            file: self.file.file.as_raw_fd(),
            call,
        })
    }

    fn outcome(&self, task: &Task, result: Result<u32, Errno>) -> Result<(), Status> {
        match result {
            Ok(_) => Ok(()),
            Err(error) => Err(status(&task.request.operation, error)),
        }
    }
}

impl Span {
    /// Where its bytes are.
    fn at(&self) -> impl Fn(u32) -> Address + use<> {
        let (start, memory, len) = (self.address(0), self.memory, self.len);
        move |at| {
            assert!(at <= len);
            Address {
                start: start.wrapping_add(at as usize),
                memory: Some(memory),
            }
        }
    }
}

fn data(task: &Task) -> &Span {
    task.data.as_ref().expect("the operation has data")
}

fn fallocate(mode: FallocateFlags, offset: u64, len: u64) -> Call {
    Call::Fallocate {
        mode: mode.bits() as i32,
        offset,
        len,
    }
}

/// Whether what was read is what the host sent.
fn compare_spans(task: &Task, len: u32) -> Result<(), Status> {
    let scratch = task.scratch.as_ref().expect("it was read into");
    compare(scratch.view(0, len), data(task).view(0, len))
}
