//! From a sample to what its row holds.
//!
//! ```text
//! Sample ─fit→ Elements ─pack→ bytes, one tile or many        media files: bytes as they are
//! ```

use std::borrow::Cow;

use lacus_error::close_to;
use lacus_layout::{values_to_floats, values_to_ints, values_to_reals};
use lacus_media::{Family, Limits};
use lacus_tensor::{DType, Shape, TensorRef};
use serde_json::Value as Json;

use crate::column::{Column, Form};
use crate::count::{counted, wide_decimal};
use crate::elements::Elements;
use crate::error::SampleError;
use crate::fit::{fit, fit_scalars, shape_fits};
use crate::frames::{self, SEQUENCE};
use crate::htype::Base;
use crate::literal;
use crate::logical::Logical;
use crate::media::{self, Encoded};
use crate::options::brief;
use crate::pack::{LARGEST_PIECE_BYTES, Piece, Policy, pack_tile, pack_whole};
use crate::polygon::encode_polygons;
use crate::rules::Holds;
use crate::sample::{Sample, file_of, file_of_any, infer};
use crate::stored::{Blob, Stored, Tile};
use crate::text::encode_text;
use crate::tiling::coordinates;

/// What a row of the column holds of a sample. Memory of the caller is borrowed where it is stored as it is: media
/// files of the column's compression, and elements that are not compressed.
///
/// Fails with an invalid error that says what was expected and what was found if the sample does not fit, and for
/// a column that [is open](Column::is_open).
pub fn encode<'a>(column: &Column, sample: Sample<'a>) -> Result<Stored<'a>, SampleError> {
    if matches!(sample, Sample::Missing) {
        return Ok(Stored::Missing);
    }
    let form = column.form();
    if form == Form::Text {
        return encode_text(column, sample);
    }
    if !column.files_keep_dtype() {
        column.known_dtype()?;
    }
    if form != Form::Blob {
        return encode_scalar(form, &numbers(column, sample)?);
    }
    if column.htype().sequence {
        let (count, bytes) = encode_sequence(column, sample)?;
        let piece = Piece { shape: vec![count as u64], codec: SEQUENCE, bytes: Cow::Owned(bytes) };
        return Ok(Stored::Blob(whole(piece)));
    }
    Ok(Stored::Blob(match content(column, sample)? {
        Encoded::Piece(piece) => whole(piece),
        Encoded::Elements(elements) => tiled(column, elements)?,
    }))
}

/// Whether a file that a link of the column leads to is a sample of it. `start` is its beginning, or all of it: then it is
/// looked at as if it were given itself. Otherwise its kind is checked, and for pictures shape and dtype where the
/// header lies in `start`.
///
/// Fails as [`encode`] does.
pub fn check_linked(column: &Column, start: &[u8], is_whole: bool) -> Result<(), SampleError> {
    let column = column.resolved().element();
    if is_whole {
        let sample = Sample::Encoded(Cow::Borrowed(start));
        let column = infer(&sample).map_or_else(|| column.clone(), |dtype| column.settle(dtype));
        return encode(&column, sample).map(drop);
    }
    let Some(format) = lacus_media::sniff(start) else {
        // The notes before the sound may be longer than what was read.
        return match start.starts_with(b"ID3") {
            true => Ok(()),
            false => Err(column.misfit(expected_file(&column), Sample::Encoded(start.into()).describe())),
        };
    };
    let is_of_kind = match column.rules().holds {
        Holds::Media(family) => format.family() == family,
        _ => matches!(format.family(), Family::Image | Family::Dicom),
    };
    if !is_of_kind {
        return Err(column.misfit(expected_file(&column), file_of(format)));
    }
    match (column.rules().holds, lacus_media::probe(start)) {
        (Holds::Media(Family::Image | Family::Dicom), Ok(facts)) => {
            media::check_facts(&column, &facts).map(drop)
        }
        _ => Ok(()),
    }
}

fn expected_file(column: &Column) -> &'static str {
    match column.rules().holds {
        Holds::Media(family) => file_of_any(family),
        _ => file_of_any(Family::Image),
    }
}

/// What rows of a column of scalars hold of the elements of `rows`, a tensor of one axis: the same as each would be
/// encoded to by itself, but checked and converted together. Doubles are rounded to the column's dtype as
/// Python's numbers are, because numpy's doubles are Python's.
///
/// A result for each row, so that the caller can name those that do not fit. All fail if the column does not hold
/// scalars, or if it [is open](Column::is_open).
pub fn encode_scalars(column: &Column, rows: &TensorRef<'_>) -> Vec<Result<Stored<'static>, SampleError>> {
    let form = column.form();
    let elements = Elements::of(rows);
    let literal = elements.dtype == DType::F64;
    // A number given for a decimal is its value, not how often it has the last digit.
    let is_decimal = matches!(column.logical(), Some(Logical::Decimal { .. }));
    if let (false, Some(all)) =
        (is_decimal, fit_scalars(column, &elements, literal).and_then(|fitted| scalars(form, &fitted)))
    {
        return all.into_iter().map(Ok).collect();
    }
    // At least one does not fit: which, and why, is found one by one.
    let one = |bytes: &[u8]| {
        let shape = Shape::default();
        let element = Elements { dtype: elements.dtype, shape, bytes: Cow::Owned(bytes.to_vec()) };
        match (form, column.logical()) {
            (Form::Int, Some(logical)) => {
                encode_scalar(form, &counted(column, logical, Sample::Tensor(element.view()?))?)
            }
            (Form::Text, Some(logical)) => {
                let text = wide_decimal(column, logical, Sample::Tensor(element.view()?))?;
                Ok(Stored::Text(Cow::Owned(text)))
            }
            (Form::Int | Form::Float | Form::Real, _) => encode_scalar(form, &fit(column, element, literal)?),
            (Form::Text | Form::Blob, _) => Err(column.misfit(column.expected(), "a number")),
        }
    };
    elements.bytes.chunks_exact(elements.dtype.size_bytes()).map(one).collect()
}

/// Scalars as rows hold them; `None` if these are none.
fn scalars(form: Form, elements: &Elements<'_>) -> Option<Vec<Stored<'static>>> {
    let (dtype, bytes) = (elements.dtype, &elements.bytes[..]);
    Some(match form {
        Form::Int => values_to_ints(dtype, bytes).ok()?.into_iter().map(Stored::Int).collect(),
        Form::Float => values_to_floats(dtype, bytes).ok()?.into_iter().map(Stored::Float).collect(),
        Form::Real => values_to_reals(dtype, bytes).ok()?.into_iter().map(Stored::Real).collect(),
        Form::Text | Form::Blob => return None,
    })
}

fn whole(piece: Piece<'_>) -> Blob<'_> {
    let tile = Tile { coords: Vec::new(), codec: piece.codec, bytes: piece.bytes };
    Blob { shape: piece.shape, tiles: vec![tile] }
}

/// Packs elements, in tiles if they are many.
fn tiled<'a>(column: &Column, elements: Elements<'a>) -> Result<Blob<'a>, SampleError> {
    let policy = Policy::of(column);
    let dims = elements.shape.dims().to_vec();
    let Some(sides) = column.tile_shape(&dims) else { return Ok(whole(pack_whole(elements, policy)?)) };
    let grid: Vec<_> = dims.iter().zip(&sides).map(|(size, side)| 0..size.div_ceil(*side)).collect();
    let places = coordinates(&grid)?;
    let tiles = match &elements.bytes {
        Cow::Borrowed(bytes) => {
            let tensor = TensorRef::contiguous(elements.dtype, &elements.shape, bytes)?;
            cut(&tensor, &sides, places, policy)?
        }
        Cow::Owned(bytes) => {
            let tensor = TensorRef::contiguous(elements.dtype, &elements.shape, bytes)?;
            let tiles = cut(&tensor, &sides, places, policy)?;
            let owned = |tile: Tile<'_>| Tile { bytes: Cow::Owned(tile.bytes.into_owned()), ..tile };
            tiles.into_iter().map(owned).collect()
        }
    };
    Ok(Blob { shape: dims, tiles })
}

fn cut<'a>(
    tensor: &TensorRef<'a>,
    sides: &[u64],
    places: Vec<Vec<u64>>,
    policy: Policy,
) -> Result<Vec<Tile<'a>>, SampleError> {
    let dims = tensor.shape().dims();
    let tile = |coords: Vec<u64>| {
        let origin: Vec<u64> = coords.iter().zip(sides).map(|(place, side)| place * side).collect();
        let ends = origin.iter().zip(sides).zip(dims);
        let extent: Vec<u64> = ends.map(|((first, side), size)| (*side).min(size - first)).collect();
        let (codec, bytes) = pack_tile(&tensor.region(&origin, &extent), policy)?;
        Ok(Tile { coords, codec, bytes })
    };
    places.into_iter().map(tile).collect()
}

/// The number and the bytes of a sequence's elements.
fn encode_sequence(column: &Column, sample: Sample<'_>) -> Result<(usize, Vec<u8>), SampleError> {
    let place = |index: usize| move |source| SampleError::Element { index, source: Box::new(source) };
    let add = |out: &mut Vec<u8>, element: Sample<'_>| -> Result<(), SampleError> {
        let piece = match content(column, element)? {
            Encoded::Piece(piece) => piece,
            Encoded::Elements(elements) if elements.bytes.len() > LARGEST_PIECE_BYTES => {
                let found = format!("{} bytes", elements.bytes.len());
                return Err(column.misfit(format!("elements of at most {LARGEST_PIECE_BYTES} bytes"), found));
            }
            Encoded::Elements(elements) => pack_whole(elements, Policy::of(column))?,
        };
        frames::append(out, &piece);
        Ok(())
    };
    let elements = match sample {
        Sample::Sequence(elements) => elements,
        Sample::Json(Json::Array(values)) => values.into_iter().map(Sample::Json).collect(),
        // One picture, and not as many gray ones as it has rows: nobody can tell, so the caller has to.
        Sample::Tensor(tensor) if is_one_element(column, tensor.shape().dims()) => {
            let found = format!("one {} ({}); give [array] for a sequence of one", column.htype().base, {
                Sample::Tensor(tensor).describe()
            });
            return Err(column.misfit("a list of samples", found));
        }
        // A tensor is the sequence of what lies along its first axis.
        Sample::Tensor(tensor) if tensor.shape().rank() > 0 => {
            let dims = tensor.shape().dims();
            let inner = Shape::new(&dims[1..])?;
            let mut out = frames::begin(dims[0] as usize);
            let mut origin = vec![0; dims.len()];
            let mut extent = dims.to_vec();
            extent[0] = 1;
            for index in 0..dims[0] {
                origin[0] = index;
                let slab = Elements::of(&tensor.region(&origin, &extent));
                let element = TensorRef::contiguous(slab.dtype, &inner, &slab.bytes)?;
                add(&mut out, Sample::Tensor(element)).map_err(place(index as usize))?;
            }
            return Ok((dims[0] as usize, out));
        }
        other => return Err(column.misfit("a sequence", other.describe())),
    };
    let count = elements.len();
    let mut out = frames::begin(count);
    for (index, element) in elements.into_iter().enumerate() {
        add(&mut out, element).map_err(place(index))?;
    }
    Ok((count, out))
}

/// Whether a tensor given for a sequence is an element by itself, while its parts would be elements too: of the types
/// that let one leave out an axis.
fn is_one_element(column: &Column, dims: &[u64]) -> bool {
    let rank = column.shape().map(<[_]>::len);
    column.htype().base.added_axis().is_some() && rank == Some(dims.len()) && shape_fits(column, dims)
}

/// One sample (or element) of a column of blobs: bytes that are ready, or elements to be packed.
fn content<'a>(column: &Column, sample: Sample<'a>) -> Result<Encoded<'a>, SampleError> {
    match (column.rules().holds, sample) {
        (Holds::Polygons, sample) => Ok(Encoded::Piece(encode_polygons(column, sample)?)),
        (Holds::Bytes, Sample::Encoded(bytes)) if bytes.len() <= LARGEST_PIECE_BYTES => {
            let shape = Shape::new([bytes.len() as u64])?;
            Ok(Encoded::Elements(Elements { dtype: DType::U8, shape, bytes }))
        }
        (Holds::Bytes, Sample::Encoded(bytes)) => {
            let expected = format!("at most {LARGEST_PIECE_BYTES} bytes");
            Err(column.misfit(expected, format!("{} bytes", bytes.len())))
        }
        (Holds::Bytes, other) => Err(column.misfit(column.expected(), other.describe())),
        (Holds::Media(family), Sample::Encoded(bytes)) => media::encode_file(column, family, bytes),
        (Holds::Media(family), Sample::Tensor(tensor)) => {
            media::encode_elements(column, family, Elements::of(&tensor), None)
        }
        (Holds::Media(family), other) => {
            Err(column.misfit(format!("{}, or {}", column.expected(), file_of_any(family)), other.describe()))
        }
        (_, sample) => Ok(Encoded::Elements(numbers(column, sample)?)),
    }
}

/// A sample of a column of numbers, fitted to it.
fn numbers<'a>(column: &Column, sample: Sample<'a>) -> Result<Elements<'a>, SampleError> {
    if let Some(logical) = column.logical() {
        return counted(column, logical, sample);
    }
    let is_label = column.htype().base == Base::ClassLabel;
    match sample {
        Sample::Tensor(tensor) => fit(column, Elements::of(&tensor), false),
        Sample::Text(name) if is_label => fit(column, labels(column, &[&name], &[])?, false),
        Sample::Json(value) => literal_numbers(column, &value),
        Sample::Sequence(elements) if is_label => {
            let names: Option<Vec<&str>> = elements.iter().map(name_of).collect();
            match names {
                Some(names) => fit(column, labels(column, &names, &[names.len() as u64])?, false),
                None => Err(column.misfit(column.expected(), Sample::Sequence(elements).describe())),
            }
        }
        Sample::Encoded(bytes) if column.rules().decodes => {
            let tensor = lacus_media::decode(&bytes, &Limits::default())?;
            fit(column, Elements::owned(&tensor), false)
        }
        other => Err(column.misfit(column.expected(), other.describe())),
    }
}

fn name_of<'s>(sample: &'s Sample<'_>) -> Option<&'s str> {
    match sample {
        Sample::Text(name) => Some(name),
        Sample::Json(Json::String(name)) => Some(name),
        _ => None,
    }
}

fn literal_numbers(column: &Column, value: &Json) -> Result<Elements<'static>, SampleError> {
    if column.htype().base == Base::ClassLabel {
        if let Json::String(name) = value {
            return fit(column, labels(column, &[name], &[])?, false);
        }
        let names = value.as_array().map(|items| items.iter().map(Json::as_str).collect::<Option<Vec<_>>>());
        if let Some(names) = names.flatten().filter(|names| !names.is_empty()) {
            return fit(column, labels(column, &names, &[names.len() as u64])?, false);
        }
    }
    let tensor = literal::tensor_of(value).map_err(|found| column.misfit(column.expected(), found))?;
    fit(column, Elements::owned(&tensor), true)
}

/// The numbers of classes, by their names.
fn labels(column: &Column, names: &[&str], dims: &[u64]) -> Result<Elements<'static>, SampleError> {
    let classes = &column.settings().classes;
    let mut bytes = Vec::with_capacity(names.len() * 8);
    for name in names {
        let place = classes.place(name).ok_or_else(|| unknown_class(column, name))?;
        bytes.extend_from_slice(&(place as u64).to_le_bytes());
    }
    Ok(Elements { dtype: DType::U64, shape: Shape::new(dims)?, bytes: Cow::Owned(bytes) })
}

fn unknown_class(column: &Column, name: &str) -> SampleError {
    let names = column.class_names();
    let found = brief(&Json::String(name.to_owned()));
    if names.is_empty() {
        return column.misfit("a number, since the column has no class_names", found);
    }
    // Of very many names, the first ones are looked at.
    let close = close_to(name, names.iter().take(10_000).map(String::as_str));
    let some: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    let expected = match names.len() > some.len() {
        true => format!("one of {} class_names ({}, …)", names.len(), some.join(", ")),
        false => format!("one of the class_names {}", some.join(", ")),
    };
    match close.is_empty() {
        true => column.misfit(expected, found),
        false => column.misfit(expected, format!("{found} (did you mean {}?)", close.join(" or "))),
    }
}

fn encode_scalar(form: Form, elements: &Elements<'_>) -> Result<Stored<'static>, SampleError> {
    let (dtype, bytes) = (elements.dtype, &elements.bytes[..]);
    // The shape was found to be that of a scalar, so there is one.
    let stored = match form {
        Form::Int => values_to_ints(dtype, bytes)?.first().map(|value| Stored::Int(*value)),
        Form::Float => values_to_floats(dtype, bytes)?.first().map(|value| Stored::Float(*value)),
        _ => values_to_reals(dtype, bytes)?.first().map(|value| Stored::Real(*value)),
    };
    stored.ok_or_else(|| SampleError::corrupt("scalar", "no element"))
}
