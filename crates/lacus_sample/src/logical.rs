//! Samples that are integers with a meaning: dates, timestamps, times of day, durations, decimals.
//!
//! ```
//! use lacus_sample::{Column, ColumnSpec, Logical, Unit};
//! let column = Column::new(&ColumnSpec { htype: Some("timestamp".into()), ..ColumnSpec::default() })?;
//! let logical = column.logical().unwrap();
//! assert_eq!(*logical, Logical::Timestamp { unit: Unit::Microsecond, timezone: None });
//! assert_eq!(logical.count("1970-01-01T00:00:01.5"), Ok(1_500_000));
//! assert_eq!(logical.text(1_500_000), "1970-01-01T00:00:01.500");
//! # Ok::<(), lacus_sample::SampleError>(())
//! ```

use std::fmt;
use std::sync::Arc;

use crate::calendar::{
    date_text, duration_text, read_date, read_duration, read_offset, read_time, time_text,
};
use crate::decimal::{self, MOST_DIGITS_OF_INT, Scaled};

/// What is counted of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    Second,
    /// Thousandths.
    Millisecond,
    /// Millionths.
    Microsecond,
    /// Thousand millionths.
    Nanosecond,
}

impl Unit {
    /// All of them, the longest first.
    pub const ALL: [Unit; 4] = [Unit::Second, Unit::Millisecond, Unit::Microsecond, Unit::Nanosecond];

    /// Its name, as numpy has it: `s`, `ms`, `us`, `ns`.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Second => "s",
            Unit::Millisecond => "ms",
            Unit::Microsecond => "us",
            Unit::Nanosecond => "ns",
        }
    }

    /// How many of them are a second.
    pub const fn per_second(self) -> i64 {
        match self {
            Unit::Second => 1,
            Unit::Millisecond => 1_000,
            Unit::Microsecond => 1_000_000,
            Unit::Nanosecond => 1_000_000_000,
        }
    }

    /// So many nanoseconds in this unit; `None` if they are no whole number of it, or too many for 64 bits.
    fn of_nanos(self, nanos: i128) -> Option<i64> {
        let each = i128::from(1_000_000_000 / self.per_second());
        (nanos % each == 0).then(|| i64::try_from(nanos / each).ok()).flatten()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the integers of a column mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logical {
    /// Days since 1970-01-01.
    Date,
    /// Time since 1970-01-01T00:00:00.
    Timestamp {
        /// What is counted.
        unit: Unit,
        /// Where it is shown. With one, counts are those of UTC; without one, those of a clock that nobody says where it hangs.
        timezone: Option<Arc<str>>,
    },
    /// Time since midnight.
    Time {
        /// What is counted.
        unit: Unit,
    },
    /// A time span.
    Duration {
        /// What is counted.
        unit: Unit,
    },
    /// A decimal number: the integer divided by ten to the power of `scale`.
    Decimal {
        /// How many digits it may have.
        precision: u8,
        /// How many of them stand behind the point.
        scale: u8,
    },
}

impl Logical {
    /// Whether the integers do not fit into 64 bits, so that rows hold texts instead: decimals of more than 18 digits.
    pub fn is_wide(&self) -> bool {
        matches!(self, Logical::Decimal { precision, .. } if *precision > MOST_DIGITS_OF_INT)
    }

    /// The text of a stored integer: ISO 8601, or a decimal number with all digits of its scale. Timestamps with a time zone are
    /// written in UTC, with a `Z` at the end.
    pub fn text(&self, count: i64) -> String {
        match self {
            Logical::Date => date_text(count),
            Logical::Timestamp { unit, timezone } => {
                let day = 86_400 * unit.per_second();
                let time = time_text(count.rem_euclid(day), unit.per_second());
                let zone = if timezone.is_some() { "Z" } else { "" };
                format!("{}T{time}{zone}", date_text(count.div_euclid(day)))
            }
            Logical::Time { unit } => time_text(count, unit.per_second()),
            Logical::Duration { unit } => duration_text(count, unit.per_second()),
            Logical::Decimal { scale, .. } => decimal::text(count.into(), *scale),
        }
    }

    /// The integer to store for a text. Fails with what would fit instead.
    pub fn count(&self, text: &str) -> Result<i64, String> {
        let found = match self {
            Logical::Date => match read_date(text) {
                Some((days, "")) => Some(days),
                // Midnight of a day is that day.
                Some((days, rest)) => moment(days, rest)
                    .filter(|(count, offset)| {
                        offset.is_none() && *count == i128::from(days) * 86_400_000_000_000
                    })
                    .map(|_| days),
                None => None,
            }
            .filter(|days| i32::try_from(*days).is_ok()),
            Logical::Timestamp { unit, timezone } => {
                let (days, rest) = read_date(text).ok_or_else(|| self.expected())?;
                let (nanos, offset) = moment(days, rest).ok_or_else(|| self.expected())?;
                match (offset, timezone) {
                    (None, Some(_)) => {
                        return Err(format!(
                            "{}: the column has a time zone, so the offset from UTC is needed",
                            self.expected()
                        ));
                    }
                    (Some(_), None) => {
                        return Err(format!("{}: the column has no time zone", self.expected()));
                    }
                    _ => unit.of_nanos(nanos - i128::from(offset.unwrap_or(0))),
                }
            }
            Logical::Time { unit } => match read_time(text) {
                Some((nanos, "")) => unit.of_nanos(nanos.into()),
                _ => None,
            },
            Logical::Duration { unit } => read_duration(text).and_then(|nanos| unit.of_nanos(nanos)),
            Logical::Decimal { .. } => self.unscaled(text).and_then(|unscaled| i64::try_from(unscaled).ok()),
        };
        found.ok_or_else(|| self.expected())
    }

    /// The unscaled integer of a decimal number, which must have no more digits than this type has. `None` for what is no such
    /// number, and for all other types.
    pub fn unscaled(&self, text: &str) -> Option<i128> {
        let Logical::Decimal { precision, scale } = self else { return None };
        match decimal::read(text, *scale)? {
            Scaled::Exactly(unscaled) if decimal::is_within(unscaled, *precision) => Some(unscaled),
            _ => None,
        }
    }

    /// A decimal number in steps of the scale, for comparisons: it may have more digits than this type has. `None` for what is no
    /// number, and for all other types.
    pub fn scaled(&self, text: &str) -> Option<Scaled> {
        match self {
            Logical::Decimal { scale, .. } => decimal::read(text, *scale),
            _ => None,
        }
    }

    /// The one text of a decimal number of this type.
    pub(crate) fn decimal_text(&self, unscaled: i128) -> String {
        match self {
            Logical::Decimal { scale, .. } => decimal::text(unscaled, *scale),
            _ => unscaled.to_string(),
        }
    }

    /// Whether an integer can be one of these. Times of day end at midnight, decimals at their precision.
    pub(crate) fn holds(&self, count: i64) -> bool {
        match self {
            Logical::Time { unit } => (0..86_400 * unit.per_second()).contains(&count),
            Logical::Decimal { precision, .. } => decimal::is_within(count.into(), *precision),
            Logical::Date => i32::try_from(count).is_ok(),
            Logical::Timestamp { .. } | Logical::Duration { .. } => true,
        }
    }

    /// What fits, for errors.
    pub(crate) fn expected(&self) -> String {
        let fine = |unit: &Unit| match unit {
            Unit::Second => "",
            Unit::Millisecond => ".250",
            Unit::Microsecond => ".000250",
            Unit::Nanosecond => ".000000250",
        };
        match self {
            Logical::Date => "a date such as 2026-01-31".to_owned(),
            Logical::Timestamp { unit, timezone } => {
                let zone = if timezone.is_some() { "Z" } else { "" };
                format!("a time in {unit} such as 2026-01-31T08:30:00{}{zone}", fine(unit))
            }
            Logical::Time { unit } => format!("a time of day in {unit} such as 08:30:00{}", fine(unit)),
            Logical::Duration { unit } => format!("a duration in {unit} such as PT90{}S", fine(unit)),
            Logical::Decimal { precision, scale } => {
                format!("a decimal number of at most {precision} digits, {scale} of them behind the point")
            }
        }
    }
}

/// Nanoseconds since 1970 of a day and what stands behind it, without and with an offset from UTC. A day alone is its midnight.
fn moment(days: i64, rest: &str) -> Option<(i128, Option<i64>)> {
    let midnight = i128::from(days) * 86_400_000_000_000;
    if rest.is_empty() {
        return Some((midnight, None));
    }
    let (nanos, rest) = read_time(rest.strip_prefix(['T', 't', ' '])?)?;
    Some((midnight + i128::from(nanos), read_offset(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_and_come_back() {
        let check = |logical: &Logical, text: &str, count: i64, canonical: &str| {
            assert_eq!(logical.count(text), Ok(count), "{text}");
            assert_eq!(logical.text(count), canonical);
            assert_eq!(logical.count(canonical), Ok(count));
        };
        check(&Logical::Date, "2026-01-31", 20_484, "2026-01-31");
        check(&Logical::Date, "2026-01-31T00:00:00", 20_484, "2026-01-31");
        let local = Logical::Timestamp { unit: Unit::Millisecond, timezone: None };
        check(&local, "1970-01-02 00:00:01.5", 86_401_500, "1970-01-02T00:00:01.500");
        check(&local, "1969-12-31T23:59:59", -1000, "1969-12-31T23:59:59");
        check(&local, "2026-01-31", 20_484 * 86_400_000, "2026-01-31T00:00:00");
        let utc = Logical::Timestamp { unit: Unit::Nanosecond, timezone: Some("UTC".into()) };
        check(&utc, "1970-01-01T01:00:00.000000001+01:00", 1, "1970-01-01T00:00:00.000000001Z");
        check(&utc, "1970-01-01T00:00:00z", 0, "1970-01-01T00:00:00Z");
        check(&Logical::Time { unit: Unit::Second }, "23:59:59", 86_399, "23:59:59");
        check(&Logical::Duration { unit: Unit::Microsecond }, "P1DT1S", 86_401_000_000, "PT86401S");
        check(&Logical::Decimal { precision: 6, scale: 2 }, "-12.5", -1250, "-12.50");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |logical: &Logical, text: &str, expected: &str| {
            let why = logical.count(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        };
        check(&Logical::Date, "2026-01-31T08:30:00", "a date such as 2026-01-31");
        check(&Logical::Date, "+99999999-01-01", "a date such as");
        let local = Logical::Timestamp { unit: Unit::Second, timezone: None };
        check(&local, "2026-01-31T08:30:00.5", "a time in s such as 2026-01-31T08:30:00");
        check(&local, "2026-01-31T08:30:00Z", "has no time zone");
        let utc = Logical::Timestamp { unit: Unit::Nanosecond, timezone: Some("UTC".into()) };
        check(&utc, "2026-01-31T08:30:00", "the offset from UTC is needed");
        check(&utc, "3026-01-31T08:30:00Z", "a time in ns");
        check(&Logical::Decimal { precision: 3, scale: 2 }, "12.50", "at most 3 digits");
        check(&Logical::Decimal { precision: 6, scale: 2 }, "12.505", "2 of them behind the point");
    }
}
