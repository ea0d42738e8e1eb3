//! From an entry to a frame.

use super::super::packet::{self, Addresses, PayloadSize};
use super::super::{AccelDeviceEnv, Made};
use super::Nanos;
use super::output::Segment;
use super::store::Store;
use crate::switch::FunctionId;

/// Writes the next frame of the connection at `at`, if it has one.
pub(super) fn next(
    store: &mut Store,
    now: Nanos,
    at: u32,
    env: &mut AccelDeviceEnv<'_>,
    out: &mut [u8],
) -> Option<Made> {
    let entry = store.table.get_mut(at)?;
    let function = env.functions.get_mut(usize::from(entry.function))?;
    let cut = env.nic.wire.tso && env.nic.wire.checksum;
    let Segment {
        header,
        payload,
        again,
    } = entry.next_segment(now, cut)?;
    let addresses = Addresses {
        source: function.config.mac,
        hop: entry.hop,
        flow: &entry.flow,
        hop_limit: entry.hop_limit,
    };
    let offset = entry.snd.una.distance_to(header.seq);
    let (memory, data) = (&store.memory, &entry.data);
    let size = PayloadSize {
        bytes: payload,
        gso_size: entry.snd.mss,
    };
    let (len, meta) = packet::write(out, env.nic, &addresses, &header, size, |out| {
        if payload > 0 {
            memory.read(data, offset, out);
        }
        Some(())
    })?;
    let packets = u64::from(payload.div_ceil(entry.snd.mss.into()).max(1));
    let counters = &mut function.counters;
    counters.accel_closing_tx_packets += packets;
    counters.accel_closing_retrans += if again { packets } else { 0 };
    Some(Made {
        function: FunctionId(entry.function),
        len,
        meta,
    })
}
