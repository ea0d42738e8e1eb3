//! Machines of several stacks with a NIC each: who answers for their addresses, and whose packets come where.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use host::{Event, ListenOptions, SocketId};
use sim::{World, WorldConfig};
use wire::ethernet::{self, EtherType};
use wire::icmp::v4;
use wire::ipv4;
use wire::packet::{self, Class};

const WORKERS: u16 = 3;
/// On the first machine, and on the second, which has one node of each of the others.
const CLIENTS: [usize; 3] = [0, 2, 4];
const SERVERS: [usize; 3] = [1, 3, 5];
const PORT: u16 = 80;

fn world() -> World {
    World::new(WorldConfig {
        workers: WORKERS,
        ..WorldConfig::modest(2)
    })
}

fn listen(world: &mut World, ipv6: bool) -> SocketAddr {
    let address = SocketAddr::new(World::address(1, ipv6), PORT);
    for node in SERVERS {
        let listening = world.stack(node).listen(address, ListenOptions::default());
        listening.expect("the port is free");
    }
    address
}

fn connected(world: &World, node: usize) -> Vec<SocketId> {
    let events = world.events(node).iter();
    let connected = events.filter_map(|event| match event {
        Event::Connected(id) => Some(*id),
        _ => None,
    });
    connected.collect()
}

/// Connections from each stack come about, each at one of the other machine's stacks, and nobody is sent what is another's.
#[test]
fn each_stack_connects_from_ports_of_its_own() {
    const EACH: usize = 60;
    for ipv6 in [false, true] {
        let mut world = world();
        let address = listen(&mut world, ipv6);
        let now = world.now();
        for node in CLIENTS {
            for _ in 0..EACH {
                let connecting = world.stack(node).connect(now, address);
                connecting.expect("a port to connect from is free");
            }
        }
        let all = |world: &mut World| CLIENTS.iter().all(|&it| connected(world, it).len() == EACH);
        assert!(world.run_until(Duration::from_secs(5), all), "IPv6: {ipv6}");
        let accepted = SERVERS.map(|node| {
            let sockets = world.stack_ref(node).sockets();
            sockets.filter(|socket| socket.id.is_some()).count()
        });
        assert_eq!(accepted.iter().sum::<usize>(), EACH * CLIENTS.len());
        let least = EACH * CLIENTS.len() / SERVERS.len() / 2;
        assert!(accepted.iter().all(|&it| it > least), "{accepted:?}");
        for node in CLIENTS.into_iter().chain(SERVERS) {
            for counter in ["TcpOutRsts", "TcpRetransSegs", "TcpInErrs"] {
                assert_eq!(world.counter(node, counter), 0, "{counter} of {node}");
            }
        }
    }
}

/// All learn who the neighbour is when it asks the first one, which alone answers.
#[test]
fn one_of_several_answers_who_asks_for_their_address() {
    for ipv6 in [false, true] {
        let mut world = world();
        let address = listen(&mut world, ipv6);
        let seen = Rc::new(RefCell::new([0u32; 2]));
        let counts = Rc::clone(&seen);
        world.observe(move |from, frame| {
            let is_answer = match packet::classify(frame) {
                Class::Arp { offset } => frame[offset + 7] == 2,
                Class::IcmpV6(ip) => ip.payload(frame)[0] == 136,
                _ => false,
            };
            counts.borrow_mut()[from] += u32::from(is_answer);
        });
        let now = world.now();
        world.stack(2).connect(now, address).expect("a free port");
        let done = world.run_until(Duration::from_secs(5), |world| {
            connected(world, 2).len() == 1
        });
        assert!(done, "IPv6: {ipv6}");
        world.run_for(Duration::from_millis(100));
        // The second machine's knows the first one from its question.
        assert_eq!(*seen.borrow(), [0, 1], "IPv6: {ipv6}");
        for node in CLIENTS {
            assert_eq!(world.counter(node, "NeighbourIn"), 1, "{node}");
        }
    }
}

/// A router on the way tells of a packet: the stack hears of it that has sent it, and no other.
#[test]
fn an_icmp_error_comes_to_the_stack_whose_packet_it_quotes() {
    let mut world = world();
    let address = listen(&mut world, false);
    let sent = Rc::new(RefCell::new(Vec::new()));
    let last = Rc::clone(&sent);
    world.observe(move |from, frame| {
        if from == 0 && packet::parse(frame).is_ok() {
            *last.borrow_mut() = frame[ethernet::HEADER_LEN..][..28].to_vec();
        }
    });
    for (nth, node) in (0..20).flat_map(|_| CLIENTS).enumerate() {
        let now = world.now();
        world.stack(node).connect(now, address).expect("free");
        world.run_for(Duration::from_millis(10));
        let reason = v4::Unreachable::FragmentationNeeded { mtu: 1400 };
        let original = &sent.borrow()[..];
        let message = v4::Message::Unreachable { reason, original };
        let before = CLIENTS.map(|node| world.counter(node, "IcmpInMsgs"));
        world.inject(1, &from_router(&message));
        world.run_for(Duration::from_millis(10));
        for (client, before) in CLIENTS.into_iter().zip(before) {
            let told = world.counter(client, "IcmpInMsgs") - before;
            assert_eq!(told, u64::from(client == node), "{nth}: {client}");
        }
    }
}

fn from_router(message: &v4::Message<'_>) -> Vec<u8> {
    let mut frame = vec![0; 200];
    let ethernet = ethernet::Header {
        destination: World::mac(0),
        source: World::mac(1),
        ether_type: EtherType::IPV4,
    };
    let ip = ipv4::Header {
        src: Ipv4Addr::new(10, 0, 0, 77),
        dst: Ipv4Addr::new(10, 0, 0, 1),
        protocol: ipv4::protocol::ICMP,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        payload_len: message.len() as u16,
        fragment: None,
    };
    let l3 = ethernet.emit(&mut frame);
    let l4 = l3 + ip.emit(&mut frame[l3..]);
    ipv4::fill_checksum(&mut frame[l3..l4]);
    let end = l4 + message.emit(&mut frame[l4..]);
    frame.truncate(end);
    frame
}
