//! The options of a type: read once, checked, and put into one way of writing.
//!
//! | option | of | is |
//! |---|---|---|
//! | `class_names` | class_label, the masks, instance_label | names; the place of one is its number |
//! | `coords` | bbox | `{"type": "pixel" or "fractional", "mode": "LTRB", "LTWH" or "CCWH"}` |
//! | `format`, `bbox_type` | bbox | another way to give the mode and the type of `coords` |
//! | `keypoints`, `connections` | keypoints | names of points; pairs of their numbers |
//! | `quality` | image, image.gray | of arrays that are encoded, from 1 to 100 |
//! | `sample_rate` | audio | of arrays that are encoded, in frames per second |
//! | `size` | embedding | how many numbers it has |
//! | `unit` | timestamp, time, duration | `s`, `ms`, `us` (unless given) or `ns` |
//! | `timezone` | timestamp | the name of a time zone, such as `Europe/Zurich`, or an offset, such as `+01:00` |
//! | `precision`, `scale` | decimal | digits, 18 unless given, 38 at most; how many of them stand behind the point, 3 unless given |

use std::collections::HashMap;
use std::sync::Arc;

use lacus_error::close_to;
use serde_json::{Map, Value, json};

use crate::decimal::MOST_DIGITS;
use crate::error::SampleError;
use crate::htype::Base;
use crate::logical::{Logical, Unit};
use crate::rules::rules;

/// Which numbers a box consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoxMode {
    /// Left, top, right, bottom.
    Ltrb,
    /// Left, top, width, height.
    Ltwh,
    /// Centre, width, height.
    Ccwh,
}

impl BoxMode {
    const ALL: [(BoxMode, &'static str); 3] =
        [(BoxMode::Ltrb, "LTRB"), (BoxMode::Ltwh, "LTWH"), (BoxMode::Ccwh, "CCWH")];
}

/// Names of classes, in order, and where each is.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) names: Vec<String>,
    places: HashMap<String, usize>,
}

impl PartialEq for Classes {
    fn eq(&self, other: &Classes) -> bool {
        self.names == other.names
    }
}

impl Classes {
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    fn new(names: Vec<String>) -> Result<Classes, SampleError> {
        let mut places = HashMap::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            if let Some(first) = places.insert(name.clone(), place) {
                let detail = format!("{name:?} is both number {first} and number {place}");
                return Err(SampleError::spec("class_names", detail));
            }
        }
        Ok(Classes { names, places })
    }
}

/// What the options of a column say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) classes: Arc<Classes>,
    pub(crate) box_mode: BoxMode,
    pub(crate) fractional: bool,
    pub(crate) keypoints: usize,
    pub(crate) quality: Option<u8>,
    pub(crate) sample_rate: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) logical: Option<Logical>,
}

/// Reads the options of a type, and writes them the one way in which they are kept.
///
/// Fails for an option that the type does not have, or a value that it cannot have.
pub(crate) fn read(
    base: Base,
    given: &Map<String, Value>,
) -> Result<(Map<String, Value>, Settings), SampleError> {
    let known = rules(base).options;
    if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let close = close_to(name, known.iter().copied());
        let hint = match (close.first(), known) {
            (Some(close), _) => format!("did you mean {close}?"),
            (None, []) => "it has none".to_owned(),
            (None, _) => format!("it has {}", known.join(", ")),
        };
        return Err(SampleError::spec(name, format!("{base} has no such option: {hint}")));
    }
    let mut kept = Map::new();
    let (box_mode, fractional) = box_coords(given)?;
    if base == Base::BBox {
        let mode = BoxMode::ALL.iter().find(|(mode, _)| *mode == box_mode).map(|(_, name)| *name);
        let kind = if fractional { "fractional" } else { "pixel" };
        kept.insert("coords".to_owned(), json!({"type": kind, "mode": mode}));
    }
    let class_names = names(given, "class_names")?;
    let keypoints = names(given, "keypoints")?;
    connections(given, keypoints.len())?;
    let settings = Settings {
        classes: Arc::new(Classes::new(class_names)?),
        box_mode,
        fractional,
        keypoints: keypoints.len(),
        quality: number(given, "quality", 1, 100)?.map(|quality| quality as u8),
        sample_rate: number(given, "sample_rate", 1, u64::from(u32::MAX))?.map(|rate| rate as u32),
        size: number(given, "size", 1, i64::MAX as u64)?,
        logical: logical(base, given)?,
    };
    write_logical(settings.logical.as_ref(), &mut kept);
    for name in ["class_names", "keypoints", "connections", "quality", "sample_rate", "size"] {
        // What was given as null was not given.
        if let Some(value) = given.get(name).filter(|value| !value.is_null()) {
            kept.insert(name.to_owned(), value.clone());
        }
    }
    Ok((kept, settings))
}

/// What the integers of a type mean.
fn logical(base: Base, given: &Map<String, Value>) -> Result<Option<Logical>, SampleError> {
    Ok(Some(match base {
        Base::Date => Logical::Date,
        Base::Timestamp => Logical::Timestamp { unit: unit(given)?, timezone: timezone(given)? },
        Base::Time => Logical::Time { unit: unit(given)? },
        Base::Duration => Logical::Duration { unit: unit(given)? },
        Base::Decimal => {
            let precision = number(given, "precision", 1, u64::from(MOST_DIGITS))?.unwrap_or(18) as u8;
            let scale = number(given, "scale", 0, u64::from(precision))?;
            // Three digits behind the point, as DuckDB has it, unless there is no room for them.
            Logical::Decimal { precision, scale: scale.map_or(precision.min(3), |scale| scale as u8) }
        }
        _ => return Ok(None),
    }))
}

/// All options that a meaning has, so that whoever reads the header needs to know no default.
fn write_logical(logical: Option<&Logical>, kept: &mut Map<String, Value>) {
    match logical {
        None | Some(Logical::Date) => {}
        Some(Logical::Timestamp { unit, timezone }) => {
            kept.insert("unit".to_owned(), json!(unit.name()));
            if let Some(timezone) = timezone {
                kept.insert("timezone".to_owned(), json!(**timezone));
            }
        }
        Some(Logical::Time { unit } | Logical::Duration { unit }) => {
            kept.insert("unit".to_owned(), json!(unit.name()));
        }
        Some(Logical::Decimal { precision, scale }) => {
            kept.insert("precision".to_owned(), json!(precision));
            kept.insert("scale".to_owned(), json!(scale));
        }
    }
}

fn unit(given: &Map<String, Value>) -> Result<Unit, SampleError> {
    match given.get("unit") {
        None | Some(Value::Null) => Ok(Unit::Microsecond),
        Some(value) => {
            let found = Unit::ALL.into_iter().find(|unit| value.as_str() == Some(unit.name()));
            found.ok_or_else(|| wrong("unit", "s, ms, us or ns", value))
        }
    }
}

fn timezone(given: &Map<String, Value>) -> Result<Option<Arc<str>>, SampleError> {
    let value = match given.get("timezone") {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let is_name = |name: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_+-/:".contains(c);
        !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
    };
    match value.as_str().filter(is_name) {
        Some(name) => Ok(Some(name.into())),
        None => Err(wrong("timezone", "the name of a time zone such as UTC or Europe/Zurich", value)),
    }
}

fn wrong(option: &str, expected: &str, found: &Value) -> SampleError {
    SampleError::spec(option, format!("expected {expected}, found {}", brief(found)))
}

/// A JSON value for an error: short whatever it is.
pub(crate) fn brief(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn number(
    given: &Map<String, Value>,
    option: &str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, SampleError> {
    match given.get(option) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(option, &format!("a whole number from {least} to {most}"), value)),
        },
    }
}

fn names(given: &Map<String, Value>, option: &str) -> Result<Vec<String>, SampleError> {
    let value = match given.get(option) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value,
    };
    let texts = value.as_array().map(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    match texts.flatten() {
        Some(texts) if texts.iter().all(|text| !text.is_empty()) => {
            Ok(texts.into_iter().map(str::to_owned).collect())
        }
        _ => Err(wrong(option, "a list of names", value)),
    }
}

fn connections(given: &Map<String, Value>, keypoints: usize) -> Result<(), SampleError> {
    let value = match given.get("connections") {
        None | Some(Value::Null) => return Ok(()),
        Some(value) => value,
    };
    let is_point = |number: &Value| number.as_u64().is_some_and(|n| keypoints == 0 || n < keypoints as u64);
    let is_pair =
        |pair: &Value| pair.as_array().is_some_and(|pair| pair.len() == 2 && pair.iter().all(is_point));
    match value.as_array().is_some_and(|list| list.iter().all(is_pair)) {
        true => Ok(()),
        false => Err(wrong("connections", "a list of pairs of numbers of keypoints", value)),
    }
}

/// Mode and type of boxes. COCO's boxes are the default.
fn box_coords(given: &Map<String, Value>) -> Result<(BoxMode, bool), SampleError> {
    let empty = Map::new();
    let coords = match given.get("coords") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(coords)) => coords,
        Some(other) => return Err(wrong("coords", "an object with \"type\" and \"mode\"", other)),
    };
    if let Some(name) = coords.keys().find(|name| !["type", "mode"].contains(&name.as_str())) {
        return Err(SampleError::spec("coords", format!("it has \"type\" and \"mode\", but no {name:?}")));
    }
    let one_of = |option: &'static str, field: &str| match (given.get(option), coords.get(field)) {
        (Some(_), Some(_)) => {
            Err(SampleError::spec(option, format!("coords gives the {field} as well: give one of them")))
        }
        (given, in_coords) => Ok(given.or(in_coords).filter(|value| !value.is_null())),
    };
    let mode = match one_of("format", "mode")? {
        None => BoxMode::Ltwh,
        Some(value) => {
            let text = value.as_str().unwrap_or_default();
            let found = BoxMode::ALL.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
            found.ok_or_else(|| wrong("coords", "the mode LTRB, LTWH or CCWH", value))?.0
        }
    };
    let fractional = match one_of("bbox_type", "type")? {
        None => false,
        Some(value) => match value.as_str() {
            Some("pixel") => false,
            Some("fractional") => true,
            _ => return Err(wrong("coords", "the type pixel or fractional", value)),
        },
    };
    Ok((mode, fractional))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn boxes_are_described_in_several_ways() {
        let check = |given: Value, mode: BoxMode, fractional: bool, kept: Value| {
            let (options, settings) = read(Base::BBox, &map(given)).unwrap();
            assert_eq!((settings.box_mode, settings.fractional), (mode, fractional));
            assert_eq!(options, map(json!({"coords": kept})));
            assert_eq!(read(Base::BBox, &options).unwrap(), (options, settings));
        };
        check(json!({}), BoxMode::Ltwh, false, json!({"type": "pixel", "mode": "LTWH"}));
        check(json!({"format": "ltrb"}), BoxMode::Ltrb, false, json!({"type": "pixel", "mode": "LTRB"}));
        check(
            json!({"coords": {"type": "fractional", "mode": "CCWH"}}),
            BoxMode::Ccwh,
            true,
            json!({"type": "fractional", "mode": "CCWH"}),
        );
        check(
            json!({"coords": {"mode": "LTRB"}, "bbox_type": "fractional"}),
            BoxMode::Ltrb,
            true,
            json!({"type": "fractional", "mode": "LTRB"}),
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let check = |base: Base, given: Value, expected: &str| {
            let error = read(base, &map(given)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            Base::ClassLabel,
            json!({"class_name": []}),
            "class_name: class_label has no such option: did you mean class_names?",
        );
        check(Base::Text, json!({"size": 3}), "size: text has no such option: it has none");
        check(Base::BBox, json!({"x": 3}), "x: bbox has no such option: it has coords, format, bbox_type");
        check(
            Base::ClassLabel,
            json!({"class_names": ["a", 5]}),
            "class_names: expected a list of names, found [\"a\",5]",
        );
        check(
            Base::ClassLabel,
            json!({"class_names": ["a", "b", "a"]}),
            "class_names: \"a\" is both number 0 and number 2",
        );
        check(
            Base::Image,
            json!({"quality": 101}),
            "quality: expected a whole number from 1 to 100, found 101",
        );
        check(
            Base::Image,
            json!({"quality": "high"}),
            "quality: expected a whole number from 1 to 100, found \"high\"",
        );
        check(
            Base::BBox,
            json!({"format": "xyxy"}),
            "coords: expected the mode LTRB, LTWH or CCWH, found \"xyxy\"",
        );
        check(
            Base::BBox,
            json!({"coords": {"type": 5}}),
            "coords: expected the type pixel or fractional, found 5",
        );
        check(
            Base::BBox,
            json!({"coords": "LTRB"}),
            "coords: expected an object with \"type\" and \"mode\", found \"LTRB\"",
        );
        check(
            Base::BBox,
            json!({"coords": {"kind": 1}}),
            "coords: it has \"type\" and \"mode\", but no \"kind\"",
        );
        check(
            Base::BBox,
            json!({"coords": {"mode": "LTRB"}, "format": "ltwh"}),
            "format: coords gives the mode as well: give one of them",
        );
        check(
            Base::Keypoints,
            json!({"keypoints": ["nose", "ear"], "connections": [[0, 2]]}),
            "connections: expected a list of pairs of numbers of keypoints, found [[0,2]]",
        );
        check(Base::Time, json!({"unit": "m"}), "unit: expected s, ms, us or ns, found \"m\"");
        check(
            Base::Timestamp,
            json!({"timezone": "Central Europe"}),
            "timezone: expected the name of a time zone such as UTC or Europe/Zurich, found \"Central Europe\"",
        );
        check(
            Base::Decimal,
            json!({"precision": 39}),
            "precision: expected a whole number from 1 to 38, found 39",
        );
        check(
            Base::Decimal,
            json!({"precision": 5, "scale": 6}),
            "scale: expected a whole number from 0 to 5, found 6",
        );
        let long = json!({"size": "x".repeat(10_000)});
        assert!(read(Base::Embedding, &map(long)).unwrap_err().to_string().len() < 200);
    }
}
