//! Between which values the samples of some rows lie, so that rows are passed over that cannot be what is looked for (zone
//! maps, or min-max statistics).
//!
//! ```text
//! {"int": [-3, 900]}                       numbers of `int`, as stored: unsigned ones of 64 bits by their bits
//! {"float": [low, high, nans]}             numbers of `float` and `real`: the bits of a float64 each; how many are NaN
//! {"text": ["aard", "zebu"]}               texts, cut short so that they still bound: no high one where none does
//! {"shape": [[1, 4], [90, 4]]}             tensors of as many axes: the least and the greatest size of each
//! ```
//!
//! A sample that is missing has no row, so that nothing is said of missing ones: which there are is known without reading.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use serde::{Deserialize, Serialize};

/// Bytes of a text that are kept: enough to tell most names and paths apart, little beside a page of texts.
const TEXT_BYTES: usize = 32;

/// Bounds of the samples of some rows, of which there is one at least. Rows that were deleted since may have set them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Zone {
    /// The least and the greatest integer, as signed bits.
    Int(i64, i64),
    /// The least and the greatest float that is a number, and how many are none. The least is above the greatest where none
    /// is a number.
    Float(#[serde(with = "bits")] f64, #[serde(with = "bits")] f64, u64),
    /// A text that is not above any, and one that is not below any; there is always such a low one, but not always a high one.
    Text(String, Option<String>),
    /// Tensors of as many axes: the least and the greatest size of each.
    Shape(Vec<i64>, Vec<i64>),
}

impl Zone {
    /// The zone of stored values; `None` for those that have no order, or if there is none.
    pub(crate) fn of(values: &ArrayRef) -> Option<Zone> {
        match values.data_type() {
            DataType::Int64 => {
                let ints = values.as_primitive::<Int64Type>().values();
                Some(Zone::Int(*ints.iter().min()?, *ints.iter().max()?))
            }
            DataType::Float32 => {
                floats(values.as_primitive::<Float32Type>().values().iter().map(|v| f64::from(*v)))
            }
            DataType::Float64 => floats(values.as_primitive::<Float64Type>().values().iter().copied()),
            DataType::Utf8 => {
                let texts = || values.as_string::<i32>().iter().flatten();
                Some(Zone::Text(start(texts().min()?).to_owned(), above(texts().max()?)))
            }
            _ => None,
        }
    }

    /// The zone of the rows of both; `None` if they are of different kinds.
    pub(crate) fn with(self, other: &Zone) -> Option<Zone> {
        Some(match (self, other) {
            (Zone::Int(a, b), Zone::Int(c, d)) => Zone::Int(a.min(*c), b.max(*d)),
            (Zone::Float(a, b, nans), Zone::Float(c, d, more)) => {
                Zone::Float(a.min(*c), b.max(*d), nans.saturating_add(*more))
            }
            (Zone::Text(a, b), Zone::Text(c, d)) => {
                Zone::Text(a.min(c.clone()), b.zip(d.clone()).map(|(b, d)| b.max(d)))
            }
            (Zone::Shape(mut a, mut b), Zone::Shape(c, d)) if a.len() == c.len() && b.len() == d.len() => {
                a.iter_mut().zip(c).for_each(|(a, c)| *a = (*a).min(*c));
                b.iter_mut().zip(d).for_each(|(b, d)| *b = (*b).max(*d));
                Zone::Shape(a, b)
            }
            _ => return None,
        })
    }
}

fn floats(values: impl Iterator<Item = f64>) -> Option<Zone> {
    let (mut low, mut high, mut nans, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0, 0);
    for value in values {
        count += 1;
        nans += u64::from(value.is_nan());
        // Comparisons with NaN are false, and the two zeros are equal.
        if value < low {
            low = value;
        }
        if value > high {
            high = value;
        }
    }
    // Infinities move no bound that starts with them.
    (count > 0).then_some(Zone::Float(low, high, nans))
}

/// The first bytes of a text, whole characters.
fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}

/// A short text that is not below a text: itself, or its start with the last character that can be raised raised.
fn above(text: &str) -> Option<String> {
    let short = start(text);
    if short.len() == text.len() {
        return Some(text.to_owned());
    }
    let mut short = short.to_owned();
    while let Some(last) = short.pop() {
        // Between the two lie code points that are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            short.push(next);
            return Some(short);
        }
    }
    None
}

/// Floats by their bits: JSON has no infinities, and rounds.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, Float64Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn values_lie_in_their_zone() {
        let check = |values: ArrayRef, expected: Option<Zone>| {
            let found = Zone::of(&values);
            assert_eq!(found, expected);
            let text = serde_json::to_string(&found).unwrap();
            assert_eq!(serde_json::from_str::<Option<Zone>>(&text).unwrap(), found, "{text}");
        };
        check(Arc::new(Int64Array::from(vec![3, i64::MIN, 7])), Some(Zone::Int(i64::MIN, 7)));
        check(Arc::new(Int64Array::from(Vec::<i64>::new())), None);
        let inf = f64::INFINITY;
        check(Arc::new(Float64Array::from(vec![0.1, f64::NAN, -0.0])), Some(Zone::Float(-0.0, 0.1, 1)));
        check(Arc::new(Float64Array::from(vec![f64::NAN; 2])), Some(Zone::Float(inf, -inf, 2)));
        check(Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, 0.5])), Some(Zone::Float(-inf, 0.5, 0)));
        check(Arc::new(Float64Array::from(vec![inf])), Some(Zone::Float(inf, inf, 0)));
        check(
            Arc::new(StringArray::from(vec!["b", "a", ""])),
            Some(Zone::Text(String::new(), Some("b".into()))),
        );
        assert_eq!(Zone::Int(1, 5).with(&Zone::Int(-2, 3)), Some(Zone::Int(-2, 5)));
        assert_eq!(Zone::Int(1, 5).with(&Zone::Float(0.0, 1.0, 0)), None);
        let shape = |low: &[i64], high: &[i64]| Zone::Shape(low.to_vec(), high.to_vec());
        assert_eq!(shape(&[1, 4], &[1, 4]).with(&shape(&[0, 5], &[0, 5])), Some(shape(&[0, 4], &[1, 5])));
        assert_eq!(shape(&[1], &[1]).with(&shape(&[1, 1], &[1, 1])), None);
        let open = Zone::Text("b".into(), None);
        assert_eq!(open.with(&Zone::Text("a".into(), Some("z".into()))), Some(Zone::Text("a".into(), None)));
    }

    #[test]
    fn short_texts_bound_long_ones() {
        for text in
            ["a".repeat(80), "ä".repeat(80), format!("{}\u{d7ff}x", "a".repeat(29)), "\u{10ffff}".repeat(40)]
        {
            let Some(Zone::Text(low, high)) =
                Zone::of(&(Arc::new(StringArray::from(vec![text.as_str()])) as ArrayRef))
            else {
                panic!()
            };
            assert!(low.len() <= TEXT_BYTES && low.as_str() <= text.as_str());
            assert!(
                high.as_deref().is_none_or(|high| high > text.as_str() && high.len() <= TEXT_BYTES + 1),
                "{high:?}"
            );
            assert_eq!(high.is_none(), text.starts_with('\u{10ffff}'));
        }
    }
}
