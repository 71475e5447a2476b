//! Decimals as text and as unscaled integers: `12.50` of scale 2 is 1250.

/// The most digits of a decimal whose unscaled integer is sure to fit into 64 bits.
pub(crate) const MOST_DIGITS_OF_INT: u8 = 18;

/// The most digits of a decimal, as in Arrow's `Decimal128` and in Delta.
pub(crate) const MOST_DIGITS: u8 = 38;

/// A number that lies on one of the steps of a scale, or between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaled {
    /// It is this many steps.
    Exactly(i128),
    /// It is more than this many steps, and less than one more.
    Above(i128),
}

/// Reads a number: digits, with a sign and a point if there is one. `None` if it is no number, or one of more than 38 digits.
pub(crate) fn read(text: &str, scale: u8) -> Option<Scaled> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number =
        whole.len() + part.len() > 0 && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    let (kept, beyond) = part.split_at(part.len().min(usize::from(scale)));
    let steps = format!("{whole}{kept:0<width$}", width = usize::from(scale));
    let steps = steps.trim_start_matches('0');
    if steps.len() > usize::from(MOST_DIGITS) {
        return None;
    }
    let steps: i128 = if steps.is_empty() { 0 } else { steps.parse().ok()? };
    let is_exact = beyond.bytes().all(|byte| byte == b'0');
    Some(match (negative, is_exact) {
        (false, true) => Scaled::Exactly(steps),
        (true, true) => Scaled::Exactly(-steps),
        (false, false) => Scaled::Above(steps),
        (true, false) => Scaled::Above(-steps - 1),
    })
}

/// The text of an unscaled integer, with as many digits behind the point as the scale says.
pub(crate) fn text(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let width = usize::from(scale) + 1;
    let digits = format!("{:0>width$}", unscaled.unsigned_abs());
    let (whole, part) = digits.split_at(digits.len() - usize::from(scale));
    match part {
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    }
}

/// Whether so many steps are within a precision.
pub(crate) fn is_within(unscaled: i128, precision: u8) -> bool {
    unscaled.unsigned_abs() < 10u128.pow(u32::from(precision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_or_between() {
        use Scaled::{Above, Exactly};
        let check = |text: &str, scale: u8, expected: Option<Scaled>| {
            assert_eq!(read(text, scale), expected, "{text}")
        };
        check("12.50", 2, Some(Exactly(1250)));
        check("12.5", 2, Some(Exactly(1250)));
        check("12.500", 2, Some(Exactly(1250)));
        check("-0.01", 2, Some(Exactly(-1)));
        check("+7", 0, Some(Exactly(7)));
        check(".5", 1, Some(Exactly(5)));
        check("12.505", 2, Some(Above(1250)));
        check("-12.505", 2, Some(Above(-1251)));
        check("-0.001", 2, Some(Above(-1)));
        check("00.0", 1, Some(Exactly(0)));
        let most = 10i128.pow(38) - 1;
        check(&"9".repeat(38), 0, Some(Exactly(most)));
        check(&"9".repeat(39), 0, None);
        for wrong in ["", ".", "1e3", "NaN", "- 1", "1.2.3"] {
            check(wrong, 2, None);
        }
    }

    #[test]
    fn texts_have_the_digits_of_the_scale() {
        for (unscaled, scale, expected) in [
            (1250, 2, "12.50"),
            (-1, 2, "-0.01"),
            (0, 0, "0"),
            (7, 0, "7"),
            (0, 3, "0.000"),
            (-1250, 1, "-125.0"),
        ] {
            assert_eq!(text(unscaled, scale), expected);
            assert_eq!(read(expected, scale), Some(Scaled::Exactly(unscaled)));
        }
        assert!(is_within(999, 3) && !is_within(1000, 3) && is_within(-999, 3) && !is_within(i128::MIN, 38));
    }
}
