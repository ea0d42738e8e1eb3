//! How far the rounds of a measurement lie apart.

/// The warning when rounds of the same mode differ by more than this.
const BUSY: f64 = 1.3;

/// Of every mode the largest round over the smallest; the largest of these. 1 of single rounds.
pub fn scatter<'a>(modes: impl IntoIterator<Item = &'a [f64]>) -> f64 {
    let of_mode = |rounds: &[f64]| {
        let largest = rounds.iter().copied().fold(0.0, f64::max);
        let smallest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        if smallest > 0.0 && smallest.is_finite() {
            largest / smallest
        } else {
            1.0
        }
    };
    modes.into_iter().map(of_mode).fold(1.0, f64::max)
}

/// A warning when the rounds scatter, or there is one round only.
pub fn busy<'a>(modes: impl IntoIterator<Item = &'a [f64]>) -> Option<String> {
    let modes: Vec<_> = modes.into_iter().collect();
    if !modes.is_empty() && modes.iter().all(|rounds| rounds.len() == 1) {
        return Some("One round: take --rounds 3 or more to see how far they differ.".to_owned());
    }
    let scatter = scatter(modes);
    (scatter > BUSY).then(|| {
        format!(
            "The machine is busy: rounds differ by up to {scatter:.1} times; take the ratios with care."
        )
    })
}
