//! Making digests in software that the NIC was to make.

use l5p::crc32c::Crc32c;
use l5p::pdus::{Layout, MAX_FRONT};
use l5p::{HostEvent, MsgState};
use nic::ring::ContextId;
use shared::Input;
use tcp::SendQueue;
use wire::SeqNum;

use super::PduStream;
use crate::CloseReason;
use crate::counters::Counters;
use crate::driver::{Driver, Payload};
use crate::layer5::{Fallback, Outgoing, Spans};
use crate::tls;

impl PduStream {
    /// Puts the digest of the PDU around `tcpsn` in the place of the dummy. From then on the PDU is for no context.
    pub(super) fn digest_in_software(
        &mut self,
        context: ContextId,
        tcpsn: SeqNum,
        send: &mut SendQueue<Payload>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) -> Fallback {
        let Some(pdu) = self.sending.writer.message_state(tcpsn) else {
            return Fallback::Impossible(CloseReason::Device(
                "a PDU's state is not known any more".into(),
            ));
        };
        if let Err(reason) = self.make_digest(&pdu, None, send, driver) {
            return Fallback::Impossible(reason);
        }
        let end = pdu.start + pdu.len;
        send.for_each_mut(pdu.start..end, |_, payload| payload.context = None);
        if let Some(shadow) = driver.contexts_mut().get_mut(context) {
            // What follows is for the context again.
            shadow.frontier = shadow.frontier.max(end);
        }
        self.count(HostEvent::TxMessagesTakenBack, counters);
        Fallback::Done
    }

    /// Before software encrypts the first record that was meant for `context`, which makes digests inside of records: makes all of
    /// them, since the plaintext will be gone. From then on that context is for nothing.
    pub fn leave_nested(
        &mut self,
        session: &mut tls::Session,
        context: ContextId,
        out: &mut Outgoing<'_>,
    ) -> Result<(), CloseReason> {
        let Some(shadow) = out.driver.contexts_mut().get_mut(context) else {
            return Ok(());
        };
        if !shadow.is_nested() {
            return Ok(());
        }
        let has_failed = std::mem::replace(&mut shadow.failed, true);
        for pdu in self.sending.writer.pdus() {
            if pdu.index >= self.sending.digested {
                self.make_digest(&pdu, Some(&self.sending.spans), out.send, out.driver)?;
                self.count(HostEvent::TxMessagesTakenBack, out.counters);
            }
        }
        self.sending.digested = self.sending.writer.index();
        if session.tx.context == Some(context) {
            session.leave_transmit(out.send.end(), out.counters);
            if !has_failed {
                // It could not recover in this place only.
                session.begin_transmit(out);
            }
        }
        Ok(())
    }
}

/// Calls `f(TCP's position, bytes)` for each run of what a PDU has at a position: in the records of `spans`, or directly.
fn runs(spans: Option<&Spans>, position: SeqNum, len: u32, mut f: impl FnMut(SeqNum, u32)) {
    match spans {
        Some(spans) => {
            spans.runs(position, len, f);
        }
        None => f(position, len),
    }
}

impl PduStream {
    /// Where the parts of a queued PDU are.
    fn layout_of_queued(
        &self,
        pdu: &MsgState,
        spans: Option<&Spans>,
        send: &SendQueue<Payload>,
    ) -> Result<Layout, CloseReason> {
        let mut front = [0; MAX_FRONT];
        let mut held = 0;
        let most = pdu.len.min(MAX_FRONT as u32);
        runs(spans, pdu.start, most, |tcpsn, len| {
            send.slices(tcpsn, len, |payload, offset, len| {
                // What is not in a buffer is data, behind the header.
                payload.parts(offset, len, |part| {
                    let bytes = part.as_bytes().unwrap_or_default();
                    front[held..held + bytes.len()].copy_from_slice(bytes);
                    held += bytes.len();
                });
            });
        });
        self.layout_of_sent(&front[..held])
            .ok_or_else(|| CloseReason::Device("a PDU's header is gone".into()))
    }

    /// Makes the digest of a queued PDU, if it has one, in the place of the dummy.
    fn make_digest(
        &self,
        pdu: &MsgState,
        spans: Option<&Spans>,
        send: &mut SendQueue<Payload>,
        driver: &Driver,
    ) -> Result<(), CloseReason> {
        let layout = self.layout_of_queued(pdu, spans, send)?;
        if !layout.data_digest {
            return Ok(());
        }
        let covered = layout.data_len + layout.padding;
        let digest = digest_of_queued(pdu.start + layout.data_start, covered, spans, send, driver)?;
        let digest = digest.to_le_bytes();
        let at = pdu.start + layout.data_start + covered;
        let mut written = 0;
        runs(spans, at, layout.digest_len(), |tcpsn, len| {
            send.for_each_mut(tcpsn..tcpsn + len, |_, payload| {
                if let Some(buffer) = payload.as_buffer_mut() {
                    let bytes = &digest[written..written + buffer.len()];
                    buffer.copy_from_slice(bytes);
                    written += bytes.len();
                }
            });
        });
        Ok(())
    }
}

/// The digest of `len` queued bytes.
fn digest_of_queued(
    start: SeqNum,
    len: u32,
    spans: Option<&Spans>,
    send: &SendQueue<Payload>,
    driver: &Driver,
) -> Result<u32, CloseReason> {
    let mut left = len;
    let mut digest = Crc32c::new();
    let mut gone = None;
    runs(spans, start, left, |tcpsn, len| {
        left -= send.slices(tcpsn, len, |payload, offset, len| {
            payload.parts(offset, len, |part| {
                let slice = part.slice();
                let bytes = match part.as_bytes() {
                    Some(bytes) => Some(Input::Own(bytes)),
                    None => driver.regions.view(slice).map(Input::Shared),
                };
                match bytes {
                    Some(bytes) => digest.update(bytes),
                    None => gone = Some(slice),
                }
                if driver.regions.is_faulted(slice.region) {
                    gone = Some(slice);
                }
            });
        });
    });
    if let Some(slice) = gone {
        return Err(CloseReason::SourceGone {
            name: driver.regions.name(slice.region).to_owned(),
            offset: slice.offset,
        });
    }
    if left > 0 {
        return Err(CloseReason::Device("a PDU's bytes are gone".into()));
    }
    Ok(digest.finish())
}
