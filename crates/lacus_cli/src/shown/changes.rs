//! What differs between two states: a line per tensor, or all of it as JSON.

use lacus::history::Compared;
use lacus::layout::Coords;
use lacus::table::{Content, Difference, Fate, Table, TensorDifference};
use serde_json::{Value as Json, json};

use crate::output::{Side, columns, count};

/// A line per tensor that differs, and a sum; empty when nothing does.
pub(crate) fn text(compared: &Compared) -> String {
    let difference = &compared.difference;
    if difference.is_empty() {
        return String::new();
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for tensor in &difference.tensors {
        rows.push(vec![format!(" {}", tensor.name), format!("| {}", what(compared, tensor))]);
    }
    let rows_changed =
        parts(&[(difference.rows_added.len(), "added"), (difference.rows_deleted.len(), "deleted")]);
    if !rows_changed.is_empty() {
        rows.push(vec![" (rows)".to_owned(), format!("| {rows_changed}")]);
    }
    if difference.metadata {
        rows.push(vec![" (dataset)".to_owned(), "| metadata changed".to_owned()]);
    }
    format!("{} {}\n", columns(&[Side::Left, Side::Left], &rows), summary_line(difference))
}

/// `2 tensors changed, 1 added, 3 rows added`.
fn summary_line(difference: &Difference) -> String {
    let of = |wanted: &[Fate]| difference.tensors.iter().filter(|t| wanted.contains(&t.fate)).count();
    let mut said = Vec::new();
    for (number, word) in [
        (of(&[Fate::Kept, Fate::Retyped]), "changed"),
        (of(&[Fate::Added]), "added"),
        (of(&[Fate::Dropped]), "dropped"),
    ] {
        match (number, said.is_empty()) {
            (0, _) => {}
            (number, true) => said.push(format!("{} {word}", count(number, "tensor"))),
            (number, false) => said.push(format!("{number} {word}")),
        }
    }
    for (rows, word) in [(&difference.rows_added, "added"), (&difference.rows_deleted, "deleted")] {
        if !rows.is_empty() {
            said.push(format!("{} {word}", count(rows.len(), "row")));
        }
    }
    if difference.metadata {
        said.push("metadata changed".to_owned());
    }
    if said.is_empty() { "nothing changed".to_owned() } else { said.join(", ") }
}

/// `3 added, 1 deleted`, without what there is none of.
fn parts(numbers: &[(usize, &str)]) -> String {
    let said = numbers.iter().filter(|(number, _)| *number > 0);
    said.map(|(number, word)| format!("{number} {word}")).collect::<Vec<_>>().join(", ")
}

fn what(compared: &Compared, tensor: &TensorDifference) -> String {
    let name = tensor.name.as_str();
    let before = tensor.before().unwrap_or(name);
    let mut said: Vec<String> = Vec::new();
    said.extend(tensor.renamed_from.as_ref().map(|from| format!("renamed {from} -> {name}")));
    match tensor.fate {
        Fate::Kept => {}
        Fate::Added => said.push(format!("added: {}", kind(&compared.after, name))),
        Fate::Dropped => said.push(format!("dropped: {}", kind(&compared.before, name))),
        Fate::Retyped => said.push(match (kind(&compared.before, before), kind(&compared.after, name)) {
            (was, is) if was == is => "parameters changed".to_owned(),
            (was, is) => format!("{was} became {is}"),
        }),
    }
    match &tensor.content {
        Content::Same => {}
        Content::Whole => said.push("content changed".to_owned()),
        Content::Chunks { changed } => said.push(format!("{} changed", count(changed.len(), "chunk"))),
        Content::Samples { added, updated, cleared } => {
            let numbers = [(added.len(), "added"), (updated.len(), "updated"), (cleared.len(), "cleared")];
            said.push(format!("samples: {}", parts(&numbers)));
        }
    }
    if tensor.metadata {
        said.push("metadata changed".to_owned());
    }
    said.join("; ")
}

/// What a tensor is: `float32 (2, 3) FTSF`, or `column`.
fn kind(table: &Table, name: &str) -> String {
    if let Ok(column) = table.column(name) {
        let header = column.header;
        return format!("column of {}", header.htype);
    }
    match table.tensor(name) {
        Ok(info) => format!("{} {} {}", info.header.dtype, info.header.shape, info.header.layout.name()),
        Err(_) => "tensor".to_owned(),
    }
}

/// All of it.
pub(crate) fn to_json(compared: &Compared) -> Json {
    let difference = &compared.difference;
    let tensors: Vec<Json> = difference.tensors.iter().map(|tensor| tensor_json(compared, tensor)).collect();
    json!({
        "before": compared.before.version(), "after": compared.after.version(),
        "tensors": tensors,
        "rows_added": difference.rows_added, "rows_deleted": difference.rows_deleted,
        "metadata": difference.metadata,
    })
}

fn tensor_json(compared: &Compared, tensor: &TensorDifference) -> Json {
    let fate = match tensor.fate {
        Fate::Kept => "changed",
        Fate::Added => "added",
        Fate::Dropped => "dropped",
        Fate::Retyped => "retyped",
    };
    let mut json = json!({
        "name": tensor.name, "column": tensor.is_column, "change": fate, "metadata": tensor.metadata,
    });
    if let Some(from) = &tensor.renamed_from {
        json["renamed_from"] = json!(from);
    }
    match &tensor.content {
        Content::Same => {}
        Content::Whole => json["content"] = json!("whole"),
        Content::Chunks { changed } => {
            json["content"] = json!("chunks");
            let region = |coords: &Coords| {
                let region = region(&compared.after, &compared.before, tensor, coords);
                let region =
                    region.map(|axes| axes.iter().map(|(from, to)| json!([from, to])).collect::<Json>());
                json!({"chunk": &coords[..], "region": region})
            };
            json["chunks"] = changed.iter().map(region).collect();
        }
        Content::Samples { added, updated, cleared } => {
            json["content"] = json!("samples");
            json["samples"] = json!({"added": added, "updated": updated, "cleared": cleared});
        }
    }
    json
}

/// The elements of a chunk along each axis, in the larger of both states.
pub(super) fn region(
    after: &Table,
    before: &Table,
    tensor: &TensorDifference,
    coords: &Coords,
) -> Option<Vec<(u64, u64)>> {
    let now = after.tensor(&tensor.name).ok()?;
    let chunk = now.header.chunk_shape()?.to_vec();
    let shape = now.header.shape.dims().to_vec();
    let was = before.tensor(tensor.before()?).ok().map(|info| info.header.shape.dims().to_vec());
    let mut axes = Vec::with_capacity(shape.len());
    for (axis, coord) in coords.iter().enumerate() {
        let from = u64::try_from(*coord).ok()?.checked_mul(*chunk.get(axis)?)?;
        let size = was.iter().filter_map(|was| was.get(axis)).chain(shape.get(axis)).copied().max()?;
        axes.push((from, from.saturating_add(chunk[axis]).min(size)));
    }
    Some(axes)
}
