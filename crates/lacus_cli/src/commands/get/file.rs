//! Tensors into a file that appears whole or not at all, or onto stdout.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use lacus::files::{FileValue, Format, Item, Metadata, Packing};
use lacus::table::{ErrorKind, Read, Table};
use lacus::tensor::SparseTensor;
use serde_json::{Value as Json, json};

use super::Wanted;
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Bar, count, size};
use crate::stream::write_npy;

/// A sparse tensor that is asked for in a dense format is filled up to this size without a word. Beyond it
/// the file could be thousands of times what is stored, so `--dense` has to ask for it.
const MOST_FILLED_BYTES: u64 = 1 << 30;

/// Writes one dense tensor as `.npy` to stdout.
pub(super) async fn to_stdout(context: &Context, table: &Table, wanted: &[Wanted]) -> Result<(), Failure> {
    let [wanted] = wanted else {
        return Err(Failure::invalid("stdout takes one tensor; several go into .npz or .safetensors"));
    };
    if context.output.json {
        return Err(Failure::invalid("stdout takes the tensor or JSON, not both").hint("give -o a file"));
    }
    let mut out = std::io::stdout();
    if out.is_terminal() {
        return Err(
            Failure::invalid("stdout is a terminal, which a .npy file would garble").hint("redirect it")
        );
    }
    if wanted.header().layout.is_sparse() {
        return Err(Failure::invalid(format!(
            "tensor {:?} is sparse; stdout takes dense ones",
            wanted.name()
        ))
        .hint("-o FILE with .npz, .tns or .mtx keeps it sparse"));
    }
    let bar = context.output.bar("get");
    let write = |bytes: &[u8]| out.write_all(bytes).map_err(Failure::stdout);
    npy(table, wanted, &bar, write).await?;
    std::io::stdout().flush().map_err(Failure::stdout)
}

/// Writes tensors to the file at `path`, in the format its name says.
pub(super) async fn write(
    context: &Context,
    table: &Table,
    wanted: &[Wanted],
    path: &Path,
    dense: bool,
) -> Result<(), Failure> {
    let (format, packing) = Format::from_path(path)?;
    if wanted.len() > 1 && !format.holds_several() {
        let message = format!("{}: a .{format} file holds one tensor, not {}", path.display(), wanted.len());
        return Err(Failure::invalid(message).hint(".npz and .safetensors hold several"));
    }
    if path.is_dir() {
        return Err(Failure::invalid(format!("{}: this is a directory", path.display())));
    }
    let room = Room::beside(path)?;
    let partial = room.path.join(path.file_name().unwrap_or_default());
    let bar = context.output.bar("get");
    match wanted {
        [only] if format == Format::Npy && !only.header().layout.is_sparse() => {
            let failed = |error: io::Error| Failure::file("write", path, &error);
            let mut file = File::create(&partial).map_err(failed)?;
            npy(table, only, &bar, |bytes| file.write_all(bytes).map_err(failed)).await?;
            file.sync_all().map_err(failed)?;
        }
        _ => {
            let values = values(table, wanted, format, dense, &bar).await?;
            save(values, partial.clone(), format, packing)
                .await
                .map_err(|failed| failed.about(path.display()))?;
        }
    }
    let bytes = partial.metadata().map_or(0, |found| found.len());
    std::fs::rename(&partial, path).map_err(|error| Failure::file("rename", path, &error))?;
    drop(bar);
    report(context, table, wanted, path, format, bytes)
}

/// A directory of our own beside the target: whatever ends this early, dropping it removes all traces.
struct Room {
    path: PathBuf,
}

impl Room {
    fn beside(target: &Path) -> Result<Room, Failure> {
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let room = tempfile::Builder::new().prefix(".lacus-").disable_cleanup(true).tempdir_in(parent);
        // Only the kind: the whole error names the directory, which nobody asked for.
        let room = room.map_err(|error| Failure::file("create", target, &error.kind().into()))?;
        Ok(Room { path: room.path().to_owned() })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // After a stop, the thread that writes may put its file in while the directory is being emptied;
        // it does so once.
        for _ in 0..3 {
            match std::fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => return,
            }
        }
    }
}

async fn npy(
    table: &Table,
    wanted: &Wanted,
    bar: &Bar,
    write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Wanted { indices, selection, .. } = wanted;
    write_npy(table, wanted.name(), wanted.header(), selection, indices, bar, write).await
}

/// Reads the tensors in the form that the format holds.
async fn values(
    table: &Table,
    wanted: &[Wanted],
    format: Format,
    dense: bool,
    bar: &Bar,
) -> Result<Vec<(String, Read, Metadata)>, Failure> {
    let total = wanted.iter().map(|wanted| wanted.info.stored_bytes).sum();
    let mut values = Vec::with_capacity(wanted.len());
    let mut done = 0;
    for wanted in wanted {
        let value = value(table, wanted, format, dense).await?;
        values.push((wanted.name().to_owned(), value, metadata(wanted)));
        done += wanted.info.stored_bytes;
        bar.set(done, total);
    }
    Ok(values)
}

async fn value(table: &Table, wanted: &Wanted, format: Format, dense: bool) -> Result<Read, Failure> {
    let takes_only_dense = matches!(format, Format::Npy | Format::Safetensors);
    let fill = wanted.header().layout.is_sparse() && (takes_only_dense || dense);
    if fill && !dense {
        let shape = wanted.selection.output_shape();
        let bytes = shape.elements_saturating().saturating_mul(wanted.header().dtype.size_bytes() as u64);
        if bytes > MOST_FILLED_BYTES {
            let message = format!(
                "tensor {:?} is sparse; as a dense one, which .{format} needs, it takes {}",
                wanted.name(),
                size(bytes)
            );
            return Err(
                Failure::invalid(message).hint("--dense writes it so; .npz, .tns and .mtx keep it sparse")
            );
        }
    }
    Ok(match table.read(wanted.name(), &wanted.indices).await? {
        Read::Sparse(tensor) if fill => Read::Dense(tensor.to_dense()?),
        Read::Dense(tensor) if format == Format::Tns && tensor.shape().rank() > 0 => {
            Read::Sparse(SparseTensor::from_dense(&tensor.as_ref()))
        }
        read => read,
    })
}

/// Metadata as texts, which is what files keep.
fn metadata(wanted: &Wanted) -> Metadata {
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let object = wanted.info.metadata.as_object();
    object.into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Writes the file on a thread of its own, so that a stop is heard meanwhile. A failure does not say the
/// path, which is not the one that was asked for.
async fn save(
    values: Vec<(String, Read, Metadata)>,
    path: PathBuf,
    format: Format,
    packing: Packing,
) -> Result<(), Failure> {
    let saving = tokio::task::spawn_blocking(move || {
        let mut items = Vec::with_capacity(values.len());
        for (name, read, metadata) in &values {
            let value = match read {
                Read::Dense(tensor) => FileValue::Dense(tensor.as_ref()),
                Read::Sparse(tensor) => FileValue::Sparse(tensor),
            };
            items.push(Item { name, value, metadata: Some(metadata) });
        }
        lacus::files::write(&path, format, packing, &items)
            .map_err(|error| Failure::new(error.kind(), format!("{}{}", error.place(), error.cause())))
    });
    saving.await.map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?
}

fn report(
    context: &Context,
    table: &Table,
    wanted: &[Wanted],
    path: &Path,
    format: Format,
    bytes: u64,
) -> Result<(), Failure> {
    let left: Vec<&str> = match format.keeps_metadata() {
        true => Vec::new(),
        false => wanted.iter().filter(|w| !metadata(w).is_empty()).map(Wanted::name).collect(),
    };
    let tensors = || {
        let json = |w: &Wanted| json!({"name": w.name(), "dtype": w.header().dtype.name(), "shape": w.selection.output_shape().dims()});
        wanted.iter().map(json).collect::<Vec<_>>()
    };
    context.output.done(
        || {
            json!({
                "file": path.display().to_string(), "bytes": bytes, "version": table.version(),
                "tensors": tensors(), "metadata_left_behind": left,
            })
        },
        || {
            let what = match wanted {
                [one] => format!("{} {}", one.header().dtype, one.selection.output_shape()),
                many => count(many.len(), "tensor"),
            };
            let note = match left.as_slice() {
                [] => String::new(),
                left => format!("\nnote: .{format} has no place for the metadata of {}", left.join(", ")),
            };
            format!("wrote {}: {what}, {}{note}", path.display(), size(bytes))
        },
    )
}
