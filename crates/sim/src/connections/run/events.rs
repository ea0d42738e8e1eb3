//! What the hosts' stacks tell: to whom of the run it matters.

use host::{CloseReason, Event, SocketId, SpliceHandle};

use super::super::relay::Relay;
use super::{BEHIND, Owner, RELAYED, Run};
use crate::oracle::Side;

impl Run<'_> {
    pub(super) fn handle_event(&mut self, node: usize, event: Event) {
        let now = self.world.now();
        if let Event::Closed(socket, CloseReason::NicReset) = event
            && let Some(Owner::End(life, _) | Owner::Leg(life, _)) =
                self.owners.get(&(node, socket))
        {
            self.lost.insert(*life);
        }
        match event {
            Event::Accepted(listener) => {
                while let Some(socket) = self.world.stack(node).accept(listener) {
                    self.accept(node, self.listeners[&(node, listener)], socket);
                }
            }
            Event::Connected(socket) => match self.owners.get(&(node, socket)) {
                Some(&Owner::End(life, side)) => {
                    self.actors[life][side as usize].is_connected = true;
                }
                Some(&Owner::Leg(life, _)) => {
                    let relay = self.relays[life].as_mut();
                    relay.expect("its leg is connected").is_connected = true;
                }
                None => {}
            },
            Event::Closed(socket, reason) => match self.owners.get(&(node, socket)) {
                Some(&Owner::End(life, side)) => {
                    self.actors[life][side as usize].closed = Some(reason);
                }
                Some(&Owner::Leg(life, leg)) => {
                    let relay = self.relays[life].as_mut().expect("its leg has ended");
                    let stack = self.world.stack(node);
                    relay.handle_closed(now, stack, leg, &reason);
                }
                None => {}
            },
            Event::Spliced(handle) => {
                spliced(&mut self.relays, node, handle).for_each(|relay| relay.handle_spliced(now));
            }
            Event::SpliceRefused(handle, _) => {
                spliced(&mut self.relays, node, handle).for_each(Relay::handle_refused);
            }
            Event::SpliceEnded(handle, report) => {
                let stack = self.world.stack(node);
                spliced(&mut self.relays, node, handle)
                    .for_each(|relay| relay.handle_ended(now, stack, &report));
            }
            Event::Secured(_)
            | Event::Readable(_)
            | Event::Writable(_)
            | Event::Urgent(_)
            | Event::SpliceProgress(..) => {}
        }
    }

    fn accept(&mut self, node: usize, base: u16, socket: SocketId) {
        let info = self.world.stack(node).info(socket).expect("accepted");
        let number = self.opened[&(1 - node % 2, info.remote, info.local.port())];
        let now = self.world.now();
        let is_known = match base {
            RELAYED => self.relays[number].is_some(),
            _ => self.actors[number][1].socket.is_some(),
        };
        if is_known {
            self.again += 1;
            let _ = self.world.stack(node).abort(now, socket);
            return;
        }
        if base != RELAYED {
            let server = &mut self.actors[number][1];
            (server.node, server.socket, server.is_connected) = (node, Some(socket), true);
            self.owners
                .insert((node, socket), Owner::End(number, Side::Server));
            return;
        }
        let plan = self.scenario.lives[number].relayed.expect("it came here");
        let back = self.connect(node, 0, BEHIND, number);
        self.relays[number] = Some(Relay::new(plan, node, [socket, back]));
        for (leg, socket) in [socket, back].into_iter().enumerate() {
            self.owners.insert((node, socket), Owner::Leg(number, leg));
        }
    }
}

/// The relay that asked for this splice.
fn spliced(
    relays: &mut [Option<Relay>],
    node: usize,
    handle: SpliceHandle,
) -> impl Iterator<Item = &mut Relay> {
    let relays = relays.iter_mut().flatten();
    relays.filter(move |relay| relay.node == node && relay.splice() == Some(handle))
}
