//! Records that need no opening, many at a time.

use l5p::tls::HEADER_LEN;

use super::open::Outcome;
use super::session::Session;
use crate::CloseReason;
use crate::layer5::Outgoing;
use crate::stream::{ReadChunks, Run, Stream};

impl Session {
    /// Gives all content that is there, as it lies in memory. Answers what must end the connection behind it.
    pub fn read_chunks(
        &mut self,
        stream: &mut Stream,
        chunks: &mut ReadChunks,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Option<CloseReason> {
        loop {
            while let Some(taken) = self.take_opened(stream, consumed) {
                taken.into_iter().for_each(|chunk| chunks.push(chunk));
            }
            if self.take_run(stream, chunks, consumed, out) {
                continue;
            }
            match self.open_next(stream, None, consumed, out) {
                Outcome::Opened | Outcome::Direct(_) => {}
                Outcome::Nothing => return None,
                Outcome::Failed(reason) => return Some(reason),
            }
        }
    }

    /// The short way for the most common records, as many as are there: a context that numbers records as we do has decrypted all
    /// of each, and they carry application data. False if the next is no such record.
    fn take_run(
        &mut self,
        stream: &mut Stream,
        chunks: &mut ReadChunks,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> bool {
        let Some(context) = self.agreed_context() else {
            return false;
        };
        let mut run = stream.run(context);
        let mut records = 0;
        while self.give_decrypted(stream, &mut run, chunks).is_some() {
            records += 1;
        }
        let walked = run.walked();
        self.stats.full += records;
        out.counters.tls_rx_records_full += records;
        stream.take_walked(walked, chunks);
        *consumed += walked.len;
        if records > 0 && self.rx.questions > 0 {
            self.answer_resyncs(out.driver);
        }
        records > 0
    }

    /// Gives the content of the record that is next in the run, if it is one of those, and passes it.
    #[inline]
    fn give_decrypted(
        &mut self,
        stream: &Stream,
        run: &mut Run<'_>,
        chunks: &mut ReadChunks,
    ) -> Option<()> {
        let left = (stream.len() - run.walked().len) as usize;
        if left < HEADER_LEN {
            return None;
        }
        let header: [u8; HEADER_LEN] = run.peek(0)?;
        let len = self.record_len(&header)?;
        if left < len || !run.holds(len) {
            return None;
        }
        let content = self.reader.content_range(len)?;
        let [kind] = run.peek(self.reader.type_offset(len))?;
        self.pass_decrypted(stream.start() + run.walked().len, len, kind)?;
        run.give(len, content, chunks);
        Some(())
    }
}
