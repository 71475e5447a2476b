//! The types of columns by name: `image`, `bbox.3d`, `sequence[image]`, `sequence[link[image]]`.
//!
//! ```
//! use lacus_sample::{Base, HType};
//! let htype: HType = "sequence[link[image]]".parse()?;
//! assert_eq!((htype.base, htype.sequence, htype.link), (Base::Image, true, true));
//! assert_eq!(htype.to_string(), "sequence[link[image]]");
//! assert!("imgae".parse::<HType>().unwrap_err().to_string().contains("did you mean image?"));
//! # Ok::<(), lacus_sample::SampleError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use lacus_error::close_to;

use crate::error::SampleError;

/// What one sample (or one element of a sequence) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// A tensor of any dtype and shape.
    Generic,
    /// A picture in colours: `(height, width, channels)`.
    Image,
    /// A picture in grays: `(height, width)`.
    ImageGray,
    /// Pictures over time, as a file.
    Video,
    /// Sound: `(frames, channels)`.
    Audio,
    /// A number that stands for a name.
    ClassLabel,
    /// Text.
    Text,
    /// Any JSON value.
    Json,
    /// A JSON array.
    List,
    /// Some words.
    Tag,
    /// Boxes in a picture: `(boxes, 4)`.
    BBox,
    /// Boxes in space: `(boxes, 7)` or `(boxes, 8)`.
    BBox3d,
    /// Which pixels belong to something: `(height, width)`, or one such mask per thing behind each other.
    BinaryMask,
    /// Which class each pixel belongs to: `(height, width)`.
    SegmentMask,
    /// Which of several things something belongs to.
    InstanceLabel,
    /// Named points of several things, as in COCO.
    Keypoints,
    /// Outlines, of any number of points each.
    Polygon,
    /// Points: `(points, 2)` or `(points, 3)`.
    Point,
    /// A vector that stands for something.
    Embedding,
    /// A medical picture, as a file.
    Dicom,
    /// Bytes of any meaning.
    Bytes,
    /// A day.
    Date,
    /// A moment.
    Timestamp,
    /// A time of day.
    Time,
    /// A time span.
    Duration,
    /// A decimal number.
    Decimal,
}

impl Base {
    /// Every type, in the order of the table on the crate's page.
    pub const ALL: [Base; 26] = [
        Base::Generic,
        Base::Image,
        Base::ImageGray,
        Base::Video,
        Base::Audio,
        Base::ClassLabel,
        Base::Text,
        Base::Json,
        Base::List,
        Base::Tag,
        Base::BBox,
        Base::BBox3d,
        Base::BinaryMask,
        Base::SegmentMask,
        Base::InstanceLabel,
        Base::Keypoints,
        Base::Polygon,
        Base::Point,
        Base::Embedding,
        Base::Dicom,
        Base::Bytes,
        Base::Date,
        Base::Timestamp,
        Base::Time,
        Base::Duration,
        Base::Decimal,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Base::Generic => "generic",
            Base::Image => "image",
            Base::ImageGray => "image.gray",
            Base::Video => "video",
            Base::Audio => "audio",
            Base::ClassLabel => "class_label",
            Base::Text => "text",
            Base::Json => "json",
            Base::List => "list",
            Base::Tag => "tag",
            Base::BBox => "bbox",
            Base::BBox3d => "bbox.3d",
            Base::BinaryMask => "binary_mask",
            Base::SegmentMask => "segment_mask",
            Base::InstanceLabel => "instance_label",
            Base::Keypoints => "keypoints",
            Base::Polygon => "polygon",
            Base::Point => "point",
            Base::Embedding => "embedding",
            Base::Dicom => "dicom",
            Base::Bytes => "bytes",
            Base::Date => "date",
            Base::Timestamp => "timestamp",
            Base::Time => "time",
            Base::Duration => "duration",
            Base::Decimal => "decimal",
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The type of a column: what a sample is, and whether a row holds several of them or where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HType {
    /// What a sample is.
    pub base: Base,
    /// A row holds any number of them.
    pub sequence: bool,
    /// A row holds the URL of it (or of them).
    pub link: bool,
}

impl From<Base> for HType {
    fn from(base: Base) -> HType {
        HType { base, sequence: false, link: false }
    }
}

impl fmt::Display for HType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequence = if self.sequence { ("sequence[", "]") } else { ("", "") };
        let link = if self.link { ("link[", "]") } else { ("", "") };
        write!(f, "{}{}{}{}{}", sequence.0, link.0, self.base, link.1, sequence.1)
    }
}

impl FromStr for HType {
    type Err = SampleError;

    fn from_str(name: &str) -> Result<HType, SampleError> {
        let inside = |text: &'_ str, wrapper: &str| -> Option<String> {
            Some(text.strip_prefix(wrapper)?.strip_prefix('[')?.strip_suffix(']')?.to_owned())
        };
        let (sequence, rest) = match inside(name, "sequence") {
            Some(rest) => (true, rest),
            None => (false, name.to_owned()),
        };
        let (link, rest) = match inside(&rest, "link") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let nested = inside(&rest, "sequence").or_else(|| inside(&rest, "link"));
        if nested.is_some() {
            let detail = format!("{name:?} nests too deep: the order is sequence[link[...]], each once");
            return Err(SampleError::spec("htype", detail));
        }
        match Base::ALL.into_iter().find(|base| base.name() == rest) {
            Some(base) => Ok(HType { base, sequence, link }),
            None => Err(SampleError::UnknownHType {
                name: name.to_owned(),
                close: close_to(&rest, Base::ALL.map(Base::name)),
                known: Base::ALL.map(Base::name).join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for base in Base::ALL {
            for (sequence, link) in [(false, false), (true, false), (false, true), (true, true)] {
                let htype = HType { base, sequence, link };
                assert_eq!(htype.to_string().parse::<HType>().unwrap(), htype);
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let check = |name: &str, expected: &str| {
            let error = name.parse::<HType>().unwrap_err();
            assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("keypoints_coco", "(did you mean keypoints?)");
        check("sequence[vido]", "\"sequence[vido]\" (did you mean video?)");
        check("mesh", "unknown htype \"mesh\": the known ones are generic, image, image.gray, ");
        check("", "unknown htype \"\": the known");
        check("sequence[]", "unknown htype");
        check("sequence[image", "unknown htype");
        check("link[sequence[image]]", "the order is sequence[link[...]]");
        check("sequence[sequence[image]]", "nests too deep");
    }
}
