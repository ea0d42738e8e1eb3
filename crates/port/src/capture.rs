//! A wrapper that records what passes into a pcapng file, and the TLS keys with it, so that Wireshark and tshark decrypt
//! it.

mod pcapng;

use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::meta::Capabilities;
use crate::{Fill, Port, Share, Take};
use pcapng::{Direction, Writer};

/// A port whose frames are recorded. A failure to write ends the recording, not the traffic.
#[derive(Debug)]
pub struct Capture<P, W: Write = BufWriter<File>> {
    port: P,
    recorder: Recorder<W>,
}

/// Adds TLS keys to a running capture. Any number of clones may exist, on any thread.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// There are key log lines that the file lacks.
    has_keys: AtomicBool,
    /// Those lines.
    keys: Mutex<String>,
    /// The first failure to write.
    error: Mutex<Option<io::Error>>,
}

/// What is told of the first failure to write, and of how many frames were recorded before it.
type OnFailure = Box<dyn FnOnce(&io::Error, u64) + Send>;

struct Recorder<W: Write> {
    /// `None` after a failure.
    writer: Option<Writer<W>>,
    on_failure: Option<OnFailure>,
    shared: Arc<Shared>,
    /// An instant and the time of day at it, from which those of frames are told.
    started: (Instant, SystemTime),
    packets: u64,
    /// When the first of the frames passed that are held back.
    held_since: Option<Instant>,
}

impl<P: Port> Capture<P> {
    /// Wraps `port` and records into a new file at `path`, which its owner alone can read: keys may be added. `now` is the present.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn create(port: P, path: &Path, now: Instant) -> io::Result<Capture<P>> {
        let mut options = File::options();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        keep_private(&file)?;
        let file = BufWriter::with_capacity(BUFFER_LEN, file);
        Capture::new(port, file, (now, SystemTime::now()))
    }
}

/// A file that was there before is its owner's alone to read, too, since secrets are written to it.
///
/// # Errors
/// It is another user's, and others can read it.
pub fn keep_private(file: &File) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    let found = file.metadata()?;
    let (is_file, mode) = (found.is_file(), found.permissions().mode());
    if is_file && mode & OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(mode & !OTHERS))?;
    }
    Ok(())
}

impl<P: Port, W: Write> Capture<P, W> {
    /// Wraps `port` and records into `output`. Frames get the times of day that follow from `started`, which is an
    /// instant and the time of day at it.
    ///
    /// # Errors
    /// The file's header cannot be written.
    pub fn new(port: P, output: W, started: (Instant, SystemTime)) -> io::Result<Capture<P, W>> {
        let writer = Some(Writer::new(output)?);
        let recorder = Recorder {
            writer,
            on_failure: None,
            shared: Arc::default(),
            started,
            packets: 0,
            held_since: None,
        };
        Ok(Capture { port, recorder })
    }

    /// Calls `tell` with the first failure to write and the number of frames before it, on the thread that moves the frames. The last frames
    /// of these may have been in the buffer that could not be written.
    pub fn on_failure(&mut self, tell: impl FnOnce(&io::Error, u64) + Send + 'static) {
        self.recorder.on_failure = Some(Box::new(tell));
    }

    /// What TLS keys are added through.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.recorder.shared))
    }

    /// Hands what is buffered, and held back, to the operating system.
    ///
    /// # Errors
    /// The recording has failed, now or before.
    pub fn flush(&mut self) -> io::Result<()> {
        self.recorder.release();
        self.recorder.flush();
        self.handle().error().map_or(Ok(()), Err)
    }

    /// The wrapped port.
    pub fn get_ref(&self) -> &P {
        &self.port
    }

    /// The wrapped port.
    pub fn get_mut(&mut self) -> &mut P {
        &mut self.port
    }
}

impl Handle {
    /// Adds lines of a key log (`CLIENT_TRAFFIC_SECRET_0 …`, as in SSLKEYLOGFILE). They go before all frames that have not passed yet, and
    /// before those of the last 50 ms: a client knows its keys only after the frame that is encrypted with them.
    pub fn add_keys(&self, lines: &str) {
        let mut keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push_str(lines.trim_end_matches('\n'));
        keys.push('\n');
        drop(keys);
        self.0.has_keys.store(true, Ordering::Release);
    }

    /// Why the recording has ended before its time.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
        error
            .as_ref()
            .map(|error| io::Error::new(error.kind(), format!("capture ended: {error}")))
    }
}

impl<W: Write> Recorder<W> {
    #[inline]
    fn record(&mut self, now: Instant, direction: Direction, frame: &[u8]) {
        self.add_keys();
        if self.writer.is_none() {
            return;
        }
        let time = self.time_of(now);
        self.attempt(|writer| writer.packet(time, direction, frame));
        self.packets += 1;
        self.held_since.get_or_insert(now);
    }

    /// Writes the frames that were held back long enough, or are too many.
    #[inline]
    fn release_due(&mut self, now: Instant) {
        let Some(since) = self.held_since else { return };
        let held = self.writer.as_ref().map_or(0, Writer::held);
        if held >= BUFFER_LEN || now.saturating_duration_since(since) >= HOLD {
            self.release();
        }
    }

    fn release(&mut self) {
        self.add_keys();
        self.attempt(Writer::release);
        self.held_since = None;
    }

    fn add_keys(&mut self) {
        if self.shared.has_keys.swap(false, Ordering::Acquire) {
            let keys = {
                let mut keys = self
                    .shared
                    .keys
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *keys)
            };
            self.attempt(|writer| writer.tls_keys(keys.as_bytes()));
        }
    }

    fn flush(&mut self) {
        self.attempt(Writer::flush);
    }

    fn attempt(&mut self, write: impl FnOnce(&mut Writer<W>) -> io::Result<()>) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(error) = write(writer) {
            self.writer = None;
            if let Some(tell) = self.on_failure.take() {
                tell(&error, self.packets);
            }
            let mut first = self
                .shared
                .error
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }
    }

    /// Nanoseconds since 1970.
    #[inline]
    fn time_of(&self, now: Instant) -> u64 {
        let (instant, time_of_day) = self.started;
        let started = time_of_day
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        (started + now.saturating_duration_since(instant)).as_nanos() as u64
    }
}

impl<W: Write> fmt::Debug for Recorder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Recorder");
        fields.field("is_open", &self.writer.is_some());
        fields.field("packets", &self.packets).finish()
    }
}

impl<W: Write> Drop for Recorder<W> {
    fn drop(&mut self) {
        self.release();
        self.flush();
    }
}

impl<P: Port, W: Write> Port for Capture<P, W> {
    fn capabilities(&self) -> Capabilities {
        self.port.capabilities()
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        let Capture { port, recorder } = self;
        recorder.release_due(now);
        port.transmit(now, &mut |buffer| {
            let (len, meta) = fill(buffer)?;
            recorder.record(now, Direction::Outbound, &buffer[..len]);
            Some((len, meta))
        })
    }

    fn receive(&mut self, now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let Capture { port, recorder } = self;
        recorder.release_due(now);
        port.receive(now, &mut |frame, meta| {
            recorder.record(now, Direction::Inbound, frame);
            take(frame, meta);
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let held = self.recorder.held_since.map(|since| since + HOLD);
        [self.port.poll_timeout(), held].into_iter().flatten().min()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.fd()
    }

    /// What is not held back reaches the file before each sleep, so that it can be looked at meanwhile.
    fn prepare_sleep(&mut self) -> bool {
        let may_sleep = self.port.prepare_sleep();
        if may_sleep {
            self.recorder.flush();
        }
        may_sleep
    }

    fn cancel_sleep(&mut self) {
        self.port.cancel_sleep();
    }

    fn queue(&self) -> Option<BorrowedFd<'_>> {
        self.port.queue()
    }

    fn share(&mut self, share: Share) -> io::Result<()> {
        self.port.share(share)
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.port.counters(visit);
        let [(name, _)] = EXPLANATIONS;
        visit(name, self.recorder.packets);
    }
}

pub(crate) const EXPLANATIONS: &[(&str, &str); 1] =
    &[("capture_packets", "Frames written to the capture file.")];

const BUFFER_LEN: usize = 1 << 20;
/// How long frames are held back, for keys that are made of them.
const HOLD: Duration = Duration::from_millis(50);
