//! A column: its type and what was declared about it, checked once and never changed.
//!
//! ```
//! use lacus_sample::{Column, ColumnSpec, Form};
//! use lacus_tensor::DType;
//!
//! let embedding = Column::new(&ColumnSpec {
//!     htype: Some("embedding".into()),
//!     options: serde_json::from_str(r#"{"size": 768}"#)?,
//!     ..ColumnSpec::default()
//! })?;
//! assert_eq!((embedding.dtype(), embedding.fixed_shape()), (Some(DType::F32), Some(vec![768])));
//! assert_eq!(embedding.form(), Form::Blob);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::str::FromStr;

use lacus_layout::{CellColumn, cell_column};
use lacus_media::{Family, Format};
use lacus_tensor::{DType, MAX_RANK};
use serde_json::{Map, Value};

use crate::error::SampleError;
use crate::htype::{Base, HType};
use crate::logical::Logical;
use crate::options::{self, Settings};
use crate::rules::{Holds, Rules, rules};
use crate::tiling::Tiling;

/// What is asked of a new column. The default asks for nothing: a generic column of any shape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnSpec {
    /// The type, `generic` if not given.
    pub htype: Option<String>,
    /// The dtype, that of the type if not given.
    pub dtype: Option<DType>,
    /// The size of each axis that all samples share; of an element where a row holds a sequence.
    pub shape: Option<Vec<Option<u64>>>,
    /// `auto` (also if not given), `none`, `zstd`, `zstd:<level>`, or the name of a media format.
    pub compression: Option<String>,
    /// The options of the type.
    pub options: Map<String, Value>,
}

/// How samples are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Media files as they come, pictures given as arrays as PNG, sound as WAV; other tensors with zstd where that
    /// is worth it.
    Auto,
    /// Elements as they are.
    None,
    /// Elements with zstd.
    Zstd {
        /// zstd's level, from -7 (fastest) to 22 (smallest), never 0.
        level: i32,
    },
    /// Files of this format.
    Media(Format),
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::Auto => f.write_str("auto"),
            Compression::None => f.write_str("none"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
            Compression::Media(format) => f.write_str(format.name()),
        }
    }
}

impl FromStr for Compression {
    type Err = SampleError;

    fn from_str(text: &str) -> Result<Compression, SampleError> {
        if text == "auto" {
            return Ok(Compression::Auto);
        }
        if let Some(format) =
            Format::ALL.into_iter().find(|format| format.name() == text || format.extension() == text)
        {
            return Ok(Compression::Media(format));
        }
        match text.parse() {
            Ok(lacus_layout::Compression::None) => Ok(Compression::None),
            Ok(lacus_layout::Compression::Zstd { level }) => Ok(Compression::Zstd { level }),
            // Samples are packed one by one, where lz4 gains nothing over zstd.
            Ok(lacus_layout::Compression::Lz4) | Err(_) => {
                let formats = Format::ALL.map(Format::name).join(", ");
                let detail = format!(
                    "{text:?} is none of auto, none, zstd, zstd:<level from -7 to 22, not 0>, {formats}"
                );
                Err(SampleError::spec("compression", detail))
            }
        }
    }
}

/// How table rows hold a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A 64-bit integer: scalars of bool and the integers. Unsigned ones of 64 bits by their bits.
    Int,
    /// The bits of a float32: scalars of float16, bfloat16 and float32, widened.
    Float,
    /// The bits of a float64: scalars of it.
    Real,
    /// Text: texts as they are, JSON as its text, links as URLs, decimals of more than 18 digits.
    Text,
    /// Shape, codec and bytes: everything else.
    Blob,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Int => "an integer",
            Form::Float => "a float",
            Form::Real => "a double",
            Form::Text => "text",
            Form::Blob => "bytes",
        }
    }
}

/// A column: type, dtype, shape, compression and options, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    htype: HType,
    dtype: Option<DType>,
    /// Of files that are kept: somebody asked for this dtype, so they must have it, too.
    dtype_declared: bool,
    shape: Option<Vec<Option<u64>>>,
    compression: Compression,
    tiling: Tiling,
    options: Map<String, Value>,
    settings: Settings,
}

impl Column {
    /// Checks a wish. Fails with an invalid error that names the part of it that does not fit the type.
    pub fn new(spec: &ColumnSpec) -> Result<Column, SampleError> {
        let htype: HType = spec.htype.as_deref().unwrap_or("generic").parse()?;
        let rules = rules(htype.base);
        if htype.link && !rules.links {
            return Err(SampleError::spec(
                "htype",
                format!("{} samples are no files to link to", htype.base),
            ));
        }
        let (options, settings) = options::read(htype.base, &spec.options)?;
        let dtype = match settings.logical.as_ref().is_some_and(Logical::is_wide) {
            false => check_dtype(htype, rules, spec.dtype)?,
            true if spec.dtype.is_none() => None,
            true => {
                let why = "a decimal of more than 18 digits is kept as text and has none";
                return Err(SampleError::spec("dtype", why));
            }
        };
        let shape = check_shape(htype, rules, spec, settings.size)?;
        let compression = match &spec.compression {
            Some(text) => text.parse()?,
            None => Compression::Auto,
        };
        check_compression(htype, rules, compression, shape.as_deref())?;
        let tiling = Tiling::default();
        let mut column =
            Column { htype, dtype, dtype_declared: false, shape, compression, tiling, options, settings };
        // Other columns are bound to their dtype anyway.
        column.dtype_declared = spec.dtype.is_some() && column.is_kept_as_files();
        column.check_classes()?;
        Ok(column)
    }

    /// The type.
    pub fn htype(&self) -> HType {
        self.htype
    }

    /// The dtype of its tensors (of what they lead to, for links). `None` for text and JSON, and where it
    /// [is open](Column::is_open).
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// True when every file in it has the dtype that the file itself says, and nobody declared one: pictures and DICOM files
    /// that are kept as they are. Then [`dtype`](Column::dtype) is that of pictures given as arrays, and `None` where
    /// there are no arrays.
    pub fn files_keep_dtype(&self) -> bool {
        self.is_kept_as_files() && !self.dtype_declared
    }

    /// Whether rows hold pictures or DICOM as files.
    pub(crate) fn is_kept_as_files(&self) -> bool {
        let of_kind = matches!(self.rules().holds, Holds::Media(Family::Image | Family::Dicom));
        of_kind && matches!(self.compression, Compression::Auto | Compression::Media(_))
    }

    /// Whether somebody asked for the dtype of files.
    pub(crate) fn is_dtype_declared(&self) -> bool {
        self.dtype_declared
    }

    /// The column as it is when nobody asked for its dtype: for pictures that of arrays, for DICOM none.
    pub(crate) fn without_declared_dtype(self) -> Column {
        let dtype = self.dtype.filter(|_| !self.rules().dtypes.is_empty());
        Column { dtype_declared: false, dtype, ..self }
    }

    fn holds_media(&self) -> bool {
        matches!(self.rules().holds, Holds::Media(_))
    }

    /// True when the dtype is that of the first sample and there was none yet: [`infer`](crate::infer) and
    /// [`settle`](Column::settle) it before encoding. A column of links is not open: what they lead to may be.
    pub fn is_open(&self) -> bool {
        self.dtype.is_none() && rules(self.htype.base).open && !self.htype.link
    }

    /// The size of each axis, where samples share it. Of one element, where a row holds a sequence. `None` when
    /// even the rank is open, and for text and JSON.
    pub fn shape(&self) -> Option<&[Option<u64>]> {
        self.shape.as_deref()
    }

    /// The shape of every sample, when all of it was declared (and a row holds one tensor).
    pub fn fixed_shape(&self) -> Option<Vec<u64>> {
        match self.htype.sequence {
            true => None,
            false => self.shape.as_ref()?.iter().copied().collect(),
        }
    }

    /// How samples are kept.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The names of its classes; the place of one is its number.
    pub fn class_names(&self) -> &[String] {
        &self.settings.classes.names
    }

    /// What its integers mean, where they are dates, times or decimals. Of decimals with more than 18 digits, rows hold texts.
    pub fn logical(&self) -> Option<&Logical> {
        self.settings.logical.as_ref()
    }

    /// Whether rows hold decimals as text.
    pub(crate) fn is_wide(&self) -> bool {
        self.logical().is_some_and(Logical::is_wide)
    }

    /// The options of its type, in the one way they are kept.
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }

    /// When samples are tiled, and how.
    pub fn tiling(&self) -> Tiling {
        self.tiling
    }

    /// How rows hold it. That of an open column is known when it is settled.
    pub fn form(&self) -> Form {
        let rules = rules(self.htype.base);
        if self.htype.link || rules.holds == Holds::Text || self.is_wide() {
            return Form::Text;
        }
        let is_scalar = rules.holds == Holds::Numbers && self.shape.as_deref() == Some(&[]);
        match self.dtype.filter(|_| is_scalar && !self.htype.sequence).map(cell_column) {
            Some(CellColumn::Int) => Form::Int,
            Some(CellColumn::Float) => Form::Float,
            Some(CellColumn::Real) => Form::Real,
            Some(CellColumn::Data) | None => Form::Blob,
        }
    }

    /// The column with the dtype of its first sample, if it was open; else the same.
    pub fn settle(&self, dtype: DType) -> Column {
        let dtype = if self.is_open() { Some(dtype) } else { self.dtype };
        Column { dtype, ..self.clone() }
    }

    /// The column with these names behind those it has; known ones are left where they are.
    ///
    /// Fails if the type has no classes, or if there are more than its dtype can count.
    pub fn with_class_names<S: Into<String>>(
        &self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Column, SampleError> {
        let mut all: Vec<Value> = self.class_names().iter().cloned().map(Value::String).collect();
        let mut added = std::collections::HashSet::new();
        for name in names.into_iter().map(Into::into) {
            if self.settings.classes.place(&name).is_none() && added.insert(name.clone()) {
                all.push(Value::String(name));
            }
        }
        let mut options = self.options.clone();
        options.insert("class_names".to_owned(), Value::Array(all));
        let (options, settings) = options::read(self.htype.base, &options)?;
        let column = Column { options, settings, ..self.clone() };
        column.check_classes()?;
        Ok(column)
    }

    /// The column with other bounds for tiles. Only for one that has no samples yet: stored ones are read with the
    /// bounds they were written with.
    pub fn with_tiling(&self, tiling: Tiling) -> Column {
        Column { tiling, ..self.clone() }
    }

    /// The column that holds what the links of this one lead to.
    pub fn resolved(&self) -> Column {
        Column { htype: HType { link: false, ..self.htype }, ..self.clone() }
    }

    /// The column that holds one element of this one's sequences.
    pub fn element(&self) -> Column {
        Column { htype: HType { sequence: false, ..self.htype }, ..self.clone() }
    }

    /// Whether samples are media files, or made from such.
    pub fn holds_files(&self) -> bool {
        self.holds_media() && !self.htype.link
    }

    /// The same column for elements of another dtype that its type may have.
    pub(crate) fn of_dtype(&self, dtype: DType) -> Column {
        Column { dtype: Some(dtype), ..self.clone() }
    }

    pub(crate) fn rules(&self) -> &'static Rules {
        rules(self.htype.base)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The dtype, which the caller needs.
    pub(crate) fn known_dtype(&self) -> Result<DType, SampleError> {
        self.dtype.ok_or_else(|| SampleError::Open { htype: self.htype.to_string() })
    }

    /// The extent of a tile, for samples that are tiled. Media files never are, and sequences are one piece.
    pub(crate) fn tile_shape(&self, shape: &[u64]) -> Option<Vec<u64>> {
        let packed = match self.rules().holds {
            Holds::Numbers => true,
            Holds::Media(_) => matches!(self.compression, Compression::None | Compression::Zstd { .. }),
            Holds::Text | Holds::Polygons | Holds::Bytes => false,
        };
        match packed && !self.htype.sequence && !self.htype.link {
            true => self.tiling.tile_shape(shape, self.dtype?),
            false => None,
        }
    }

    /// What fits this column, for errors: `uint8 of shape (height, width, channels)`.
    pub(crate) fn expected(&self) -> String {
        self.expected_of(self.dtype.map_or("a tensor", DType::name))
    }

    /// The same for files, which may have another dtype than arrays.
    pub(crate) fn expected_file(&self) -> String {
        match self.files_keep_dtype() {
            true => self.expected_of("a file of any dtype"),
            false => self.expected(),
        }
    }

    fn expected_of(&self, dtype: &str) -> String {
        if self.rules().holds == Holds::Bytes {
            return "bytes".to_owned();
        }
        if let Some(logical) = self.logical() {
            return logical.expected();
        }
        let named = |axes: &[&str], shape: Option<&[Option<u64>]>| {
            let axis = |(k, name): (usize, &&str)| match shape.and_then(|shape| shape[k]) {
                Some(size) => size.to_string(),
                None => (*name).to_owned(),
            };
            match axes.iter().enumerate().map(axis).collect::<Vec<_>>() {
                names if names.len() == 1 => format!("({},)", names[0]),
                names => format!("({})", names.join(", ")),
            }
        };
        let shapes = match (&self.shape, self.rules().axes) {
            (None, []) => return format!("{dtype} of any shape"),
            (None, all) => all.iter().map(|axes| named(axes, None)).collect::<Vec<_>>().join(" or "),
            (Some(shape), all) => {
                let axes = all.iter().find(|axes| axes.len() == shape.len()).copied();
                let axes = axes.unwrap_or(&["any"; MAX_RANK][..shape.len()]);
                named(axes, Some(shape))
            }
        };
        format!("{dtype} of shape {shapes}")
    }

    /// The error for a sample that does not fit.
    pub(crate) fn misfit(&self, expected: impl Into<String>, found: impl Into<String>) -> SampleError {
        SampleError::DoesNotFit {
            htype: self.htype.to_string(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Labels must be able to count the classes.
    fn check_classes(&self) -> Result<(), SampleError> {
        let bits = match self.dtype {
            Some(dtype) if dtype.is_integer() => {
                let signed = dtype.name().starts_with("int");
                dtype.size_bytes() as u32 * 8 - u32::from(signed)
            }
            _ => return Ok(()),
        };
        let count = self.class_names().len() as u128;
        match count > 1u128 << bits {
            true => Err(SampleError::spec(
                "class_names",
                format!("{count} names are more than {} counts", self.dtype.map_or("", DType::name)),
            )),
            false => Ok(()),
        }
    }
}

fn check_dtype(htype: HType, rules: &Rules, wish: Option<DType>) -> Result<Option<DType>, SampleError> {
    let Some(wish) = wish else { return Ok(rules.dtypes.first().copied()) };
    if rules.holds == Holds::Text {
        return Err(SampleError::spec("dtype", format!("{} is no tensor and has none", htype.base)));
    }
    if rules.dtypes.is_empty() || rules.dtypes.contains(&wish) {
        return Ok(Some(wish));
    }
    let names: Vec<&str> = rules.dtypes.iter().map(|dtype| dtype.name()).collect();
    Err(SampleError::spec("dtype", format!("{} is of {}, not of {wish}", htype.base, names.join(" or "))))
}

fn check_shape(
    htype: HType,
    rules: &Rules,
    spec: &ColumnSpec,
    size: Option<u64>,
) -> Result<Option<Vec<Option<u64>>>, SampleError> {
    let base = htype.base;
    let refuse = |detail: String| Err(SampleError::spec("shape", detail));
    let shape = match (&spec.shape, size) {
        (Some(shape), Some(size)) if shape[..] != [Some(size)] => {
            return refuse(format!("it differs from the size {size}: give one of them"));
        }
        (Some(shape), _) => shape.clone(),
        (None, Some(size)) => vec![Some(size)],
        (None, None) => return Ok(rules.default_shape()),
    };
    if rules.default_shape().as_ref() == Some(&shape) {
        return Ok(Some(shape));
    }
    if matches!(rules.holds, Holds::Text | Holds::Polygons | Holds::Bytes) {
        return refuse(format!("{base} is no tensor and has none"));
    }
    if shape.len() > MAX_RANK {
        return refuse(format!("{} axes are more than the {MAX_RANK} a tensor has", shape.len()));
    }
    if shape.iter().flatten().any(|&size| size > i64::MAX as u64) {
        return refuse("an axis is longer than the longest possible (9223372036854775807)".to_owned());
    }
    if !rules.axes.is_empty() && !rules.axes.iter().any(|axes| axes.len() == shape.len()) {
        let ranks: Vec<String> = rules.axes.iter().map(|axes| axes.len().to_string()).collect();
        return refuse(format!("{base} has {} axes, not {}", ranks.join(" or "), shape.len()));
    }
    match shape.last() {
        Some(Some(last)) if !rules.last.is_empty() && !rules.last.contains(last) => {
            let sizes: Vec<String> = rules.last.iter().map(u64::to_string).collect();
            refuse(format!("the last axis of {base} has size {}, not {last}", sizes.join(" or ")))
        }
        _ => Ok(Some(shape)),
    }
}

fn check_compression(
    htype: HType,
    rules: &Rules,
    compression: Compression,
    shape: Option<&[Option<u64>]>,
) -> Result<(), SampleError> {
    let base = htype.base;
    let packs = matches!(compression, Compression::None | Compression::Zstd { .. });
    let fits = match rules.holds {
        _ if compression == Compression::Auto => true,
        _ if htype.link => false,
        Holds::Text | Holds::Polygons => compression == Compression::None,
        Holds::Numbers if shape == Some(&[]) => compression == Compression::None,
        Holds::Numbers | Holds::Bytes => packs,
        Holds::Media(family) => {
            let as_elements = packs && matches!(family, Family::Image | Family::Audio);
            as_elements || matches!(compression, Compression::Media(format) if format.family() == family)
        }
    };
    if fits {
        return Ok(());
    }
    let what = match (rules.holds, htype.link) {
        (_, true) => "links are kept as they are".to_owned(),
        (Holds::Numbers, _) if shape == Some(&[]) => format!("a scalar {base} is kept as it is"),
        (Holds::Numbers | Holds::Bytes, _) => format!("{base} takes auto, none or zstd"),
        (Holds::Text | Holds::Polygons, _) => format!("{base} takes auto or none"),
        (Holds::Media(family), _) => {
            let formats = Format::ALL.into_iter().filter(|format| format.family() == family);
            let mut names = vec!["auto"];
            if matches!(family, Family::Image | Family::Audio) {
                names.extend(["none", "zstd"]);
            }
            names.extend(formats.map(Format::name));
            format!("{base} takes one of {}", names.join(", "))
        }
    };
    Err(SampleError::spec("compression", format!("{compression} does not fit: {what}")))
}

impl Base {
    /// Whether a missing axis of size one is added, and on which side.
    pub(crate) fn added_axis(self) -> Option<AddedAxis> {
        match self {
            Base::Image | Base::Audio => Some(AddedAxis::Last),
            Base::BBox | Base::BBox3d | Base::Point => Some(AddedAxis::First),
            _ => None,
        }
    }
}

/// Where an axis of size one is added to a sample that lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddedAxis {
    /// One box stands for a list of one.
    First,
    /// A gray picture or mono sound has one channel.
    Last,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(htype: &str) -> ColumnSpec {
        ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() }
    }

    #[test]
    fn types_fix_dtype_shape_and_form() {
        let check = |spec: ColumnSpec, expected: &str, form: Form, fixed: Option<&[u64]>| {
            let column = Column::new(&spec).unwrap();
            assert_eq!((column.expected().as_str(), column.form()), (expected, form));
            assert_eq!(column.fixed_shape().as_deref(), fixed);
        };
        check(spec("generic"), "a tensor of any shape", Form::Blob, None);
        check(spec("image"), "uint8 of shape (height, width, channels)", Form::Blob, None);
        check(spec("video"), "uint8 of shape (frames, height, width, 3)", Form::Blob, None);
        check(spec("class_label"), "uint32 of shape ()", Form::Int, Some(&[]));
        check(spec("sequence[class_label]"), "uint32 of shape ()", Form::Blob, None);
        check(spec("bbox"), "float32 of shape (boxes, 4)", Form::Blob, None);
        check(
            spec("binary_mask"),
            "bool of shape (height, width) or (height, width, masks)",
            Form::Blob,
            None,
        );
        check(spec("link[image]"), "uint8 of shape (height, width, channels)", Form::Text, None);
        check(spec("json"), "a tensor of any shape", Form::Text, None);
        let scalar = |dtype| ColumnSpec { dtype: Some(dtype), shape: Some(vec![]), ..spec("generic") };
        check(scalar(DType::Bool), "bool of shape ()", Form::Int, Some(&[]));
        check(scalar(DType::U64), "uint64 of shape ()", Form::Int, Some(&[]));
        check(scalar(DType::BF16), "bfloat16 of shape ()", Form::Float, Some(&[]));
        check(scalar(DType::F64), "float64 of shape ()", Form::Real, Some(&[]));
        check(scalar(DType::C64), "complex64 of shape ()", Form::Blob, Some(&[]));
        let fixed = ColumnSpec { shape: Some(vec![Some(32), Some(32), Some(3)]), ..spec("image") };
        check(fixed, "uint8 of shape (32, 32, 3)", Form::Blob, Some(&[32, 32, 3]));
    }

    #[test]
    fn wishes_that_do_not_fit_are_refused_with_the_reason() {
        let check = |spec: ColumnSpec, expected: &str| {
            let error = Column::new(&spec).unwrap_err();
            assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
            assert_eq!(error.to_string(), expected);
        };
        let with =
            |htype, compression: &str| ColumnSpec { compression: Some(compression.into()), ..spec(htype) };
        check(
            with("class_label", "zstd"),
            "compression: zstd:1 does not fit: a scalar class_label is kept as it is",
        );
        check(with("text", "zstd"), "compression: zstd:1 does not fit: text takes auto or none");
        check(with("bbox", "jpeg"), "compression: jpeg does not fit: bbox takes auto, none or zstd");
        check(with("video", "none"), "compression: none does not fit: video takes one of auto, mp4, webm");
        check(
            with("image", "wav"),
            "compression: wav does not fit: image takes one of auto, none, zstd, jpeg, png, webp, gif, bmp, tiff",
        );
        check(with("link[image]", "jpeg"), "compression: jpeg does not fit: links are kept as they are");
        let error = Column::new(&with("image", "lzma")).unwrap_err().to_string();
        assert!(
            error.starts_with("compression: \"lzma\" is none of auto, none, zstd, zstd:<level"),
            "{error}"
        );
        check(
            ColumnSpec { dtype: Some(DType::F32), ..spec("image") },
            "dtype: image is of uint8 or uint16, not of float32",
        );
        check(
            ColumnSpec { dtype: Some(DType::F32), ..spec("json") },
            "dtype: json is no tensor and has none",
        );
        check(ColumnSpec { shape: Some(vec![None]), ..spec("image") }, "shape: image has 3 axes, not 1");
        check(
            ColumnSpec { shape: Some(vec![None, Some(5)]), ..spec("bbox") },
            "shape: the last axis of bbox has size 4, not 5",
        );
        check(
            ColumnSpec { shape: Some(vec![None; 17]), ..spec("generic") },
            "shape: 17 axes are more than the 16 a tensor has",
        );
        check(ColumnSpec { shape: Some(vec![]), ..spec("text") }, "shape: text is no tensor and has none");
        check(spec("link[text]"), "htype: text samples are no files to link to");
        let names: Vec<String> = (0..129).map(|i| i.to_string()).collect();
        check(
            ColumnSpec {
                dtype: Some(DType::I8),
                options: [("class_names".to_owned(), json!(names))].into_iter().collect(),
                ..spec("class_label")
            },
            "class_names: 129 names are more than int8 counts",
        );
        check(
            ColumnSpec {
                shape: Some(vec![None]),
                options: [("size".to_owned(), json!(5))].into_iter().collect(),
                ..spec("embedding")
            },
            "shape: it differs from the size 5: give one of them",
        );
    }

    #[test]
    fn names_are_appended_and_never_move() {
        let column = Column::new(&spec("class_label")).unwrap();
        let column = column.with_class_names(["cat", "dog"]).unwrap();
        let column = column.with_class_names(["dog", "bird", "bird", "cat"]).unwrap();
        assert_eq!(column.class_names(), ["cat", "dog", "bird"]);
        assert_eq!(column.options()["class_names"], json!(["cat", "dog", "bird"]));
        assert!(Column::new(&spec("text")).unwrap().with_class_names(["x"]).is_err());
        assert!(column.with_class_names([""]).is_err());
    }

    #[test]
    fn an_open_column_is_settled_once() {
        let open = Column::new(&ColumnSpec { shape: Some(vec![]), ..spec("generic") }).unwrap();
        assert!(open.is_open() && open.dtype().is_none());
        let settled = open.settle(DType::I16);
        assert_eq!((settled.is_open(), settled.form()), (false, Form::Int));
        assert_eq!(settled.settle(DType::F32), settled);
        assert!(!Column::new(&spec("text")).unwrap().is_open());
    }
}
