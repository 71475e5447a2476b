//! From what a row holds back to a value, or to the part of it that is selected.
//!
//! ```text
//! shape, indices ─tiles_wanted→ coordinates ─(fetched elsewhere)→ TileRefs ─decode_blob→ Value
//! ```
//!
//! Stored bytes are never trusted: decoding ends in a value or in an error, and takes memory in proportion to the
//! bytes at hand (and, for media, to the default [`Limits`](lacus_media::Limits)).

use std::collections::HashMap;

use lacus_layout::{
    Codec, Coords, Header, Layout, chunk_extent, dense_copy, floats_to_values, ints_to_values,
    reals_to_values,
};
use lacus_media::Format;
use lacus_tensor::{Buffer, DType, Group, Index, Selection, Shape, Target, Tensor, TensorError, TensorRef};

use crate::column::{Column, Form};
use crate::error::SampleError;
use crate::frames::{POLYGON, SEQUENCE, read_sequence};
use crate::htype::Base;
use crate::media::{decode_file, decode_file_into, file_dtype};
use crate::pack::{check_claim, unpack_into};
use crate::polygon::decode_polygons;
use crate::rules::Holds;
use crate::stored::Stored;
use crate::text::is_of;
use crate::tiling::coordinates;

/// One fetched tile of a sample.
#[derive(Debug, Clone)]
pub struct TileRef<'a> {
    /// Its place in the grid; empty where there is none.
    pub coords: Vec<u64>,
    /// How its bytes are to be read.
    pub codec: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A sample, decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Elements.
    Tensor(Tensor),
    /// Text.
    Text(String),
    /// JSON.
    Json(serde_json::Value),
    /// A URL.
    Link(String),
    /// The elements of a sequence, or the outlines of polygons.
    Sequence(Vec<Value>),
    /// Bytes of any meaning.
    Bytes(Vec<u8>),
}

/// Scalars of many rows, as the rows hold them.
#[derive(Debug, Clone, Copy)]
pub enum Scalars<'a> {
    /// Of a column of form [`Form::Int`].
    Int(&'a [i64]),
    /// Of a column of form [`Form::Float`].
    Float(&'a [u32]),
    /// Of a column of form [`Form::Real`].
    Real(&'a [u64]),
}

/// Whether a sample of this shape lies in several tiles.
pub fn is_tiled(column: &Column, shape: &[u64]) -> bool {
    column.tile_shape(shape).is_some()
}

/// The coordinates of the tiles that hold what `indices` select of a sample (all of it, if there are none), in
/// order. `None` if the sample lies in one piece.
///
/// Fails where numpy fails for these indices, and with a corrupt error for a shape that no sample has.
pub fn tiles_wanted(
    column: &Column,
    shape: &[u64],
    indices: &[Index],
) -> Result<Option<Vec<Vec<u64>>>, SampleError> {
    let holds_one = !column.htype().sequence && column.rules().holds != Holds::Polygons;
    let selection = match holds_one && !indices.is_empty() {
        true => Some(Selection::resolve(&Shape::new(shape)?, indices)?),
        false => None,
    };
    match Grid::of(column, shape)? {
        Some(grid) => Ok(Some(grid.wanted(selection.as_ref())?)),
        None => Ok(None),
    }
}

/// Decodes what `indices` select of a sample (all of it, if there are none), by numpy's rules. Of a sequence, and of
/// polygons, the first index picks elements, and the others go into each.
///
/// `tiles` are the sample's one tile, or at least those that [`tiles_wanted`] named. Of media files, only the part is
/// decoded that the format lets one decode alone.
///
/// Fails with a corrupt error if the bytes do not hold such a sample.
pub fn decode_blob(
    column: &Column,
    shape: &[u64],
    indices: &[Index],
    tiles: &[TileRef<'_>],
) -> Result<Value, SampleError> {
    check_form(column, Form::Blob)?;
    if let Some(grid) = Grid::of(column, shape)? {
        let selection = match indices {
            [] => Selection::all(&grid.header.shape),
            _ => Selection::resolve(&grid.header.shape, indices)?,
        };
        let wanted = grid.wanted(Some(&selection))?;
        // All tiles must be there before memory is taken for what a shape claims.
        let fetched = grid.fetched(&wanted, tiles)?;
        let output = selection.output_shape().clone();
        let mut buffer = Buffer::try_for_overwrite(output.byte_len(grid.header.dtype)?)?;
        grid.fill(&selection, &fetched, &mut buffer)?;
        return Ok(Value::Tensor(Tensor::new(grid.header.dtype, output, buffer)?));
    }
    let tile = only(tiles)?;
    if !column.htype().sequence {
        return decode_piece(column, shape, indices, tile.codec, tile.bytes);
    }
    if tile.codec != SEQUENCE {
        return Err(wrong_codec(column, tile.codec));
    }
    let frames = read_sequence(tile.bytes)?;
    if shape != [frames.len() as u64] {
        let detail = format!("{} elements where the shape is {shape:?}", frames.len());
        return Err(SampleError::corrupt("sequence", detail));
    }
    let picked = Picked::of(shape, indices)?;
    let values = picked.places.iter().map(|place| {
        let frame = &frames[*place as usize];
        decode_piece(column, &frame.shape, picked.rest, frame.codec, frame.bytes)
            .map_err(|source| SampleError::Element { index: *place as usize, source: Box::new(source) })
    });
    picked.finish(values.collect::<Result<_, _>>()?)
}

/// The codec and the stored bytes of each element of a sequence: whole files, where it holds such.
///
/// Fails with a corrupt error if the bytes are no sequence.
pub fn sequence_elements<'a>(tile: &TileRef<'a>) -> Result<Vec<(&'a str, &'a [u8])>, SampleError> {
    match tile.codec {
        SEQUENCE => {
            Ok(read_sequence(tile.bytes)?.into_iter().map(|frame| (frame.codec, frame.bytes)).collect())
        }
        other => Err(SampleError::corrupt("sequence", format!("the codec {other:?}"))),
    }
}

/// The dtype that a whole sample of one tensor decodes to: that of the column, or of the file itself where the column
/// [lets files keep theirs](Column::files_keep_dtype).
///
/// Fails with a corrupt error if the bytes do not hold such a sample.
pub fn sample_dtype(column: &Column, tiles: &[TileRef<'_>]) -> Result<DType, SampleError> {
    if !column.files_keep_dtype() {
        return column.known_dtype();
    }
    let tile = only(tiles)?;
    match stored_codec(column, tile.codec)? {
        StoredCodec::File(_) => file_dtype(column, tile.bytes),
        _ => column.known_dtype(),
    }
}

/// Decodes a whole sample of one tensor into `out`, which has exactly its length: for batches of one shape. Elements
/// that are not compressed are copied once, most media are decoded in place.
///
/// Fails as [`decode_blob`] does; `out` may then be partly written.
pub fn decode_blob_into(
    column: &Column,
    shape: &[u64],
    tiles: &[TileRef<'_>],
    out: &mut [u8],
) -> Result<(), SampleError> {
    check_form(column, Form::Blob)?;
    if column.htype().sequence || matches!(column.rules().holds, Holds::Polygons | Holds::Bytes) {
        let asked = "one tensor";
        return Err(SampleError::WrongForm { htype: column.htype().to_string(), found: "several", asked });
    }
    let dtype = sample_dtype(column, tiles)?;
    let expected = Shape::new(shape)?.byte_len(dtype)?;
    if out.len() != expected {
        return Err(TensorError::WrongLength { what: "the sample", expected, found: out.len() }.into());
    }
    if let Some(grid) = Grid::of(column, shape)? {
        let selection = Selection::all(&grid.header.shape);
        let wanted = grid.wanted(None)?;
        return grid.fill(&selection, &grid.fetched(&wanted, tiles)?, out);
    }
    let tile = only(tiles)?;
    match stored_codec(column, tile.codec)? {
        StoredCodec::File(format) => decode_file_into(column, shape, format, tile.bytes, out),
        StoredCodec::Elements(codec) => unpack_into(codec, dtype, shape, tile.bytes, out),
        StoredCodec::Polygons => Err(wrong_codec(column, tile.codec)),
    }
}

/// The scalars of many rows as a tensor of one axis.
///
/// Fails with an invalid error if the column holds its scalars otherwise, with a corrupt one if a number is out of
/// the range of its dtype.
pub fn decode_scalars(column: &Column, scalars: Scalars<'_>) -> Result<Tensor, SampleError> {
    let (form, count) = match scalars {
        Scalars::Int(values) => (Form::Int, values.len()),
        Scalars::Float(values) => (Form::Float, values.len()),
        Scalars::Real(values) => (Form::Real, values.len()),
    };
    check_form(column, form)?;
    let dtype = column.known_dtype()?;
    let buffer = match (scalars, dtype) {
        // The same bits: one copy.
        (Scalars::Int(values), DType::I64 | DType::U64) => Buffer::from_elements(values),
        (Scalars::Float(values), DType::F32) => Buffer::from_elements(values),
        (Scalars::Real(values), DType::F64) => Buffer::from_elements(values),
        (Scalars::Int(values), DType::U32) => narrowed(values, |value| value as u32, i64::from)?,
        (Scalars::Int(values), DType::I32) => narrowed(values, |value| value as i32, i64::from)?,
        (Scalars::Int(values), _) => Buffer::from_slice(&ints_to_values(dtype, values)?),
        (Scalars::Float(values), _) => Buffer::from_slice(&floats_to_values(dtype, values)?),
        (Scalars::Real(values), _) => Buffer::from_slice(&reals_to_values(dtype, values)?),
    };
    Ok(Tensor::new(dtype, Shape::new([count as u64])?, buffer)?)
}

/// The same of scalars that lie one after the other in memory of their own, which becomes the tensor's where the column's
/// dtype has the same bits: `i64` for [`Form::Int`], the bits of `f32` for [`Form::Float`], those of `f64` for
/// [`Form::Real`].
pub fn decode_scalar_memory(column: &Column, form: Form, memory: Buffer) -> Result<Tensor, SampleError> {
    check_form(column, form)?;
    let dtype = column.known_dtype()?;
    match (form, dtype) {
        (Form::Int, DType::I64 | DType::U64) | (Form::Float, DType::F32) | (Form::Real, DType::F64) => {
            let count = memory.len() / dtype.size_bytes();
            Ok(Tensor::new(dtype, Shape::new([count as u64])?, memory)?)
        }
        (Form::Float, _) => decode_scalars(column, Scalars::Float(memory.cast())),
        (Form::Real, _) => decode_scalars(column, Scalars::Real(memory.cast())),
        (Form::Int | Form::Text | Form::Blob, _) => decode_scalars(column, Scalars::Int(memory.cast())),
    }
}

/// One scalar as a tensor of no axes. Fails as [`decode_scalars`] does, and for what is no scalar.
pub fn decode_scalar(column: &Column, stored: &Stored<'_>) -> Result<Tensor, SampleError> {
    let one = match stored {
        Stored::Int(value) => decode_scalars(column, Scalars::Int(&[*value])),
        Stored::Float(value) => decode_scalars(column, Scalars::Float(&[*value])),
        Stored::Real(value) => decode_scalars(column, Scalars::Real(&[*value])),
        Stored::Missing | Stored::Text(_) | Stored::Blob(_) => {
            check_form(column, Form::Int)?;
            Err(SampleError::corrupt("scalar", "no number"))
        }
    }?;
    Ok(Tensor::new(one.dtype(), Shape::default(), one.into_buffer())?)
}

/// The value of a column of form [`Form::Text`].
///
/// Fails with a corrupt error if the text is not the JSON that the column holds.
pub fn decode_text(column: &Column, text: &str) -> Result<Value, SampleError> {
    check_form(column, Form::Text)?;
    let htype = column.htype();
    let one = |text: String| if htype.link { Value::Link(text) } else { Value::Text(text) };
    let is_plain = htype.link || htype.base == Base::Text || column.is_wide();
    if is_plain && !htype.sequence {
        return Ok(one(text.to_owned()));
    }
    let corrupt = |detail: String| SampleError::corrupt("JSON sample", detail);
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    let element = |value: serde_json::Value| match (is_plain, value) {
        (true, serde_json::Value::String(text)) => Ok(one(text)),
        (false, value) if is_of(htype.base, &value) => Ok(Value::Json(value)),
        (_, other) => {
            Err(corrupt(format!("{} where a {htype} belongs", crate::sample::describe_json(&other))))
        }
    };
    match (htype.sequence, value) {
        (false, value) => element(value),
        (true, serde_json::Value::Array(items)) => {
            Ok(Value::Sequence(items.into_iter().map(element).collect::<Result<_, _>>()?))
        }
        (true, _) => Err(corrupt(format!("no list where a {htype} belongs"))),
    }
}

fn check_form(column: &Column, asked: Form) -> Result<(), SampleError> {
    let found = column.form();
    if found == asked {
        return Ok(());
    }
    let (found, asked) = (found.name(), asked.name());
    Err(SampleError::WrongForm { htype: column.htype().to_string(), found, asked })
}

fn wrong_codec(column: &Column, codec: &str) -> SampleError {
    SampleError::corrupt("sample", format!("the codec {codec:?} in a column of {}", column.htype()))
}

fn only<'t, 'a>(tiles: &'t [TileRef<'a>]) -> Result<&'t TileRef<'a>, SampleError> {
    match tiles {
        [tile] => Ok(tile),
        _ => Err(SampleError::corrupt("tiles", format!("{} of them where one belongs", tiles.len()))),
    }
}

/// Numbers as a narrower type; fails if one is out of its range.
fn narrowed<T: lacus_tensor::Element>(
    values: &[i64],
    narrow: impl Fn(i64) -> T,
    widen: impl Fn(T) -> i64,
) -> Result<Buffer, SampleError> {
    let mut buffer = Buffer::for_overwrite(size_of::<T>() * values.len());
    // One pass without branches, which the compiler makes vectors of.
    let mut changed = 0;
    for (out, &value) in buffer.cast_mut::<T>().iter_mut().zip(values) {
        *out = narrow(value);
        changed |= value ^ widen(*out);
    }
    match changed {
        0 => Ok(buffer),
        _ => Err(SampleError::corrupt("scalar", "a number out of the range of the dtype")),
    }
}

/// How the bytes of one piece are to be read.
enum StoredCodec {
    File(Format),
    Elements(Codec),
    Polygons,
}

fn stored_codec(column: &Column, codec: &str) -> Result<StoredCodec, SampleError> {
    let holds = column.rules().holds;
    if let Some(format) = Format::ALL.into_iter().find(|format| format.name() == codec) {
        return match holds {
            Holds::Media(family) if family == format.family() => Ok(StoredCodec::File(format)),
            _ => Err(wrong_codec(column, codec)),
        };
    }
    match (codec, holds) {
        (POLYGON, Holds::Polygons) => Ok(StoredCodec::Polygons),
        (SEQUENCE | POLYGON, _) | (_, Holds::Polygons) => Err(wrong_codec(column, codec)),
        _ => match codec.parse() {
            Ok(Codec::Packed) => Err(wrong_codec(column, codec)),
            Ok(codec) => Ok(StoredCodec::Elements(codec)),
            Err(_) => Err(SampleError::Unknown { what: "codec", found: codec.to_owned() }),
        },
    }
}

/// Decodes one sample, or one element of a sequence, that lies in one piece.
fn decode_piece(
    column: &Column,
    dims: &[u64],
    indices: &[Index],
    codec: &str,
    bytes: &[u8],
) -> Result<Value, SampleError> {
    let codec = stored_codec(column, codec)?;
    if let StoredCodec::Polygons = codec {
        let [count] = *dims else {
            return Err(SampleError::corrupt("polygons", format!("of shape {dims:?}")));
        };
        // Bytes bound their number before a list of places is made.
        if count > bytes.len() as u64 {
            return Err(SampleError::corrupt("polygons", format!("{count} in {} bytes", bytes.len())));
        }
        let picked = Picked::of(dims, indices)?;
        let outlines = decode_polygons(column, bytes, count, picked.places.iter().copied())?;
        let select = |outline: Tensor| match picked.rest {
            [] => Ok(Value::Tensor(outline)),
            rest => {
                let selection = Selection::resolve(outline.shape(), rest)?;
                Ok(Value::Tensor(outline.as_ref().select(&selection)?))
            }
        };
        return picked.finish(outlines.into_iter().map(select).collect::<Result<_, SampleError>>()?);
    }
    let shape = Shape::new(dims)?;
    let selection = match indices {
        [] => None,
        _ => Some(Selection::resolve(&shape, indices)?),
    };
    let codec = match codec {
        StoredCodec::File(format) => {
            return Ok(Value::Tensor(decode_file(column, dims, selection.as_ref(), format, bytes)?));
        }
        StoredCodec::Elements(codec) => codec,
        StoredCodec::Polygons => return Err(wrong_codec(column, POLYGON)),
    };
    let dtype = column.known_dtype()?;
    let length = shape.byte_len(dtype)?;
    if codec == Codec::Raw && bytes.len() == length {
        return Ok(value_of(
            column,
            match selection {
                Some(selection) => TensorRef::contiguous(dtype, &shape, bytes)?.select(&selection)?,
                None => Tensor::new(dtype, shape, Buffer::from_slice(bytes))?,
            },
        ));
    }
    if codec != Codec::Raw {
        check_claim(bytes.len(), length)?;
    } else {
        let detail = format!("{} bytes where {length} belong", bytes.len());
        return Err(SampleError::corrupt("raw sample", detail));
    }
    let mut buffer = Buffer::try_for_overwrite(length)?;
    unpack_into(codec, dtype, dims, bytes, &mut buffer)?;
    let tensor = Tensor::new(dtype, shape, buffer)?;
    Ok(value_of(
        column,
        match selection {
            Some(selection) => tensor.as_ref().select(&selection)?,
            None => tensor,
        },
    ))
}

/// Elements as the value that the column holds: bytes, or a tensor. A single byte, picked by its place, is a number, as in
/// Python.
fn value_of(column: &Column, tensor: Tensor) -> Value {
    match column.rules().holds == Holds::Bytes && tensor.shape().rank() > 0 {
        true => Value::Bytes(tensor.bytes().to_vec()),
        false => Value::Tensor(tensor),
    }
}

/// Which elements of a list the first index picks, and what is left for each of them.
struct Picked<'i> {
    places: Vec<u64>,
    rest: &'i [Index],
    /// The index was an integer: there is one value, not a list of one.
    single: bool,
}

impl<'i> Picked<'i> {
    fn of(dims: &[u64], indices: &'i [Index]) -> Result<Picked<'i>, SampleError> {
        let count = dims.first().copied().unwrap_or(0);
        let (first, rest) = match indices {
            [] | [Index::Ellipsis] => {
                return Ok(Picked { places: (0..count).collect(), rest: &[], single: false });
            }
            [first, rest @ ..] => (first, rest),
        };
        let selection = match first {
            Index::NewAxis | Index::Ellipsis => None,
            _ => Some(Selection::resolve(&Shape::new([count])?, std::slice::from_ref(first))?),
        };
        let single =
            matches!(first, Index::At(_)) || matches!(first, Index::List { dims, .. } if dims.is_empty());
        let places =
            match selection.as_ref().map(|selection| (selection.groups(), selection.output_shape().rank())) {
                Some(([Group::Range { start, step, len, .. }], 0 | 1)) => {
                    Some((0..*len).map(|k| start.wrapping_add_signed(step.wrapping_mul(k as i64))).collect())
                }
                Some(([Group::Gather { coords, .. }], 1)) => coords.first().cloned(),
                _ => None,
            };
        match places {
            Some(places) => Ok(Picked { places, rest, single }),
            None => {
                let detail =
                    "the first index of a sequence is an integer, a slice, or a list or mask of one axis";
                Err(SampleError::spec("index", detail))
            }
        }
    }

    fn finish(&self, mut values: Vec<Value>) -> Result<Value, SampleError> {
        match self.single {
            true => values.pop().ok_or_else(|| SampleError::corrupt("sequence", "no element")),
            false => Ok(Value::Sequence(values)),
        }
    }
}

/// The tiles of one sample.
struct Grid {
    header: Header,
    sides: Vec<u64>,
}

/// A tile that is there, where it lies, and its bytes.
type Fetched<'a> = (Coords, Codec, &'a [u8]);

impl Grid {
    fn of(column: &Column, shape: &[u64]) -> Result<Option<Grid>, SampleError> {
        let Some(sides) = column.tile_shape(shape) else { return Ok(None) };
        let header = Header {
            dtype: column.known_dtype()?,
            shape: Shape::new(shape)?,
            layout: Layout::DenseChunks { chunk_shape: sides.clone() },
            nnz: None,
            compression: lacus_layout::Compression::None,
            reasons: Vec::new(),
        };
        Ok(Some(Grid { header, sides }))
    }

    /// The places that hold something selected, in order.
    fn wanted(&self, selection: Option<&Selection>) -> Result<Vec<Vec<u64>>, SampleError> {
        let dims = self.header.shape.dims();
        let bounds = match selection {
            None => dims.iter().map(|size| (0, *size)).collect(),
            Some(selection) => match selection.bounding_box() {
                Some(bounds) => bounds,
                None => return Ok(Vec::new()),
            },
        };
        let ranges: Vec<_> = bounds
            .iter()
            .zip(&self.sides)
            .map(|((first, end), side)| first / side..end.div_ceil(*side))
            .collect();
        let mut places = coordinates(&ranges)?;
        if let Some(selection) = selection.filter(|selection| !selection.is_all()) {
            places.retain(|place| dense_copy(&self.header, &coords(place), selection).is_some());
        }
        Ok(places)
    }

    fn fetched<'a>(
        &self,
        wanted: &[Vec<u64>],
        tiles: &[TileRef<'a>],
    ) -> Result<Vec<Fetched<'a>>, SampleError> {
        let by_place: HashMap<&[u64], &TileRef<'a>> =
            tiles.iter().map(|tile| (&tile.coords[..], tile)).collect();
        let fetched = |place: &Vec<u64>| {
            let tile = by_place.get(&place[..]);
            let tile =
                tile.ok_or_else(|| SampleError::corrupt("tiles", format!("there is none at {place:?}")))?;
            let codec = match tile.codec.parse() {
                Ok(codec @ (Codec::Raw | Codec::Zstd | Codec::ShuffleZstd { .. })) => codec,
                _ => return Err(SampleError::Unknown { what: "codec", found: tile.codec.to_owned() }),
            };
            Ok((coords(place), codec, tile.bytes))
        };
        wanted.iter().map(fetched).collect()
    }

    /// Decodes tiles to their places in the selection's output.
    fn fill(&self, selection: &Selection, tiles: &[Fetched<'_>], out: &mut [u8]) -> Result<(), SampleError> {
        let dtype = self.header.dtype;
        let mut decoded = Vec::new();
        for (coords, codec, bytes) in tiles {
            let (_, extent) = chunk_extent(&self.header, coords)?;
            let Some(copy) = dense_copy(&self.header, coords, selection) else { continue };
            if let Some(place) = copy.whole_run().and_then(|run| out.get_mut(run)) {
                unpack_into(*codec, dtype, &extent, bytes, place)?;
                continue;
            }
            let length = Shape::new(&extent[..])?.byte_len(dtype)?;
            let elements = match codec {
                Codec::Raw if bytes.len() == length => bytes,
                codec => {
                    decoded.resize(length, 0);
                    unpack_into(*codec, dtype, &extent, bytes, &mut decoded)?;
                    &decoded[..]
                }
            };
            copy.scatter(elements, &Target::new(out))?;
        }
        Ok(())
    }
}

fn coords(place: &[u64]) -> Coords {
    let mut signed = [0; lacus_tensor::MAX_RANK];
    for (signed, at) in signed.iter_mut().zip(place) {
        *signed = *at as i64;
    }
    Coords::new(&signed[..place.len().min(signed.len())]).unwrap_or_default()
}
