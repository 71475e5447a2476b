//! `.npz`: a zip archive of `.npy` arrays, as `numpy.savez` and `savez_compressed` write it.
//!
//! numpy has no sparse arrays. A sparse tensor is three members under its name, which plain numpy reads:
//!
//! | member | dtype, shape | |
//! |---|---|---|
//! | `<name>/indices.npy` | int64 `(nnz, rank)` | coordinates, from 0 |
//! | `<name>/values.npy` | any `(nnz,)` | |
//! | `<name>/shape.npy` | int64 `(rank,)` | |
//!
//! Three members of these names that fit together are read as one sparse tensor, with any integer type
//! for the coordinates; without a `<name>/` the tensor is called as the file is.
//!
//! Members that are stored are mapped, like `.npy` files; deflated ones are unpacked into memory. Both
//! are checked against the archive's checksums, which reads a stored one once when the file is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Seek, Write};

use lacus_tensor::{Buffer, DType, Duplicates, Shape, SparseTensor, TensorRef};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::error::{Cause, Fault, Place};
use crate::npy;
use crate::value::{FileValue, Held, HeldDense, Item, ReadOptions};

const PARTS: [&str; 3] = ["indices", "values", "shape"];

/// Deflate stores at least one bit per 129 bytes and a little per block.
const LARGEST_DEFLATE_RATIO: u64 = 1040;

/// Reads the wanted members. A tensor made of members without a common prefix is called `stem`.
pub(crate) fn read(bytes: &[u8], stem: &str, options: &ReadOptions) -> Result<Vec<(String, Held)>, Fault> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(zip_fault)?;
    if archive.has_duplicate_names() || archive.has_overlapping_entries().map_err(zip_fault)? {
        return Err(Fault::malformed("members of the archive overlap or share a name"));
    }
    let keys = keys(&mut archive)?;
    let places: BTreeMap<&str, usize> =
        keys.iter().enumerate().map(|(at, (_, key))| (key.as_str(), at)).collect();
    let place = |key: &str| places.get(key).copied();
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut entries = Vec::new();
    let mut consumed = BTreeSet::new();
    for (at, (_, key)) in keys.iter().enumerate() {
        let Some(prefix) = key.strip_suffix(PARTS[0]).filter(|p| p.is_empty() || p.ends_with('/')) else {
            continue;
        };
        let [Some(indices), Some(values), Some(shape)] = PARTS.map(|part| place(&format!("{prefix}{part}")))
        else {
            continue;
        };
        let name = prefix.strip_suffix('/').unwrap_or(stem);
        if name.is_empty() || !wanted(name) {
            continue;
        }
        let mut parts = Vec::with_capacity(3);
        for index in [indices, values, shape] {
            parts.push(member(&mut archive, keys[index].0, bytes).map_err(|f| f.in_member(&keys[index].1))?);
        }
        if fit_together(&parts) {
            let tensor = sparse(bytes, &parts, options.sum_duplicates).map_err(|f| f.in_member(name))?;
            entries.push((at, name.to_owned(), Held::Sparse(tensor)));
            consumed.extend([indices, values, shape]);
        }
    }
    for (at, (index, key)) in keys.iter().enumerate() {
        let asked = options.only.iter().any(|only| only == key);
        if asked || (options.only.is_empty() && !consumed.contains(&at)) {
            let held = member(&mut archive, *index, bytes).map_err(|fault| {
                let fault = if asked { fault } else { with_advice(fault, &places) };
                fault.in_member(key)
            })?;
            entries.push((at, key.clone(), Held::Dense(held)));
        }
    }
    entries.sort_by_key(|(at, _, _)| *at);
    Ok(entries.into_iter().map(|(_, name, held)| (name, held)).collect())
}

/// The arrays of an archive: their places in it and their names, in its order.
fn keys(archive: &mut ZipArchive<Cursor<&[u8]>>) -> Result<Vec<(usize, String)>, Fault> {
    let mut keys = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(zip_fault)?;
        let name = entry.name().map_err(zip_fault)?;
        if entry.is_dir() {
            continue;
        }
        match name.strip_suffix(".npy") {
            Some("") | None => {
                return Err(Fault::unsupported("a member that is no .npy array").in_member(&name));
            }
            Some(key) => keys.push((index, key.to_owned())),
        }
    }
    Ok(keys)
}

/// Says what to do about a member that is fine but no tensor, when nobody asked for it by name.
fn with_advice(fault: Fault, places: &BTreeMap<&str, usize>) -> Fault {
    let has = |key: &str| places.contains_key(key);
    match fault.cause {
        Cause::Unsupported(found) if has("format") && has("shape") && (has("indptr") || has("row")) => {
            Fault::unsupported(format!(
                "{found}; this seems to be from scipy.sparse.save_npz, use scipy.io.mmwrite"
            ))
        }
        Cause::Unsupported(found) => {
            Fault::unsupported(format!("{found}; name the tensors to read, without it"))
        }
        cause => Fault { cause, ..fault },
    }
}

/// Reads one array.
fn member(archive: &mut ZipArchive<Cursor<&[u8]>>, index: usize, bytes: &[u8]) -> Result<HeldDense, Fault> {
    let mut file = archive.by_index(index).map_err(zip_fault)?;
    let (size, packed_size) = (file.size(), file.compressed_size());
    match file.compression() {
        CompressionMethod::Stored => {
            let start = file.data_start().and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
            let stored = bytes.get(start..).and_then(|rest| rest.get(..usize::try_from(size).ok()?));
            let Some(stored) = stored.filter(|_| packed_size == size) else {
                return Err(Fault::malformed(format!("{size} bytes, which the archive does not have")));
            };
            std::io::copy(&mut file, &mut std::io::sink()).map_err(unpack_fault)?;
            let mut held = npy::read(stored)?;
            if held.owned.is_none() {
                held.range = held.range.start + start..held.range.end + start;
            }
            Ok(held)
        }
        CompressionMethod::Deflated => {
            if size > packed_size.saturating_mul(LARGEST_DEFLATE_RATIO).saturating_add(LARGEST_DEFLATE_RATIO)
            {
                return Err(Fault::malformed(format!("{packed_size} bytes cannot unpack to {size}")));
            }
            let mut unpacked = Buffer::try_for_overwrite(size as usize)?;
            file.read_exact(&mut unpacked).map_err(unpack_fault)?;
            // The checksum is compared at the end, and the end is only seen by looking for more.
            if file.read(&mut [0]).map_err(unpack_fault)? != 0 {
                return Err(Fault::malformed(format!("unpacks to more than its {size} bytes")));
            }
            let mut held = npy::read(&unpacked)?;
            held.owned.get_or_insert(unpacked);
            Ok(held)
        }
        other => {
            Err(Fault::unsupported(format!("compressed by {other}; npz members are stored or deflated")))
        }
    }
}

/// Whether three arrays have the types and shapes of a sparse tensor.
fn fit_together(parts: &[HeldDense]) -> bool {
    let [indices, values, shape] = parts else { return false };
    match (indices.shape.dims(), values.shape.dims(), shape.shape.dims()) {
        (&[nnz, rank], &[count], &[axes]) => {
            nnz == count && rank == axes && indices.dtype.is_integer() && shape.dtype.is_integer()
        }
        _ => false,
    }
}

fn sparse(bytes: &[u8], parts: &[HeldDense], sum_duplicates: bool) -> Result<SparseTensor, Fault> {
    let coords = integers(&parts[0].borrow(bytes)?.transpose(&[1, 0]))?;
    let values = parts[1].borrow(bytes)?.to_tensor().into_buffer();
    let dims = integers(&parts[2].borrow(bytes)?)?;
    let dims: Result<Vec<u64>, _> = dims.cast::<i64>().iter().map(|&dim| u64::try_from(dim)).collect();
    let shape = Shape::new(dims.map_err(|_| Fault::malformed("a negative size in its shape"))?)?;
    let duplicates = if sum_duplicates { Duplicates::Sum } else { Duplicates::Refuse };
    Ok(SparseTensor::new(parts[1].dtype, shape, coords, values, duplicates)?)
}

/// Integers of any type, in C order, as int64.
fn integers(tensor: &TensorRef<'_>) -> Result<Buffer, Fault> {
    let narrow = tensor.to_tensor();
    let mut wide = Buffer::try_for_overwrite(narrow.bytes().len() / narrow.dtype().size_bytes() * 8)?;
    let out = wide.cast_mut::<i64>();
    macro_rules! widen {
        ($type:ty) => {
            for (place, &value) in out.iter_mut().zip(narrow.buffer().cast::<$type>()) {
                *place = i64::from(value);
            }
        };
    }
    match narrow.dtype() {
        DType::I8 => widen!(i8),
        DType::I16 => widen!(i16),
        DType::I32 => widen!(i32),
        DType::I64 => return Ok(narrow.into_buffer()),
        DType::U8 => widen!(u8),
        DType::U16 => widen!(u16),
        DType::U32 => widen!(u32),
        DType::U64 => {
            for (place, &value) in out.iter_mut().zip(narrow.buffer().cast::<u64>()) {
                *place = i64::try_from(value).map_err(|_| Fault::malformed(format!("the index {value}")))?;
            }
        }
        other => return Err(Fault::malformed(format!("indices of type {other}"))),
    }
    Ok(wide)
}

/// Writes an archive of stored members, aligned so that they can be mapped.
pub(crate) fn write(out: &mut (impl Write + Seek), items: &[Item<'_>]) -> Result<(), Fault> {
    let mut archive = ZipWriter::new(out);
    for item in items {
        let done = match &item.value {
            FileValue::Dense(tensor) => write_dense(&mut archive, item.name, tensor),
            FileValue::Sparse(tensor) => write_sparse(&mut archive, item.name, tensor),
        };
        if let Err(fault) = done {
            // Dropped, it would try to finish the archive once more and print that it cannot.
            std::mem::forget(archive);
            return Err(fault.in_member(item.name));
        }
    }
    archive.finish().map(drop).map_err(zip_fault)
}

fn write_dense<W: Write + Seek>(
    archive: &mut ZipWriter<W>,
    name: &str,
    tensor: &TensorRef<'_>,
) -> Result<(), Fault> {
    start(archive, name, tensor.shape().byte_len(tensor.dtype())?)?;
    npy::write(archive, tensor)
}

fn write_sparse<W: Write + Seek>(
    archive: &mut ZipWriter<W>,
    name: &str,
    tensor: &SparseTensor,
) -> Result<(), Fault> {
    if tensor.dtype() == DType::BF16 {
        return Err(Fault::unsupported("numpy files have no bfloat16; write a .tns file instead"));
    }
    let (nnz, rank) = (tensor.nnz() as u64, tensor.shape().rank() as u64);
    let dims: Vec<u8> = tensor.shape().dims().iter().flat_map(|dim| dim.to_le_bytes()).collect();
    // Our coordinates lie axis by axis: that is Fortran order for one row per nonzero.
    let members: [(DType, Vec<u64>, bool, &[u8]); 3] = [
        (DType::I64, vec![nnz, rank], true, tensor.coords()),
        (tensor.dtype(), vec![nnz], false, tensor.values()),
        (DType::I64, vec![rank], false, &dims),
    ];
    for (part, (dtype, shape, fortran, bytes)) in PARTS.into_iter().zip(members) {
        let header = npy::header(dtype, &Shape::new(shape)?, fortran)?;
        start(archive, &format!("{name}/{part}"), bytes.len())?;
        archive.write_all(&header).and_then(|()| archive.write_all(bytes)).map_err(Fault::io("write"))?;
    }
    Ok(())
}

fn start<W: Write + Seek>(archive: &mut ZipWriter<W>, key: &str, data_bytes: usize) -> Result<(), Fault> {
    // Sizes have 32 bits unless asked otherwise; the array's header comes on top of its data.
    let large = data_bytes > u32::MAX as usize - (1 << 16);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(64)
        .large_file(large);
    archive.start_file(format!("{key}.npy"), options).map_err(zip_fault)
}

/// What the zip library says, as our own: its I/O errors are about bytes in memory when reading.
fn zip_fault(error: ZipError) -> Fault {
    match error {
        ZipError::Io(source) if source.raw_os_error().is_some() => Fault::io("write")(source),
        error => Fault { place: Place::Whole, cause: Cause::Malformed(format!("zip archive: {error}")) },
    }
}

fn unpack_fault(error: std::io::Error) -> Fault {
    Fault::malformed(format!("cannot be unpacked: {error}"))
}

#[cfg(test)]
mod tests;
