//! From frames to the socket.

use host::SocketError;

use super::stream::Stream;
use super::{Http2, Leg, Shared};
use crate::http2::Data;
use crate::min_rate::Progress;

/// Bytes of frames that are written at a time.
const FRONT: usize = 64 * 1024;

impl Http2 {
    /// Queues what the socket takes; whether all that is framed is queued.
    pub(super) fn send(
        &mut self,
        client: &mut Leg,
        sh: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        loop {
            let written = client.send(sh.now, sh.stack, &self.front)?;
            self.front.drain(..written);
            *turn = turn.saturating_sub(written as u64);
            if self.content.is_unnoted(self.front.len())
                && let Some(info) = sh.stack.info(client.id)
            {
                self.content.note(Progress::from(&info));
            }
            if !self.front.is_empty() || *turn == 0 {
                return Ok(false);
            }
            while self.front.len() < FRONT {
                let next = self.end.pipe().next_data(&mut self.front);
                match next {
                    Some(data) => self.put(data, sh)?,
                    None => break,
                }
            }
            if self.front.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Puts content in front, as frames.
    fn put(&mut self, mut data: Data, sh: &mut Shared<'_>) -> Result<(), SocketError> {
        let id = data.stream;
        let framed = self.streams.get(&id).map_or(0, Stream::framed);
        if data.len > framed as u64 {
            // Better no connection than content that is made up.
            tracing::warn!(stream = id, "content of an unknown stream was framed");
            return Err(SocketError::NotFound);
        }
        loop {
            let len = data.len.min(Data::FRAME as u64);
            self.front.extend(data.head(len, data.len));
            data.len -= len;
            let is_last = data.ends_stream && data.len == 0;
            self.arrivals.sent(len, is_last);
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.send(&mut self.front, len as usize);
            }
            self.content.queued(len);
            if data.len == 0 {
                break;
            }
        }
        self.moved = sh.now;
        let stream = self.streams.get(&id);
        match stream.is_some_and(|stream| stream.is_done() && !stream.conduit.is_gone()) {
            true => self.finished(id, sh.now),
            // There is room for more of the response.
            false => self.wakes.wake_stream(id),
        }
        Ok(())
    }
}
