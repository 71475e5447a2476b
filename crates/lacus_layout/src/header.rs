//! What a stored tensor is: dtype, shape, layout. One header row per tensor holds it.
//!
//! ```
//! use lacus_layout::{Header, Layout};
//! let header = Header::from_parts("float32", &[91, 24], "CSR", None, r#"{"split":1,"nnz":7}"#).unwrap();
//! assert_eq!(header.layout, Layout::CompressedRows { split: 1 });
//! assert_eq!(header.nnz, Some(7));
//! ```

use std::str::FromStr;

use lacus_tensor::{DType, Shape};
use serde::{Deserialize, Serialize};

use crate::compress::{Compression, DEFAULT_ZSTD_LEVEL};
use crate::error::LayoutError;

/// How a tensor becomes rows. The names in brackets are those of the Delta Tensor paper.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Boxes of a regular grid, each a dense array (FTSF).
    DenseChunks {
        /// Extent of a chunk on each axis; chunks at the upper edge are trimmed.
        chunk_shape: Vec<u64>,
    },
    /// One table row per nonzero (COO).
    Coordinates,
    /// The tensor as a matrix, runs of its rows packed (CSR).
    CompressedRows {
        /// Axes before it make the matrix row, axes from it on the matrix column.
        split: usize,
    },
    /// The tensor as a matrix, runs of its columns packed (CSC).
    CompressedColumns {
        /// Axes before it make the matrix row, axes from it on the matrix column.
        split: usize,
    },
    /// A tree with a level per axis, runs of its leaves packed (CSF).
    FiberTree {
        /// The axis of each level, root first: a permutation.
        axis_order: Vec<usize>,
    },
    /// Boxes of a regular grid that hold a nonzero, each packed (BSGS).
    SparseBlocks {
        /// Extent of a block on each axis; blocks at the upper edge are trimmed.
        block_shape: Vec<u64>,
        /// The order in which a block's cells are numbered, slowest axis first: a permutation.
        axis_order: Vec<usize>,
    },
}

impl Layout {
    /// The short name that is stored: `FTSF`, `COO`, `CSR`, `CSC`, `CSF` or `BSGS`.
    pub fn name(&self) -> &'static str {
        match self {
            Layout::DenseChunks { .. } => "FTSF",
            Layout::Coordinates => "COO",
            Layout::CompressedRows { .. } => "CSR",
            Layout::CompressedColumns { .. } => "CSC",
            Layout::FiberTree { .. } => "CSF",
            Layout::SparseBlocks { .. } => "BSGS",
        }
    }

    /// Whether only nonzeros are stored.
    pub fn is_sparse(&self) -> bool {
        !matches!(self, Layout::DenseChunks { .. })
    }
}

/// What a tensor is and how it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// How it becomes rows.
    pub layout: Layout,
    /// How many elements are stored, explicit zeros included. Sparse layouts only.
    pub nnz: Option<u64>,
    /// How dense chunks are compressed. Sparse layouts pack in their own way; with them it is not stored.
    pub compression: Compression,
    /// Why this layout was chosen, for people.
    pub reasons: Vec<String>,
}

/// The fields of a header that have no column of their own.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    axis_order: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nnz: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    /// Who the tensor is, which is no concern of its layout.
    #[serde(default, rename = "id", skip_serializing)]
    _id: Option<String>,
}

impl Header {
    /// The extent of a dense chunk or sparse block, if the layout has any.
    pub fn chunk_shape(&self) -> Option<&[u64]> {
        match &self.layout {
            Layout::DenseChunks { chunk_shape } => Some(chunk_shape),
            Layout::SparseBlocks { block_shape, .. } => Some(block_shape),
            _ => None,
        }
    }

    /// Everything but dtype, shape, layout name and chunk shape, as a JSON object.
    pub fn parameters_json(&self) -> String {
        let (split, axis_order) = match &self.layout {
            Layout::CompressedRows { split } | Layout::CompressedColumns { split } => (Some(*split), None),
            Layout::FiberTree { axis_order } | Layout::SparseBlocks { axis_order, .. } => {
                (None, Some(axis_order.clone()))
            }
            Layout::DenseChunks { .. } | Layout::Coordinates => (None, None),
        };
        let compression = match self.layout {
            Layout::DenseChunks { .. } => Some(self.compression.to_string()),
            _ => None,
        };
        let parameters = Parameters {
            split,
            axis_order,
            nnz: self.nnz,
            compression,
            reasons: self.reasons.clone(),
            _id: None,
        };
        // Numbers and strings always have a JSON form.
        serde_json::to_string(&parameters).unwrap_or_default()
    }

    /// Puts a header together from the columns of its row, and checks all of it.
    ///
    /// Fails with a corrupt error where the fields contradict each other, with an invalid one where a name
    /// (dtype, layout, parameter) is not known to this version.
    pub fn from_parts(
        dtype: &str,
        shape: &[i64],
        layout: &str,
        chunk_shape: Option<&[i64]>,
        parameters: &str,
    ) -> Result<Header, LayoutError> {
        let unknown = |what, found: &str| LayoutError::Unknown { what, found: found.to_string() };
        let dtype = DType::from_str(dtype).map_err(|_| unknown("dtype", dtype))?;
        let shape = shape_from(shape)?;
        let found: Parameters = serde_json::from_str(parameters).map_err(|error| {
            match error.classify() == serde_json::error::Category::Data
                && error.to_string().starts_with("unknown field")
            {
                true => unknown("layout parameter", parameters),
                false => bad(format!("parameters {parameters:?} are not readable: {error}")),
            }
        })?;
        let chunk_shape = chunk_shape.map(|dims| positive_dims(dims, &shape)).transpose()?;
        let axis_order = found.axis_order.map(|order| permutation(order, shape.rank())).transpose()?;
        let layout = match (layout, chunk_shape, found.split, axis_order) {
            ("FTSF", Some(chunk_shape), None, None) => Layout::DenseChunks { chunk_shape },
            ("COO", None, None, None) => Layout::Coordinates,
            ("CSR", None, Some(split), None) => Layout::CompressedRows { split },
            ("CSC", None, Some(split), None) => Layout::CompressedColumns { split },
            ("CSF", None, None, Some(axis_order)) => Layout::FiberTree { axis_order },
            ("BSGS", Some(block_shape), None, Some(axis_order)) => {
                Layout::SparseBlocks { block_shape, axis_order }
            }
            ("FTSF" | "COO" | "CSR" | "CSC" | "CSF" | "BSGS", ..) => {
                return Err(bad(format!(
                    "layout {layout} with parameters {parameters:?} lacks some or has others"
                )));
            }
            _ => return Err(unknown("layout", layout)),
        };
        let compression = match found.compression {
            Some(text) => text.parse().map_err(|_| unknown("compression", &text))?,
            None => Compression::Zstd { level: DEFAULT_ZSTD_LEVEL },
        };
        let header = Header { dtype, shape, layout, nnz: found.nnz, compression, reasons: found.reasons };
        header.check().map_err(|error| match error {
            LayoutError::Unsupported { layout, detail } => bad(format!("{layout}: {detail}")),
            other => other,
        })?;
        Ok(header)
    }

    /// Checks that the layout fits the shape. Every header this crate hands out has passed it.
    pub(crate) fn check(&self) -> Result<(), LayoutError> {
        let name = self.layout.name();
        let refuse = |detail: String| Err(LayoutError::unsupported(name, detail));
        let rank = self.shape.rank();
        if self.layout.is_sparse() {
            if rank == 0 {
                return refuse("a tensor of rank 0 has no axis to be sparse on: store it dense".into());
            }
            let Some(nnz) = self.nnz else {
                return refuse("the number of nonzeros is missing".into());
            };
            if self.shape.elements().is_some_and(|cells| nnz > cells) {
                return refuse(format!("{nnz} nonzeros do not fit the shape {}", self.shape));
            }
        } else if self.nnz.is_some() {
            return refuse("a dense tensor has no number of nonzeros".into());
        }
        match &self.layout {
            Layout::DenseChunks { chunk_shape } => {
                check_box(name, "chunk_shape", chunk_shape, &self.shape)?;
                let cells = trimmed_cells(chunk_shape, &self.shape);
                let bytes = cells.and_then(|cells| cells.checked_mul(self.dtype.size_bytes() as u64));
                if bytes.is_none_or(|bytes| bytes > isize::MAX as u64) {
                    return refuse(format!("one chunk of shape {chunk_shape:?} does not fit any memory"));
                }
            }
            Layout::Coordinates => {}
            Layout::CompressedRows { split } | Layout::CompressedColumns { split } => {
                if *split > rank {
                    return refuse(format!("split {split} lies beyond the {rank} axes"));
                }
                let (rows, columns) = self.shape.dims().split_at(*split);
                for (what, dims) in [("rows", rows), ("columns", columns)] {
                    if product(dims).is_none_or(|count| count > i64::MAX as u64) {
                        return refuse(format!(
                            "split {split} of shape {} makes a matrix with more than 2^63 {what}: \
                             use another split, CSF or COO",
                            self.shape
                        ));
                    }
                }
            }
            Layout::FiberTree { axis_order } => {
                permutation(axis_order.clone(), rank)?;
            }
            Layout::SparseBlocks { block_shape, axis_order } => {
                check_box(name, "block_shape", block_shape, &self.shape)?;
                permutation(axis_order.clone(), rank)?;
                if trimmed_cells(block_shape, &self.shape).is_none_or(|cells| cells > i64::MAX as u64) {
                    return refuse(format!("one block of shape {block_shape:?} has more than 2^63 cells"));
                }
            }
        }
        Ok(())
    }
}

fn bad(detail: String) -> LayoutError {
    LayoutError::corrupt("header", detail)
}

fn shape_from(dims: &[i64]) -> Result<Shape, LayoutError> {
    let dims: Result<Vec<u64>, _> = dims.iter().map(|dim| u64::try_from(*dim)).collect();
    let dims = dims.map_err(|_| bad("an axis of the shape is negative".into()))?;
    Shape::new(dims).map_err(|error| bad(error.to_string()))
}

fn positive_dims(dims: &[i64], shape: &Shape) -> Result<Vec<u64>, LayoutError> {
    let dims: Vec<u64> = dims.iter().map(|dim| u64::try_from(*dim).unwrap_or(0)).collect();
    match check_box("chunk shape", "chunk_shape", &dims, shape) {
        Ok(()) => Ok(dims),
        Err(error) => Err(bad(error.to_string())),
    }
}

fn check_box(
    layout: &'static str,
    option: &'static str,
    dims: &[u64],
    shape: &Shape,
) -> Result<(), LayoutError> {
    if dims.len() != shape.rank() || dims.contains(&0) || dims.iter().any(|dim| *dim > i64::MAX as u64) {
        return Err(LayoutError::unsupported(
            layout,
            format!(
                "{option} {dims:?} is no extent of a box in the shape {shape}: one positive number per axis"
            ),
        ));
    }
    Ok(())
}

/// Checks that `order` names each of `rank` axes once.
pub(crate) fn permutation(order: Vec<usize>, rank: usize) -> Result<Vec<usize>, LayoutError> {
    let mut seen = vec![false; rank];
    let complete = order.len() == rank
        && order.iter().all(|axis| seen.get_mut(*axis).is_some_and(|seen| !std::mem::replace(seen, true)));
    match complete {
        true => Ok(order),
        false => Err(bad(format!("axis order {order:?} does not name each of {rank} axes once"))),
    }
}

/// The product of `dims`, if it fits.
pub(crate) fn product(dims: &[u64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))
}

/// Cells of the largest box of the grid: its shape, or the tensor's where that is smaller.
pub(crate) fn trimmed_cells(box_shape: &[u64], shape: &Shape) -> Option<u64> {
    let dims: Vec<u64> = box_shape.iter().zip(shape.dims()).map(|(b, s)| *b.min(s)).collect();
    product(&dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::ErrorKind;

    fn headers() -> Vec<Header> {
        let shape = Shape::new(vec![91, 24, 887]).unwrap();
        let layouts = [
            Layout::DenseChunks { chunk_shape: vec![1, 24, 887] },
            Layout::Coordinates,
            Layout::CompressedRows { split: 2 },
            Layout::CompressedColumns { split: 0 },
            Layout::FiberTree { axis_order: vec![2, 0, 1] },
            Layout::SparseBlocks { block_shape: vec![91, 1, 100], axis_order: vec![0, 1, 2] },
        ];
        let header = |layout: Layout| Header {
            dtype: DType::F32,
            shape: shape.clone(),
            nnz: layout.is_sparse().then_some(5),
            layout,
            compression: Compression::Zstd { level: 1 },
            reasons: vec!["because \"so\"".into()],
        };
        layouts.into_iter().map(header).collect()
    }

    #[test]
    fn a_header_survives_its_columns() {
        for header in headers() {
            let shape: Vec<i64> = header.shape.dims().iter().map(|dim| *dim as i64).collect();
            let chunk: Option<Vec<i64>> =
                header.chunk_shape().map(|dims| dims.iter().map(|dim| *dim as i64).collect());
            let back = Header::from_parts(
                header.dtype.name(),
                &shape,
                header.layout.name(),
                chunk.as_deref(),
                &header.parameters_json(),
            );
            assert_eq!(back, Ok(header));
        }
    }

    #[test]
    fn contradictions_are_errors() {
        use ErrorKind::{Corrupt, Invalid};
        type Case<'a> = (&'a str, &'a [i64], &'a str, Option<&'a [i64]>, &'a str, ErrorKind);
        #[rustfmt::skip]
        let cases: [Case<'_>; 19] = [
            ("float31", &[2], "COO", None, r#"{"nnz":1}"#, Invalid),
            ("float32", &[2], "XYZ", None, r#"{"nnz":1}"#, Invalid),
            ("float32", &[2], "COO", None, r#"{"nnz":1,"tilt":2}"#, Invalid),
            ("float32", &[2], "FTSF", Some(&[1]), r#"{"compression":"lzma"}"#, Invalid),
            ("float32", &[-2], "COO", None, r#"{"nnz":1}"#, Corrupt),
            ("float32", &[2; 17], "COO", None, r#"{"nnz":1}"#, Corrupt),
            ("float32", &[2], "COO", None, "", Corrupt),
            ("float32", &[2], "COO", None, "[1", Corrupt),
            ("float32", &[2], "COO", None, "{}", Corrupt),
            ("float32", &[2], "COO", None, r#"{"nnz":3}"#, Corrupt),
            ("float32", &[], "COO", None, r#"{"nnz":1}"#, Corrupt),
            ("float32", &[2], "FTSF", None, "{}", Corrupt),
            ("float32", &[2], "FTSF", Some(&[0]), "{}", Corrupt),
            ("float32", &[2], "FTSF", Some(&[-1]), "{}", Corrupt),
            ("float32", &[2], "FTSF", Some(&[1, 1]), "{}", Corrupt),
            ("float32", &[i64::MAX], "FTSF", Some(&[i64::MAX]), "{}", Corrupt),
            ("float32", &[2, 2], "CSR", None, r#"{"split":3,"nnz":1}"#, Corrupt),
            ("float32", &[2, 2], "CSF", None, r#"{"axis_order":[0,0],"nnz":1}"#, Corrupt),
            ("float32", &[i64::MAX; 3], "CSR", None, r#"{"split":1,"nnz":1}"#, Corrupt),
        ];
        for (dtype, shape, layout, chunk, parameters, kind) in cases {
            let result = Header::from_parts(dtype, shape, layout, chunk, parameters);
            assert_eq!(
                result.as_ref().map_err(LayoutError::kind),
                Err(kind),
                "{layout} {parameters}: {result:?}"
            );
        }
    }
}
