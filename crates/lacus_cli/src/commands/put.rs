//! `lacus put`: tensors from files, all in one version.

use lacus::files::{FileTensors, FileValue, ReadOptions, open};
use lacus::layout::Value;
use lacus::table::{ErrorKind, Put, Table, TensorInfo};
use serde_json::{Value as Json, json};

use super::{Context, ratio, tensor_json};
use crate::args::PutArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, count, size};

/// Tensors told about one by one; of more there is a sum.
const TOLD: usize = 10;

pub(crate) async fn run(context: &Context, args: PutArgs) -> Result<(), Failure> {
    // Before the files are read, which may take a while: a wrong URL is told at once.
    let mut table = context.open_to_write(&args.dataset.url).await?;
    let files = context.stop.or(open_files(&args)).await?;
    let items = items(&files, &args)?;
    let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
    let bar = context.output.bar("put");
    let version = table.put(items, &context.write_options(args.durable, &bar)).await?;
    drop(bar);
    report(context, &table, &names, version)
}

/// Opens all files, so that nothing is written when one of them is bad.
async fn open_files(args: &PutArgs) -> Result<Vec<FileTensors>, Failure> {
    let options: ReadOptions = args.reading.options()?;
    let paths = args.files.clone();
    let opening = tokio::task::spawn_blocking(move || {
        paths.iter().map(|path| Ok(open(path, &options)?)).collect::<Result<Vec<_>, Failure>>()
    });
    opening.await.map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?
}

fn items<'a>(files: &'a [FileTensors], args: &PutArgs) -> Result<Vec<Put<'a>>, Failure> {
    let tensors: usize = files.iter().map(FileTensors::len).sum();
    if let Some(empty) = files.iter().find(|file| file.is_empty()) {
        return Err(Failure::invalid(format!("{}: there are no tensors in it", empty.path().display())));
    }
    if args.name.is_some() && tensors != 1 {
        return Err(Failure::invalid(format!("--name names one tensor, here are {tensors}"))
            .hint("--prefix puts all of them under a group"));
    }
    let group = args.prefix.as_deref().map(|prefix| prefix.trim_end_matches('/'));
    let mut items = Vec::with_capacity(tensors);
    for file in files {
        for entry in file.entries() {
            let name = match (&args.name, group) {
                (Some(name), _) => name.clone(),
                (None, Some(group)) => format!("{group}/{}", entry.name()),
                (None, None) => entry.name().to_owned(),
            };
            let value = match entry.value() {
                FileValue::Dense(tensor) => Value::Dense(tensor),
                FileValue::Sparse(tensor) => Value::Sparse(tensor),
            };
            items.push(Put { name, value, wish: args.layout.wish(), metadata: metadata(file, args) });
        }
    }
    Ok(items)
}

/// The file's own metadata, and over it what was given.
fn metadata(file: &FileTensors, args: &PutArgs) -> Option<Json> {
    let mut metadata = json!(file.metadata());
    if let Some(given) = args.metadata.as_ref().and_then(Json::as_object) {
        for (key, value) in given {
            metadata[key] = value.clone();
        }
    }
    Some(metadata).filter(|metadata| metadata.as_object().is_some_and(|object| !object.is_empty()))
}

fn report(context: &Context, table: &Table, names: &[String], version: u64) -> Result<(), Failure> {
    let infos = names.iter().map(|name| table.tensor(name)).collect::<Result<Vec<_>, _>>()?;
    let tensors = || infos.iter().map(tensor_json).collect::<Vec<_>>();
    context.output.done(
        || json!({"version": version, "tensors": tensors()}),
        || {
            let told = columns(&[Side::Left; 4], &infos.iter().take(TOLD).map(row).collect::<Vec<_>>());
            let more = match infos.len().saturating_sub(TOLD) {
                0 => String::new(),
                more => format!("... and {more} more\n"),
            };
            format!("{told}{more}put {} as version {version}", count(infos.len(), "tensor"))
        },
    )
}

fn row(info: &TensorInfo) -> Vec<String> {
    let header = &info.header;
    vec![
        info.name.clone(),
        format!("{} {}", header.dtype, header.shape),
        header.layout.name().to_owned(),
        format!("{} ({})", size(info.stored_bytes), ratio(info)),
    ]
}
