//! What is a sample, and how is it stored? Typed columns, samples, and what a table row holds of them.
//!
//! ```text
//! ColumnSpec ─checked→ Column ─header→ ColumnHeader, kept by the table, and back
//! Sample ─encode→ Stored: a number, a text, or a Blob of tiles         one table row, or one per tile
//! shape + indices ─tiles_wanted→ coordinates ─(fetched)→ TileRefs ─decode_blob→ Value
//! ```
//!
//! ```
//! use lacus_sample::{Column, ColumnSpec, Sample, Stored, TileRef, Value, decode_blob, encode};
//! use lacus_tensor::{Buffer, DType, Shape, Tensor, parse_indices};
//!
//! let column = Column::new(&ColumnSpec { htype: Some("image".into()), ..ColumnSpec::default() })?;
//! let picture = Tensor::new(DType::U8, Shape::new([4, 6, 3])?, Buffer::from_slice(&[7; 72]))?;
//! let Stored::Blob(blob) = encode(&column, Sample::Tensor(picture.as_ref()))? else { unreachable!() };
//! assert_eq!((blob.shape.as_slice(), blob.tiles[0].codec), (&[4, 6, 3][..], "png"));
//!
//! let tile = TileRef { coords: vec![], codec: blob.tiles[0].codec, bytes: &blob.tiles[0].bytes };
//! let part = decode_blob(&column, &blob.shape, &parse_indices("1:3, ::2")?, &[tile])?;
//! assert!(matches!(part, Value::Tensor(part) if part.shape().dims() == [2, 3, 3]));
//! let wrong = encode(&column, Sample::Text("a.png".into())).unwrap_err().to_string();
//! assert!(wrong.starts_with("image: expected uint8 of shape (height, width, channels)"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types
//!
//! | htype | dtype (others it may have) | shape of a sample | `auto` keeps it as | options |
//! |---|---|---|---|---|
//! | `generic` | the first sample's | any | zstd where that pays | |
//! | `image` | uint8 (uint16); files their own | `(height, width, channels)`, 1 to 4 channels | files as they come, arrays as PNG | `quality` |
//! | `image.gray` | uint8 (uint16); files their own | `(height, width)` | the same | `quality` |
//! | `video` | uint8 | `(frames, height, width, 3)` | files as they come; no arrays | |
//! | `audio` | float32 (uint8, int16, int32, float64) | `(frames, channels)`, or `(frames,)` if declared | files as they come, arrays as WAV | `sample_rate` |
//! | `class_label` | uint32 (integers) | `()`, or `(labels,)` if declared | an integer | `class_names` |
//! | `text` | | | text | |
//! | `json`, `list`, `tag` | | | JSON text | |
//! | `bbox` | float32 (float64, float16, int32, int64) | `(boxes, 4)`, or `(4,)` if declared | zstd where that pays | `coords`, `format`, `bbox_type` |
//! | `bbox.3d` | the same | `(boxes, 7 or 8)` | the same | |
//! | `binary_mask` | bool | `(height, width)` or `(height, width, masks)` | the same | `class_names` |
//! | `segment_mask` | uint32 (uint8, uint16) | `(height, width)` | the same | `class_names` |
//! | `instance_label` | uint32 (integers) | any | the same | `class_names` |
//! | `keypoints` | int32 (int64, float32, float64, float16) | `(numbers, things)` | the same | `keypoints`, `connections` |
//! | `polygon` | float32 (as bbox) | `(polygons,)`: outlines of `(points, 2 or 3)` | one list of all points | |
//! | `point` | float32 (as bbox) | `(points, 2 or 3)` | zstd where that pays | |
//! | `embedding` | float32 (float64, float16, bfloat16) | `(size,)` | elements as they are | `size` |
//! | `dicom` | each file its own | that of the file | files as they come; no arrays | |
//! | `bytes` | uint8 | `(bytes,)` | zstd where that pays | |
//! | `date` | int32 | `()` | an integer: days since 1970-01-01 | |
//! | `timestamp` | int64 | `()` | an integer: units since 1970-01-01T00:00:00, of UTC if it has a time zone | `unit`, `timezone` |
//! | `time` | int64 | `()` | an integer: units since midnight | `unit` |
//! | `duration` | int64 | `()` | an integer: units | `unit` |
//! | `decimal` | int64; none with more than 18 digits | `()` | an integer: the number times ten to the power of the scale; text with more than 18 digits | `precision`, `scale` |
//! | `sequence[t]` | as t | `(elements,)` | each as t, one after the other | as t |
//! | `link[t]` | as t | as t, when resolved | a URL | as t |
//!
//! Links lead to samples that are files or made from files: image, image.gray, video, audio, dicom and the two masks.
//!
//! # What fits
//!
//! - **Shape.** As above, and as declared. One missing axis of size one is added: the channel of a gray picture or of
//!   mono sound, the list around a single box or point.
//! - **Dtype.** Integers become other integers where every value fits, and floats where every value is exact; floats
//!   become wider ones. Narrower ones only where Python's doubles are meant (bbox, bbox.3d, keypoints, polygon, point,
//!   embedding), and for numbers given as [`Sample::Json`], which have no dtype. Bools stay bools.
//! - **Files.** One that has the column's compression is stored as it is, after it was looked over for damage. Pictures and
//!   DICOM keep the dtype of the file unless one was declared for the column. Others are
//!   decoded and encoded anew. Sound keeps its file whatever its depth, and has the column's dtype when read, at full
//!   scale. A generic column, a mask and an instance label are made from the decoded file.
//! - **Values.** Boxes have no negative sizes, fractions lie between 0 and 1, classes are among the names.
//!
//! # How it is stored
//!
//! Elements are `raw`, `zstd` or `shuffle<w>+zstd`, as dense chunks are. `auto` compresses from 512 bytes on if that
//! saves an eighth, but never embeddings. Samples over 4 MiB that are not files are tiled ([`Tiling`]). The bytes of
//! sequences (codec `sequence`) and polygons (codec `polygon`) are:
//!
//! ```text
//! sequence   varint elements │ each: varint rank, its sizes │ length and name of the codec │ varint length │ bytes
//! polygon    varint polygons │ varint numbers per point │ per polygon: varint points │ all numbers
//! ```
//!
//! There is no I/O and no clock here; links are followed by somebody else. Stored bytes are never trusted: decoding
//! ends in a value or in an error.

mod error;

mod htype;

mod rules;
mod tiling;

mod calendar;
mod decimal;

mod logical;

mod options;

mod column;
mod joined_classes;

mod column_header;

mod literal;
mod sample;

mod elements;

mod fit;
mod pack;

mod frames;
mod media;

mod polygon;

mod stored;

mod count;

mod text;

mod encode;

mod decode;

pub use column::{Column, ColumnSpec, Compression, Form};
pub use column_header::ColumnHeader;
pub use decimal::Scaled;
pub use decode::{
    Scalars, TileRef, Value, decode_blob, decode_blob_into, decode_scalar, decode_scalar_memory,
    decode_scalars, decode_text, is_tiled, sample_dtype, sequence_elements, tiles_wanted,
};
pub use encode::{check_linked, encode, encode_scalars};
pub use error::SampleError;
pub use htype::{Base, HType};
pub use joined_classes::{joined_class_names, moved_classes};
pub use logical::{Logical, Unit};
pub use sample::{Sample, Samples, infer};
pub use stored::{Blob, Stored, Tile};
pub use tiling::Tiling;
