//! DICOM: the pixels as they are stored, and the tags that describe them. No tag that could name a patient
//! is told.
//!
//! | frames | samples per pixel | decoded |
//! |---|---|---|
//! | 1 | 1 | `(height, width)` |
//! | 1 | 3 | `(height, width, 3)` |
//! | more | 1 | `(frames, height, width)` |
//! | more | 3 | `(frames, height, width, 3)` |
//!
//! The dtype follows bits allocated and pixel representation; masks of one bit become `uint8` of 0 and 1.
//! Values are raw: neither rescaled, nor windowed,
//! nor inverted for MONOCHROME1; the tags for that are among the details. Pixels are read plain, RLE or JPEG
//! (lossy of 8 bits, or lossless), not JPEG 2000 or JPEG-LS. Always whole.

mod elements;
mod pixels;

use std::ops::Range;

use lacus_tensor::DType;

use crate::error::Cause;
use crate::medium::{Details, Layout, Medium, note};
use elements::{Elements, Stored, Tag};

const MODALITY: Tag = (0x0008, 0x0060);
const SAMPLES: Tag = (0x0028, 0x0002);
const PHOTOMETRIC: Tag = (0x0028, 0x0004);
const PLANAR: Tag = (0x0028, 0x0006);
const FRAMES: Tag = (0x0028, 0x0008);
const ROWS: Tag = (0x0028, 0x0010);
const COLUMNS: Tag = (0x0028, 0x0011);
const BITS_ALLOCATED: Tag = (0x0028, 0x0100);
const BITS_STORED: Tag = (0x0028, 0x0101);
const REPRESENTATION: Tag = (0x0028, 0x0103);

/// Tags with one number each, which say what the pixels mean.
const MEANINGS: [(Tag, &str); 5] = [
    ((0x0018, 0x0050), "slice_thickness"),
    ((0x0028, 0x1050), "window_center"),
    ((0x0028, 0x1051), "window_width"),
    ((0x0028, 0x1052), "rescale_intercept"),
    ((0x0028, 0x1053), "rescale_slope"),
];

/// What the tags before the pixels say.
pub(crate) struct Dicom {
    rows: u16,
    columns: u16,
    frames: u32,
    samples: u16,
    bits_allocated: u16,
    bits_stored: u16,
    is_signed: bool,
    /// Whether a plain pixel's samples lie in planes one after the other.
    is_planar: bool,
    photometric: String,
    modality: Option<String>,
    transfer_syntax: String,
    meanings: Vec<(&'static str, f64)>,
}

/// Reads the tags up to the pixels.
pub(crate) fn open(bytes: &[u8]) -> Result<Dicom, Cause> {
    let elements = read(bytes)?;
    let number = |(group, element): Tag, name: &str| {
        elements.short((group, element)).ok_or_else(|| {
            Cause::malformed(format!("the element {group:04x},{element:04x} ({name}) is missing"))
        })
    };
    let bits_allocated = number(BITS_ALLOCATED, "bits allocated")?;
    let frames = elements.text(FRAMES).filter(|text| !text.is_empty());
    let frames = frames.map_or(Ok(1), |text| {
        text.parse().map_err(|_| Cause::malformed(format!("{text:?} as the number of frames")))
    })?;
    let dicom = Dicom {
        rows: number(ROWS, "rows")?,
        columns: number(COLUMNS, "columns")?,
        frames,
        samples: elements.short(SAMPLES).unwrap_or(1),
        bits_allocated,
        bits_stored: elements.short(BITS_STORED).unwrap_or(bits_allocated),
        is_signed: elements.short(REPRESENTATION) == Some(1),
        is_planar: elements.short(PLANAR) == Some(1),
        photometric: elements.text(PHOTOMETRIC).unwrap_or_default(),
        modality: elements.text(MODALITY),
        meanings: MEANINGS
            .iter()
            .filter_map(|&(tag, name)| Some((name, elements.text(tag)?.parse().ok()?)))
            .collect(),
        transfer_syntax: elements.transfer_syntax,
    };
    if dicom.rows == 0 || dicom.columns == 0 || dicom.frames == 0 {
        return Err(Cause::malformed(format!(
            "{} pictures of {} × {} pixels",
            dicom.frames, dicom.columns, dicom.rows
        )));
    }
    if !matches!(dicom.samples, 1 | 3) {
        return Err(Cause::unsupported(format!("{} samples per pixel; read are 1 and 3", dicom.samples)));
    }
    if !matches!((dicom.bits_allocated, dicom.samples), (8 | 16 | 32, _) | (1, 1)) {
        return Err(Cause::unsupported(format!(
            "{} bits per sample; read are 1, 8, 16 and 32",
            dicom.bits_allocated
        )));
    }
    Ok(dicom)
}

/// Whether the pixels are there, and can be decoded.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    let dicom = open(bytes)?;
    match read(bytes)?.pixels()? {
        Stored::Plain { bytes, .. } => pixels::check_plain(&dicom, bytes, dicom.layout().bytes()),
        Stored::Fragments(fragments) => pixels::check_fragments(&dicom, &fragments),
    }
}

fn read(bytes: &[u8]) -> Result<Elements<'_>, Cause> {
    Elements::read(bytes, |tag| tag.0 == ROWS.0 || tag == MODALITY || tag == MEANINGS[0].0)
}

impl Dicom {
    fn dtype(&self) -> DType {
        match (self.bits_allocated, self.is_signed) {
            (1, _) | (8, false) => DType::U8,
            (8, true) => DType::I8,
            (16, false) => DType::U16,
            (16, true) => DType::I16,
            (_, false) => DType::U32,
            (_, true) => DType::I32,
        }
    }
}

impl Medium for Dicom {
    fn layout(&self) -> Layout {
        let (height, width, samples) = (self.rows.into(), self.columns.into(), self.samples.into());
        match self.frames {
            1 => Layout::image(self.dtype(), height, width, samples),
            frames => Layout::video(self.dtype(), frames.into(), height, width, samples),
        }
    }

    fn details(&self, details: &mut Details) {
        if let Some(modality) = &self.modality {
            note(details, "modality", modality.as_str());
        }
        note(details, "rows", self.rows);
        note(details, "columns", self.columns);
        note(details, "frames", self.frames);
        note(details, "samples_per_pixel", self.samples);
        note(details, "photometric_interpretation", self.photometric.as_str());
        note(details, "bits_allocated", self.bits_allocated);
        note(details, "bits_stored", self.bits_stored);
        note(details, "transfer_syntax", self.transfer_syntax.as_str());
        for &(name, value) in &self.meanings {
            note(details, name, value);
        }
    }

    fn decode(&self, bytes: &[u8], _rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let elements = read(bytes)?;
        match elements.pixels()? {
            Stored::Plain { bytes, is_words } if elements.is_big_endian() => {
                pixels::plain(self, &pixels::little_endian(self, bytes, is_words), out)
            }
            Stored::Plain { bytes, .. } => pixels::plain(self, bytes, out),
            Stored::Fragments(fragments) => pixels::compressed(self, &fragments, out),
        }
    }
}

#[cfg(test)]
mod tests;
