//! A host and a NIC that share nothing but descriptors.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nic::ring::{HostFunction, RecvDescriptor, Region, RegionId, SendDescriptor, SendFlags, Slice};
use nic::{Nic, NicConfig};
use rustix::io::Errno;
use wire::ethernet::MacAddr;

use super::rig::{config, path};
use crate::{Client, ConnectError, Limits, Refusal, Server};

const PATIENCE: Duration = Duration::from_secs(20);

/// A NIC on a thread, with a socket for each host.
pub(super) struct Process {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    pub(super) fn start(hosts: &[(PathBuf, MacAddr)], mtu: u16) -> Process {
        let bind = |(path, mac): &(PathBuf, MacAddr)| {
            Server::bind(path, *mac, Limits::default()).expect("a free path")
        };
        let mut servers: Vec<Server> = hosts.iter().map(bind).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut nic = Nic::new(NicConfig {
                mtu,
                ..NicConfig::new([1; 16])
            });
            let mut out = vec![0; 1 << 17];
            while !stopped.load(Ordering::Relaxed) {
                let now = Instant::now();
                servers.iter_mut().for_each(|server| server.poll(&mut nic));
                while nic.poll_transmit(now, &mut out).is_some() {}
                nic.flush(now);
                nic.take_wakeups(|function, queue| {
                    servers.iter().for_each(|it| it.ring(function, queue))
                });
                std::thread::yield_now();
            }
        });
        Process {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))));
    }
}

pub(super) struct Host {
    client: Client,
    function: HostFunction,
    region: Arc<Region>,
    memory: RegionId,
}

const BUFFER: u32 = 2048;

impl Host {
    pub(super) fn connect(path: &Path) -> Result<Host, ConnectError> {
        let (client, function) = Client::connect(path, config())?;
        let region = function.regions.allocate(1 << 20).expect("memory");
        let region = Arc::new(region);
        let memory = function
            .register(Arc::clone(&region))
            .expect("it is shared");
        let mut host = Host {
            client,
            function,
            region,
            memory,
        };
        host.refill();
        Ok(host)
    }

    pub(super) fn refill(&mut self) {
        let queue = &mut self.function.queues[0];
        for n in 0..u64::from(queue.small.free(64)) {
            assert!(queue.small.push(Slice {
                offset: n * u64::from(BUFFER),
                len: BUFFER,
                region: self.memory,
            }));
        }
        let _ = queue.publish();
    }

    fn send(&mut self, to: MacAddr, payload: &[u8]) {
        self.send_as(to, 0x88b5, payload);
    }

    pub(super) fn send_as(&mut self, to: MacAddr, ethertype: u16, payload: &[u8]) {
        let at = (1 << 20) - 4096;
        assert!(self.region.write(at, payload));
        let mut header = [to.0, self.function.config.mac.0].concat();
        header.extend_from_slice(&ethertype.to_be_bytes());
        let slice = Slice {
            offset: at,
            len: payload.len() as u32,
            region: self.memory,
        };
        let queue = &mut self.function.queues[0];
        let descriptor = SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &[slice],
        };
        queue.send.post(&descriptor).expect("room");
        if queue.publish() {
            self.client.ring();
        }
    }

    /// Waits for a frame, asleep.
    pub(super) fn receive(&mut self) -> Option<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let queue = &mut self.function.queues[0];
            match queue.recv.pop() {
                Some(RecvDescriptor::Packet(packet)) => {
                    let mut frame = vec![0; packet.buffer.len as usize];
                    assert!(self.region.read(packet.buffer.offset, &mut frame));
                    return Some(frame.split_off(14));
                }
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            let _ = queue.publish();
            assert!(Instant::now() < deadline, "nothing comes");
            if queue.prepare_sleep() {
                let fds = self.client.fd().map(|fd| {
                    rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)
                });
                let mut fds: Vec<_> = fds.into_iter().collect();
                let wait = rustix::event::Timespec {
                    tv_sec: 0,
                    tv_nsec: 100_000_000,
                };
                let _ = rustix::event::poll(&mut fds, Some(&wait));
            }
            queue.cancel_sleep();
            if !self.client.answer() {
                return None;
            }
        }
    }

    fn clear(&mut self) {
        self.function.queues[0].clear();
    }
}

pub(super) fn hosts() -> [(PathBuf, MacAddr); 2] {
    [1, 2].map(|number| (path(), MacAddr([2, 0, 0, 0, 0, number])))
}

#[test]
fn frames_go_between_hosts_that_share_only_descriptors_with_the_nic() {
    let hosts = hosts();
    let _process = Process::start(&hosts, 1500);
    let [mut a, mut b] = [0, 1].map(|at: usize| Host::connect(&hosts[at].0).expect("a NIC"));
    assert_eq!(a.client.mtu(), 1500);
    for n in 0..200u8 {
        a.send(hosts[1].1, &[n; 700]);
        assert_eq!(b.receive(), Some(vec![n; 700]));
        b.refill();
        b.send(hosts[0].1, &[n, 1]);
        assert_eq!(a.receive().map(|text| text[..2].to_vec()), Some(vec![n, 1]));
        a.refill();
    }
    assert_eq!(a.client.unfinished_teardowns(), Some(0));
}

#[test]
fn a_host_goes_on_with_the_next_nic() {
    let hosts = hosts();
    let mut process = Process::start(&hosts, 1500);
    let [mut a, mut b] = [0, 1].map(|at: usize| Host::connect(&hosts[at].0).expect("a NIC"));
    for life in 0..3u8 {
        a.send(hosts[1].1, &[life; 100]);
        assert_eq!(b.receive(), Some(vec![life; 100]));
        drop(process);
        assert_eq!(b.receive(), None, "it has gone");
        assert!(!b.client.is_connected());
        assert!(!b.client.reconnect(|| panic!("there is none")).unwrap());
        // Into the void.
        a.send(hosts[1].1, b"lost");
        process = Process::start(&hosts, 1500);
        for host in [&mut a, &mut b] {
            let deadline = Instant::now() + PATIENCE;
            let Host {
                client, function, ..
            } = host;
            let clear = |function: &mut HostFunction| function.queues[0].clear();
            while !client.reconnect(|| clear(function)).unwrap() {
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
            host.refill();
        }
    }
}

#[test]
fn a_nic_that_has_changed_is_not_gone_on_with() {
    let hosts = hosts();
    let process = Process::start(&hosts, 1500);
    let mut host = Host::connect(&hosts[0].0).expect("a NIC");
    drop(process);
    let _process = Process::start(&hosts, 9000);
    host.clear();
    let error = host.client.reconnect(|| ()).unwrap_err();
    assert!(matches!(error, ConnectError::Changed(_)), "{error}");
}

#[test]
fn errors_name_the_path_and_what_to_do() {
    let missing = path();
    let error = Host::connect(&missing).err().expect("nothing is there");
    assert!(matches!(error, ConnectError::NoSocket(_)), "{error}");
    assert!(error.to_string().contains("longshore nic --host rings:"));

    let listener = UnixListener::bind(&missing).unwrap();
    drop(listener);
    let error = Host::connect(&missing).err().expect("nobody listens");
    assert!(matches!(error, ConnectError::NobodyListens(_)), "{error}");
    std::fs::remove_file(&missing).unwrap();

    let hosts = hosts();
    let _process = Process::start(&hosts, 1500);
    let _first = Host::connect(&hosts[0].0).expect("a NIC");
    let error = Host::connect(&hosts[0].0).err().expect("somebody is there");
    assert!(
        matches!(error, ConnectError::Refused(_, Refusal::Busy)),
        "{error}"
    );
    assert!(error.to_string().contains("one more --host"), "{error}");

    let taken = Server::bind(&hosts[0].0, MacAddr::ZERO, Limits::default());
    assert!(taken.unwrap_err().to_string().contains("another path"));
}

#[test]
fn memory_of_this_process_alone_is_refused_at_once() {
    let hosts = hosts();
    let _process = Process::start(&hosts, 1500);
    let host = Host::connect(&hosts[0].0).expect("a NIC");
    let error = host.function.register(Arc::new(Region::anonymous(4096)));
    assert!(error.unwrap_err().to_string().contains("no file"));
    let again = host.function.regions.allocate(4096).expect("memory");
    assert!(host.function.register(Arc::new(again)).is_ok());
}

/// A path that another user has taken, who waits for hosts there.
#[test]
fn another_user_who_listens_gets_nothing() {
    let path = path();
    let other = rustix::thread::Uid::from_raw(12_345);
    let taken = path.clone();
    let listening = std::thread::spawn(move || {
        // This thread only.
        rustix::thread::set_thread_res_uid(other, other, other)?;
        UnixListener::bind(taken).map_err(|error| Errno::from_io_error(&error).unwrap())
    });
    let listener = match listening.join().unwrap() {
        Ok(listener) => listener,
        Err(error) => return println!("skipped: no other user here: {error}"),
    };
    let error = Host::connect(&path).err().expect("it is not trusted");
    assert!(matches!(error, ConnectError::Untrusted(..)), "{error}");
    assert!(error.to_string().contains("user 12345 listens there"));
    let (mut socket, _) = listener.accept().unwrap();
    assert_eq!(std::io::Read::read(&mut socket, &mut [0; 1]).unwrap(), 0);
    std::fs::remove_file(path).unwrap();
}
