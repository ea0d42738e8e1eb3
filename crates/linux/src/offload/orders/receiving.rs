//! What libraries ask for of what their sockets receive.

use attachment::{CryptoInfo, Direction, Errno, OffloadState, Resume, SlotRef, SocketFacts};
use wire::SeqNum;

use super::super::flow::Receives;
use super::super::{DriverEnv, Offload};
use crate::receive::Start;
use crate::tracking::Located;

impl Offload {
    pub(super) fn set_receive_keys(
        &mut self,
        slot: &SlotRef,
        info: &CryptoInfo,
        resume: Option<Resume>,
        socket: &SocketFacts,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        let (index, facts) = self.flow_for_keys(slot, Direction::Receive, resume, socket, env)?;
        let flow = self.flows.get(index);
        self.tracker.remove(&facts.flow);
        self.table.set_receives(flow.entry.0);
        flow.receives = Receives::Yes;
        flow.adopt();
        flow.report(Direction::Receive, OffloadState::Offloaded);
        let mut info = info.clone();
        if let Some(resume) = resume {
            info.sequence = resume.index;
        }
        let start = Start {
            tcpsn: facts.read,
            next: facts.receive_next,
            queued: flow.may_be_queued(&facts),
        };
        let boundary = resume.map(|resume| resume.tcpsn);
        let (flow, slot) = (facts.flow.reversed(), slot.clone());
        let rings = &mut *env.rings;
        env.receive
            .set_keys(flow, slot, info, start, boundary, rings);
        Ok(facts.read)
    }

    pub(super) fn stop_receiving(
        &mut self,
        slot: &SlotRef,
        socket: &SocketFacts,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        let (index, facts) = self.known(slot, socket)?;
        let flow = self.flow(index);
        if flow.receives != Receives::Yes {
            return Err(Errno::NOENT);
        }
        flow.report(Direction::Receive, OffloadState::None);
        env.receive.stop(facts.flow.reversed(), env.rings);
        Ok(facts.read)
    }

    /// Linux has all that the peer sends on a connection, which may be one from before a restart: keys for it are of no use any more.
    pub(super) fn end_receiving(&mut self, facts: &Located) {
        let Some(index) = self.index_of(&facts.flow) else {
            return;
        };
        let flow = self.flows.get(index);
        if flow.cookie == facts.cookie && flow.receives == Receives::Lost {
            flow.receives = Receives::No;
            self.table.clear_receives(flow.entry.0);
            flow.adopt();
        }
    }
}
