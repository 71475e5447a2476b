//! A sample as the user has it, before it is fitted to its column.

use std::borrow::Cow;

use lacus_media::{Family, Format};
use lacus_tensor::{DType, TensorRef};
use serde_json::Value;

use crate::literal;

/// One sample of one column.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "made once per sample and taken apart at once")]
pub enum Sample<'a> {
    /// There is none.
    Missing,
    /// Elements in memory, whose dtype was chosen by somebody: it is kept to.
    Tensor(TensorRef<'a>),
    /// The bytes of a media file; its format is seen from them.
    Encoded(Cow<'a, [u8]>),
    /// Text, or the name of a class.
    Text(Cow<'a, str>),
    /// A JSON value. Numbers and lists of them become tensors where the column holds such; being written
    /// without a dtype, they are rounded to the column's.
    Json(Value),
    /// The URL of a sample.
    Link(String),
    /// Several samples of one row.
    Sequence(Vec<Sample<'a>>),
}

/// The samples of one column, one for each of several rows.
#[derive(Debug, Clone)]
pub enum Samples<'a> {
    /// Each by itself.
    Each(Vec<Sample<'a>>),
    /// The rows of one tensor: entries of its first axis, of which there is one at least. Numbers are checked and
    /// converted all at once.
    Rows(Box<TensorRef<'a>>),
}

impl<'a> From<Vec<Sample<'a>>> for Samples<'a> {
    fn from(samples: Vec<Sample<'a>>) -> Samples<'a> {
        Samples::Each(samples)
    }
}

impl Samples<'_> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Samples::Each(samples) => samples.len(),
            Samples::Rows(tensor) => tensor.shape().dims().first().map_or(0, |rows| *rows as usize),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dtype that a column of tensors takes from the first of them that has one.
    pub fn infer(&self) -> Option<DType> {
        match self {
            Samples::Each(samples) => samples.iter().find_map(infer),
            Samples::Rows(tensor) => Some(tensor.dtype()).filter(|_| !self.is_empty()),
        }
    }
}

impl Sample<'_> {
    /// What it is, for errors.
    pub(crate) fn describe(&self) -> String {
        match self {
            Sample::Missing => "nothing".to_owned(),
            Sample::Tensor(tensor) => describe(tensor),
            Sample::Encoded(bytes) => match lacus_media::sniff(bytes) {
                Some(format) => file_of(format),
                None => format!("{} bytes of no known media format", bytes.len()),
            },
            Sample::Text(_) => "text".to_owned(),
            Sample::Json(value) => describe_json(value),
            Sample::Link(_) => "a link".to_owned(),
            Sample::Sequence(elements) => format!("a sequence of {}", elements.len()),
        }
    }
}

/// A file, for errors.
pub(crate) fn file_of(format: Format) -> String {
    match format {
        Format::Mp3 | Format::Mp4 => format!("an {format} file"),
        _ => format!("a {format} file"),
    }
}

/// Any file of a family, for errors.
pub(crate) fn file_of_any(family: Family) -> &'static str {
    match family {
        Family::Image => "an image file",
        Family::Audio => "an audio file",
        Family::Video => "a video file",
        Family::Dicom => "a DICOM file",
    }
}

/// A tensor, for errors.
pub(crate) fn describe(tensor: &TensorRef<'_>) -> String {
    format!("{} of shape {}", tensor.dtype(), tensor.shape())
}

/// A JSON value, for errors.
pub(crate) fn describe_json(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "text".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The dtype that a column of tensors takes from its first sample; `None` if this one has none.
pub fn infer(sample: &Sample<'_>) -> Option<DType> {
    match sample {
        Sample::Tensor(tensor) => Some(tensor.dtype()),
        Sample::Encoded(bytes) => lacus_media::probe(bytes).ok().map(|facts| facts.dtype),
        Sample::Json(value) => literal::tensor_of(value).ok().map(|tensor| tensor.dtype()),
        Sample::Sequence(elements) => elements.iter().find_map(infer),
        Sample::Missing | Sample::Text(_) | Sample::Link(_) => None,
    }
}
