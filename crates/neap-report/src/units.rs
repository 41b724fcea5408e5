//! Figures as people read them.
//!
//! Pure.

/// Thousands apart: 1,234,567.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in binary units, three digits or so: 1.50 MiB.
pub fn bytes(value: u64) -> String {
    scaled(value as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A duration, three digits or so: 1.50 ms.
pub fn duration(nanoseconds: u64) -> String {
    scaled(nanoseconds as f64, 1000.0, &["ns", "µs", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // What would be rounded up to a whole unit is shown in that unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// `part` of `whole` in per cent; a dash where there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_table() {
        for (value, wanted) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), wanted);
        }
        for (value, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536 << 10, "1.50 MiB"),
            (100 << 20, "100 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
        ] {
            assert_eq!(bytes(value), wanted);
        }
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_500_000), "1.50 ms");
        assert_eq!(duration(100_000_000_000), "100 s");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 0), "–");
    }
}
