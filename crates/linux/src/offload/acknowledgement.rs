//! What comes from the peer says what need not be retained any longer.

use wire::packet::Parsed;
use wire::tcp::Flags;

use super::flow::{Health, Receives};
use super::{DriverEnv, Offload};

/// Most bits that a window is shifted by (RFC 7323 §2.3).
const MAX_SHIFT: u32 = 14;

impl Offload {
    /// Looks at a segment for Linux. False when Linux must not have it.
    pub(crate) fn handle_received(
        &mut self,
        frame: &[u8],
        parsed: &Parsed,
        env: &mut DriverEnv<'_>,
    ) -> bool {
        let Some(index) = self.index_of(&parsed.flow.reversed()) else {
            self.tracker.handle_received(env.now, parsed);
            return true;
        };
        let flow = self.flow(index);
        if flow.health == Health::Reset {
            self.answer_peer(frame, parsed, env);
            return false;
        }
        // What went up decrypted and unacknowledged before the restart must not be followed by its ciphertext.
        if flow.receives == Receives::Lost && parsed.payload_len > 0 {
            env.counters.rx_tls_orphan_dropped += 1;
            return false;
        }
        let tcp = &parsed.tcp;
        let may_be_taken = is_plausible(flow.acked, parsed);
        if may_be_taken {
            flow.is_given(tcp.seq + tcp.sequence_len(parsed.payload_len));
        }
        if tcp.flags.contains(Flags::ACK) && may_be_taken {
            let table = &self.table;
            let retired = &mut self.retired;
            let contexts = &mut self.contexts;
            let flow = self.flows.get(index);
            flow.acknowledge(tcp.ack, table, retired, |context| {
                env.rings.destroy(context);
                contexts.give();
            });
            // Keys under which the peer has everything need not come back.
            flow.adopt();
            self.retire(env.rings);
        }
        if tcp.flags.intersects(Flags::RST.union(Flags::FIN)) {
            self.check_soon(index, env.now);
        }
        true
    }
}

/// Whether Linux may take the acknowledgement: the segment ends where Linux has not acknowledged everything, or behind that, and begins inside of
/// any window that there can be (RFC 9293 §3.10.7.4). Who does not see the connection must guess that too.
fn is_plausible(acked: Option<wire::SeqNum>, parsed: &Parsed) -> bool {
    let Some(acked) = acked else {
        return true;
    };
    let seq = parsed.tcp.seq;
    let end = seq + parsed.payload_len;
    let window = u32::from(u16::MAX) << MAX_SHIFT;
    end.at_or_after(acked) && seq.at_or_before(acked + window)
}
