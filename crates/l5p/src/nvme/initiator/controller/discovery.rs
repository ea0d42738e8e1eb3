//! Reading the discovery log (NVMe Base 2.0 §5.16.1.23): header, entries, header again; from the beginning when the
//! generation changed meanwhile.

use std::time::Instant;

use wire::nvme::command::{GetLogPage, Status};
use wire::nvme::log::{DiscoveryEntry, DiscoveryHeader, LogPage};

use super::admin::ANSWER_LEN;
use super::setup::Step;
use super::{Controller, Event, Failure};

/// The most entries that are read.
const MAX_RECORDS: u64 = 4096;
/// How often it is begun anew.
const MAX_RESTARTS: u32 = 10;
/// Entries of one answer.
const PER_ANSWER: u64 = (ANSWER_LEN / DiscoveryEntry::LEN) as u64;

/// The log as far as it was read.
#[derive(Debug, Default)]
pub(super) struct LogReading {
    header: Option<DiscoveryHeader>,
    /// Entries that were read, of whatever transport.
    records: u64,
    entries: Vec<DiscoveryEntry>,
    /// Why the other entries were not read.
    refused: Option<Status>,
    restarts: u32,
}

impl LogReading {
    /// Entries that are there to read.
    fn total(&self) -> u64 {
        self.header
            .map_or(0, |header| header.records.min(MAX_RECORDS))
    }

    /// Entries to read next; `None`: the header.
    fn batch(&self) -> u64 {
        (self.total() - self.records).min(PER_ANSWER)
    }

    /// Whether entries are read next. That may fail: the log can have become shorter since its header was read.
    pub(super) fn is_of_entries(&self) -> bool {
        self.batch() > 0
    }

    pub(super) fn answer_len(&self) -> usize {
        match self.batch() {
            0 => DiscoveryHeader::LEN,
            batch => batch as usize * DiscoveryEntry::LEN,
        }
    }

    pub(super) fn question(&self) -> GetLogPage {
        let at_entries = DiscoveryHeader::LEN as u64 + self.records * DiscoveryEntry::LEN as u64;
        let done = self.batch() == 0;
        GetLogPage {
            id: LogPage::DISCOVERY,
            specific: 0,
            // The last question re-arms the event.
            retain_event: !(done && self.header.is_some()),
            len: self.answer_len() as u64,
            offset: if done { 0 } else { at_entries },
            nsid: 0,
        }
    }

    fn take_entries(&mut self, answer: &[u8]) {
        let batch = self.batch();
        for entry in answer
            .chunks_exact(DiscoveryEntry::LEN)
            .take(batch as usize)
        {
            // What can't be parsed is of another transport, or nothing that could be connected to.
            self.entries.extend(DiscoveryEntry::parse(entry));
        }
        self.records += batch;
    }

    /// Goes on to the header, which tells whether the log has changed.
    fn give_up(&mut self, status: Status) {
        self.records = self.total();
        self.refused = Some(status);
    }
}

impl Controller {
    /// Takes in an answer. `None`: all is read.
    pub(super) fn take_log(
        &mut self,
        now: Instant,
        mut reading: LogReading,
        status: Status,
    ) -> Result<Option<Step>, Failure> {
        if reading.is_of_entries() {
            match status.ok() {
                Ok(()) => reading.take_entries(&self.admin.answer),
                Err(status) => reading.give_up(status),
            }
            return Ok(Some(Step::Log(reading)));
        }
        let header =
            DiscoveryHeader::parse(&self.admin.answer).map_err(|error| Failure::Answer {
                what: "the discovery log",
                error,
            })?;
        match reading.header {
            Some(first) if first == header => {
                if let Some(status) = reading.refused {
                    let what = "Get Log Page of the discovery log";
                    return Err(Failure::Setup { what, status });
                }
                self.discovery = reading.entries;
                self.finish(now, Event::DiscoveryChanged);
                return Ok(None);
            }
            Some(_) if reading.restarts == MAX_RESTARTS => {
                return Err(Failure::Setup {
                    what: "reading the discovery log, which keeps changing,",
                    status: Status::DISCOVER_RESTART,
                });
            }
            started => {
                reading = LogReading {
                    header: Some(header),
                    restarts: reading.restarts + u32::from(started.is_some()),
                    ..LogReading::default()
                };
            }
        }
        Ok(Some(Step::Log(reading)))
    }
}
