//! Packet sockets and AF_XDP on a veth, in a network namespace that ends with the test.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use port::impair::{Impair, Impairment, Impairments};
use port::packet::{self, Packet, PacketConfig};
use port::tap::{Tap, TapConfig};
use port::xdp::{self, Xdp};
use port::{Meta, Port};

use crate::frames::{InParts, counter, numbered, numbers, receive, send};
use crate::tap::{enter_own_namespace, ip};

/// Runs a test with a veth, `v0` and `v1`, of so many queues. Without the privileges it is skipped, and says so.
fn with_veth(queues: u32, test: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        if !enter_own_namespace() {
            return;
        }
        let count = format!("numtxqueues {queues} numrxqueues {queues}");
        ip(&format!(
            "link add v0 {count} type veth peer name v1 {count}"
        ));
        for name in ["v0", "v1"] {
            ip(&format!("link set {name} up"));
        }
        ["v0", "v1"].into_iter().for_each(wait_until_up);
        test();
    })
    .join()
    .unwrap();
}

/// What is sent before Linux has seen that both ends are there is lost.
fn wait_until_up(name: &str) {
    let is_up = || {
        let mut show = Command::new("ip");
        let shown = show.args(["-o", "link", "show", name]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("state UP")
    };
    let end = Instant::now() + Duration::from_secs(5);
    while !is_up() {
        assert!(Instant::now() < end, "{name} does not come up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What has come of the frames that tests send; Linux has things to say on a new interface too.
fn receive_ours(port: &mut impl Port, count: usize) -> Vec<(Vec<u8>, Meta)> {
    let mut frames = Vec::new();
    let end = Instant::now() + Duration::from_secs(5);
    while frames.len() < count && Instant::now() < end {
        let ours = receive(port, Instant::now()).into_iter();
        frames.extend(ours.filter(|(frame, _)| frame[6..12] == [0; 6]));
    }
    frames
}

fn bytes(frames: Vec<(Vec<u8>, Meta)>) -> Vec<Vec<u8>> {
    frames.into_iter().map(|(frame, _)| frame).collect()
}

/// A TCP segment in IPv4 with so many bytes of payload.
fn segment(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 54 + payload];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(40 + payload as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[46] = 0x50;
    frame
}

#[test]
fn frames_pass_between_packet_sockets() {
    with_veth(1, || {
        let open = |name| Packet::open(name, PacketConfig::default()).unwrap();
        let (mut left, mut right) = (open("v0"), open("v1"));
        assert_eq!(left.capabilities().mtu, 1500);
        let (now, frames) = (Instant::now(), numbered(200));
        send(&mut left, now, &frames, Meta::default());
        assert_eq!(bytes(receive_ours(&mut right, 200)), frames);
        // A socket does not receive what it has sent.
        assert_eq!(receive_ours(&mut left, 0).len(), 0);
        send(&mut right, now, &frames, Meta::default());
        assert_eq!(bytes(receive_ours(&mut left, 200)), frames);
    });
}

#[test]
fn super_frames_pass_between_packet_sockets() {
    with_veth(1, || {
        let open = |name| Packet::open(name, PacketConfig::default()).unwrap();
        let (mut left, mut right) = (open("v0"), open("v1"));
        let frame = segment(60_000);
        let meta = Meta {
            gso_size: 1400,
            needs_checksum: Some((34, 16)),
            checksum_valid: true,
        };
        let frames = std::slice::from_ref(&frame);
        send(&mut left, Instant::now(), frames, meta);
        assert_eq!(receive_ours(&mut right, 1), [(frame, meta)]);
    });
}

/// The kernel takes the outermost tag out of what it receives.
#[test]
fn tags_pass_between_packet_sockets() {
    with_veth(1, || {
        let open = |name| Packet::open(name, PacketConfig::default()).unwrap();
        let (mut left, mut right) = (open("v0"), open("v1"));
        let now = Instant::now();
        let tagged = |frame: &[u8], tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
        let mut frames = numbered(5);
        let tags = [
            &[0x81, 0x00, 0x60, 7][..],
            &[0x81, 0x00, 0x20, 0],
            &[0x88, 0xa8, 0, 7],
            &[0x88, 0xa8, 0, 7, 0x81, 0x00, 0, 5],
        ];
        for (frame, tags) in frames.iter_mut().zip(tags) {
            *frame = tagged(frame, tags);
        }
        // All that an interface with an MTU of 1500 takes.
        frames[0].resize(1518, 7);
        send(&mut left, now, &frames, Meta::default());
        assert_eq!(bytes(receive_ours(&mut right, 5)), frames);

        let frame = tagged(&segment(60_000), tags[0]);
        let meta = Meta {
            gso_size: 1400,
            needs_checksum: Some((38, 16)),
            checksum_valid: true,
        };
        send(&mut left, now, std::slice::from_ref(&frame), meta);
        assert_eq!(receive_ours(&mut right, 1), [(frame, meta)]);
    });
}

#[test]
fn an_interface_that_is_down_loses_frames_and_one_that_is_gone_is_an_error() {
    with_veth(1, || {
        let mut port = Packet::open("v0", PacketConfig::default()).unwrap();
        let now = Instant::now();
        ip("link set v0 down");
        receive(&mut port, now);
        send(&mut port, now, &numbered(3), Meta::default());
        assert_eq!(counter(&port, "tx_dropped"), 3);
        ip("link del v0");
        let mut fill = |_: &mut [u8]| Some((60, Meta::default()));
        let error = port
            .receive(now, &mut |_, _| {})
            .and_then(|_| port.transmit(now, &mut fill))
            .unwrap_err();
        assert!(error.to_string().contains("v0"), "{error}");
    });
}

/// The socket tells the next call that the interface was down, whatever that call is for.
#[test]
fn an_interface_that_was_down_loses_no_frame_that_is_sent_when_it_is_up() {
    with_veth(1, || {
        let open = |name| Packet::open(name, PacketConfig::default()).unwrap();
        let (mut left, mut right) = (open("v0"), open("v1"));
        for number in 0..2 {
            ip("link set v0 down");
            ip("link set v0 up");
            ["v0", "v1"].into_iter().for_each(wait_until_up);
            // Whole and in parts.
            let frames = numbered(2);
            let meta = Meta::default();
            send(&mut left, Instant::now(), &frames[number..], meta);
            assert_eq!(counter(&left, "tx_dropped"), 0);
            assert_eq!(
                bytes(receive_ours(&mut right, 2 - number)),
                frames[number..]
            );
        }
    });
}

#[test]
fn a_frame_that_a_filter_drops_is_lost_and_holds_up_no_other() {
    with_veth(1, || {
        let rules = [
            "add table netdev t",
            "add chain netdev t c { type filter hook egress device v0 priority 0; }",
            "add rule netdev t c ether type 0x88b5 drop",
        ];
        if !rules.into_iter().all(nft) {
            eprintln!("skipped: nftables cannot filter what leaves an interface here");
            return;
        }
        let open = |name| Packet::open(name, PacketConfig::default()).unwrap();
        let (mut left, mut right) = (open("v0"), open("v1"));
        let mut dropped = vec![0; 60];
        dropped[12..14].copy_from_slice(&[0x88, 0xb5]);
        let (mut now, plain) = (Instant::now(), numbered(2));
        let mut frames = [&dropped, &plain[0], &plain[1]].into_iter();
        let mut fill = |buffer: &mut [u8]| {
            let frame = frames.next()?;
            buffer[..60].copy_from_slice(frame);
            Some((60, Meta::default()))
        };
        assert_eq!(left.transmit(now, &mut fill).unwrap(), 3);
        assert_eq!(
            counter(&left, "tx_dropped"),
            0,
            "it may be that a queue is full"
        );
        for _ in 0..100 {
            let Some(due) = left.poll_timeout() else {
                break;
            };
            now = due;
            left.transmit(now, &mut |_| None).unwrap();
        }
        assert_eq!(counter(&left, "tx_dropped"), 1);
        assert_eq!(bytes(receive_ours(&mut right, 2)), plain);
        let mut parts = InParts::new(&dropped, Meta::default());
        left.transmit_parts(now, &mut parts).unwrap();
        assert!(
            left.poll_timeout().is_some(),
            "others have passed meanwhile"
        );
    });
}

/// Whether nftables takes the command.
fn nft(command: &str) -> bool {
    let mut nft = Command::new("nft");
    let status = nft.arg(command).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_super_frame_that_the_kernel_cannot_describe_is_counted_and_the_next_frame_comes() {
    std::thread::spawn(|| {
        if !enter_own_namespace() {
            return;
        }
        let tap = Tap::open("tap0", TapConfig::default()).unwrap();
        tap.set_up().unwrap();
        let mut port = Packet::open("tap0", PacketConfig::default()).unwrap();
        let plain = numbered(1);
        // UDP to be fragmented: of 1,400 bytes, with a checksum to be finished.
        let mut udp = segment(3000);
        udp[23] = 17;
        let header = |flags: u8, kind: u8, fields: [u16; 4]| {
            let fields = fields.map(u16::to_ne_bytes).concat();
            [&[flags, kind][..], &fields].concat()
        };
        for (header, frame) in [
            (header(1, 3, [42, 1400, 34, 6]), &udp),
            (header(0, 0, [0; 4]), &plain[0]),
        ] {
            let queue = tap.queue().unwrap();
            rustix::io::write(queue, &[&header[..], frame].concat()).unwrap();
        }
        assert_eq!(bytes(receive_ours(&mut port, 1)), plain);
        assert_eq!(counter(&port, "rx_errors"), 1);
    })
    .join()
    .unwrap();
}

#[test]
fn a_super_frame_that_comes_to_an_impaired_port_is_corrupted_whole() {
    with_veth(1, || {
        let mut left = Packet::open("v0", PacketConfig::default()).unwrap();
        let right = Packet::open("v1", PacketConfig { tso: false }).unwrap();
        let corrupt = Impairment {
            corrupt: 1.0,
            ..Impairment::default()
        };
        let mut right = Impair::new(right, Impairments::on_receive(corrupt), 1);
        let frame = segment(60_000);
        let meta = Meta {
            gso_size: 1400,
            needs_checksum: Some((34, 16)),
            checksum_valid: true,
        };
        let frames = std::slice::from_ref(&frame);
        send(&mut left, Instant::now(), frames, meta);
        let got = bytes(receive_ours(&mut right, 1));
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].len(), frame.len());
        assert_ne!(got[0], frame);
    });
}

#[test]
fn a_port_that_sends_alone_receives_nothing_and_another_one_of_its_interface_all() {
    with_veth(1, || {
        let mut far = Packet::open("v1", PacketConfig::default()).unwrap();
        let mut receives = Packet::open("v0", PacketConfig::default()).unwrap();
        let mut sends = Packet::open_to_send("v0", PacketConfig::default()).unwrap();
        let (now, frames) = (Instant::now(), numbered(50));
        send(&mut sends, now, &frames, Meta::default());
        assert_eq!(bytes(receive_ours(&mut far, 50)), frames);
        let large = [segment(60_000)];
        let meta = Meta {
            gso_size: 1400,
            needs_checksum: Some((34, 16)),
            checksum_valid: true,
        };
        send(&mut sends, now, &large, meta);
        assert_eq!(bytes(receive_ours(&mut far, 1)), large);
        send(&mut far, now, &frames, Meta::default());
        // Not what was sent beside it.
        assert_eq!(bytes(receive_ours(&mut receives, 50)), frames);
        let came = sends.receive(now, &mut |_, _| panic!("a frame has come"));
        assert_eq!(came.unwrap(), 0);
    });
}

#[test]
fn frames_pass_by_xdp_on_each_queue() {
    for queues in [1, 4] {
        with_veth(queues, move || {
            let mut left = Xdp::open("v0").unwrap();
            assert_eq!(counter(&left, "queues"), u64::from(queues));
            let mut right = Packet::open("v1", PacketConfig { tso: false }).unwrap();
            let (now, frames) = (Instant::now(), numbered(250));
            // More than there is memory for in one go.
            for _ in 0..40 {
                send(&mut left, now, &frames, Meta::default());
                assert_eq!(bytes(receive_ours(&mut right, 250)), frames);
                send(&mut right, now, &frames, Meta::default());
                let mut got = numbers(&bytes(receive_ours(&mut left, 250)));
                got.sort_unstable();
                assert_eq!(got, (0..250).collect::<Vec<_>>());
            }
            assert_eq!(counter(&left, "rx_dropped"), 0);
        });
    }
}

#[test]
fn an_interface_that_is_down_loses_frames_of_xdp_and_is_looked_at_now_and_then() {
    with_veth(1, || {
        ip("link set v0 down");
        // A driver that has AF_XDP without copies may refuse this, with `OpenError::Down`.
        let mut left = Xdp::open("v0").unwrap();
        let mut right = Packet::open("v1", PacketConfig { tso: false }).unwrap();
        let (mut now, frames) = (Instant::now(), numbered(3));
        // More than there is room for in the ring.
        for _ in 0..2000 {
            send(&mut left, now, &frames, Meta::default());
            now += Duration::from_millis(1);
            let again = left.poll_timeout().unwrap();
            assert!(again >= now && again <= now + Duration::from_millis(100));
        }
        assert!(counter(&left, "tx_dropped") > 5900);
        ip("link set v0 up");
        ["v0", "v1"].into_iter().for_each(wait_until_up);
        now += Duration::from_secs(1);
        receive(&mut right, now);
        let dropped = counter(&left, "tx_dropped");
        send(&mut left, now, &frames, Meta::default());
        let came = bytes(receive_ours(&mut right, 4));
        assert_eq!(came[came.len() - 3..], frames);
        assert_eq!(counter(&left, "tx_dropped"), dropped);
        assert_eq!(left.poll_timeout(), None);
    });
}

#[test]
fn an_interface_that_cannot_be_had_is_told_with_what_to_do() {
    with_veth(1, || {
        for name in ["nosuch0", "", "a/b"] {
            let error = Packet::open(name, PacketConfig::default()).unwrap_err();
            let no_interface = matches!(error, packet::OpenError::NoInterface { .. });
            assert!(no_interface, "{name}: {error}");
            let error = Xdp::open(name).unwrap_err();
            let no_interface = matches!(error, xdp::OpenError::NoInterface { .. });
            assert!(no_interface, "{name}: {error}");
        }
        let first = Xdp::open("v0").unwrap();
        let error = Xdp::open("v0").unwrap_err();
        assert!(matches!(error, xdp::OpenError::InUse { .. }), "{error}");
        drop(first);
        // The kernel lets go of a closed socket's queue when it finds time.
        let mut again = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            Xdp::open("v0")
        });
        assert!(again.any(|opened| opened.is_ok()), "v0 stays in use");
        ip("link set v0 mtu 9000");
        let error = Xdp::open("v0").unwrap_err();
        assert!(
            matches!(error, xdp::OpenError::Mtu { mtu: 9000, .. }),
            "{error}"
        );
    });
}
