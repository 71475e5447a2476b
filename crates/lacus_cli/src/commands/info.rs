//! `lacus info`: what is known of a tensor or column, or of the dataset.

use lacus::dataset::{ColumnSummary, Dataset, Summary};
use lacus::layout::Layout;
use lacus::table::{ErrorKind, FORMAT, Table, TensorInfo};
use serde_json::{Value as Json, json};

use super::{Context, memory_bytes, open_shape, ratio, tensor_json};
use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, facts, number, percent, size};

pub(crate) async fn run(context: &Context, args: InfoArgs) -> Result<(), Failure> {
    let dataset = context.open_dataset(&args.dataset.url, &args.version).await?;
    let table = dataset.table();
    match &args.name {
        Some(name) if table.is_column(name) => {
            let summary = dataset.summary().await?;
            let column = summary.columns.iter().find(|column| column.name == *name);
            let column =
                column.ok_or_else(|| Failure::new(ErrorKind::Internal, "a column without a summary"))?;
            let text = of_column(&dataset, column)?;
            context.output.result(|| with_version(column_json(column), table), || text)
        }
        Some(name) => {
            let info = table.tensor(name)?;
            context.output.result(|| with_version(tensor_json(&info), table), || of_tensor(&info))
        }
        None => {
            let summary = match dataset.column_names().is_empty() {
                true => None,
                false => Some(dataset.summary().await?),
            };
            let (url, summary) = (&args.dataset.url, summary.as_ref());
            context.output.result(|| dataset_json(url, table, summary), || of_dataset(url, table, summary))
        }
    }
}

fn of_column(dataset: &Dataset, summary: &ColumnSummary) -> Result<String, Failure> {
    let facts_of = dataset.column_facts(&summary.name)?;
    let column = &facts_of.column;
    let mut lines = vec![
        ("name", summary.name.clone()),
        ("type", summary.htype.clone()),
        ("dtype", dtype(summary)),
        ("samples", number(summary.samples)),
        ("shapes", shapes(summary)),
    ];
    if let Some(shape) = column.shape() {
        lines.push(("declared", open_shape(shape)));
    }
    lines.push(("compression", summary.compression.clone()));
    lines.push(("stored", size(summary.stored_bytes)));
    if !column.options().is_empty() {
        lines.push(("options", Json::Object(column.options().clone()).to_string()));
    }
    if let Some(metadata) = &facts_of.metadata {
        lines.push(("metadata", metadata.to_string()));
    }
    Ok(facts(&lines))
}

fn column_json(column: &ColumnSummary) -> Json {
    json!({
        "name": column.name, "htype": column.htype, "dtype": column.dtype, "samples": column.samples,
        "shape_min": column.shape_range.as_ref().map(|(least, _)| least),
        "shape_max": column.shape_range.as_ref().map(|(_, most)| most),
        "compression": column.compression, "stored_bytes": column.stored_bytes,
    })
}

fn dtype(column: &ColumnSummary) -> String {
    if column.dtype.is_empty() { "-".to_owned() } else { column.dtype.clone() }
}

/// `(32..500, 20..600, 3)`: the least and the greatest size of each axis.
fn shapes(column: &ColumnSummary) -> String {
    let Some((least, most)) = &column.shape_range else { return "-".to_owned() };
    let size = |(least, most): (&u64, &u64)| match least == most {
        true => least.to_string(),
        false => format!("{least}..{most}"),
    };
    match &least.iter().zip(most).map(size).collect::<Vec<_>>()[..] {
        [size] => format!("({size},)"),
        sizes => format!("({})", sizes.join(", ")),
    }
}

/// A line per column, and what would make reading faster.
fn of_columns(summary: &Summary) -> String {
    let titles = ["COLUMN", "TYPE", "DTYPE", "COUNT", "SHAPES", "COMPRESSION", "STORED"].map(str::to_owned);
    let row = |column: &ColumnSummary| {
        vec![
            column.name.clone(),
            column.htype.clone(),
            dtype(column),
            number(column.samples),
            shapes(column),
            column.compression.clone(),
            size(column.stored_bytes),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(titles.to_vec()).chain(summary.columns.iter().map(row)).collect();
    use Side::{Left, Right};
    let table = columns(&[Left, Left, Left, Right, Left, Left, Right], &rows);
    let advice: String = summary.advice.iter().map(|advice| format!("\nadvice: {advice}\n")).collect();
    format!("\n{table}{advice}")
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

fn of_dataset(url: &str, table: &Table, summary: Option<&Summary>) -> String {
    let (files, bytes) = table.files();
    let mut lines = vec![("url", url.to_owned()), ("version", table.version().to_string())];
    if let Some(summary) = summary {
        lines.push(("rows", number(summary.rows)));
        lines.push(("columns", summary.columns.len().to_string()));
    }
    lines.extend([
        ("tensors", tensors(table).to_string()),
        ("files", files.to_string()),
        ("stored", size(bytes)),
        ("format", FORMAT.to_string()),
    ]);
    let metadata = table.metadata();
    if metadata.as_object().is_some_and(|object| !object.is_empty()) {
        lines.push(("metadata", metadata.to_string()));
    }
    facts(&lines) + &summary.map(of_columns).unwrap_or_default()
}

/// How many tensors are no columns.
fn tensors(table: &Table) -> usize {
    table.names().iter().filter(|name| !table.is_column(name)).count()
}

fn dataset_json(url: &str, table: &Table, summary: Option<&Summary>) -> Json {
    let (files, bytes) = table.files();
    let mut json = json!({
        "url": url, "version": table.version(), "tensors": tensors(table), "files": files,
        "stored_bytes": bytes, "format": FORMAT, "metadata": table.metadata(),
    });
    if let Some(summary) = summary {
        json["rows"] = json!(summary.rows);
        json["columns"] = summary.columns.iter().map(column_json).collect();
        json["advice"] = json!(summary.advice);
    }
    json
}
