//! What `h2` hears of the frames that the client takes.
//!
//! `h2` gives a stream as much of a turn as one frame has. So it is told that frames of [a turn's bytes](Data::TURN) are taken: each is cut
//! into frames that the client takes where it is sent. What the client has set is set before, and so is checked by `h2`.

use std::collections::VecDeque;

use super::arrivals::PREFACE;
use super::frames::{FrameCutter, HEAD_LEN, Part};
use super::pipe::Data;

/// Bytes of a setting (RFC 9113 §6.5.1).
const SETTING: u32 = 6;
/// Bytes of settings that `h2` takes in a frame.
const LONGEST: u32 = 16 * 1024;
const MAX_FRAME_SIZE: u16 = 5;

/// The client's SETTINGS frames, on their way to `h2`.
#[derive(Debug)]
pub struct Settings {
    cutter: FrameCutter,
    /// A setting follows what there is of the frame.
    adds: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cutter: FrameCutter::behind(PREFACE),
            adds: false,
        }
    }
}

impl Settings {
    /// Bytes at the end of `input` that may yet change.
    pub fn held_back(&self) -> usize {
        self.cutter.of_head()
    }

    /// Adds what has come to `input`.
    pub fn take(&mut self, mut bytes: &[u8], input: &mut VecDeque<u8>) {
        loop {
            let before = bytes;
            let Some(part) = self.cutter.next(&mut bytes) else {
                return;
            };
            match part {
                Part::Bytes(bytes) => input.extend(bytes),
                Part::Data(len) => input.extend(&before[..len]),
                // `h2` refuses what is no whole number of settings, and takes no frame that is longer.
                Part::Head(mut head)
                    if head.is_settings()
                        && head.len % SETTING == 0
                        && head.len + SETTING <= LONGEST =>
                {
                    head.len += SETTING;
                    input.truncate(input.len() - HEAD_LEN);
                    input.extend(head.to_bytes());
                    self.adds = true;
                }
                Part::Head(_) => {}
            }
            if self.adds && !self.cutter.is_inside() {
                self.adds = false;
                input.extend(MAX_FRAME_SIZE.to_be_bytes());
                input.extend((Data::TURN as u32).to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http2::FrameHead;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 0]);
        bytes.extend(payload);
        bytes
    }

    proptest! {
        /// Wherever the bytes are split, and however many of them are taken between.
        #[test]
        fn settings_of_the_client_have_one_more(
            frames in prop::collection::vec((0..10u8, 0..2u8, 0..5usize), 1..20),
            splits in prop::collection::vec(1..30usize, 1..10),
        ) {
            let (mut bytes, mut wanted) = (vec![7; PREFACE], vec![7; PREFACE]);
            for &(kind, flags, settings) in &frames {
                let payload = vec![kind; settings * 6];
                bytes.extend(frame(kind, flags, &payload));
                let adds = kind == 4 && flags == 0;
                let mut more = if adds { vec![0, 5] } else { Vec::new() };
                more.extend((Data::TURN as u32).to_be_bytes().iter().filter(|_| adds));
                wanted.extend(frame(kind, flags, &[payload, more].concat()));
            }
            let (mut settings, mut input) = (Settings::default(), VecDeque::new());
            let mut taken = Vec::new();
            let mut rest = &bytes[..];
            for split in splits.iter().cycle() {
                let (part, behind) = rest.split_at(rest.len().min(*split));
                settings.take(part, &mut input);
                let len = input.len() - settings.held_back();
                taken.extend(input.drain(..len));
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(taken, wanted);
        }
    }

    /// Every client takes frames of 16,384 bytes, and not all of them longer ones.
    #[test]
    fn long_fields_are_cut_into_frames_that_a_client_takes() {
        use crate::http2::End;

        let fields: Vec<u8> = (0..40_000_u32).map(|byte| byte as u8).collect();
        let end = End::default();
        let whole = frame(1, 5, &fields);
        for part in whole.chunks(1000) {
            end.pipe().write(part);
        }
        end.pipe().write(&frame(6, 0, &[9; 8]));
        let mut out = Vec::new();
        assert_eq!(end.pipe().next_data(&mut out), None);
        let (mut cutter, mut rest) = (FrameCutter::default(), &out[..]);
        let mut heads: Vec<FrameHead> = Vec::new();
        while let Some(part) = cutter.next(&mut rest) {
            if let Part::Head(head) = part {
                heads.push(head);
            }
        }
        let lens: Vec<_> = heads
            .iter()
            .map(|it| (it.kind, it.len, it.ends_fields()))
            .collect();
        let wanted = [
            (1, 16_384, false),
            (9, 16_384, false),
            (9, 7232, true),
            (6, 8, true),
        ];
        assert_eq!(lens, wanted);
        let mut again = out[9..9 + 16_384].to_vec();
        again.extend(&out[2 * 9 + 16_384..][..16_384]);
        again.extend(&out[3 * 9 + 2 * 16_384..][..7232]);
        assert!(again == fields);
    }
}
