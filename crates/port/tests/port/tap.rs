//! Linux talks to itself over two TAP devices, in network namespaces that end with the test.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use port::impair::{Impair, Impairment, Impairments};
use port::tap::{OpenError, Tap, TapConfig};
use port::{Meta, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::frames::{InParts, counter};

const SERVER_PORT: u16 = 4433;
const WITHOUT_OFFLOAD: TapConfig = TapConfig {
    tso: false,
    checksum: false,
};

#[test]
fn tcp_passes_as_super_frames() {
    for addresses in [
        ["10.97.0.1/24", "10.97.0.2/24"],
        ["fd97::1/64", "fd97::2/64"],
    ] {
        let configs = [TapConfig::default(); 2];
        let Some(mut taps) = Transfer::start(configs, addresses, 64 << 20) else {
            return;
        };
        taps.forward_until_done();
        for tap in [&taps.client, &taps.server] {
            let counter = |name| counter(tap, name);
            assert!(counter("rx_packets") > 0 && counter("tx_packets") > 0);
            assert_eq!(counter("rx_errors") + counter("tx_dropped"), 0);
        }
        // Far fewer frames than packets of the MTU's size.
        let frames = counter(&taps.client, "rx_packets");
        assert!(counter(&taps.client, "rx_super_frames") > 100);
        assert!(frames < 20_000, "{frames} frames for 64 MiB");
    }
}

#[test]
fn tcp_passes_without_offloads() {
    let addresses = ["10.97.0.1/24", "10.97.0.2/24"];
    let Some(mut taps) = Transfer::start([WITHOUT_OFFLOAD; 2], addresses, 4 << 20) else {
        return;
    };
    taps.forward_until_done();
    assert_eq!(counter(&taps.client, "rx_super_frames"), 0);
    assert!(counter(&taps.client, "rx_packets") > 2_800);
}

#[test]
fn tcp_survives_impairment() {
    let addresses = ["10.97.0.1/24", "10.97.0.2/24"];
    let Some(taps) = Transfer::start([WITHOUT_OFFLOAD; 2], addresses, 2 << 20) else {
        return;
    };
    let bad = Impairment {
        loss: 0.01,
        reorder: 0.01,
        duplicate: 0.01,
        corrupt: 0.01,
        delay: Duration::from_millis(1),
        ..Impairment::default()
    };
    let Transfer {
        mut client,
        server,
        ends,
    } = taps;
    let mut server = Impair::new(server, Impairments::both(bad), 1);
    forward(&mut client, &mut server, &ends);
    let (out, back) = (server.transmit_counters(), server.receive_counters());
    assert!(out.lost > 0 && out.reordered > 0 && out.duplicated > 0 && out.corrupted > 0);
    assert!(back.frames > 0);
    finish(ends);
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    for name in ["", "a/b", "a b", "sixteen-letters-"] {
        let error = Tap::open(name, TapConfig::default()).unwrap_err();
        assert!(
            matches!(error, OpenError::BadName { .. }),
            "{name}: {error}"
        );
    }
    thread::spawn(|| {
        if !enter_own_namespace() {
            return;
        }
        let tap = Tap::open("tap%d", TapConfig::default()).unwrap();
        assert_eq!(tap.name(), "tap0");
        assert_eq!(tap.capabilities().mtu, 1500);
        let error = Tap::open("tap0", TapConfig::default()).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        let error = Tap::open("lo", TapConfig::default()).unwrap_err();
        assert!(matches!(error, OpenError::NotATap { .. }), "{error}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_device_that_is_down_loses_frames_and_one_that_is_gone_is_an_error() {
    thread::spawn(|| {
        if !enter_own_namespace() {
            return;
        }
        let now = Instant::now();
        let mut tap = Tap::open("tap0", TapConfig::default()).unwrap();
        let mut frames = 3;
        let mut fill = |_: &mut [u8]| {
            frames -= 1;
            (frames >= 0).then_some((60, Meta::default()))
        };
        assert_eq!(tap.transmit(now, &mut fill).unwrap(), 3);
        assert_eq!(counter(&tap, "tx_dropped"), 3);
        assert_eq!(tap.receive(now, &mut |_, _| {}).unwrap(), 0);
        ip("link del tap0");
        let error = tap.receive(now, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("tap0"), "{error}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_device_stays_when_it_is_to_and_has_addresses() {
    thread::spawn(|| {
        if !enter_own_namespace() {
            return;
        }
        assert!(!Tap::exists("tap0"));
        let tap = Tap::open("tap0", TapConfig::default()).unwrap();
        tap.set_persistent(true).unwrap();
        let address = tap.address().unwrap();
        assert_eq!(address[0] & 1, 0, "{address:?} is a unicast address");
        for ip in ["10.97.0.1", "fd97::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            tap.add_ip(ip, 24).unwrap();
            tap.add_ip(ip, 24).unwrap();
            std::net::UdpSocket::bind((ip, 0)).unwrap();
        }
        drop(tap);
        assert!(Tap::exists("tap0"));
        let tap = Tap::open("tap0", TapConfig::default()).unwrap();
        assert_eq!(tap.address().unwrap(), address);
        let other = [2, 0, 0, 0, 0, 7];
        tap.set_address(other).unwrap();
        assert_eq!(tap.address().unwrap(), other);
        assert!(tap.set_address([0xff; 6]).is_err());
        tap.set_persistent(false).unwrap();
        drop(tap);
        assert!(!Tap::exists("tap0"));
    })
    .join()
    .unwrap();
}

#[test]
fn a_frame_is_read_to_where_the_caller_wants_it() {
    thread::spawn(|| {
        if !enter_own_namespace() {
            return;
        }
        let mut tap = Tap::open("tap0", TapConfig::default()).unwrap();
        tap.set_up().unwrap();
        let mut room = vec![0; 70_000];
        while tap.read_frame(&mut room, &mut []).unwrap().is_some() {}
        ip("addr add 10.97.0.1/24 dev tap0");
        ip("neigh add 10.97.0.2 lladdr 02:00:00:00:00:09 dev tap0");
        let socket = std::net::UdpSocket::bind("10.97.0.1:0").unwrap();
        socket.send_to(b"to the tap", "10.97.0.2:9").unwrap();
        let (len, meta) = loop {
            let (len, meta) = tap.read_frame(&mut room, &mut []).unwrap().unwrap();
            if room[12..14] == [0x08, 0x00] {
                break (len, meta);
            }
        };
        assert!(room[..len].ends_with(b"to the tap"));
        assert_eq!(meta.needs_checksum, Some((34, 6)));
        // Back to its sender, with the ends exchanged.
        let mut answer = room[..len].to_vec();
        let (to, from) = (answer[6..12].to_vec(), answer[..6].to_vec());
        answer[..6].copy_from_slice(&to);
        answer[6..12].copy_from_slice(&from);
        answer[26..34].rotate_left(4);
        answer[34..38].rotate_left(2);
        tap.write_frame(&answer, meta).unwrap();
        let mut message = [0; 20];
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let (len, peer) = socket.recv_from(&mut message).unwrap();
        assert_eq!((&message[..len], peer.port()), (&b"to the tap"[..], 9));
    })
    .join()
    .unwrap();
}

/// A client sends so many bytes to a server, each in a namespace with a TAP device of its own.
struct Transfer {
    client: Tap,
    server: Tap,
    ends: [JoinHandle<io::Result<()>>; 2],
}

impl Transfer {
    /// `None`, and says so, without the privileges.
    fn start(
        configs: [TapConfig; 2],
        addresses: [&'static str; 2],
        bytes: usize,
    ) -> Option<Transfer> {
        let server_ip: IpAddr = addresses[1].split('/').next().unwrap().parse().unwrap();
        let server = SocketAddr::new(server_ip, SERVER_PORT);
        let [client_config, server_config] = configs;
        let (tap_of_server, server_end) =
            in_namespace(server_config, addresses[1], move || serve(server, bytes))?;
        let (tap_of_client, client_end) =
            in_namespace(client_config, addresses[0], move || send_to(server, bytes))?;
        Some(Transfer {
            client: tap_of_client,
            server: tap_of_server,
            ends: [client_end, server_end],
        })
    }

    fn forward_until_done(&mut self) {
        let Transfer {
            client,
            server,
            ends,
        } = self;
        forward(client, server, ends);
        let ends = std::mem::replace(ends, [(); 2].map(|()| thread::spawn(|| Ok(()))));
        finish(ends);
    }
}

/// Opens a TAP device in a namespace of its own, gives it an address and runs `end` there.
fn in_namespace(
    config: TapConfig,
    address: &'static str,
    end: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Option<(Tap, JoinHandle<io::Result<()>>)> {
    let (send_tap, tap) = mpsc::channel();
    let thread = thread::spawn(move || {
        if enter_own_namespace() {
            let tap = Tap::open("tap0", config).expect("a TAP device");
            let duplicate_detection = if address.contains(':') { " nodad" } else { "" };
            ip(&format!("addr add {address} dev tap0{duplicate_detection}"));
            tap.set_up().expect("to set the device up");
            send_tap.send(tap).expect("the test waits for it");
            end()?;
        }
        Ok(())
    });
    Some((tap.recv().ok()?, thread))
}

/// Puts this thread into a new network namespace. `false`, and says so, without the privileges.
pub fn enter_own_namespace() -> bool {
    // SAFETY: only the network namespace is unshared: no descriptor table, no memory.
    let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_ok();
    if !entered {
        eprintln!("skipped: network namespaces need CAP_SYS_ADMIN (run the test as root)");
    }
    entered
}

pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("iproute2");
    assert!(status.success(), "ip {arguments}");
}

/// Moves frames between both ports until both ends are done.
fn forward(left: &mut impl Port, right: &mut impl Port, ends: &[JoinHandle<io::Result<()>>]) {
    let deadline = Instant::now() + Duration::from_secs(50);
    while ends.iter().any(|end| !end.is_finished()) {
        let now = Instant::now();
        assert!(now < deadline, "the transfer does not end");
        if pump(now, left, right) + pump(now, right, left) == 0 {
            let fds = [left.fd().unwrap(), right.fd().unwrap()];
            let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
            poll(
                &mut polled,
                Some(&Timespec {
                    tv_sec: 0,
                    tv_nsec: 500_000,
                }),
            )
            .unwrap();
        }
    }
}

fn pump(now: Instant, from: &mut impl Port, to: &mut impl Port) -> usize {
    let received = from.receive(now, &mut |frame, meta| {
        to.transmit_parts(now, &mut InParts::new(frame, meta))
            .expect("a port that works");
    });
    to.transmit(now, &mut |_| None).expect("a port that works");
    received.expect("a port that works")
}

fn finish(ends: [JoinHandle<io::Result<()>>; 2]) {
    for end in ends {
        end.join()
            .expect("an end that does not panic")
            .expect("a transfer without errors");
    }
}

fn serve(address: SocketAddr, bytes: usize) -> io::Result<()> {
    let (mut stream, _) = TcpListener::bind(address)?.accept()?;
    let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
    while received < bytes {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (at, &byte) in (received..).zip(&buffer[..len]) {
            assert_eq!(byte, pattern(at), "byte {at}");
        }
        received += len;
    }
    stream.write_all(b"done")
}

fn send_to(address: SocketAddr, bytes: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let all: Vec<u8> = (0..bytes).map(pattern).collect();
    stream.write_all(&all)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"done");
    Ok(())
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}
