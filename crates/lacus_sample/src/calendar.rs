//! Dates, times of day and durations as text (ISO 8601), and back. Plain integers: there is no clock and no time zone here.

/// The days from 1970-01-01 to a date of the Gregorian calendar, which is carried back before its time.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the day that leap years add is their last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Year, month and day of a number of days from 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A date: `2026-01-31`. Years outside of 0 to 9999 have a sign.
pub(crate) fn date_text(days: i64) -> String {
    match date_of(days) {
        (year @ 0..=9999, month, day) => format!("{year:04}-{month:02}-{day:02}"),
        (year, month, day) => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

/// The days of a date, and the text behind it.
pub(crate) fn read_date(text: &str) -> Option<(i64, &str)> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let has_sign = rest.len() != text.len();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    // i64 nanoseconds and i32 days reach far less than a million million years; seconds are cut there.
    if !(digits == 4 || has_sign && (4..=12).contains(&digits)) {
        return None;
    }
    let year: i64 = rest[..digits].parse().ok()?;
    let rest = rest[digits..].strip_prefix('-')?;
    let (month, rest) = two(rest)?;
    let (day, rest) = two(rest.strip_prefix('-')?)?;
    Some((days_of(sign * year, month, day)?, rest))
}

/// Two digits, and the text behind them.
fn two(text: &str) -> Option<(i64, &str)> {
    let digits = text.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((digits.parse().ok()?, &text[2..]))
}

/// A time of day or a part of one, of `per_second` counts a second: `08:30:00.25`.
pub(crate) fn time_text(count: i64, per_second: i64) -> String {
    let (seconds, part) = (count.div_euclid(per_second), count.rem_euclid(per_second));
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}{}", fraction_text(part, per_second))
}

/// What stands behind the point, with the point: nothing for zero, else three, six or nine digits.
fn fraction_text(part: i64, per_second: i64) -> String {
    let nanos = part * (1_000_000_000 / per_second);
    match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!(".{:06}", nanos / 1_000),
        _ => format!(".{nanos:09}"),
    }
}

/// A time of day in nanoseconds, and the text behind it. Seconds may be left out.
pub(crate) fn read_time(text: &str) -> Option<(i64, &str)> {
    let (hours, rest) = two(text)?;
    let (minutes, rest) = two(rest.strip_prefix(':')?)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => two(rest)?,
        None => (0, rest),
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let (nanos, rest) = read_fraction(rest)?;
    Some((((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos, rest))
}

/// Nanoseconds behind a point, if there is one, and the text behind them.
fn read_fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = rest.split_at(count);
    // Digits beyond nanoseconds may only be zeros.
    let (kept, beyond) = digits.split_at(count.min(9));
    if count == 0 || beyond.bytes().any(|byte| byte != b'0') {
        return None;
    }
    Some((format!("{kept:0<9}").parse().ok()?, rest))
}

/// An offset from UTC in nanoseconds, at the end of a text: `Z`, `+01:00`, `+0100`, `+01`. `None` inside if there is none.
pub(crate) fn read_offset(text: &str) -> Option<Option<i64>> {
    let sign = match text.as_bytes() {
        [] => return Some(None),
        b"Z" | b"z" => return Some(Some(0)),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let (hours, rest) = two(&text[1..])?;
    let (minutes, rest) = match rest {
        "" => (0, ""),
        _ => two(rest.strip_prefix(':').unwrap_or(rest))?,
    };
    let fits = rest.is_empty() && hours < 24 && minutes < 60;
    fits.then_some(Some(sign * (hours * 60 + minutes) * 60 * 1_000_000_000))
}

/// A duration: `PT1.5S`, `-PT0.001S`.
pub(crate) fn duration_text(count: i64, per_second: i64) -> String {
    let (sign, size) = (if count < 0 { "-" } else { "" }, count.unsigned_abs());
    let per_second_unsigned = per_second.unsigned_abs();
    let part = (size % per_second_unsigned) as i64;
    format!("{sign}PT{}{}S", size / per_second_unsigned, fraction_text(part, per_second))
}

/// A duration in nanoseconds: days, hours, minutes and seconds in this order, each of which may be missing.
pub(crate) fn read_duration(text: &str) -> Option<i128> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut rest = rest.strip_prefix('P')?;
    let (mut total, mut in_time, mut found) = (0i128, false, 0);
    // The unit that may come next: each comes once, in this order.
    let mut next = 0;
    while !rest.is_empty() {
        if let (false, Some(time)) = (in_time, rest.strip_prefix('T')) {
            (in_time, rest) = (true, time);
            continue;
        }
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: i128 = rest.get(..count).filter(|digits| digits.len() <= 20)?.parse().ok()?;
        let (nanos, behind) = read_fraction(&rest[count..])?;
        let units = [('D', 86_400, false), ('H', 3600, true), ('M', 60, true), ('S', 1, true)];
        let place =
            units.iter().position(|(letter, _, time)| behind.starts_with(*letter) && *time == in_time)?;
        if place < next || nanos != 0 && place < 3 {
            return None;
        }
        total += whole * units[place].1 * 1_000_000_000 + i128::from(nanos);
        (next, found, rest) = (place + 1, found + 1, &behind[1..]);
    }
    (found > 0).then_some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        let check = |text: &str, days: i64| {
            assert_eq!(read_date(text), Some((days, "")), "{text}");
            assert_eq!(date_text(days), text);
        };
        check("1970-01-01", 0);
        check("1969-12-31", -1);
        check("2000-02-29", 11_016);
        check("2026-01-31", 20_484);
        check("0001-01-01", -719_162);
        check("0000-03-01", -719_468);
        check("-0001-12-31", -719_529);
        check("+10000-01-01", 2_932_897);
        for days in (-800_000..800_000).step_by(997).chain([i64::from(i32::MAX), i64::from(i32::MIN)]) {
            assert_eq!(read_date(&date_text(days)), Some((days, "")), "{days}");
        }
        for wrong in
            ["2026-02-29", "2026-13-01", "2026-00-01", "2026-1-31", "26-01-31", "12026-01-31", "", "x"]
        {
            assert_eq!(read_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_go_both_ways() {
        let check = |text: &str, count: i64, per_second: i64| {
            assert_eq!(time_text(count, per_second), text);
            assert_eq!(read_time(text), Some((count * (1_000_000_000 / per_second), "")), "{text}");
        };
        check("00:00:00", 0, 1);
        check("23:59:59", 86_399, 1);
        check("08:30:00.250", 30_600_250, 1000);
        check("08:30:00.000001", 30_600_000_001, 1_000_000);
        check("08:30:00.000000001", 30_600_000_000_001, 1_000_000_000);
        assert_eq!(read_time("08:30"), Some((30_600_000_000_000, "")));
        assert_eq!(read_time("08:30:00.5+01:00"), Some((30_600_500_000_000, "+01:00")));
        for wrong in ["24:00:00", "8:30:00", "08:60:00", "08:30:60", "08:30:00.", "08:30:00.0000000001"] {
            assert_eq!(read_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn offsets_are_read() {
        let hour = 3_600_000_000_000;
        for (text, expected) in [
            ("", Some(None)),
            ("Z", Some(Some(0))),
            ("+01:00", Some(Some(hour))),
            ("-0130", Some(Some(-hour * 3 / 2))),
            ("+01", Some(Some(hour))),
            ("+24:00", None),
            ("+1", None),
            ("CET", None),
        ] {
            assert_eq!(read_offset(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_go_both_ways() {
        let check = |text: &str, count: i64, per_second: i64| {
            assert_eq!(duration_text(count, per_second), text);
            let nanos = i128::from(count) * i128::from(1_000_000_000 / per_second);
            assert_eq!(read_duration(text), Some(nanos), "{text}");
        };
        check("PT0S", 0, 1);
        check("PT1.500S", 1500, 1000);
        check("-PT0.000001S", -1, 1_000_000);
        check("-PT9223372036854775808S", i64::MIN, 1);
        assert_eq!(read_duration("P1DT2H3M4S"), Some(93_784_000_000_000));
        assert_eq!(read_duration("P2D"), Some(172_800_000_000_000));
        for wrong in ["", "P", "PT", "1S", "PT1M2H", "PT1.5M", "P1H", "PT1", "P1M", "PT1S1S"] {
            assert_eq!(read_duration(wrong), None, "{wrong}");
        }
    }
}
