//! Tensors on their way in and out of files, and what the caller may ask for.

use std::collections::BTreeMap;
use std::ops::Range;

use lacus_tensor::{Buffer, DType, Shape, SparseTensor, TensorRef};

use crate::error::Fault;

/// Text facts about a file, as safetensors keeps under `__metadata__`.
pub type Metadata = BTreeMap<String, String>;

/// A tensor in a file, borrowed.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "few are alive at once, and a box would cost each an allocation"
)]
pub enum FileValue<'a> {
    /// Every element is there. May be strided: a Fortran-order array is not reordered.
    Dense(TensorRef<'a>),
    /// Only nonzeros are there.
    Sparse(&'a SparseTensor),
}

impl FileValue<'_> {
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            FileValue::Dense(tensor) => tensor.dtype(),
            FileValue::Sparse(tensor) => tensor.dtype(),
        }
    }

    /// The length of each axis.
    pub fn shape(&self) -> &Shape {
        match self {
            FileValue::Dense(tensor) => tensor.shape(),
            FileValue::Sparse(tensor) => tensor.shape(),
        }
    }
}

/// A tensor to be written, with the name it gets in formats that keep names.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its elements.
    pub value: FileValue<'a>,
    /// Kept by safetensors only; see [`crate::Format::keeps_metadata`].
    pub metadata: Option<&'a Metadata>,
}

/// How to read what a file leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOptions {
    /// Sum the values of coordinates that occur several times, instead of refusing them. For sparse input.
    pub sum_duplicates: bool,
    /// Whether the coordinates of a `.tns` file start at 1, as FROSTT says, or at 0.
    pub one_based: bool,
    /// The shape of a `.tns` tensor. Without it, each axis is as long as its largest coordinate needs,
    /// unless the file was written by [`crate::write`], which notes the shape in a comment.
    pub dims: Option<Shape>,
    /// The type of the values of a text file (`.tns`, `.mtx`). Without it: what [`crate::write`] noted in
    /// a comment; else float64 for `.tns`, and for `.mtx` what its field says (integer int64, real and
    /// pattern float64, complex complex128).
    pub dtype: Option<DType>,
    /// All columns of a `.tns` file are coordinates; every value is 1.
    pub tns_pattern: bool,
    /// Read only these tensors of a file that holds several; empty means all. Whatever else is in the
    /// file then need not be a tensor.
    pub only: Vec<String>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            sum_duplicates: false,
            one_based: true,
            dims: None,
            dtype: None,
            tns_pattern: false,
            only: Vec::new(),
        }
    }
}

/// One tensor of an open file.
#[derive(Debug)]
pub(crate) enum Held {
    Dense(HeldDense),
    Sparse(SparseTensor),
}

/// Where the elements of a dense tensor are: in the file's map, or in an own buffer.
#[derive(Debug)]
pub(crate) struct HeldDense {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) fortran: bool,
    pub(crate) range: Range<usize>,
    pub(crate) owned: Option<Buffer>,
}

impl HeldDense {
    /// The tensor, over the bytes of its file.
    pub(crate) fn borrow<'a>(&'a self, map: &'a [u8]) -> Result<TensorRef<'a>, Fault> {
        let home: &[u8] = match &self.owned {
            Some(buffer) => buffer,
            None => map,
        };
        let bytes = &home[self.range.clone()];
        let empty = self.shape.elements() == Some(0);
        Ok(if self.fortran && self.shape.rank() > 1 && !empty {
            // No overflow: an array that is not empty was checked to fit its bytes.
            let strides: Vec<i64> = self
                .shape
                .dims()
                .iter()
                .scan(self.dtype.size_bytes() as i64, |stride, &dim| {
                    Some(std::mem::replace(stride, stride.saturating_mul(dim as i64)))
                })
                .collect();
            TensorRef::strided(self.dtype, &self.shape, &strides, 0, bytes)?
        } else {
            TensorRef::contiguous(self.dtype, &self.shape, bytes)?
        })
    }
}

/// Reads a tensor's elements in C order, block by block, whatever its strides are.
pub(crate) fn for_each_block<E>(
    tensor: &TensorRef<'_>,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    /// Large enough to make each gather and write worth it, small enough for the second-level cache.
    const BLOCK_BYTES: u64 = 1 << 20;

    if tensor.shape().elements() == Some(0) {
        return Ok(());
    }
    if let Some(bytes) = tensor.contiguous_bytes() {
        return each(bytes);
    }
    let dims = tensor.shape().dims();
    // `inner` is what lies under one step of axis `cut`; whole runs of such steps make a block.
    let mut cut = dims.len() - 1;
    let mut inner = tensor.dtype().size_bytes() as u64;
    while cut > 0 && inner * dims[cut] <= BLOCK_BYTES {
        inner *= dims[cut];
        cut -= 1;
    }
    let steps = (BLOCK_BYTES / inner).clamp(1, dims[cut]);
    let mut block = vec![0; (steps * inner) as usize];
    let mut origin = vec![0; dims.len()];
    let mut extent = dims.to_vec();
    extent[..cut].fill(1);
    loop {
        extent[cut] = steps.min(dims[cut] - origin[cut]);
        let filled = &mut block[..(extent[cut] * inner) as usize];
        tensor.region(&origin, &extent).copy_to(filled);
        each(filled)?;
        origin[cut] += extent[cut];
        let mut axis = cut;
        while origin[axis] == dims[axis] {
            if axis == 0 {
                return Ok(());
            }
            origin[axis] = 0;
            axis -= 1;
            origin[axis] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_c_order_whatever_the_strides() {
        let check = |dims: &[u64], order: &[usize]| {
            let shape = Shape::new(dims).unwrap();
            let bytes: Vec<u8> = (0..shape.elements().unwrap() as u32).flat_map(u32::to_le_bytes).collect();
            let turned = TensorRef::contiguous(DType::U32, &shape, &bytes).unwrap().transpose(order);
            let mut expected = vec![0; bytes.len()];
            turned.copy_to(&mut expected);
            let mut found = Vec::new();
            for_each_block(&turned, |block| {
                found.extend_from_slice(block);
                Ok::<(), ()>(())
            })
            .unwrap();
            assert!(found == expected, "{dims:?} {order:?}");
        };
        check(&[3, 4], &[1, 0]);
        check(&[3, 0], &[1, 0]);
        check(&[700, 900], &[1, 0]);
        check(&[5, 300_000], &[1, 0]);
        check(&[300_000, 5], &[1, 0]);
        check(&[3, 2, 70_000], &[2, 0, 1]);
        check(&[2, 3, 4, 5], &[3, 1, 0, 2]);
    }
}
