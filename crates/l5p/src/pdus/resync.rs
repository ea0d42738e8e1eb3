//! Answers to a NIC context that asks whether a PDU begins where it thinks (Autonomous NIC offloads §4.3).

use wire::SeqNum;

use crate::resync;

#[cfg(test)]
mod tests;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncAnswer {
    /// What was asked about: a byte of the stream, or under TLS the first byte of a record.
    pub tcpsn: SeqNum,
    /// Under TLS, what was asked about in that record: an offset in its plaintext.
    pub inner: Option<u32>,
    /// That PDU's number, if one begins there.
    pub index: Option<u64>,
}

/// What one request asks about.
#[derive(Clone, Copy, Debug)]
struct Query {
    tcpsn: SeqNum,
    inner: Option<u32>,
}

/// The plaintext of one record.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Position of its first byte in the stream of PDUs.
    position: SeqNum,
    len: u32,
}

/// Requests of NIC contexts, and what settles them.
///
/// The stream of PDUs has positions of its own: TCP's sequence numbers, or the plaintext bytes under TLS. In the latter case a request
/// names a record and a place in it, which the records [noted](Self::note_record) turn into a position.
#[derive(Debug)]
pub struct Resync {
    pdus: resync::Resync<Query, u64>,
    records: resync::Resync<u32, Record>,
}

impl Resync {
    /// The next PDU, number `index`, begins at `position`.
    pub fn new(position: SeqNum, index: u64) -> Resync {
        let mut pdus = resync::Resync::default();
        pdus.note(position, index);
        Resync {
            pdus,
            records: resync::Resync::default(),
        }
    }

    /// A context asks whether a PDU begins at `tcpsn`, or with `inner`, at this offset in the plaintext of the record that begins at
    /// `tcpsn`: `l5o_resync_rx_req`.
    pub fn request(&mut self, tcpsn: SeqNum, inner: Option<u32>) {
        match inner {
            None => self.pdus.request(tcpsn, Query { tcpsn, inner }),
            Some(inner) => {
                self.records.request(tcpsn, inner);
                self.find_positions();
            }
        }
    }

    /// A record begins at `tcpsn`, whose `len` bytes of plaintext begin at `position` in the stream of PDUs. All records are
    /// to be noted, before the PDUs that begin in them.
    pub fn note_record(&mut self, tcpsn: SeqNum, position: SeqNum, len: u32) {
        self.records.note(tcpsn, Record { position, len });
        self.find_positions();
    }

    /// The header of PDU number `index` has come, which begins at `start` and has `len` bytes. So it is known already where the next one
    /// begins, and where no PDU does.
    #[inline]
    pub fn note_pdu(&mut self, start: SeqNum, len: u32, index: u64) {
        self.pdus.note(start + len, index.wrapping_add(1));
    }

    /// The context that asked is gone: its requests get no answer any more.
    pub fn forget_requests(&mut self) {
        self.pdus.forget_requests();
        self.records.forget_requests();
    }

    /// The next answer for `l5o_resync_rx_resp`. Every request gets one, once the stream has come so far.
    pub fn poll_answer(&mut self) -> Option<ResyncAnswer> {
        let answer = self.pdus.poll_answer()?;
        let Query { tcpsn, inner } = answer.asked;
        Some(ResyncAnswer {
            tcpsn,
            inner,
            index: answer.found,
        })
    }

    /// Goes on with the requests whose records have come.
    fn find_positions(&mut self) {
        while let Some(answer) = self.records.poll_answer() {
            let asked = Query {
                tcpsn: answer.tcpsn,
                inner: Some(answer.asked),
            };
            match answer.found.filter(|record| answer.asked < record.len) {
                Some(record) => self.pdus.request(record.position + answer.asked, asked),
                None => self.pdus.refuse(answer.tcpsn, asked),
            }
        }
    }
}
