//! Media files in columns: kept as they came where that is what the column holds, made from elements or decoded
//! where not, and looked into without being decoded.

use std::borrow::Cow;
use std::ops::Range;

use lacus_media::{EncodeOptions, Facts, Family, Format, Limits};
use lacus_tensor::{BoxCopy, Buffer, DType, Selection, Shape, Target, Tensor};

use crate::column::{Column, Compression};
use crate::elements::{Elements, doubles};
use crate::error::SampleError;
use crate::fit::{fit, shape_fits, with_added_axis};
use crate::pack::Piece;
use crate::sample::{file_of, file_of_any};

/// A sample of a media column, on its way to be stored.
pub(crate) enum Encoded<'a> {
    /// A file, or nothing at all.
    Piece(Piece<'a>),
    /// Elements, which the column keeps without a file around them.
    Elements(Elements<'a>),
}

/// A file for a media column.
pub(crate) fn encode_file<'a>(
    column: &Column,
    family: Family,
    bytes: Cow<'a, [u8]>,
) -> Result<Encoded<'a>, SampleError> {
    let facts = lacus_media::probe(&bytes)?;
    let format = facts.format;
    if format.family() != family {
        return Err(column.misfit(file_of_any(family), file_of(format)));
    }
    let shape = check_facts(column, &facts)?;
    match column.compression() {
        Compression::Auto => {}
        Compression::Media(wanted) if wanted == format => {}
        Compression::Media(wanted) if matches!(family, Family::Video | Family::Dicom) => {
            return Err(column.misfit(file_of(wanted), file_of(format)));
        }
        // What is coded again goes the way of arrays, which have the dtype of the column.
        _ if family == Family::Image && facts.dtype != column.known_dtype()? => {
            return Err(column.misfit(column.expected(), describe_file(&facts)?));
        }
        _ => {
            let tensor = lacus_media::decode(&bytes, &Limits::default())?;
            let tensor = conform(column, tensor, &shape)?;
            let rate = facts.details.get("sample_rate").and_then(|rate| u32::try_from(rate.as_u64()?).ok());
            return encode_elements(column, family, Elements::owned(&tensor), rate);
        }
    }
    // What is kept is not decoded now; most damage is seen all the same.
    lacus_media::verify(&bytes, format)?;
    Ok(Encoded::Piece(Piece { shape, codec: format.name(), bytes }))
}

/// Whether a file of the column's kind fits it; the shape it has there.
pub(crate) fn check_facts(column: &Column, facts: &Facts) -> Result<Vec<u64>, SampleError> {
    let family = facts.format.family();
    let shape = file_shape(column, &facts.shape);
    // Sound of another depth is converted when it is read: it has a full scale to go by.
    let any_dtype = column.files_keep_dtype() || family == Family::Audio;
    let dtype_fits = any_dtype || facts.dtype == column.known_dtype()?;
    if !dtype_fits || !shape_fits(column, &shape) {
        return Err(column.misfit(column.expected_file(), describe_file(facts)?));
    }
    if family == Family::Image {
        check_bomb(column, facts, &shape)?;
    }
    Ok(shape)
}

fn describe_file(facts: &Facts) -> Result<String, SampleError> {
    let (file, shape) = (file_of(facts.format), Shape::new(&facts.shape[..])?);
    Ok(format!("{file} of {} of shape {shape}", facts.dtype))
}

/// Elements for a media column. `rate` is that of the file they come from, if they do.
pub(crate) fn encode_elements<'a>(
    column: &Column,
    family: Family,
    elements: Elements<'a>,
    rate: Option<u32>,
) -> Result<Encoded<'a>, SampleError> {
    if matches!(family, Family::Video | Family::Dicom) {
        let found = format!("{} of shape {}", elements.dtype, elements.shape);
        return Err(column.misfit(format!("the bytes of {}", file_of_any(family)), found));
    }
    let elements = match family {
        Family::Audio if elements.dtype.is_integer() => fit_sound(column, elements)?,
        _ => fit(column, elements, false)?,
    };
    let format = match (column.compression(), family) {
        (Compression::None | Compression::Zstd { .. }, _) => return Ok(Encoded::Elements(elements)),
        (Compression::Media(format), _) => format,
        (Compression::Auto, Family::Audio) => Format::Wav,
        (Compression::Auto, _) => Format::Png,
    };
    let shape = elements.shape.dims().to_vec();
    if elements.bytes.is_empty() {
        // No format has files of nothing.
        return Ok(Encoded::Piece(Piece {
            shape,
            codec: lacus_layout::Codec::Raw.name(),
            bytes: Cow::Borrowed(&[]),
        }));
    }
    let mut options = EncodeOptions::default();
    let settings = column.settings();
    options.quality = settings.quality.unwrap_or(options.quality);
    if family == Family::Audio {
        options.sample_rate = settings.sample_rate.or(rate).ok_or_else(|| {
            let detail =
                "the column needs this option to keep sound that is given as elements, not as a file";
            SampleError::spec("sample_rate", detail)
        })?;
    }
    let bytes = lacus_media::encode(elements.view()?, format, &options)?;
    Ok(Encoded::Piece(Piece { shape, codec: format.name(), bytes: Cow::Owned(bytes) }))
}

/// Integers for a column of sound. Their full scale is that of their dtype, as in a file of the same depth: int16 goes from
/// -32768 to 32767, whatever the column's dtype. A WAV file keeps them in their own depth and is converted when it is
/// read, so arrays and files give the same samples; where the column keeps no such file, they are converted now.
fn fit_sound<'a>(column: &Column, elements: Elements<'a>) -> Result<Elements<'a>, SampleError> {
    let (from, to) = (elements.dtype, column.known_dtype()?);
    if from == to || elements.bytes.is_empty() {
        return fit(column, elements, false);
    }
    if !matches!(from, DType::U8 | DType::I16 | DType::I32) {
        let found = format!("{from} of shape {}, which no sound file has", elements.shape);
        return Err(column.misfit(format!("{to}, uint8, int16 or int32 samples"), found));
    }
    let keeps_depth = match column.compression() {
        Compression::Auto | Compression::Media(Format::Wav) => true,
        Compression::Media(Format::Flac) => from == DType::I16,
        _ => false,
    };
    if keeps_depth {
        return fit(&column.of_dtype(from), elements, false);
    }
    let bytes = sound(from, to, &elements.bytes).map(|buffer| Cow::Owned(buffer.to_vec()));
    let bytes = bytes.ok_or_else(|| SampleError::corrupt("sound", "a dtype without a full scale"))?;
    fit(column, Elements { dtype: to, shape: elements.shape, bytes }, false)
}

/// Decodes a stored file, or what is selected of it.
pub(crate) fn decode_file(
    column: &Column,
    shape: &[u64],
    selection: Option<&Selection>,
    format: Format,
    bytes: &[u8],
) -> Result<Tensor, SampleError> {
    let limits = Limits::default();
    if keeps_inks(shape, format, bytes) {
        let tensor = conform(column, lacus_media::decode_inks(bytes, &limits)?, shape)?;
        return Ok(match selection {
            Some(selection) => tensor.as_ref().select(selection)?,
            None => tensor,
        });
    }
    let Some(selection) = selection else {
        let tensor = lacus_media::decode(bytes, &limits)?;
        return conform(column, tensor, shape);
    };
    let dtype = file_dtype(column, bytes)?;
    let out_shape = selection.output_shape().clone();
    let Some(bounds) = selection.bounding_box() else { return Ok(Tensor::zeros(dtype, out_shape)?) };
    let (origin, extent): (Vec<u64>, Vec<u64>) = {
        let cut = cut_axes(format.family()).min(shape.len());
        let whole = shape[cut..].iter().map(|size| (0, *size));
        bounds[..cut].iter().map(|(first, end)| (*first, end - first)).chain(whole).unzip()
    };
    let region: Vec<Range<u64>> = origin
        .iter()
        .zip(&extent)
        .take(cut_axes(format.family()))
        .map(|(first, size)| *first..first + size)
        .collect();
    let part = lacus_media::decode_region(bytes, &region, &limits)?;
    let part = conform(column, part, &extent)?;
    let mut out = Buffer::try_for_overwrite(out_shape.byte_len(dtype)?)?;
    if let Some(copy) = BoxCopy::plan(selection, &origin, &extent, dtype.size_bytes()) {
        copy.scatter(part.bytes(), &Target::new(&mut out))?;
    }
    Ok(Tensor::new(dtype, out_shape, out)?)
}

/// The dtype that a stored file decodes to.
pub(crate) fn file_dtype(column: &Column, bytes: &[u8]) -> Result<DType, SampleError> {
    match column.files_keep_dtype() {
        true => Ok(lacus_media::probe(bytes)?.dtype),
        false => column.known_dtype(),
    }
}

/// Decodes a stored file into `out`, which has exactly the length of the sample.
pub(crate) fn decode_file_into(
    column: &Column,
    shape: &[u64],
    format: Format,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<(), SampleError> {
    match format.family() {
        Family::Audio => out.copy_from_slice(decode_file(column, shape, None, format, bytes)?.bytes()),
        _ if keeps_inks(shape, format, bytes) => {
            out.copy_from_slice(decode_file(column, shape, None, format, bytes)?.bytes());
        }
        _ => lacus_media::decode_into(bytes, &Limits::default(), out)?,
    }
    Ok(())
}

/// Whether a TIFF of CMYK was stored when such were read as inks: its row has a channel more than it has colors, and is
/// read as it was.
fn keeps_inks(shape: &[u64], format: Format, bytes: &[u8]) -> bool {
    let [.., channels] = *shape else { return false };
    format == Format::Tiff
        && channels > 3
        && lacus_media::probe(bytes).is_ok_and(|facts| {
            let is_cmyk =
                facts.details.get("color").and_then(|c| c.as_str()).is_some_and(|c| c.starts_with("cmyk"));
            is_cmyk && facts.shape.last().is_some_and(|found| found + 1 == channels)
        })
}

/// Leading axes that every file of a family has, whether or not it has one of channels: those can be cut.
fn cut_axes(family: Family) -> usize {
    match family {
        Family::Audio => 1,
        Family::Image | Family::Dicom => 2,
        Family::Video => 3,
    }
}

/// The shape that the column gives a file: with an axis for the one channel of a gray picture, without one for that
/// of mono sound where the column has none.
fn file_shape(column: &Column, dims: &[u64]) -> Vec<u64> {
    match (dims, column.shape().map(<[_]>::len)) {
        ([frames, 1], Some(1)) => vec![*frames],
        _ => with_added_axis(column, dims),
    }
}

/// A decoded file as the column holds it: its axes, and for sound its dtype.
fn conform(column: &Column, tensor: Tensor, shape: &[u64]) -> Result<Tensor, SampleError> {
    let dtype = match column.files_keep_dtype() {
        true => tensor.dtype(),
        false => column.known_dtype()?,
    };
    if file_shape(column, tensor.shape().dims()) != shape {
        let detail = format!("a file of shape {} where {} belongs", tensor.shape(), Shape::new(shape)?);
        return Err(SampleError::corrupt("media sample", detail));
    }
    let shape = Shape::new(shape)?;
    if tensor.dtype() == dtype {
        return Ok(Tensor::new(dtype, shape, tensor.into_buffer())?);
    }
    match sound(tensor.dtype(), dtype, tensor.bytes()) {
        Some(buffer) => Ok(Tensor::new(dtype, shape, buffer)?),
        None => {
            let detail = format!("a file of {} where {dtype} belongs", tensor.dtype());
            Err(SampleError::corrupt("media sample", detail))
        }
    }
}

/// Sound in another depth: floats go from -1 to 1, integers over their whole range. `None` if a dtype is none of
/// sound.
fn sound(from: DType, to: DType, bytes: &[u8]) -> Option<Buffer> {
    // Middle and reach.
    let scale = |dtype: DType| match dtype {
        DType::U8 => Some((128.0, 128.0)),
        DType::I16 => Some((0.0, 32_768.0)),
        DType::I32 => Some((0.0, 2_147_483_648.0)),
        DType::F32 | DType::F64 => Some((0.0, 1.0)),
        _ => None,
    };
    let ((from_middle, from_reach), (middle, reach)) = (scale(from)?, scale(to)?);
    if (from, to) == (DType::I16, DType::F32) {
        // What nearly all files and columns are; exact in float32.
        let samples =
            bytes.as_chunks().0.iter().map(|sample| f32::from(i16::from_le_bytes(*sample)) / 32_768.0);
        return Some(Buffer::from_elements(&samples.collect::<Vec<f32>>()));
    }
    let samples = doubles(from, bytes).map(|sample| (sample - from_middle) / from_reach * reach + middle);
    Some(match to {
        // Casts clamp, as players do.
        DType::U8 => Buffer::from_elements(&samples.map(|s| s.round() as u8).collect::<Vec<_>>()),
        DType::I16 => Buffer::from_elements(&samples.map(|s| s.round() as i16).collect::<Vec<_>>()),
        DType::I32 => Buffer::from_elements(&samples.map(|s| s.round() as i32).collect::<Vec<_>>()),
        DType::F32 => Buffer::from_elements(&samples.map(|s| s as f32).collect::<Vec<_>>()),
        _ => Buffer::from_elements(&samples.collect::<Vec<_>>()),
    })
}

/// A picture that could never be decoded is refused when it comes, not when it is read.
fn check_bomb(column: &Column, facts: &Facts, shape: &[u64]) -> Result<(), SampleError> {
    let limits = Limits::default();
    let pixels = shape.iter().take(2).fold(1u64, |pixels, size| pixels.saturating_mul(*size));
    let item = facts.dtype.size_bytes() as u64;
    let bytes = shape.iter().fold(item, |bytes, size| bytes.saturating_mul(*size));
    if pixels <= limits.pixels && bytes <= limits.bytes {
        return Ok(());
    }
    let expected = format!("a picture of at most {} pixels and {} bytes", limits.pixels, limits.bytes);
    Err(column.misfit(expected, format!("{} of {pixels} pixels and {bytes} bytes", file_of(facts.format))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_keeps_its_full_scale_in_every_depth() {
        let dtypes = [DType::U8, DType::I16, DType::I32, DType::F32, DType::F64];
        // Least, middle, and half up.
        let points = |dtype: DType| -> Vec<f64> {
            match dtype {
                DType::U8 => vec![0.0, 128.0, 192.0],
                DType::I16 => vec![-32_768.0, 0.0, 16_384.0],
                DType::I32 => vec![-2_147_483_648.0, 0.0, 1_073_741_824.0],
                _ => vec![-1.0, 0.0, 0.5],
            }
        };
        let bytes =
            |dtype: DType| sound(DType::F64, dtype, &Buffer::from_elements(&[-1.0, 0.0, 0.5])).unwrap();
        for from in dtypes {
            for to in dtypes {
                let converted = sound(from, to, &bytes(from)).unwrap();
                assert_eq!(doubles(to, &converted).collect::<Vec<_>>(), points(to), "{from} to {to}");
            }
        }
        let loud = sound(DType::F32, DType::I16, &Buffer::from_elements(&[2.0f32, -2.0])).unwrap();
        assert_eq!(loud.cast::<i16>(), [i16::MAX, i16::MIN]);
        assert!(sound(DType::U16, DType::F32, &[]).is_none());
    }
}
