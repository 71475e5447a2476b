//! `lacus ls`: the names of the tensors, and what they are.

use lacus_table::TensorInfo;
use serde_json::Value as Json;

use super::{Context, ratio, tensor_json};
use crate::args::LsArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, size};

pub(crate) async fn run(context: &Context, args: LsArgs) -> Result<(), Failure> {
    let table = context.open(&args.dataset.url, args.version.at).await?;
    let names: Vec<String> =
        table.names().into_iter().filter(|name| name.starts_with(&args.prefix)).collect();
    if !args.long && !context.output.json {
        return context.output.stdout(&names.iter().map(|name| format!("{name}\n")).collect::<String>());
    }
    let infos = names.iter().map(|name| table.tensor(name)).collect::<Result<Vec<_>, _>>()?;
    context.output.result(|| infos.iter().map(tensor_json).collect::<Json>(), || long(&infos))
}

fn long(infos: &[TensorInfo]) -> String {
    if infos.is_empty() {
        return String::new();
    }
    let titles = ["NAME", "DTYPE", "SHAPE", "LAYOUT", "STORED", "RATIO"].map(str::to_owned);
    let row = |info: &TensorInfo| {
        let header = &info.header;
        vec![
            info.name.clone(),
            header.dtype.to_string(),
            header.shape.to_string(),
            header.layout.name().to_owned(),
            size(info.stored_bytes),
            ratio(info),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(titles.to_vec()).chain(infos.iter().map(row)).collect();
    use Side::{Left, Right};
    columns(&[Left, Left, Left, Left, Right, Right], &rows)
}
