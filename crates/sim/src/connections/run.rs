//! One run of a scenario.

mod events;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use host::{Accel, ListenOptions, ListenerId, SocketId};

use super::actor::Actor;
use super::outcome::{Outcome, Stalled, sum};
use super::relay::Relay;
use super::setup::{actors, world};
use super::watch::Watch;
use super::{Door, Help, Life, Scenario};
use crate::World;
use crate::lending::Lender;
use crate::oracle::{Family, Side};

/// Virtual time that a run may take: many times the longest retransmission timeout.
const LONGEST: Duration = Duration::from_secs(3600);
/// Virtual time after which nobody waits any more for a peer that broke the order.
const PATIENCE: Duration = Duration::from_secs(1000);
/// Steps that a run may take: more say that something goes round and round.
const MOST_STEPS: u64 = 100_000;
/// Virtual time in which all that NICs still have to do must end: longer than TIME-WAIT, and than a peer's last FIN is waited for.
const AFTERWARDS: Duration = Duration::from_secs(400);
/// Ports of listeners: of servers that clients reach straight, of the relay, of the servers behind it.
const STRAIGHT: u16 = 1000;
const RELAYED: u16 = 2000;
const BEHIND: u16 = 3000;

/// Drives the scenario with this payload and this help.
///
/// # Errors
/// When the connections do not end in a virtual time in which they should.
pub fn run(scenario: &Scenario, streams: &[[Vec<u8>; 2]], help: Help) -> Result<Outcome, Stalled> {
    Run::new(scenario, streams, help).finish()
}

/// Whose a socket is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    End(usize, Side),
    Leg(usize, usize),
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    began: Instant,
    actors: Vec<[Actor; 2]>,
    /// By connection.
    relays: Vec<Option<Relay>>,
    /// Connections by when they start, the last first.
    unstarted: Vec<usize>,
    accel: [Accel; 2],
    lenders: Vec<Lender>,
    /// By node, resets of its NIC that were taken notice of.
    resets: Vec<u32>,
    lost: BTreeSet<usize>,
    listeners: BTreeMap<(usize, ListenerId), u16>,
    owners: BTreeMap<(usize, SocketId), Owner>,
    /// By the host and address of who opened it, and the port at which that was.
    opened: BTreeMap<(usize, SocketAddr, u16), usize>,
    /// Connections that were accepted though they had been before.
    again: u32,
    watch: Rc<RefCell<Watch>>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, streams: &[[Vec<u8>; 2]], help: Help) -> Self {
        let mut world = world(scenario, help);
        let watch = Rc::new(RefCell::new(Watch::default()));
        let watching = Rc::clone(&watch);
        world.observe(move |node, frame| watching.borrow_mut().handle_frame(node, frame));
        let mut listeners = BTreeMap::new();
        let nodes = 2 * usize::from(scenario.workers);
        let bases = (0..nodes).flat_map(|node| match node % 2 {
            0 => vec![(node, BEHIND)],
            _ => vec![(node, STRAIGHT), (node, RELAYED)],
        });
        for (node, base) in bases {
            for (at, door) in Door::ALL.into_iter().enumerate() {
                for ipv6 in [false, true] {
                    let port = base + at as u16;
                    let options = ListenOptions {
                        accel: door.accel,
                        defer: door.defer,
                        ..ListenOptions::default()
                    };
                    let address = SocketAddr::new(World::address(node % 2, ipv6), port);
                    let listener = world.stack(node).listen(address, options);
                    listeners.insert((node, listener.expect("a free port")), base);
                }
            }
        }
        let actors = actors(scenario, streams, &mut world);
        let mut unstarted: Vec<usize> = (0..actors.len()).collect();
        unstarted.sort_by_key(|life| std::cmp::Reverse(scenario.lives[*life].start));
        world.settle();
        Self {
            began: world.now(),
            scenario,
            relays: actors.iter().map(|_| None).collect(),
            actors,
            unstarted,
            accel: help.accel,
            lenders: Lender::of(&help.lending, scenario.workers),
            resets: vec![0; nodes],
            lost: BTreeSet::new(),
            listeners,
            owners: BTreeMap::new(),
            opened: BTreeMap::new(),
            again: 0,
            watch,
            world,
        }
    }

    fn finish(mut self) -> Result<Outcome, Stalled> {
        let deadline = self.began + LONGEST;
        let mut steps = 0;
        while !self.is_over() {
            steps += 1;
            let goes_on = self.step() || self.give_up_rude();
            if self.world.now() > self.began + PATIENCE {
                self.give_up_rude();
            }
            // The last socket of all goes without a word.
            let is_stuck = !goes_on && !self.is_over();
            if is_stuck || self.world.now() > deadline || steps > MOST_STEPS {
                return Err(self.stalled(steps));
            }
        }
        // Whatever still comes is for the NICs, and for nobody's eyes.
        let end = self.world.now() + AFTERWARDS;
        while self.world.now() < end {
            steps += 1;
            if steps > MOST_STEPS {
                return Err(self.stalled(steps));
            }
            let moved = self.turn();
            if !moved {
                self.world.advance_to(end);
            }
        }
        Ok(self.outcome())
    }

    fn is_over(&self) -> bool {
        let is_busy = |actors: &[Actor; 2]| {
            // A server may never have heard of a client that was in a hurry.
            !actors[0].has_left || actors[1].is_busy()
        };
        let relays_done = self.relays.iter().flatten().all(Relay::is_done);
        self.unstarted.is_empty()
            && relays_done
            && !self.actors.iter().any(is_busy)
            && (0..self.resets.len()).all(|node| {
                let sockets = self.world.stack_ref(node).sockets();
                sockets.filter(|socket| socket.id.is_some()).count() == 0
            })
    }

    /// Everything that is due now, then the clock. `false` when there is nothing to come.
    fn step(&mut self) -> bool {
        if self.turn() {
            return true;
        }
        let starts = self.unstarted.last();
        let starts = starts.map(|life| self.began + self.scenario.lives[*life].start);
        let actors = self.actors.iter().flatten().filter_map(Actor::poll_timeout);
        let relays = self.relays.iter().flatten().filter_map(Relay::poll_timeout);
        match actors.chain(relays).chain(starts).min() {
            Some(when) => {
                let least = self.world.now() + Duration::from_micros(1);
                self.world.advance_to(when.max(least));
                true
            }
            None => self.world.advance(),
        }
    }

    fn turn(&mut self) -> bool {
        let mut moved = self.open();
        for node in 0..self.resets.len() {
            while let Some(event) = self.world.stack(node).poll_event() {
                self.handle_event(node, event);
                moved = true;
            }
        }
        let now = self.world.now();
        for actor in self.actors.iter_mut().flatten() {
            moved |= actor.poll(now, self.world.stack(actor.node));
        }
        for relay in self.relays.iter_mut().flatten() {
            moved |= relay.poll(now, self.world.stack(relay.node));
        }
        for lender in &mut self.lenders {
            moved |= lender.turn(now, &mut self.world);
        }
        for node in 0..self.resets.len() {
            let resets = self.world.nic_resets(node);
            if std::mem::replace(&mut self.resets[node], resets) != resets {
                self.note_reset(node);
            }
        }
        self.world.step() || moved
    }

    /// A NIC was reset: what only that had is lost, and who waits for it may wait for ever.
    fn note_reset(&mut self, node: usize) {
        let (accel, host) = (self.accel[node % 2], node % 2);
        for (number, life) in self.scenario.lives.iter().enumerate() {
            let relay = self.relays[number].as_ref();
            let [client, server] = &self.actors[number];
            // What an application has let go the NIC may have been given to finish.
            let relays_here = relay.filter(|relay| relay.node == node);
            let mut ends = [client, server].into_iter();
            let is_finishing = ends.any(|actor| actor.node == node && actor.has_left)
                || relays_here.is_some_and(Relay::is_done);
            // Who connects may have been answered by it, and nobody else knows.
            let is_opening = match relay {
                _ if client.socket.is_none() => false,
                None if life.relayed.is_some() => host == 1,
                _ => host == server_node(life) && server.socket.is_none(),
            };
            let is_spliced = relays_here.is_some_and(|relay| relay.splice().is_some());
            if accel.teardown && is_finishing
                || accel.setup && is_opening
                || accel.splice && is_spliced
            {
                self.lost.insert(number);
            }
        }
    }

    /// Nothing moves any more. Who has been left alone by a peer that broke the order, or whose NIC was reset, gives up: a reset may
    /// be lost, and then nobody says anything.
    fn give_up_rude(&mut self) -> bool {
        let (now, mut any) = (self.world.now(), false);
        for (number, life) in self.scenario.lives.iter().enumerate() {
            if life.is_gentle() && !self.lost.contains(&number) {
                continue;
            }
            for actor in &mut self.actors[number] {
                any |= actor.give_up(now, self.world.stack(actor.node));
            }
            if let Some(relay) = &mut self.relays[number] {
                any |= relay.give_up(now, self.world.stack(relay.node));
            }
        }
        any
    }

    /// Lets the clients connect whose time has come.
    fn open(&mut self) -> bool {
        let (now, mut moved) = (self.world.now(), false);
        while let Some(&number) = self.unstarted.last() {
            let life = &self.scenario.lives[number];
            if self.began + life.start > now {
                break;
            }
            self.unstarted.pop();
            moved = true;
            let base = if life.relayed.is_some() {
                RELAYED
            } else {
                STRAIGHT
            };
            let from = 2 * (number % usize::from(self.scenario.workers));
            let socket = self.connect(from, 1, base, number);
            let client = &mut self.actors[number][0];
            (client.node, client.socket) = (from, Some(socket));
            self.owners
                .insert((from, socket), Owner::End(number, Side::Client));
        }
        moved
    }

    /// Opens a connection for a life, from one node to a listener of another host's.
    fn connect(&mut self, from: usize, to: usize, base: u16, number: usize) -> SocketId {
        let life = &self.scenario.lives[number];
        let door = Door::ALL.iter().position(|door| *door == life.door);
        let port = base + door.expect("there is no other door") as u16;
        let address = SocketAddr::new(World::address(to, life.family == Family::V6), port);
        let now = self.world.now();
        let socket = self.world.stack(from).connect(now, address);
        let socket = socket.expect("a free port, and a peer on the link");
        let info = self.world.stack(from).info(socket).expect("a socket");
        self.opened.insert((from % 2, info.local, port), number);
        socket
    }

    fn stalled(&self, steps: u64) -> Stalled {
        let mut positions = String::new();
        for (life, actors) in self.actors.iter().enumerate() {
            let relay = self.relays[life].as_ref();
            let is_relaying = relay.is_some_and(|relay| !relay.is_done());
            if !actors[0].has_left || actors[1].is_busy() || is_relaying {
                let relay = relay.map(Relay::position);
                positions += &format!(
                    "life {life}: client: {}; server: {}; {} ",
                    actors[0].position(),
                    actors[1].position(),
                    relay.unwrap_or_default(),
                );
            }
        }
        let sockets = (0..self.resets.len()).map(|node| {
            let sockets = self.world.stack_ref(node).sockets();
            let sockets = sockets.filter(|socket| socket.id.is_some());
            sockets
                .map(|socket| (socket.state, socket.holder, socket.local, socket.remote))
                .collect::<Vec<_>>()
        });
        let sockets: Vec<_> = sockets.collect();
        Stalled {
            after: self.world.now() - self.began,
            steps,
            frames: self.watch.borrow().frames,
            positions,
            sockets: format!("{sockets:?}"),
        }
    }

    fn outcome(self) -> Outcome {
        let Self { world, .. } = self;
        let splices = self.relays.iter().zip(&self.actors).map(|(relay, actors)| {
            let relay = relay.as_ref()?;
            let written = [actors[0].written(), actors[1].written()];
            let relayed = relay.relayed();
            let through = [0, 1].map(|at| written[at].saturating_sub(relayed[at]));
            Some((relay.spliced?, through))
        });
        let splices = splices.collect();
        let ends = self.actors.into_iter().map(|actors| actors.map(Actor::end));
        let watch = self.watch.borrow();
        let nodes = |host| (host..self.resets.len()).step_by(2);
        Outcome {
            lost: self.lost,
            again: self.again,
            ends: ends.collect(),
            splices,
            wrong: watch.wrong.clone(),
            resets: watch.resets.clone(),
            frames: watch.frames,
            in_use: [0, 1].map(|host| {
                let in_use = nodes(host).map(|node| world.stack_ref(node).arena_stats().in_use());
                in_use.max().unwrap_or(0)
            }),
            nic: [0, 1]
                .map(|host| sum(nodes(host).map(|node| world.nic_counters(node).iter().collect()))),
            host: [0, 1].map(|host| {
                sum(nodes(host).map(|node| world.stack_ref(node).counters().collect()))
            }),
        }
    }
}

/// The host of the server at the end.
pub(super) fn server_node(life: &Life) -> usize {
    usize::from(life.relayed.is_none())
}
