//! Writing tensors to a file that appears whole or not at all.

use std::path::Path;

use crate::error::{Fault, FileError};
use crate::format::{Format, Packing};
use crate::target::{packed, save};
use crate::value::{FileValue, Item};
use crate::{mtx, npy, npz, safetensors, tns};

/// Writes `items` to a new file, or over an old one.
///
/// The file is written beside its place and then renamed, so that nobody ever sees half of it.
///
/// | format | takes |
/// |---|---|
/// | npy | one dense tensor |
/// | npz | any number, dense and sparse (as `<name>/indices`, `<name>/values`, `<name>/shape`) |
/// | safetensors | any number, dense, and their metadata |
/// | tns | one sparse tensor |
/// | mtx | one matrix: sparse as `coordinate`, dense as `array` |
///
/// Elements keep their bits; a text format cannot say the payload of a NaN.
///
/// # Errors
///
/// `Invalid` for what the format cannot hold, before anything is written: bfloat16 in npy and npz, complex128
/// in safetensors, several tensors where there is room for one, a name used twice. Metadata of items is
/// dropped by formats for which [`Format::keeps_metadata`] is false.
pub fn write(
    path: impl AsRef<Path>,
    format: Format,
    packing: Packing,
    items: &[Item<'_>],
) -> Result<(), FileError> {
    let path = path.as_ref();
    write_items(path, format, packing, items).map_err(|fault| fault.in_file(path))
}

fn write_items(path: &Path, format: Format, packing: Packing, items: &[Item<'_>]) -> Result<(), Fault> {
    if packing != Packing::Plain && !format.is_text() {
        return Err(Fault::unsupported(format!("a .{format} file is not compressed as a whole")));
    }
    match format {
        Format::Npz => save(path, |out| npz::write(out, items)),
        Format::Safetensors => save(path, |out| safetensors::write(out, items)),
        Format::Npy => match &only(format, items)?.value {
            FileValue::Dense(tensor) => save(path, |out| npy::write(out, tensor)),
            FileValue::Sparse(_) => {
                Err(Fault::unsupported("npy holds dense tensors; write a sparse one as .npz, .tns or .mtx"))
            }
        },
        Format::Tns => match &only(format, items)?.value {
            FileValue::Sparse(tensor) => {
                save(path, |out| packed(out, packing, |out| tns::write(out, tensor)))
            }
            FileValue::Dense(_) => Err(Fault::unsupported(
                "tns holds sparse tensors; write a dense one as .npy, .npz or .safetensors",
            )),
        },
        Format::Mtx => {
            let value = &only(format, items)?.value;
            save(path, |out| packed(out, packing, |out| mtx::write(out, value)))
        }
    }
}

fn only<'a, 'b>(format: Format, items: &'b [Item<'a>]) -> Result<&'b Item<'a>, Fault> {
    match items {
        [item] => Ok(item),
        _ => Err(Fault::unsupported(format!(
            "a .{format} file holds one tensor, not {}; .npz and .safetensors hold several",
            items.len()
        ))),
    }
}
