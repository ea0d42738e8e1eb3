use std::collections::VecDeque;

use proptest::prelude::*;
use wire::ethernet::MacAddr;

use super::*;
use crate::ring::{FunctionConfig, function};

fn rig() -> Function {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let (_, device) = function(FunctionConfig::new(mac));
    Function::new(FunctionId(3), device, 0)
}

fn push(egress: &mut Egress, function: &mut Function, len: usize, byte: u8) -> bool {
    egress.push(function, len, |out| {
        out.fill(byte);
        Some((len, FrameMeta::default()))
    })
}

#[test]
fn nothing_is_allocated_before_the_first_frame() {
    let (mut egress, mut function) = (Egress::new(4096), rig());
    assert_eq!((egress.bytes.capacity(), egress.frames.capacity()), (0, 0));
    assert!(push(&mut egress, &mut function, 64, 1));
    assert!(egress.bytes.capacity() == 4096);
}

#[test]
fn what_does_not_fit_is_lost_and_counted() {
    let (mut egress, mut function) = (Egress::new(256), rig());
    assert!(!push(&mut egress, &mut function, 257, 0));
    for n in 0..4 {
        assert!(push(&mut egress, &mut function, 10, n));
    }
    assert!(
        !push(&mut egress, &mut function, 10, 9),
        "small frames count 64 bytes"
    );
    assert_eq!(function.counters.accel_egress_full, 2);
    let mut out = [0; 64];
    assert_eq!(egress.pop(&mut out).unwrap().function, FunctionId(3));
    assert!(push(&mut egress, &mut function, 10, 4));
}

#[test]
fn what_a_function_has_is_forgotten_and_nothing_else() {
    let (mut egress, mut function) = (Egress::new(256), rig());
    let (_, device) = crate::ring::function(FunctionConfig::new(MacAddr([2, 0, 0, 0, 0, 2])));
    let mut other = Function::new(FunctionId(4), device, 0);
    for n in 0..4 {
        let function = if n % 2 == 0 {
            &mut function
        } else {
            &mut other
        };
        assert!(push(&mut egress, function, 64, n));
    }
    egress.forget(function.id);
    let mut out = [0; 64];
    assert_eq!(
        egress.pop(&mut out).map(|made| made.function),
        Some(other.id)
    );
    // They lie around the end.
    assert!(push(&mut egress, &mut other, 64, 5));
    assert!(push(&mut egress, &mut function, 64, 6));
    egress.forget(function.id);
    for byte in [3, 5] {
        assert_eq!(
            egress.pop(&mut out).map(|made| made.function),
            Some(other.id)
        );
        assert_eq!(out, [byte; 64]);
    }
    assert!(egress.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Frames come out as they went in, in order, and never take more memory than there is.
    #[test]
    fn is_a_bounded_queue(steps in proptest::collection::vec((any::<bool>(), 0usize..700), 1..300)) {
        let (mut egress, mut function) = (Egress::new(2048), rig());
        let mut model: VecDeque<(usize, u8)> = VecDeque::new();
        let mut out = vec![0; 700];
        for (n, (add, len)) in steps.into_iter().enumerate() {
            let held: usize = model.iter().map(|(len, _)| (*len).max(SMALLEST)).sum();
            if add {
                let pushed = push(&mut egress, &mut function, len, n as u8);
                if pushed {
                    model.push_back((len, n as u8));
                }
                prop_assert!(!pushed || held + len <= 2048);
                prop_assert!(pushed || held + 2 * 700 > 2048, "{held} bytes held, {len} refused");
            } else {
                let made = egress.pop(&mut out);
                prop_assert_eq!(made.map(|made| made.len), model.front().map(|(len, _)| *len));
                if let Some((len, byte)) = model.pop_front() {
                    prop_assert!(out[..len].iter().all(|at| *at == byte));
                }
            }
            prop_assert_eq!(egress.is_empty(), model.is_empty());
            prop_assert_eq!(egress.frames.capacity(), if egress.bytes.is_empty() { 0 } else { egress.frames.capacity() });
        }
    }
}
