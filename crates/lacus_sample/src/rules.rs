//! What each type fixes: dtypes, axes, options, and what its samples may come from. The one table that the
//! rest of the crate asks.

use lacus_media::Family;
use lacus_tensor::DType;

use crate::htype::Base;

/// What kind of thing the samples of a type are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Elements of a dtype.
    Numbers,
    /// Elements of a dtype that are usually kept as a media file.
    Media(Family),
    /// Text or JSON.
    Text,
    /// Any number of lists of points.
    Polygons,
    /// Bytes that nobody looks into.
    Bytes,
}

/// The rules of one type.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) holds: Holds,
    /// Dtypes it may have; the first one unless the caller asks for another. Empty: any.
    pub(crate) dtypes: &'static [DType],
    /// The dtype is that of the first sample unless the caller gives one.
    pub(crate) open: bool,
    /// The axes by name, for each rank it may have. Empty: any. An axis with a number for a name has that size.
    pub(crate) axes: &'static [&'static [&'static str]],
    /// The first of `axes` is meant unless the caller declares a shape; otherwise all are.
    pub(crate) ranked: bool,
    /// Sizes the last axis may have. Empty: any.
    pub(crate) last: &'static [u64],
    pub(crate) options: &'static [&'static str],
    /// A column may hold links to such samples.
    pub(crate) links: bool,
    /// Media files are decoded to make a sample.
    pub(crate) decodes: bool,
    /// Doubles are rounded to the column's dtype: these are coordinates and weights, which Python has as doubles.
    pub(crate) rounds: bool,
}

/// What most types have in common.
const PLAIN: Rules = Rules {
    holds: Holds::Numbers,
    dtypes: &[],
    open: false,
    axes: &[],
    ranked: true,
    last: &[],
    options: &[],
    links: false,
    decodes: false,
    rounds: false,
};

const TEXT: Rules = Rules { holds: Holds::Text, ..PLAIN };

const INTEGERS: &[DType] =
    &[DType::U32, DType::U8, DType::U16, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];
const COORDINATES: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::I32, DType::I64];

static GENERIC: Rules = Rules { open: true, ranked: false, decodes: true, ..PLAIN };
static IMAGE: Rules = Rules {
    holds: Holds::Media(Family::Image),
    dtypes: &[DType::U8, DType::U16],
    axes: &[&["height", "width", "channels"]],
    last: &[1, 2, 3, 4],
    options: &["quality"],
    links: true,
    ..PLAIN
};
static IMAGE_GRAY: Rules = Rules {
    holds: Holds::Media(Family::Image),
    dtypes: &[DType::U8, DType::U16],
    axes: &[&["height", "width"]],
    options: &["quality"],
    links: true,
    ..PLAIN
};
static VIDEO: Rules = Rules {
    holds: Holds::Media(Family::Video),
    dtypes: &[DType::U8],
    axes: &[&["frames", "height", "width", "3"]],
    last: &[3],
    links: true,
    ..PLAIN
};
static AUDIO: Rules = Rules {
    holds: Holds::Media(Family::Audio),
    dtypes: &[DType::F32, DType::U8, DType::I16, DType::I32, DType::F64],
    axes: &[&["frames", "channels"], &["frames"]],
    options: &["sample_rate"],
    links: true,
    ..PLAIN
};
static CLASS_LABEL: Rules =
    Rules { dtypes: INTEGERS, axes: &[&[], &["labels"]], options: &["class_names"], ..PLAIN };
static PLAIN_TEXT: Rules = TEXT;
static BBOX: Rules = Rules {
    dtypes: COORDINATES,
    axes: &[&["boxes", "4"], &["4"]],
    last: &[4],
    options: &["coords", "format", "bbox_type"],
    rounds: true,
    ..PLAIN
};
static BBOX_3D: Rules = Rules {
    dtypes: COORDINATES,
    axes: &[&["boxes", "7 or 8"], &["7 or 8"]],
    last: &[7, 8],
    rounds: true,
    ..PLAIN
};
static BINARY_MASK: Rules = Rules {
    dtypes: &[DType::Bool],
    axes: &[&["height", "width"], &["height", "width", "masks"]],
    ranked: false,
    options: &["class_names"],
    links: true,
    decodes: true,
    ..PLAIN
};
static SEGMENT_MASK: Rules = Rules {
    dtypes: &[DType::U32, DType::U8, DType::U16],
    axes: &[&["height", "width"]],
    options: &["class_names"],
    links: true,
    decodes: true,
    ..PLAIN
};
static INSTANCE_LABEL: Rules =
    Rules { dtypes: INTEGERS, ranked: false, options: &["class_names"], decodes: true, ..PLAIN };
static KEYPOINTS: Rules = Rules {
    dtypes: &[DType::I32, DType::I64, DType::F32, DType::F64, DType::F16],
    axes: &[&["numbers", "things"]],
    options: &["keypoints", "connections"],
    rounds: true,
    ..PLAIN
};
static POLYGON: Rules =
    Rules { holds: Holds::Polygons, dtypes: COORDINATES, axes: &[&["polygons"]], rounds: true, ..PLAIN };
static POINT: Rules = Rules {
    dtypes: COORDINATES,
    axes: &[&["points", "2 or 3"], &["2 or 3"]],
    last: &[2, 3],
    rounds: true,
    ..PLAIN
};
static EMBEDDING: Rules = Rules {
    dtypes: &[DType::F32, DType::F64, DType::F16, DType::BF16],
    axes: &[&["size"]],
    options: &["size"],
    rounds: true,
    ..PLAIN
};
static DICOM: Rules = Rules {
    holds: Holds::Media(Family::Dicom),
    axes: &[&["height", "width"], &["frames", "height", "width"], &["frames", "height", "width", "channels"]],
    ranked: false,
    links: true,
    ..PLAIN
};

static BYTES: Rules = Rules { holds: Holds::Bytes, dtypes: &[DType::U8], axes: &[&["bytes"]], ..PLAIN };

/// What dates, times and decimals have in common: one integer.
const COUNT: Rules = Rules { dtypes: &[DType::I64], axes: &[&[]], ..PLAIN };

static DATE: Rules = Rules { dtypes: &[DType::I32], ..COUNT };
static TIMESTAMP: Rules = Rules { options: &["unit", "timezone"], ..COUNT };
static TIME: Rules = Rules { options: &["unit"], ..COUNT };
static DURATION: Rules = Rules { options: &["unit"], ..COUNT };
static DECIMAL: Rules = Rules { options: &["precision", "scale"], ..COUNT };

/// The rules of a type.
pub(crate) fn rules(base: Base) -> &'static Rules {
    match base {
        Base::Generic => &GENERIC,
        Base::Image => &IMAGE,
        Base::ImageGray => &IMAGE_GRAY,
        Base::Video => &VIDEO,
        Base::Audio => &AUDIO,
        Base::ClassLabel => &CLASS_LABEL,
        Base::Text | Base::Json | Base::List | Base::Tag => &PLAIN_TEXT,
        Base::BBox => &BBOX,
        Base::BBox3d => &BBOX_3D,
        Base::BinaryMask => &BINARY_MASK,
        Base::SegmentMask => &SEGMENT_MASK,
        Base::InstanceLabel => &INSTANCE_LABEL,
        Base::Keypoints => &KEYPOINTS,
        Base::Polygon => &POLYGON,
        Base::Point => &POINT,
        Base::Embedding => &EMBEDDING,
        Base::Dicom => &DICOM,
        Base::Bytes => &BYTES,
        Base::Date => &DATE,
        Base::Timestamp => &TIMESTAMP,
        Base::Time => &TIME,
        Base::Duration => &DURATION,
        Base::Decimal => &DECIMAL,
    }
}

impl Rules {
    /// The shape of a column whose caller declares none.
    pub(crate) fn default_shape(&self) -> Option<Vec<Option<u64>>> {
        let axes = self.axes.first().filter(|_| self.ranked)?;
        Some(axes.iter().map(|name| name.parse().ok()).collect())
    }
}
