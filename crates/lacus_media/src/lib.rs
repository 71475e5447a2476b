//! What is in a media file? Images, audio, video, DICOM: bytes to facts and tensors, tensors to bytes.
//!
//! ```text
//! bytes ─sniff→ Format          bytes ─probe→ Facts: dtype, shape, details      headers only
//! bytes ─verify→ cut off or damaged, as far as that is seen without decoding
//! bytes ─decode, decode_into, decode_region→ elements                           within Limits
//! bytes ─decode_part→ a part of a picture, a JPEG also at a reduced size        within Limits
//! tensor ─encode→ bytes
//! ```
//!
//! ```
//! use lacus_media::{EncodeOptions, Format, Limits, decode, decode_region, encode, probe};
//! use lacus_tensor::{Buffer, DType, Shape, Tensor};
//!
//! let picture = Tensor::new(DType::U8, Shape::new([2, 2, 3])?, Buffer::from_slice(&[7; 12]))?;
//! let bytes = encode(picture.as_ref(), Format::Png, &EncodeOptions::default())?;
//! let facts = probe(&bytes)?;
//! assert_eq!((facts.format, facts.shape.as_slice()), (Format::Png, &[2, 2, 3][..]));
//! assert_eq!(decode(&bytes, &Limits::default())?, picture);
//! assert_eq!(decode_region(&bytes, &[1..2], &Limits::default())?.shape().to_string(), "(1, 2, 3)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Pixels and samples come out as they are stored: the EXIF orientation is not applied, sound is not
//! rescaled, DICOM values are raw. Of animated images the first frame is decoded, and the others are counted.
//!
//! All functions are pure and hold no state, with one exception: pixels of videos come from the
//! [`ffmpeg`] program, through a temporary file. Foreign bytes never make this crate panic, nor allocate more
//! than in proportion to the file and the [`Limits`].

mod format;

mod error;

mod fields;
mod sniff;

mod medium;

mod limits;
mod raster;

mod jpeg;

mod bmp;
mod gif;
mod png;
mod tiff;
mod webp;

mod wav;

mod stream;

mod flac;

mod track;

mod mp4;
mod webm;

mod ffmpeg;

mod dicom;

mod open;

mod probe;

mod verify;

mod decode;
mod encode;

pub use decode::{PictureFacts, decode, decode_inks, decode_into, decode_part, decode_region};
pub use encode::{EncodeOptions, encode};
pub use error::{Cause, MediaError};
pub use ffmpeg::ffmpeg;
pub use format::{Family, Format};
pub use limits::Limits;
pub use medium::Part;
pub use probe::{Facts, probe};
pub use sniff::sniff;
pub use verify::verify;
