//! Encrypting in software what was framed for the NIC.

use nic::ring::ContextId;
use shared::SharedSlice;
use tcp::SendQueue;
use wire::SeqNum;

use super::session::Session;
use crate::CloseReason;
use crate::counters::Counters;
use crate::driver::{Driver, Payload};
use crate::layer5::Fallback;

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
        let (mut source, mut mutable) = (None, false);
        let mut in_place = Vec::new();
        let end = record.start + record.len;
        send.slices(record.start, record.len, |payload, offset, len| {
            let slice = payload.slice(offset, len);
            mutable |= payload.mutable;
            match payload.as_buffer() {
                Some(buffer) => {
                    framed.extend_from_slice(&buffer[offset as usize..(offset + len) as usize])
                }
                None => {
                    let bytes = driver.regions.view(slice).map(SharedSlice::to_vec);
                    framed.extend(bytes.unwrap_or_default());
                    source.get_or_insert(slice);
                    in_place.push(slice);
                }
            }
        });
        if framed.len() != record.len as usize {
            return Fallback::Impossible(CloseReason::Device("a record's bytes are gone".into()));
        }
        let Some(mut sealed) = driver.take_tail(record.len) else {
            return Fallback::NoMemory;
        };
        self.writer.encrypt_framed(&record, &[&framed], &mut sealed);
        if mutable {
            // A digest alone may have been made of such memory.
            let (name, offset) = match source {
                Some(source) => (driver.regions.name(source.region), source.offset),
                None => ("registered memory", 0),
            };
            let name = name.to_owned();
            let shadow = driver.contexts().get(context);
            let frontier = shadow.map_or(record.start, |shadow| shadow.frontier);
            let lost = shadow.is_some_and(|shadow| shadow.lost);
            if let Some(gone) = in_place
                .iter()
                .find(|slice| driver.regions.is_faulted(slice.region))
            {
                return Fallback::Impossible(CloseReason::SourceGone {
                    name: driver.regions.name(gone.region).to_owned(),
                    offset: gone.offset,
                });
            }
            let same = sealed[sealed.len() - l5p::tls::ICV_LEN..]
                == framed[framed.len() - l5p::tls::ICV_LEN..];
            if frontier.after(record.start) && !(frontier.at_or_after(end) && same) {
                if lost {
                    return Fallback::Impossible(CloseReason::NicReset);
                }
                counters.tls_source_changed += 1;
                return Fallback::Impossible(CloseReason::SourceChanged { name, offset });
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
