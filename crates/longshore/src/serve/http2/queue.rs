//! From frames to the socket.

use std::time::Instant;

use host::SocketError;

use super::Http2;
use crate::http2::Data;
use crate::log::LIMITED;
use crate::serve::client::Client;
use crate::serve::session::Shared;

/// Bytes of frames that are written without more behind them.
const RECORD: usize = 16 * 1024;

impl Http2 {
    /// Queues what the socket takes; whether all that is framed is queued.
    pub(super) fn send(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        while *turn > 0 {
            let is_queued = match self.data.take() {
                Some(data) => self.queue(now, client, shared, turn, data)?,
                None if self.front.len() >= RECORD => self.write(now, client, shared, turn)?,
                None => {
                    self.data = self.end.pipe().next_data(&mut self.front);
                    if self.data.is_none() && self.front.is_empty() {
                        return Ok(true);
                    }
                    self.data.is_some() || self.write(now, client, shared, turn)?
                }
            };
            if !is_queued {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Writes what is in front; whether the socket has taken all of it. If not, it tells when it takes more.
    fn write(
        &mut self,
        now: Instant,
        client: &Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        while !self.front.is_empty() {
            match shared.stack.write(now, client.id, &self.front) {
                Ok(written) => {
                    *turn = turn.saturating_sub(written as u64);
                    self.front.drain(..written);
                }
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Queues content as frames behind what is in front, or adds it to that; whether that is done.
    fn queue(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
        mut data: Data,
    ) -> Result<bool, SocketError> {
        let Some(stream) = self.streams.get_mut(&data.stream) else {
            // Better no connection than content that is made up.
            tracing::warn!(target: LIMITED, stream = data.stream, "content of an unknown stream was framed");
            let _ = shared.stack.abort(now, client.id);
            return Err(SocketError::NotFound);
        };
        if stream.checked != self.drives {
            stream.outgoing.check_source(now, client.id, shared)?;
            stream.checked = self.drives;
        }
        let wanted = data.len;
        let is_queued = self.queue_frames(now, client, shared, &mut data)?;
        let queued = wanted - data.len;
        if queued > 0 {
            self.moved = now;
        }
        self.content.queued(queued);
        *turn = turn.saturating_sub(queued);
        if !is_queued {
            self.data = Some(data);
        } else if data.ends_stream {
            self.responded(now, client, shared, data.stream);
        }
        Ok(is_queued)
    }

    /// Queues frames until no content is left, or the socket takes no more. True if no content is left.
    fn queue_frames(
        &mut self,
        now: Instant,
        client: &Client,
        shared: &mut Shared<'_>,
        data: &mut Data,
    ) -> Result<bool, SocketError> {
        loop {
            if self.frame == 0 {
                match self.queue_whole_frames(now, client, shared, data)? {
                    Some(true) if data.len == 0 => return Ok(true),
                    Some(true) => continue,
                    Some(false) => return Ok(false),
                    None => {}
                }
                self.frame = data.len.min(Data::FRAME as u64);
                self.front.extend(data.head(self.frame, data.len));
                let is_last = data.ends_stream && self.frame == data.len;
                self.arrivals.sent(self.frame, is_last);
            }
            let Some(stream) = self.streams.get_mut(&data.stream) else {
                return Err(SocketError::NotFound);
            };
            let (front, left) = (&mut self.front, &mut self.frame);
            let before = *left;
            let queued = stream
                .outgoing
                .queue_behind(now, client.id, shared, front, left);
            data.len -= before - *left;
            if !queued? {
                return Ok(false);
            }
            if data.len == 0 {
                return Ok(true);
            }
            if self.front.len() >= RECORD && !self.write(now, client, shared, &mut 0)? {
                return Ok(false);
            }
        }
    }

    /// Queues frames of what lies together in a mapped file, without a record that is not full; `None` if the next frame is not one of these.
    fn queue_whole_frames(
        &mut self,
        now: Instant,
        client: &Client,
        shared: &mut Shared<'_>,
        data: &mut Data,
    ) -> Result<Option<bool>, SocketError> {
        let Some(stream) = self.streams.get(&data.stream) else {
            return Err(SocketError::NotFound);
        };
        let ahead = stream.outgoing.mapped_ahead().min(data.len);
        let (count, each) = match ahead / Data::FRAME as u64 {
            0 if ahead > 0 && ahead == data.len && self.front.is_empty() => (1, ahead),
            0 => return Ok(None),
            full => (full, Data::FRAME as u64),
        };
        if !self.write(now, client, shared, &mut 0)? {
            return Ok(Some(false));
        }
        self.heads.clear();
        for nth in 0..count {
            self.heads.extend(data.head(each, data.len - nth * each));
        }
        let Some(stream) = self.streams.get_mut(&data.stream) else {
            return Err(SocketError::NotFound);
        };
        let frames = (&self.heads[..], count as u32, each);
        let sent = stream
            .outgoing
            .queue_messages(now, client.id, shared, frames)?;
        data.len -= u64::from(sent) * each;
        let is_last = data.ends_stream && data.len == 0;
        self.arrivals.sent(u64::from(sent) * each, is_last);
        Ok(Some(sent > 0))
    }

    /// A response is queued whole.
    fn responded(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        stream: u32,
    ) {
        if let Some(stream) = self.remove(stream) {
            client.responded(stream.outgoing.status);
            let log = (&*shared.stack, shared.access_log.as_deref_mut());
            stream.log(now, client, log, false);
        }
    }
}
