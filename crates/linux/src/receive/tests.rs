//! What is reported of frames: every byte, in every form in which Linux may have it.

use attachment::results::{Form, RxContextTag};
use proptest::prelude::*;
use wire::SeqNum;

use super::forms::{Forms, RunReport, Unfit};
use crate::acknowledged::Acknowledged;

const TAG: RxContextTag = RxContextTag {
    epoch: 1,
    number: 2,
};

/// Linux has nothing beyond this.
fn forms(acknowledged: SeqNum) -> Forms {
    Forms::new(Acknowledged::new(acknowledged, acknowledged))
}

fn admitted(forms: &mut Forms, start: u32, len: u32, decrypted: bool) -> Vec<RunReport> {
    let tag = decrypted.then_some(TAG);
    let reported = forms
        .admit((SeqNum(start), len), tag)
        .expect("fit")
        .to_vec();
    forms.remember();
    reported
}

#[test]
fn a_second_copy_in_the_other_form_is_cut_where_frames_begin_and_end() {
    let mut forms = forms(SeqNum(0));
    admitted(&mut forms, 0, 10, true);
    admitted(&mut forms, 10, 10, true);
    let reported = admitted(&mut forms, 5, 10, false);
    let either = |start, len| RunReport {
        start: SeqNum(start),
        len,
        tag: TAG,
        form: Form::Either,
    };
    assert_eq!(reported, [either(5, 5), either(10, 5)]);
    // What was reported is not reported again, but for new ends.
    assert_eq!(admitted(&mut forms, 5, 10, false), []);
    assert_eq!(admitted(&mut forms, 7, 8, false), [either(7, 3)]);
}

#[test]
fn what_linux_has_acknowledged_is_reported_no_more() {
    let mut forms = forms(SeqNum(u32::MAX - 4));
    admitted(&mut forms, u32::MAX - 4, 20, true);
    assert!(forms.acknowledge(SeqNum(3)));
    assert!(!forms.acknowledge(SeqNum(u32::MAX)));
    assert!(!forms.acknowledge(SeqNum(3) + (1 << 31)));
    let end = SeqNum(u32::MAX - 4) + 20;
    assert!(!forms.acknowledge(end + 2), "Linux has not got that");
    let reported = admitted(&mut forms, u32::MAX - 4, 20, false);
    assert_eq!((reported[0].start, reported[0].len), (SeqNum(3), 12));
    assert_eq!(admitted(&mut forms, u32::MAX - 4, 5, false), []);
    assert!(forms.acknowledge(end + 1), "with a FIN");
    forms.give(end + 100);
    assert!(forms.acknowledge(end + 100));
}

#[test]
fn a_copy_decrypted_under_other_keys_does_not_go_up() {
    let mut forms = forms(SeqNum(0));
    admitted(&mut forms, 0, 10, true);
    let other = RxContextTag { epoch: 2, ..TAG };
    let reported = forms.admit((SeqNum(5), 10), Some(other));
    assert_eq!(reported, Err(Unfit::OtherKeys));
    assert_eq!(
        forms.admit((SeqNum(1 << 30), 1), Some(other)),
        Err(Unfit::FarAhead)
    );
}

#[test]
fn packets_far_ahead_use_no_memory_up_and_hold_nothing_up() {
    let mut forms = forms(SeqNum(0));
    for at in 0..20_000 {
        admitted(&mut forms, (1 << 20) + at * 7000, 1000, false);
    }
    assert_eq!(admitted(&mut forms, 0, 1448, true).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Frames in any order and form, with acknowledgements between them: of each byte it is reported in which forms it has gone up since it
    /// was not acknowledged, and no span in both forms reaches over a frame's beginning or end.
    #[test]
    fn every_form_of_every_byte_is_told(
        steps in prop::collection::vec((0u32..60, 1u32..12, any::<bool>(), 0u8..6), 1..60),
        base in any::<u32>(),
    ) {
        let mut forms = forms(SeqNum(base));
        let (mut acknowledged, mut reported_runs) = (0, Vec::new());
        // For each byte, whether it has gone up as ciphertext, and decrypted.
        let mut went = [(false, 0); 128];
        let mut ends = Vec::new();
        for (start, len, decrypted, step) in steps {
            if step == 0 {
                // Linux acknowledges what is there without a gap.
                while went[acknowledged] != (false, 0) {
                    acknowledged += 1;
                }
                forms.acknowledge(SeqNum(base) + acknowledged as u32);
                continue;
            }
            let at = base.wrapping_add(start);
            reported_runs.extend(admitted(&mut forms, at, len, decrypted));
            let from = (start as usize).max(acknowledged);
            let to = (start + len) as usize;
            for (ciphertext, plaintext) in went.get_mut(from..to).unwrap_or_default() {
                *ciphertext |= !decrypted;
                *plaintext += u32::from(decrypted);
            }
            ends.extend([start, start + len]);
        }
        for (byte, (ciphertext, plaintext)) in went.into_iter().enumerate() {
            let position = SeqNum(base) + byte as u32;
            let covering = reported_runs.iter().filter(|reported| position.is_within(reported.start, reported.len));
            let (either, certain): (Vec<&RunReport>, Vec<&RunReport>) =
                covering.partition(|reported| reported.form == Form::Either);
            let is_either = plaintext > 0 && ciphertext || plaintext > 1;
            prop_assert_eq!(!either.is_empty(), is_either, "byte {}", byte);
            if plaintext == 0 {
                prop_assert!(certain.is_empty(), "byte {} was not decrypted", byte);
            } else if !is_either {
                prop_assert_eq!(certain.len(), 1);
            }
            for reported in either {
                let from = SeqNum(base).distance_to(reported.start);
                for end in &ends {
                    let is_inside = from < *end && *end < from + reported.len;
                    // Later runs report ends that came later.
                    let is_cut = reported_runs.iter().any(|other| other.form == Form::Either
                        && [other.start, other.start + other.len].contains(&(SeqNum(base) + *end)));
                    prop_assert!(!is_inside || is_cut || *end as usize <= acknowledged, "{} in {:?}", end, reported);
                }
            }
        }
    }
}
