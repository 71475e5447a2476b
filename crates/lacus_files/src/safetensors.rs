//! `.safetensors`: named dense tensors behind one JSON header.
//!
//! ```text
//! header length | {"weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, …} | elements
//! 8 bytes         JSON, with text facts under "__metadata__", padded with blanks
//! ```
//!
//! Tensors are listed in the order of their bytes, so that going through them reads the file once, forwards.
//! The bytes must be covered exactly: no holes, no overlaps, as the reference implementation demands.
//! There is a C64 (complex64) but no complex128; the 4, 6 and 8 bit floats have no counterpart here.

use std::collections::BTreeMap;
use std::io::Write;

use lacus_tensor::{DType, Shape};
use serde_json::{Map, Value, json};

use crate::error::{Fault, quoted};
use crate::value::{FileValue, Held, HeldDense, Item, Metadata, for_each_block};

/// The limit of the reference implementation.
const LARGEST_HEADER_BYTES: u64 = 100_000_000;

const METADATA: &str = "__metadata__";

/// Reads the header. The tensors' ranges are within `bytes`. Only the wanted ones need to have a dtype we know.
pub(crate) fn read(
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<(String, Held)>, Metadata), Fault> {
    let (header, data_start) = header_of(bytes)?;
    let data_len = bytes.len() - data_start;
    let mut metadata = Metadata::new();
    let mut found = Vec::new();
    for (name, facts) in &header {
        if name == METADATA {
            metadata = metadata_of(facts)?;
        } else {
            let place = place_of(facts).map_err(|fault| fault.in_member(name))?;
            found.push((place, name, facts));
        }
    }
    found.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut end = 0;
    let mut entries = Vec::new();
    for ((from, to), name, facts) in found {
        let fault = |text: String| Fault::malformed(text).in_member(name);
        if from != end || to < from {
            return Err(fault(format!("data offsets [{from}, {to}], where the bytes before end at {end}")));
        }
        end = to;
        if end > data_len as u64 {
            return Err(fault(format!(
                "data offsets [{from}, {to}] in a file with {data_len} bytes of data"
            )));
        }
        if wanted(name) {
            let range = data_start + from as usize..data_start + to as usize;
            let held = tensor_of(facts, range).map_err(|fault| fault.in_member(name))?;
            entries.push((name.clone(), Held::Dense(held)));
        }
    }
    if end != data_len as u64 {
        return Err(Fault::malformed(format!("{data_len} bytes of data, of which tensors take {end}")));
    }
    Ok((entries, metadata))
}

fn header_of(bytes: &[u8]) -> Result<(Map<String, Value>, usize), Fault> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(Fault::malformed(format!("{} bytes are no safetensors file", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    if length > LARGEST_HEADER_BYTES {
        return Err(Fault::malformed(format!(
            "a header of {length} bytes; safetensors has at most {LARGEST_HEADER_BYTES}"
        )));
    }
    let Some(header) = rest.get(..length as usize) else {
        return Err(Fault::malformed(format!(
            "a header of {length} bytes in a file that has {} left",
            rest.len()
        )));
    };
    match serde_json::from_slice(header) {
        Ok(Value::Object(header)) => Ok((header, 8 + length as usize)),
        Ok(_) => Err(Fault::malformed(format!("the header {} is not a JSON object", quoted(header)))),
        Err(error) => Err(Fault::malformed(format!("the header is not JSON: {error}"))),
    }
}

fn metadata_of(facts: &Value) -> Result<Metadata, Fault> {
    let object = facts.as_object();
    let texts = object.and_then(|object| {
        object.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    });
    texts.ok_or_else(|| Fault::malformed("holds something else than texts").in_member(METADATA))
}

fn place_of(facts: &Value) -> Result<(u64, u64), Fault> {
    let offsets = facts.get("data_offsets").and_then(Value::as_array).map(Vec::as_slice);
    match offsets {
        Some([from, to]) => from.as_u64().zip(to.as_u64()),
        _ => None,
    }
    .ok_or_else(|| Fault::malformed("has no data_offsets [from, to]"))
}

fn tensor_of(facts: &Value, range: std::ops::Range<usize>) -> Result<HeldDense, Fault> {
    let dims: Option<Vec<u64>> = facts
        .get("shape")
        .and_then(Value::as_array)
        .and_then(|dims| dims.iter().map(Value::as_u64).collect());
    let dims = dims.ok_or_else(|| Fault::malformed("has no shape"))?;
    let name = facts.get("dtype").and_then(Value::as_str).ok_or_else(|| Fault::malformed("has no dtype"))?;
    let Some(dtype) = DType::ALL.into_iter().find(|&dtype| name_of(dtype) == Some(name)) else {
        return Err(Fault::unsupported(format!("dtype {} has no counterpart", quoted(name.as_bytes()))));
    };
    let shape = Shape::new(dims)?;
    let expected = shape.byte_len(dtype)?;
    if expected != range.len() {
        return Err(Fault::malformed(format!(
            "{dtype} elements of shape {shape} take {expected} bytes, found {}",
            range.len()
        )));
    }
    Ok(HeldDense { dtype, shape, fortran: false, range, owned: None })
}

/// The format's name of a dtype.
fn name_of(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "BOOL",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::U8 => "U8",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::C64 => "C64",
        DType::C128 => return None,
    })
}

/// Writes tensors and the metadata of all of them.
///
/// The file has one set of metadata, tensors have one each: they are united. A key on which tensors
/// disagree is written once for each, as `<tensor>/<key>`, so nothing is lost.
pub(crate) fn write(out: &mut impl Write, items: &[Item<'_>]) -> Result<(), Fault> {
    let mut tensors = Vec::with_capacity(items.len());
    for item in items {
        let fault = |text: String| Fault::unsupported(text).in_member(item.name);
        let FileValue::Dense(tensor) = &item.value else {
            return Err(fault(
                "safetensors holds dense tensors only; write a sparse one as .npz or .tns".into(),
            ));
        };
        if name_of(tensor.dtype()).is_none() {
            return Err(fault(format!("safetensors has no {}; write a .npy file instead", tensor.dtype())));
        }
        if item.name == METADATA {
            return Err(fault("safetensors keeps this name for itself".into()));
        }
        tensors.push((item.name, tensor));
    }
    // Wide elements first: then all are aligned without padding, which the format forbids.
    tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype().size_bytes()), *name));

    let mut header = Map::new();
    let metadata = united(items);
    if !metadata.is_empty() {
        header.insert(METADATA.to_owned(), json!(metadata));
    }
    let mut end = 0;
    for (name, tensor) in &tensors {
        let from = end;
        end += tensor.shape().byte_len(tensor.dtype())? as u64;
        let facts = json!({
            "dtype": name_of(tensor.dtype()),
            "shape": tensor.shape().dims(),
            "data_offsets": [from, end],
        });
        if header.insert((*name).to_owned(), facts).is_some() {
            return Err(Fault::unsupported("two tensors of this name").in_member(name));
        }
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() as u64 > LARGEST_HEADER_BYTES {
        return Err(Fault::unsupported(format!(
            "names and metadata take {} bytes; safetensors has at most {LARGEST_HEADER_BYTES}",
            header.len()
        )));
    }
    let fault = Fault::io("write");
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(&fault)?;
    out.write_all(&header).map_err(&fault)?;
    for (_, tensor) in tensors {
        for_each_block(tensor, |block| out.write_all(block)).map_err(&fault)?;
    }
    Ok(())
}

fn united(items: &[Item<'_>]) -> Metadata {
    let mut by_key: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for item in items {
        for (key, text) in item.metadata.into_iter().flatten() {
            by_key.entry(key).or_default().push((item.name, text));
        }
    }
    let mut united = Metadata::new();
    for (key, uses) in by_key {
        if uses.iter().all(|(_, text)| *text == uses[0].1) {
            united.insert(key.to_owned(), uses[0].1.to_owned());
        } else {
            united.extend(uses.into_iter().map(|(name, text)| (format!("{name}/{key}"), text.to_owned())));
        }
    }
    united
}

#[cfg(test)]
mod tests;
