//! Patterns for the tests of this module.

use proptest::collection::vec;
use proptest::prelude::*;

/// A string or an expression over few letters, as a line.
pub(super) fn pattern() -> impl Strategy<Value = String> {
    let expression = "[ab.]|\\[ab\\]".prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
            (
                inner.clone(),
                prop::sample::select(vec!["+", "*", "?", "{2}", "{1,3}"])
            )
                .prop_map(|(inner, times)| format!("(?:{inner}){times}")),
        ]
    });
    prop_oneof![
        "[abc]{1,4}",
        (expression, "[abc]").prop_map(|(expression, last)| format!("/{expression}{last}/")),
    ]
}
