//! Samples that rows hold as text: texts, JSON, links, and sequences of them.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::column::Column;
use crate::count::wide_decimal;
use crate::error::SampleError;
use crate::htype::Base;
use crate::options::brief;
use crate::sample::Sample;
use crate::stored::Stored;

/// JSON that nests deeper is refused, because readers of JSON refuse it too.
const DEEPEST: usize = 100;

/// The text that a row holds of a sample.
pub(crate) fn encode_text<'a>(column: &Column, sample: Sample<'a>) -> Result<Stored<'a>, SampleError> {
    let htype = column.htype();
    if !htype.sequence && (htype.link || htype.base == Base::Text || column.is_wide()) {
        return Ok(Stored::Text(plain(column, sample)?));
    }
    let value = match htype.sequence {
        true => Json::Array(elements(column, sample)?),
        false => json(column, sample)?,
    };
    Ok(Stored::Text(Cow::Owned(value.to_string())))
}

/// The elements of a sequence, as JSON.
fn elements(column: &Column, sample: Sample<'_>) -> Result<Vec<Json>, SampleError> {
    let elements: Vec<Sample<'_>> = match sample {
        Sample::Sequence(elements) => elements,
        Sample::Json(Json::Array(values)) => values.into_iter().map(Sample::Json).collect(),
        other => return Err(column.misfit("a sequence", other.describe())),
    };
    let is_text = column.htype().link || column.htype().base == Base::Text || column.is_wide();
    let each = |(index, element): (usize, Sample<'_>)| {
        let value = match is_text {
            true => plain(column, element).map(|text| Json::String(text.into_owned())),
            false => json(column, element),
        };
        value.map_err(|source| SampleError::Element { index, source: Box::new(source) })
    };
    elements.into_iter().enumerate().map(each).collect()
}

/// Text, or a link.
fn plain<'a>(column: &Column, sample: Sample<'a>) -> Result<Cow<'a, str>, SampleError> {
    let link = column.htype().link;
    if let (true, Some(logical)) = (column.is_wide(), column.logical()) {
        return wide_decimal(column, logical, sample).map(Cow::Owned);
    }
    let text = match sample {
        Sample::Text(text) => text,
        Sample::Json(Json::String(text)) => Cow::Owned(text),
        Sample::Link(url) if link => Cow::Owned(url),
        other => return Err(column.misfit(if link { "a link" } else { "text" }, other.describe())),
    };
    if link && (text.is_empty() || text.chars().any(char::is_control)) {
        return Err(column.misfit("a link", brief(&Json::String(text.into_owned()))));
    }
    Ok(text)
}

/// The JSON of json, list and tag.
fn json(column: &Column, sample: Sample<'_>) -> Result<Json, SampleError> {
    let expected = match column.htype().base {
        Base::List => "a list",
        Base::Tag => "words, or a list of words",
        _ => "a JSON value",
    };
    let found = sample.describe();
    let misfit = |found: String| column.misfit(expected, found);
    let value = match to_json(sample) {
        // One word is a list of one.
        Some(Json::String(word)) if column.htype().base == Base::Tag => Json::Array(vec![Json::String(word)]),
        Some(value) => value,
        None => return Err(misfit(found)),
    };
    if depth(&value) > DEEPEST {
        return Err(misfit(format!("one that nests more than {DEEPEST} deep")));
    }
    if !is_of(column.htype().base, &value) {
        return Err(misfit(if value.is_array() { brief(&value) } else { found }));
    }
    Ok(value)
}

fn to_json(sample: Sample<'_>) -> Option<Json> {
    match sample {
        Sample::Json(value) => Some(value),
        Sample::Text(text) => Some(Json::String(text.into_owned())),
        Sample::Sequence(elements) => {
            Some(Json::Array(elements.into_iter().map(to_json).collect::<Option<Vec<_>>>()?))
        }
        Sample::Missing | Sample::Tensor(_) | Sample::Encoded(_) | Sample::Link(_) => None,
    }
}

/// Whether a JSON value may be in a column of this type.
pub(crate) fn is_of(base: Base, value: &Json) -> bool {
    match base {
        Base::List => value.is_array(),
        Base::Tag => value.as_array().is_some_and(|words| words.iter().all(Json::is_string)),
        _ => true,
    }
}

fn depth(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
