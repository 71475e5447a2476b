//! Which layout suits a tensor: as asked for, or chosen by measuring a sample, with reasons.
//!
//! The choice looks at a few ten thousand elements, whatever the size of the tensor, so that it costs
//! milliseconds. What it decides is written into the header together with the reasons.
//!
//! ```
//! use lacus_layout::{Choice, Layout, Wish, choose_dense};
//! use lacus_tensor::{Buffer, DType, Shape, Tensor};
//!
//! let noise: Vec<u8> = (0..20 * 3 * 65536u32).map(|i| (i.wrapping_mul(2654435761) >> 20) as u8).collect();
//! let shape = Shape::new(vec![20, 3, 256, 256]).unwrap();
//! let photos = Tensor::new(DType::U8, shape, Buffer::from_slice(&noise)).unwrap();
//! let Choice::Header(header) = choose_dense(&photos.as_ref(), &Wish::default()).unwrap() else { panic!() };
//! assert_eq!(header.layout, Layout::DenseChunks { chunk_shape: vec![5, 3, 256, 256] });
//! ```

mod sample;

mod dense;
mod estimate;
mod sparse;

use crate::compress::Compression;
use crate::error::LayoutError;
use crate::header::{Header, Layout};

pub use dense::choose_dense;
pub use estimate::{Estimate, estimate, exact_size};
pub use sparse::choose_sparse;

/// What the caller asks for. The default asks for nothing and leaves all to the choice.
///
/// An option that the layout does not have is refused, not ignored; where no layout is named, an option
/// that only one layout has names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// A layout by name (`FTSF`, `COO`, `CSR`, `CSC`, `CSF`, `BSGS`, in any case), `dense`, `sparse`, or
    /// `auto`, which is also what `None` means.
    pub layout: Option<String>,
    /// FTSF: extent of a chunk per axis.
    pub chunk_shape: Option<Vec<u64>>,
    /// FTSF: the paper's way to give the chunk shape: so many trailing axes are whole, the others cut to 1.
    pub chunk_rank: Option<usize>,
    /// BSGS: extent of a block per axis.
    pub block_shape: Option<Vec<u64>>,
    /// CSR and CSC: the first axis of the matrix columns.
    pub split: Option<usize>,
    /// CSF and BSGS: the order of axes.
    pub axis_order: Option<Vec<usize>>,
    /// FTSF: how chunks are compressed.
    pub compression: CompressionWish,
    /// What matters more.
    pub optimize: Optimize,
}

/// A wish for the compression of dense chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CompressionWish {
    /// Compressed if a sample says it is worth it.
    #[default]
    Auto,
    /// Not compressed.
    None,
    /// lz4 of bit planes.
    Lz4,
    /// zstd of this level.
    Zstd(i32),
}

impl From<Compression> for CompressionWish {
    fn from(compression: Compression) -> CompressionWish {
        match compression {
            Compression::None => CompressionWish::None,
            Compression::Lz4 => CompressionWish::Lz4,
            Compression::Zstd { level } => CompressionWish::Zstd(level),
        }
    }
}

/// What matters more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Slices of the first axis read little and decode fast; size comes next.
    #[default]
    Slices,
    /// The fewest bytes.
    Size,
}

/// What was chosen for a tensor.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made once per tensor and taken apart at once")]
pub enum Choice {
    /// Store it so.
    Header(Header),
    /// This dense tensor is to be stored sparse: convert it with
    /// [`SparseTensor::from_dense`](lacus_tensor::SparseTensor::from_dense) and ask [`choose_sparse`] with the
    /// same wish. The reasons belong before those of the header it returns.
    Sparse {
        /// Why.
        reasons: Vec<String>,
    },
    /// This sparse tensor is to be stored dense: convert it with
    /// [`SparseTensor::to_dense`](lacus_tensor::SparseTensor::to_dense) and ask [`choose_dense`] with the same
    /// wish.
    Dense {
        /// Why.
        reasons: Vec<String>,
    },
}

/// The layout a wish names, itself or by an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Auto,
    Dense,
    Sparse,
    Coordinates,
    Rows,
    Columns,
    Tree,
    Blocks,
}

impl Wish {
    /// What asks for the layout that a header describes.
    pub fn like(header: &Header) -> Wish {
        let mut wish = Wish { layout: Some(header.layout.name().to_owned()), ..Wish::default() };
        match &header.layout {
            Layout::DenseChunks { chunk_shape } => {
                wish.chunk_shape = Some(chunk_shape.clone());
                wish.compression = header.compression.into();
            }
            Layout::CompressedRows { split } | Layout::CompressedColumns { split } => {
                wish.split = Some(*split)
            }
            Layout::FiberTree { axis_order } => wish.axis_order = Some(axis_order.clone()),
            Layout::SparseBlocks { block_shape, axis_order } => {
                wish.block_shape = Some(block_shape.clone());
                wish.axis_order = Some(axis_order.clone());
            }
            Layout::Coordinates => {}
        }
        wish
    }

    /// Which layout is asked for, after checking that every option belongs to it.
    fn named(&self) -> Result<Named, LayoutError> {
        let text = self.layout.as_deref().unwrap_or("auto").to_ascii_lowercase();
        let by_name = match &text[..] {
            "auto" => Named::Auto,
            "dense" | "ftsf" => Named::Dense,
            "sparse" => Named::Sparse,
            "coo" => Named::Coordinates,
            "csr" => Named::Rows,
            "csc" => Named::Columns,
            "csf" => Named::Tree,
            "bsgs" => Named::Blocks,
            _ => {
                return Err(LayoutError::wish(
                    "layout",
                    format!("{text:?} is none of auto, dense, sparse, FTSF, COO, CSR, CSC, CSF, BSGS"),
                ));
            }
        };
        if self.chunk_shape.is_some() && self.chunk_rank.is_some() {
            return Err(LayoutError::wish("chunk_rank", "chunk_shape is given as well: give one of them"));
        }
        use Named::{Auto, Blocks, Columns, Dense, Rows, Sparse, Tree};
        let options: [(&'static str, bool, &[Named]); 6] = [
            ("chunk_shape", self.chunk_shape.is_some(), &[Dense]),
            ("chunk_rank", self.chunk_rank.is_some(), &[Dense]),
            ("compression", self.compression != CompressionWish::Auto, &[Dense]),
            ("block_shape", self.block_shape.is_some(), &[Blocks]),
            ("split", self.split.is_some(), &[Rows, Columns]),
            ("axis_order", self.axis_order.is_some(), &[Tree, Blocks]),
        ];
        let mut named = by_name;
        for (option, _, layouts) in options.iter().filter(|(_, given, _)| *given) {
            if matches!(named, Auto | Sparse) && !(named == Sparse && layouts.contains(&Dense)) {
                named = layouts[0];
            }
            if !layouts.contains(&named) {
                return Err(LayoutError::wish(
                    option,
                    format!(
                        "the layout {} has no such option",
                        self.layout.as_deref().unwrap_or("it implies")
                    ),
                ));
            }
        }
        Ok(named)
    }
}

/// 1378268 as 1,378,268.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A part of a whole for people, with two digits: `0.050 %`, `12 %`.
fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        p if p >= 9.95 => format!("{p:.0} %"),
        p if p >= 1e-4 => format!("{p:.*} %", (1.0 - p.log10().floor()).max(0.0) as usize),
        0.0 => "0 %".to_string(),
        p => format!("{p:.1e} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_378_268, "1,378,268")] {
            assert_eq!(with_commas(number), text);
        }
        for (part, text) in [
            (0.0, "0 %"),
            (1.0, "100 %"),
            (0.12, "12 %"),
            (0.0149, "1.5 %"),
            (0.000_504, "0.050 %"),
            (2.0e-10, "2.0e-8 %"),
        ] {
            assert_eq!(percent(part), text);
        }
    }
}
