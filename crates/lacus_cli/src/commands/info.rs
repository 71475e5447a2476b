//! `lacus info`: what is known of a tensor, or of the dataset.

use lacus_layout::Layout;
use lacus_table::{FORMAT, Table, TensorInfo};
use serde_json::{Value as Json, json};

use super::{Context, memory_bytes, ratio, tensor_json};
use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::output::{facts, number, percent, size};

pub(crate) async fn run(context: &Context, args: InfoArgs) -> Result<(), Failure> {
    let table = context.open(&args.dataset.url, args.version.at).await?;
    match &args.name {
        Some(name) => {
            let info = table.tensor(name)?;
            context.output.result(|| with_version(tensor_json(&info), &table), || of_tensor(&info))
        }
        None => context
            .output
            .result(|| dataset_json(&args.dataset.url, &table), || of_dataset(&args.dataset.url, &table)),
    }
}

fn with_version(mut json: Json, table: &Table) -> Json {
    json["version"] = json!(table.version());
    json
}

fn of_tensor(info: &TensorInfo) -> String {
    let header = &info.header;
    let mut lines = vec![
        ("name", info.name.clone()),
        ("dtype", header.dtype.to_string()),
        ("shape", header.shape.to_string()),
        ("layout", layout(info)),
    ];
    if let Some(nnz) = header.nnz {
        let share = percent(nnz, header.shape.elements_saturating()).map(|share| format!(" ({share})"));
        lines.push(("nonzeros", format!("{}{}", number(nnz), share.unwrap_or_default())));
    }
    let memory = if header.nnz.is_some() { "as coordinates and values" } else { "in memory" };
    let whole = size(memory_bytes(header));
    lines.push((
        "stored",
        format!("{}, {} of the {whole} it takes {memory}", size(info.stored_bytes), ratio(info)),
    ));
    if info.metadata.as_object().is_some_and(|object| !object.is_empty()) {
        lines.push(("metadata", info.metadata.to_string()));
    }
    if !header.reasons.is_empty() {
        lines.push(("why", header.reasons.join("\n")));
    }
    facts(&lines)
}

/// The layout with what it is set to.
fn layout(info: &TensorInfo) -> String {
    let shape =
        |dims: &[u64]| format!("({})", dims.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
    let axes = |order: &[usize]| order.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let header = &info.header;
    let name = header.layout.name();
    match &header.layout {
        Layout::DenseChunks { chunk_shape } => {
            format!("{name}, chunks of {}, compression {}", shape(chunk_shape), header.compression)
        }
        Layout::Coordinates => format!("{name}, a row per nonzero"),
        Layout::CompressedRows { split } | Layout::CompressedColumns { split } => {
            format!("{name}, split at axis {split}")
        }
        Layout::FiberTree { axis_order } => format!("{name}, axes in the order {}", axes(axis_order)),
        Layout::SparseBlocks { block_shape, axis_order } => {
            format!("{name}, blocks of {}, axes in the order {}", shape(block_shape), axes(axis_order))
        }
    }
}

fn of_dataset(url: &str, table: &Table) -> String {
    let (files, bytes) = table.files();
    let mut lines = vec![
        ("url", url.to_owned()),
        ("version", table.version().to_string()),
        ("tensors", table.names().len().to_string()),
        ("files", files.to_string()),
        ("stored", size(bytes)),
        ("format", FORMAT.to_string()),
    ];
    let metadata = table.metadata();
    if metadata.as_object().is_some_and(|object| !object.is_empty()) {
        lines.push(("metadata", metadata.to_string()));
    }
    facts(&lines)
}

fn dataset_json(url: &str, table: &Table) -> Json {
    let (files, bytes) = table.files();
    json!({
        "url": url, "version": table.version(), "tensors": table.names().len(), "files": files,
        "stored_bytes": bytes, "format": FORMAT, "metadata": table.metadata(),
    })
}
