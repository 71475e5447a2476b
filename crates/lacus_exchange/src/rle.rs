//! COCO's run-length encoding of masks: lengths of runs of zeros and ones in turn, down the columns.
//!
//! Lengths are a list of numbers, or a text in which each is a difference to the one before the last, five bits per
//! character.

/// The most pixels a mask may have: as many as a picture.
const MOST_PIXELS: u64 = 1 << 28;

/// The lengths that a text holds.
pub(crate) fn parse(text: &str) -> Result<Vec<u64>, String> {
    let mut counts: Vec<i64> = Vec::new();
    let mut bytes = text.bytes();
    while let Some(mut byte) = bytes.next() {
        let (mut value, mut shift) = (0i64, 0u32);
        loop {
            let bits =
                byte.checked_sub(48).filter(|bits| *bits < 64).ok_or("it has a character that no run has")?;
            if shift > 55 {
                return Err("it has a run that is too long".to_owned());
            }
            value |= i64::from(bits & 0x1f) << shift;
            shift += 5;
            if bits & 0x20 == 0 {
                if bits & 0x10 != 0 {
                    value |= -1 << shift;
                }
                break;
            }
            byte = bytes.next().ok_or("it ends within a run")?;
        }
        if counts.len() > 2 {
            value = value.checked_add(counts[counts.len() - 2]).ok_or("it has a run that is too long")?;
        }
        counts.push(value);
    }
    counts
        .into_iter()
        .map(|count| u64::try_from(count).map_err(|_| "it has a negative run".to_owned()))
        .collect()
}

/// The text of lengths.
pub(crate) fn render(counts: &[u64]) -> String {
    let mut text = String::new();
    for (i, count) in counts.iter().enumerate() {
        let mut value = *count as i64;
        if i > 2 {
            value -= counts[i - 2] as i64;
        }
        loop {
            let bits = (value & 0x1f) as u8;
            value >>= 5;
            let more = if bits & 0x10 != 0 { value != -1 } else { value != 0 };
            text.push(char::from(48 + bits + if more { 0x20 } else { 0 }));
            if !more {
                break;
            }
        }
    }
    text
}

/// The mask of some runs, row by row: zeros and ones.
pub(crate) fn decode(counts: &[u64], height: u64, width: u64) -> Result<Vec<u8>, String> {
    let pixels = height.checked_mul(width).filter(|pixels| *pixels <= MOST_PIXELS);
    let pixels = pixels.ok_or_else(|| format!("a mask of {height} × {width} pixels is too large"))?;
    let sum = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
    if sum != Some(pixels) {
        return Err(format!("its runs do not add up to {height} × {width} pixels"));
    }
    let mut mask = vec![0; pixels as usize];
    let mut at = 0;
    for (i, count) in counts.iter().enumerate() {
        if i % 2 == 1 {
            for place in at..at + count {
                mask[(place % height * width + place / height) as usize] = 1;
            }
        }
        at += count;
    }
    Ok(mask)
}

/// The runs of a mask whose pixels are `step` bytes apart, the first one at `first`.
pub(crate) fn encode(mask: &[u8], height: usize, width: usize, step: usize, first: usize) -> Vec<u64> {
    let mut counts = Vec::new();
    let (mut last, mut count) = (false, 0);
    for x in 0..width {
        for y in 0..height {
            let pixel = mask[(y * width + x) * step + first] != 0;
            if pixel != last {
                counts.push(count);
                (last, count) = (pixel, 0);
            }
            count += 1;
        }
    }
    counts.push(count);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_pycocotools() {
        // mask.encode(np.asfortranarray([[0, 1], [1, 1], [0, 0]], np.uint8))["counts"]
        let counts = [1, 1, 1, 2, 1];
        assert_eq!(encode(&[0, 1, 1, 1, 0, 0], 3, 2, 1, 0), counts);
        assert_eq!(render(&counts), "11110");
        assert_eq!(parse("11110").unwrap(), counts);
        assert_eq!(decode(&counts, 3, 2).unwrap(), [0, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn runs_come_back() {
        let counts: Vec<u64> = vec![0, 5, 1000, 3, 70000, 1, 2, 999_999];
        assert_eq!(parse(&render(&counts)).unwrap(), counts);
    }

    #[test]
    fn broken_ones_are_errors() {
        for text in ["\u{1}", "o", "ooooooooooooooooooo0", "ÿ"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(decode(&[1, 2], 2, 2).is_err());
        assert!(decode(&[u64::MAX, 2], 2, 2).is_err());
        assert!(decode(&[0], 1 << 20, 1 << 20).is_err());
    }
}
