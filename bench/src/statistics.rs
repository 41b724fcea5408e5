//! Medians, geometric means and spreads of measured figures: pure functions.
//!
//! Every function answers `None` for an empty list, so that 'nothing was measured' cannot pass for
//! a number. Called by `report`.

/// The median; of an even number of values the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The geometric mean of positive values; `None` when one of them is not positive, for then there
/// is none.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    Some((sum / values.len() as f64).exp())
}

/// The largest value.
pub fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// How far two or more values lie apart: largest less smallest, as a share of the median. It is
/// what a ratio near its bar has to be read with.
pub fn spread(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let middle = median(values)?;
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    (middle != 0.0).then(|| (largest(values).unwrap_or(middle) - smallest) / middle.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: Option<f64>, right: f64) {
        let left = left.expect("a value");
        assert!((left - right).abs() < 1e-12, "{left} is not {right}");
    }

    #[test]
    fn median_of_odd_even_and_nothing() {
        near(median(&[3.0, 1.0, 2.0]), 2.0);
        near(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        near(median(&[7.5]), 7.5);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn median_ignores_one_wild_value() {
        near(median(&[1.0, 1.1, 0.9, 1.0, 1000.0]), 1.0);
    }

    #[test]
    fn geometric_mean_of_ratios() {
        near(geometric_mean(&[0.5, 2.0]), 1.0);
        near(geometric_mean(&[4.0, 1.0, 2.0]), 2.0);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[1.0, -2.0]), None);
    }

    #[test]
    fn largest_and_spread() {
        near(largest(&[1.0, 3.0, 2.0]), 3.0);
        assert_eq!(largest(&[]), None);
        near(spread(&[9.0, 10.0, 11.0]), 0.2);
        near(spread(&[5.0, 5.0]), 0.0);
        assert_eq!(spread(&[5.0]), None);
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[0.0, 0.0]), None);
    }
}
