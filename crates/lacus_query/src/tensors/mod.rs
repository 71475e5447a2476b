//! Tensors inside of Arrow arrays: which fields hold them, their values row by row, and arrays made from them.
//!
//! ```text
//! Field ─Kind::of→ Tensor │ Media │ Class │ Number │ List │ Other         TensorType ─field→ Field
//! ArrayRef + Field ─TensorArray→ row → elements and shape                rows ─TensorBuilder→ ArrayRef
//! ```

mod tensor_type;
mod kind;
mod elements;
mod files;
mod tensor_array;
mod tensor_builder;

pub(crate) use elements::{
    Class, Wide, cast, in_order, load, loaded, loaded_complex, store, store_complex, tensor_of,
};
pub(crate) use files::Files;
pub(crate) use kind::Kind;
pub(crate) use tensor_array::TensorArray;
pub(crate) use tensor_builder::TensorBuilder;
pub(crate) use tensor_type::{Dims, TensorType, dtype_of, shape_text};
