//! Facts about media files from their headers: `width`, `height`, `duration` and others. No pixel is decoded.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use lacus_media::{Facts, Family};
use lacus_sample::Base;

use super::function::{Body, Call, Function, Planned};
use crate::tensors::{Files, Kind};

/// Which of the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Width,
    Height,
    Channels,
    Codec,
    Bytes,
    Duration,
    Frames,
    SampleRate,
}

pub(super) fn functions() -> Vec<Function> {
    let one = |name, about, example, fact: Fact| Function::new(name, "file", about, example, fact);
    vec![
        one(
            "width",
            "The width of a picture or video in pixels; of a tensor, the size of its second axis (its third, if it has four).",
            "SELECT * FROM photos WHERE width(image) > 640",
            Fact::Width,
        ),
        one(
            "height",
            "The height of a picture or video in pixels; of a tensor, the size of its first axis (its second, if it has four).",
            "SELECT height(image) FROM photos",
            Fact::Height,
        ),
        one(
            "channels",
            "The number of channels of a picture, of sound or of a video.",
            "SELECT * FROM photos WHERE channels(image) = 4",
            Fact::Channels,
        ),
        one(
            "codec",
            "The format of a file: 'jpeg', 'png', 'wav', 'mp4', …",
            "SELECT codec(image), count(*) FROM photos GROUP BY codec(image)",
            Fact::Codec,
        ),
        one(
            "bytes",
            "The size of a file in bytes, or of the elements of a tensor.",
            "SELECT sum(bytes(image)) FROM photos",
            Fact::Bytes,
        ),
        one(
            "duration",
            "How long sound or a video lasts, in seconds; NULL where its headers do not say.",
            "SELECT * FROM clips WHERE duration(video) > 10",
            Fact::Duration,
        ),
        one(
            "frames",
            "The number of frames of a video, of samples over time of sound, of pictures in an animated one.",
            "SELECT frames(video) FROM clips",
            Fact::Frames,
        ),
        one(
            "sample_rate",
            "How many samples per second sound has.",
            "SELECT sample_rate(audio) FROM clips",
            Fact::SampleRate,
        ),
    ]
}

impl Fact {
    /// Whether files of a kind have it.
    fn is_of(self, base: Base) -> bool {
        match self {
            Fact::Width | Fact::Height => base != Base::Audio,
            Fact::Duration => matches!(base, Base::Audio | Base::Video),
            Fact::SampleRate => base == Base::Audio,
            Fact::Channels | Fact::Codec | Fact::Bytes | Fact::Frames => true,
        }
    }

    /// Whether tensors have it.
    fn is_of_tensors(self) -> bool {
        matches!(self, Fact::Width | Fact::Height | Fact::Channels | Fact::Bytes | Fact::Frames)
    }

    /// A count that the header of a file says.
    fn count(self, facts: &Facts) -> Option<i64> {
        let detail = |name: &str| facts.details.get(name).and_then(|value| value.as_i64());
        let size = |axis: usize| facts.shape.get(axis).map(|size| *size as i64);
        match (self, facts.format.family()) {
            (Fact::Width, Family::Dicom) => detail("columns"),
            (Fact::Height, Family::Dicom) => detail("rows"),
            (Fact::Width | Fact::Height, Family::Audio) => None,
            (Fact::Width | Fact::Height | Fact::Channels, _) => {
                of_shape(self, &facts.shape, facts.format.family())
            }
            (Fact::Frames, Family::Image) => Some(detail("frames").or(detail("pages")).unwrap_or(1)),
            (Fact::Frames, Family::Dicom) => {
                Some(detail("frames").or(detail("number_of_frames")).unwrap_or(1))
            }
            (Fact::Frames, _) => size(0),
            (Fact::SampleRate, _) => detail("sample_rate"),
            _ => None,
        }
    }
}

/// A size among those of a decoded tensor.
fn of_shape(fact: Fact, shape: &[u64], family: Family) -> Option<i64> {
    let size = |axis: usize| shape.get(axis).map(|size| *size as i64);
    let first = usize::from(shape.len() == 4);
    match (fact, family) {
        (Fact::Channels, Family::Audio) => size(1).or(Some(1)),
        (Fact::Height, _) => size(first),
        (Fact::Width, _) => size(first + 1),
        // Pictures in grays have no axis for them.
        _ => size(first + 2).or(Some(1)),
    }
}

impl Body for Fact {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let takes = match call.kind(0) {
            Kind::Media { base, .. } => self.is_of(base),
            Kind::Tensor(_) if *self == Fact::Bytes => true,
            Kind::Tensor(tensor) => {
                self.is_of_tensors() && tensor.dims.rank().is_none_or(|rank| (2..=4).contains(&rank))
            }
            Kind::Null => true,
            _ => *self == Fact::Bytes && is_bytes(call.fields[0].data_type()),
        };
        if !takes {
            return plan_err!("{}: is not defined for {}", call.name, call.describe(0));
        }
        Ok(call.plain_field(match self {
            Fact::Codec => DataType::Utf8,
            Fact::Duration => DataType::Float64,
            _ => DataType::Int64,
        }))
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let kind = Kind::of(&call.fields[0]);
        let array = call.array(0)?;
        let is_file = matches!(kind, Kind::Media { .. });
        if *self == Fact::Bytes && (is_file || is_bytes(array.data_type())) {
            let array = cast(&array, &DataType::LargeBinary)?;
            let files = array.as_binary::<i64>();
            let sizes =
                (0..call.rows).map(|row| (!files.is_null(row)).then(|| files.value(row).len() as i64));
            return Ok(Arc::new(sizes.collect::<Int64Array>()));
        }
        let Kind::Media { column, .. } = kind else { return self.of_tensors(call) };
        let files = Files::new(&column);
        let array = cast(&array, &DataType::LargeBinary)?;
        let bytes = array.as_binary::<i64>();
        let facts = |row: usize| -> Result<Option<Facts>> {
            (!bytes.is_null(row)).then(|| files.facts(call.name, bytes.value(row))).transpose()
        };
        match self {
            Fact::Codec => {
                let names = (0..call.rows).map(|row| Ok(facts(row)?.map(|facts| facts.format.name())));
                Ok(Arc::new(names.collect::<Result<StringArray>>()?))
            }
            Fact::Duration => {
                let seconds =
                    |facts: Facts| facts.details.get("duration_secs").and_then(|value| value.as_f64());
                let found = (0..call.rows).map(|row| Ok(facts(row)?.and_then(seconds)));
                Ok(Arc::new(found.collect::<Result<Float64Array>>()?))
            }
            _ => {
                let found = (0..call.rows).map(|row| Ok(facts(row)?.and_then(|facts| self.count(&facts))));
                Ok(Arc::new(found.collect::<Result<Int64Array>>()?))
            }
        }
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    data_type.is_binary() || matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

impl Fact {
    fn of_tensors(self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let width = tensors.tensor_type().dtype.size_bytes() as i64;
        let one = |shape: Vec<u64>| match self {
            Fact::Bytes => Some(shape.iter().product::<u64>() as i64 * width),
            Fact::Frames => Some(if shape.len() == 4 { shape[0] as i64 } else { 1 }),
            _ => of_shape(self, &shape, Family::Image),
        };
        let found = (0..call.rows).map(|row| Ok(tensors.shape(row)?.and_then(one)));
        Ok(Arc::new(found.collect::<Result<Int64Array>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, file, fixed, image};
    use crate::tensors::tensor_of;
    use lacus_media::{EncodeOptions, Format};
    use lacus_tensor::DType;

    #[test]
    fn pictures_are_not_decoded() {
        let picture = image(&[2, 5, 3], &[7.0; 30]);
        let case = |name: &str, expected: &str| check(name, std::slice::from_ref(&picture), expected);
        case("height", "2");
        case("width", "5");
        case("channels", "3");
        case("codec", "png");
        case("frames", "1");
        check_error(
            "duration",
            std::slice::from_ref(&picture),
            "duration: is not defined for a file (image)",
        );
        let gray = image(&[2, 5], &[7.0; 10]);
        check("channels", &[gray], "1");
        let tensor = fixed(DType::F32, &[2, 5, 3], &[0.0; 30]);
        check("width", std::slice::from_ref(&tensor), "5");
        check("bytes", std::slice::from_ref(&tensor), "120");
        check_error("codec", &[tensor], "codec: is not defined for a tensor (float32 of shape (2, 5, 3))");
        check_error("width", &[1.into()], "width: is not defined for a number (int64)");
    }

    #[test]
    fn sound_has_a_length() {
        let samples = tensor_of(DType::I16, &[100, 2], &[0i64; 200]).unwrap();
        let options = EncodeOptions { sample_rate: 50, ..EncodeOptions::default() };
        let bytes = lacus_media::encode(samples.as_ref(), Format::Wav, &options).unwrap();
        let sound = file("audio", &bytes);
        let case = |name: &str, expected: &str| check(name, std::slice::from_ref(&sound), expected);
        case("duration", "2.0");
        case("sample_rate", "50");
        case("frames", "100");
        case("channels", "2");
        case("codec", "wav");
        case("bytes", &bytes.len().to_string());
        check_error("width", std::slice::from_ref(&sound), "width: is not defined for a file (audio)");
        check_error("width", &[file("image", b"nothing")], "width: ");
    }
}
