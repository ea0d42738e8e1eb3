//! The NIC's process as the library sees it: a control socket, behind which the world is that the test runs at the time.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use attachment::{
    ATTACH_LINE, ATTACHED_LINE, Answer, Connection, ConnectionError, Direction, Errno, Registry,
    SlotRequest, Tenant,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::world::{Kernel, World};

/// What the process shares with the test.
#[derive(Default)]
pub struct Process {
    world: Mutex<Option<World>>,
    attached: Condvar,
    /// Counts its lives.
    life: Mutex<u32>,
}

/// Of its control socket.
fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let name = format!("longshore-receive-{}", std::process::id());
        std::env::temp_dir().join(name)
    })
}

extern "C" fn remove_socket() {
    let _ = std::fs::remove_file(path());
}

impl Process {
    /// The one process, which the library knows from now on.
    pub fn start() -> Arc<Process> {
        static PROCESS: OnceLock<Arc<Process>> = OnceLock::new();
        Arc::clone(PROCESS.get_or_init(|| {
            let process = Arc::new(Process::default());
            let path = path();
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path).unwrap();
            // SAFETY: a function that stays.
            unsafe { libc::atexit(remove_socket) };
            kernel_tls::use_nic(path, false);
            let nic = Arc::clone(&process);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let nic = Arc::clone(&nic);
                    thread::spawn(move || nic.serve(stream.unwrap()));
                }
            });
            process
        }))
    }

    /// Puts a world behind it.
    pub fn begin(&self, world: World) {
        *self.world() = Some(world);
    }

    pub fn end(&self) {
        *self.world() = None;
    }

    pub fn with<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        look(self.world().as_mut().unwrap())
    }

    /// It dies and starts again; waits until the library has come back.
    pub fn restart(&self) {
        let mut world = self.world();
        world.as_mut().unwrap().restart();
        *self.life.lock().unwrap() += 1;
        let wait = Duration::from_secs(20);
        let fenced =
            |world: &mut Option<World>| world.as_ref().is_some_and(|world| world.is_fenced);
        let waited = self
            .attached
            .wait_timeout_while(world, wait, fenced)
            .unwrap();
        assert!(!waited.1.timed_out(), "the library does not come back");
    }

    fn world(&self) -> MutexGuard<'_, Option<World>> {
        self.world.lock().unwrap()
    }

    fn serve(&self, mut stream: UnixStream) {
        let life = *self.life.lock().unwrap();
        let mut line = [0; ATTACH_LINE.len()];
        if stream.read_exact(&mut line).is_err() {
            return;
        }
        stream.write_all(ATTACHED_LINE.as_bytes()).unwrap();
        let mut connection = Connection::new(OwnedFd::from(stream));
        let (mut registry, mut tenant) = (Registry::default(), Tenant::default());
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: 2_000_000,
        };
        while *self.life.lock().unwrap() == life {
            poll(&mut [PollFd::new(&connection, PollFlags::IN)], Some(&tick)).unwrap();
            let incoming = match connection.poll_request() {
                Ok(Some(incoming)) => incoming,
                Ok(None) => continue,
                Err(ConnectionError::Closed) => return,
                Err(error) => panic!("{error}"),
            };
            let answer = incoming.answer(0, &mut self.linux(), |admitted| {
                registry.answer(&mut tenant, admitted, |order| self.carry_out(order))
            });
            if connection.answer(answer).is_err() {
                return;
            }
        }
    }

    /// What Linux knows of the socket now.
    fn linux(&self) -> Kernel {
        let world = self.world();
        world.as_ref().map(World::kernel).unwrap_or_default()
    }

    fn carry_out(&self, order: SlotRequest) -> Answer {
        let mut world = self.world();
        let Some(world) = world.as_mut() else {
            return Answer::refused(Errno::NODEV);
        };
        let answer = match &order {
            // The session that reads is not the peer's.
            SlotRequest::SetKeys {
                direction: Direction::Transmit,
                ..
            } => Answer::refused(Errno::NODEV),
            order => world.carry_out(order),
        };
        self.attached.notify_all();
        answer
    }
}
