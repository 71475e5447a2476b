//! Old and new values of what changed: samples and regions, some of each tensor.

use lacus::dataset::{Base, Batch, Dataset, Value};
use lacus::history::Compared;
use lacus::sample::Form;
use lacus::table::{Content, Fate, Read, Table};
use lacus::tensor::{Index, Tensor};
use serde_json::{Value as Json, json};

use super::changes::region;
use crate::commands::head::{Shown, samples};
use crate::failure::Failure;
use crate::{numbers, preview};

/// Elements of an array that are shown; larger ones are told by their shape.
const MOST: u64 = 1000;

/// What changed in one place.
pub(crate) struct ValueChange {
    tensor: String,
    /// `[0:2, 4:6]`, or `row 7`.
    place: String,
    before: Option<Shown>,
    after: Option<Shown>,
}

/// At most `most` changes of each tensor that both states have.
pub(crate) async fn changed_values(compared: Compared, most: usize) -> Result<Vec<ValueChange>, Failure> {
    let Compared { before, after, difference } = compared;
    let (before, after) = (Dataset::new(before), Dataset::new(after));
    let mut found = Vec::new();
    for tensor in difference.tensors.iter().filter(|t| matches!(t.fate, Fate::Kept | Fate::Retyped)) {
        let name = tensor.name.as_str();
        let old = tensor.before().unwrap_or(name);
        match &tensor.content {
            Content::Same => {}
            Content::Whole => found.push(ValueChange {
                tensor: name.to_owned(),
                place: String::new(),
                before: whole(before.table(), old).await?,
                after: whole(after.table(), name).await?,
            }),
            Content::Chunks { changed } => {
                for coords in changed.iter().take(most) {
                    let Some(region) = region(after.table(), before.table(), tensor, coords) else {
                        continue;
                    };
                    let axes: Vec<String> = region.iter().map(|(from, to)| format!("{from}:{to}")).collect();
                    found.push(ValueChange {
                        tensor: name.to_owned(),
                        place: format!("[{}]", axes.join(", ")),
                        before: part(before.table(), old, &region).await?,
                        after: part(after.table(), name, &region).await?,
                    });
                }
            }
            Content::Samples { added, updated, cleared } => {
                for id in updated.iter().chain(added).chain(cleared).take(most) {
                    let (was, is) = (sample(&before, old, *id).await?, sample(&after, name, *id).await?);
                    let row = is.as_ref().or(was.as_ref()).map(|(row, _)| *row);
                    found.push(ValueChange {
                        tensor: name.to_owned(),
                        place: row.map(|row| format!("row {row}")).unwrap_or_default(),
                        before: was.map(|(_, shown)| shown),
                        after: is.map(|(_, shown)| shown),
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The sample of a row, and where the row is; nothing where there is none.
async fn sample(dataset: &Dataset, name: &str, id: u64) -> Result<Option<(u64, Shown)>, Failure> {
    let Some(row) = dataset.table().rows().await?.position(id) else { return Ok(None) };
    let column = dataset.column(name)?;
    let media = [Base::Image, Base::ImageGray, Base::Video, Base::Audio, Base::Dicom];
    let htype = column.htype();
    let is_array =
        column.form() == Form::Blob && !htype.link && !htype.sequence && !media.contains(&htype.base);
    if is_array
        && let Some(Some(shape)) = dataset.shapes(name, &[row]).await?.pop()
        && shape.iter().product::<u64>() <= MOST
    {
        match dataset.read(name, &[row], &[]).await? {
            Batch::Stacked(tensor) => return Ok(Some((row, of_tensor(&tensor)))),
            Batch::Values(mut values) => match values.pop() {
                Some(Some(Value::Tensor(tensor))) => return Ok(Some((row, of_tensor(&tensor)))),
                Some(None) => return Ok(None),
                _ => {}
            },
        }
    }
    let shown = samples(dataset, name, &[row]).await?.pop();
    Ok(shown.filter(|shown| !shown.json.is_null()).map(|shown| (row, shown)))
}

/// What a state has of a region; nothing where it ends before.
async fn part(table: &Table, name: &str, region: &[(u64, u64)]) -> Result<Option<Shown>, Failure> {
    let shape = table.tensor(name)?.header.shape;
    if shape.dims().iter().zip(region).any(|(size, (from, _))| from >= size) {
        return Ok(None);
    }
    let signed = |place: u64| i64::try_from(place).ok();
    let indices: Vec<Index> = region
        .iter()
        .map(|(from, to)| Index::Slice { start: signed(*from), stop: signed(*to), step: None })
        .collect();
    read(table, name, &indices).await.map(Some)
}

async fn whole(table: &Table, name: &str) -> Result<Option<Shown>, Failure> {
    if table.is_column(name) {
        return Ok(None);
    }
    let header = table.tensor(name)?.header;
    if header.shape.elements_saturating() > MOST {
        let text = format!("{} {}\n", header.dtype, header.shape);
        return Ok(Some(Shown {
            text,
            json: json!({"dtype": header.dtype.name(), "shape": header.shape.dims()}),
        }));
    }
    read(table, name, &[Index::Ellipsis]).await.map(Some)
}

async fn read(table: &Table, name: &str, indices: &[Index]) -> Result<Shown, Failure> {
    Ok(match table.read(name, indices).await? {
        Read::Dense(tensor) => of_tensor(&tensor),
        Read::Sparse(tensor) => of_tensor(&tensor.to_dense()?),
    })
}

fn of_tensor(tensor: &Tensor) -> Shown {
    let dtype = tensor.dtype();
    let mut json = json!({"dtype": dtype.name(), "shape": tensor.shape().dims()});
    if tensor.shape().elements_saturating() <= MOST {
        let items = tensor.bytes().chunks_exact(dtype.size_bytes());
        json["values"] = items.map(|item| numbers::json(dtype, item)).collect();
    }
    Shown { text: preview::in_memory(tensor), json }
}

/// Old ones behind `-`, new ones behind `+`.
pub(crate) fn values_text(changes: &[ValueChange]) -> String {
    let mut text = String::new();
    for change in changes {
        let space = if change.place.starts_with('[') || change.place.is_empty() { "" } else { " " };
        text.push_str(&format!("\n@@ {}{space}{}\n", change.tensor, change.place));
        for (sign, shown) in [('-', &change.before), ('+', &change.after)] {
            for line in shown.iter().flat_map(|shown| shown.text.trim_end().lines()) {
                text.push_str(&format!("{sign} {line}\n"));
            }
        }
    }
    text
}

/// The same for programs.
pub(crate) fn values_json(changes: Vec<ValueChange>) -> Json {
    let json = |shown: Option<Shown>| shown.map_or(Json::Null, |shown| shown.json);
    let one = |change: ValueChange| {
        json!({
            "tensor": change.tensor, "place": change.place,
            "before": json(change.before), "after": json(change.after),
        })
    };
    changes.into_iter().map(one).collect()
}
