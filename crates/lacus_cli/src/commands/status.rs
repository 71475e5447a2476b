//! `lacus status`: where one stands, and what is in no commit yet.

use lacus::history::{Compared, State, Status};
use serde_json::{Value as Json, json};

use super::Context;
use super::history::what;
use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, count, time};
use crate::place::Standing;
use crate::shown::{changes_json, changes_text, commit_json, entry_json};

pub(crate) async fn run(context: &Context, args: StatusArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    if let Some(at) = here.place.pinned {
        let table = here.open(None).await?;
        return context.output.result(
            || json!({"branch": null, "detached": at.to_string(), "version": table.version(), "draft": []}),
            || format!("Detached at {at}, version {}\nnothing can be written here\n", table.version()),
        );
    }
    let status = here.timeline().status(here.branch()).await.map_err(|error| here.explained(error))?;
    // The tables are opened once more only when there is something to tell of them.
    let compared = match status.draft.is_empty() {
        true => None,
        false => Some(here.timeline().diff(here.branch(), &State::Head, &State::Newest).await?),
    };
    context
        .output
        .result(|| as_json(&status, compared.as_ref()), || as_text(&here, &status, compared.as_ref()))
}

fn as_json(status: &Status, compared: Option<&Compared>) -> Json {
    json!({
        "branch": status.branch, "detached": null, "version": status.version,
        "head": status.head.as_ref().map(|(id, commit)| commit_json(id, commit)),
        "draft": status.draft.iter().map(entry_json).collect::<Vec<_>>(),
        "changes": compared.map(changes_json),
    })
}

fn as_text(here: &Standing, status: &Status, compared: Option<&Compared>) -> String {
    let mut text = format!("On branch {}, version {}\n", status.branch, status.version);
    match &status.head {
        Some((id, commit)) => text.push_str(&format!("Newest commit {}: {}\n", id.short(), commit.summary())),
        None => text.push_str("No commits yet\n"),
    }
    let Some(compared) = compared else { return text + "\nnothing to commit, no draft\n" };
    let url = &here.url();
    text.push_str(&format!("\nDraft of {}:\n", count(status.draft.len(), "version")));
    text.push_str(&format!(
        "  (`lacus commit {url} -m MESSAGE` names it, `lacus discard {url}` throws it away)\n"
    ));
    let rows: Vec<Vec<String>> = status
        .draft
        .iter()
        .map(|entry| {
            vec![
                format!("    {}", entry.version),
                time(entry.time_millis),
                entry.author.clone(),
                entry.operation.to_lowercase(),
                what(&entry.detail),
            ]
        })
        .collect();
    text.push_str(&columns(&[Side::Right, Side::Left, Side::Left, Side::Left, Side::Left], &rows));
    let changes = changes_text(compared);
    match changes.is_empty() {
        true => text + "\nwhich change nothing in the end\n",
        false => format!("{text}\nChanges since the newest commit:\n{changes}"),
    }
}
