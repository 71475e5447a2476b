//! `lacus ls`: the names of the tensors and columns, and what they are.

use lacus::dataset::{ColumnFacts, Dataset};
use lacus::table::TensorInfo;
use serde_json::{Value as Json, json};

use super::{Context, open_shape, ratio, tensor_json};
use crate::args::LsArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, size};

/// A tensor or a column.
enum Listed {
    Tensor(Box<TensorInfo>),
    Column(ColumnFacts),
}

pub(crate) async fn run(context: &Context, args: LsArgs) -> Result<(), Failure> {
    let dataset = context.open_dataset(&args.dataset.url, &args.version).await?;
    let names: Vec<String> =
        dataset.table().names().into_iter().filter(|name| name.starts_with(&args.prefix)).collect();
    if !args.long && !context.output.json {
        return context.output.stdout(&names.iter().map(|name| format!("{name}\n")).collect::<String>());
    }
    let listed = names.iter().map(|name| look(&dataset, name)).collect::<Result<Vec<_>, _>>()?;
    context.output.result(|| listed.iter().map(as_json).collect::<Json>(), || long(&listed))
}

fn look(dataset: &Dataset, name: &str) -> Result<Listed, Failure> {
    Ok(match dataset.table().is_column(name) {
        true => Listed::Column(dataset.column_facts(name)?),
        false => Listed::Tensor(Box::new(dataset.table().tensor(name)?)),
    })
}

fn as_json(listed: &Listed) -> Json {
    match listed {
        Listed::Tensor(info) => tensor_json(info),
        Listed::Column(facts) => json!({
            "name": facts.name,
            "htype": facts.column.htype().to_string(),
            "dtype": facts.column.dtype().map(|dtype| dtype.name()),
            "shape": facts.column.shape(),
            "compression": facts.column.compression().to_string(),
            "stored_bytes": facts.stored_bytes,
            "metadata": facts.metadata,
        }),
    }
}

fn long(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let titles = ["NAME", "DTYPE", "SHAPE", "LAYOUT", "STORED", "RATIO"].map(str::to_owned);
    let row = |listed: &Listed| match listed {
        Listed::Tensor(info) => vec![
            info.name.clone(),
            info.header.dtype.to_string(),
            info.header.shape.to_string(),
            info.header.layout.name().to_owned(),
            size(info.stored_bytes),
            ratio(info),
        ],
        Listed::Column(facts) => vec![
            facts.name.clone(),
            facts.column.dtype().map_or("-", |dtype| dtype.name()).to_owned(),
            facts.column.shape().map_or_else(|| "-".to_owned(), open_shape),
            format!("rows of {}", facts.column.htype()),
            size(facts.stored_bytes),
            "-".to_owned(),
        ],
    };
    let rows: Vec<Vec<String>> = std::iter::once(titles.to_vec()).chain(listed.iter().map(row)).collect();
    use Side::{Left, Right};
    columns(&[Left, Left, Left, Left, Right, Right], &rows)
}
