//! Encrypting in software what was framed for the NIC.

use l5p::MsgState;
use l5p::tls::ICV_LEN;
use nic::ring::{ContextId, Slice};
use shared::SharedSlice;
use tcp::SendQueue;
use wire::SeqNum;

use super::session::Session;
use crate::CloseReason;
use crate::counters::Counters;
use crate::driver::{Driver, Part, Payload};
use crate::layer5::Fallback;
use crate::memory::Purpose;

impl Session {
    /// Puts the ciphertext of the record around `tcpsn` in the place of its plaintext, which the NIC must have read for the
    /// last time.
    ///
    /// A record of memory that others may change, of which the NIC has sent a part, is sent again only if all of it had
    /// been sent and its integrity value, which the NIC has left in the record, still is what comes out: else its counter
    /// would be used on two plaintexts.
    pub(super) fn encrypt_in_software(
        &mut self,
        context: ContextId,
        tcpsn: SeqNum,
        send: &mut SendQueue<Payload>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) -> Fallback {
        let Some(record) = self.writer.message_state(tcpsn) else {
            return Fallback::Impossible(CloseReason::Device(
                "a record's state is not known any more".into(),
            ));
        };
        let mut framed = Vec::with_capacity(record.len as usize);
        let (mut mutable, mut in_place) = (false, Vec::new());
        let end = record.start + record.len;
        send.slices(record.start, record.len, |payload, offset, len| {
            mutable |= payload.mutable;
            payload.parts(offset, len, |part| match part {
                Part::Buffer(..) => framed.extend_from_slice(part.as_bytes().unwrap_or_default()),
                Part::Region(slice) => {
                    let bytes = driver.regions.view(slice).map(SharedSlice::to_vec);
                    framed.extend(bytes.unwrap_or_default());
                    in_place.push(slice);
                }
            });
        });
        if framed.len() != record.len as usize {
            return Fallback::Impossible(CloseReason::Device("a record's bytes are gone".into()));
        }
        let Some(mut sealed) = driver.take_tail_for(Purpose::Control, record.len) else {
            return Fallback::NoMemory;
        };
        self.writer.encrypt_framed(&record, &[&framed], &mut sealed);
        if mutable {
            let same = sealed[sealed.len() - ICV_LEN..] == framed[framed.len() - ICV_LEN..];
            let proof = prove_unchanged(&record, context, same, &in_place, driver);
            if let Err(reason) = proof {
                let is_changed = matches!(reason, CloseReason::SourceChanged { .. });
                counters.tls_source_changed += u64::from(is_changed);
                return Fallback::Impossible(reason);
            }
        }
        for slice in in_place {
            driver.regions.give_back(slice);
        }
        if let Some(shadow) = driver.contexts_mut().get_mut(context) {
            // What follows is for the context again.
            shadow.frontier = shadow.frontier.max(end);
        }
        send.replace(record.start..end, Payload::plain(sealed));
        counters.tls_tx_records_fallback += 1;
        Fallback::Done
    }
}

/// Whether a record of memory that others may change may be encrypted again: the NIC has sent nothing of it, or all of it and its integrity
/// value is the `same`. `in_place` is what of the record is registered memory: none where a digest alone was made of such memory.
fn prove_unchanged(
    record: &MsgState,
    context: ContextId,
    same: bool,
    in_place: &[Slice],
    driver: &Driver,
) -> Result<(), CloseReason> {
    let regions = &driver.regions;
    let mut slices = in_place.iter();
    if let Some(gone) = slices.find(|slice| regions.is_faulted(slice.region)) {
        return Err(CloseReason::SourceGone {
            name: regions.name(gone.region).to_owned(),
            offset: gone.offset,
        });
    }
    let shadow = driver.contexts().get(context);
    let frontier = shadow.map_or(record.start, |shadow| shadow.frontier);
    let end = record.start + record.len;
    if !frontier.after(record.start) || (frontier.at_or_after(end) && same) {
        return Ok(());
    }
    if shadow.is_some_and(|shadow| shadow.lost) {
        return Err(CloseReason::NicReset);
    }
    let (name, offset) = match in_place.first() {
        Some(source) => (regions.name(source.region), source.offset),
        None => ("registered memory", 0),
    };
    Err(CloseReason::SourceChanged {
        name: name.to_owned(),
        offset,
    })
}
