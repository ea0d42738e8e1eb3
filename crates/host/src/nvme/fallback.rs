//! Making digests in software that the NIC was to make.

use nic::ring::ContextId;
use tcp::SendQueue;
use wire::SeqNum;
use wire::nvme::{COMMON_HEADER_LEN, CommonHeader, DIGEST_LEN, Flags};

use super::PduStream;
use crate::CloseReason;
use crate::counters::Counters;
use crate::driver::{Driver, Payload};
use crate::tls::Fallback;
use l5p::nvme::digest::Crc32c;

impl PduStream {
    /// Puts the digest of the PDU around `tcpsn` in the place of the dummy. From then on the PDU is for no context.
    pub fn digest_in_software(
        &mut self,
        context: ContextId,
        tcpsn: SeqNum,
        send: &mut SendQueue<Payload>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) -> Fallback {
        let Some(pdu) = self.writer.message_state(tcpsn) else {
            return Fallback::Impossible(CloseReason::Device(
                "a PDU's state is not known any more".into(),
            ));
        };
        let mut common = [0; COMMON_HEADER_LEN];
        let mut held = 0;
        send.slices(pdu.start, common.len() as u32, |payload, offset, len| {
            if let Some(buffer) = payload.as_buffer() {
                let bytes = &buffer[offset as usize..(offset + len) as usize];
                common[held..held + bytes.len()].copy_from_slice(bytes);
                held += bytes.len();
            }
        });
        let header = CommonHeader::parse(&common);
        let end = pdu.start + pdu.len;
        let digest = end - DIGEST_LEN;
        let mut made = None;
        if header.flags.contains(Flags::DDGSTF) {
            match digest_of(pdu.start + u32::from(header.pdo)..digest, send, driver) {
                Ok(digest) => made = Some(digest.to_le_bytes()),
                Err(reason) => return Fallback::Impossible(reason),
            }
        }
        send.for_each_mut(pdu.start..end, |start, payload| {
            payload.context = None;
            let Some(made) = made else { return };
            let Some(buffer) = payload.as_buffer_mut() else {
                return;
            };
            for (offset, byte) in buffer.iter_mut().enumerate() {
                let at = digest.diff(start + offset as u32);
                if let Ok(at) = usize::try_from(-at)
                    && at < made.len()
                {
                    *byte = made[at];
                }
            }
        });
        if let Some(shadow) = driver.contexts.get_mut(context) {
            // What follows is for the context again.
            shadow.frontier = shadow.frontier.max(end);
        }
        counters.nvme_tx_pdus_fallback += 1;
        Fallback::Sealed
    }
}

/// The digest of queued bytes.
fn digest_of(
    range: std::ops::Range<SeqNum>,
    send: &SendQueue<Payload>,
    driver: &Driver,
) -> Result<u32, CloseReason> {
    let len = range.start.distance_to(range.end);
    let mut digest = Crc32c::new();
    let mut gone = None;
    let covered = send.slices(range.start, len, |payload, offset, len| {
        let slice = payload.slice(offset, len);
        let bytes = match payload.as_buffer() {
            Some(buffer) => Some(&buffer[offset as usize..(offset + len) as usize]),
            None => driver.regions.bytes(slice),
        };
        match bytes {
            Some(bytes) => digest.update(bytes),
            None => gone = Some(slice),
        }
        if payload.as_buffer().is_none() && driver.regions.is_faulted(slice.region) {
            gone = Some(slice);
        }
    });
    match gone {
        Some(slice) => Err(CloseReason::SourceGone {
            name: driver.regions.name(slice.region).to_owned(),
            offset: slice.offset,
        }),
        None if covered < len => Err(CloseReason::Device("a PDU's bytes are gone".into())),
        None => Ok(digest.finish()),
    }
}
