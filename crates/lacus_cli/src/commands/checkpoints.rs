//! `lacus checkpoints`: the steps that `lacus.save` saved, oldest first.

use std::collections::BTreeMap;

use lacus::ErrorKind;
use lacus::history::{Found, tags};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::CheckpointsArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, number, size, time};

/// The key of a commit's metadata by which a checkpoint is known; docs/checkpoints.md says what it holds.
const KEY: &str = "lacus.checkpoint";

pub(crate) async fn run(context: &Context, args: CheckpointsArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    // A place without a dataset has no checkpoints, but that is not what is to be said.
    here.open(None).await?;
    let newest = match here.repository.commit_at(&here.place, Some("HEAD")).await {
        Ok((id, _)) => vec![id],
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(here.explained(error)),
    };
    let tagged: BTreeMap<String, _> =
        tags::list(here.timeline().home()).await?.into_iter().map(|tag| (tag.name, tag.commit)).collect();
    let mut found = here.timeline().log(&newest, usize::MAX).await?;
    // A step that was dropped has no tag any more; the newest may have none yet.
    found.retain(|(id, commit)| {
        let step = commit.metadata.get(KEY).map(|facts| &facts["step"]);
        let is_tagged = |step: &Json| tagged.get(&format!("step-{step}")) == Some(id);
        step.is_some_and(|step| newest.contains(id) || (step.is_u64() && is_tagged(step)))
    });
    found.reverse();
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    context.output.result(
        || found.iter().map(as_json).collect(),
        || {
            use Side::{Left, Right};
            columns(&[Right, Left, Right, Right, Right, Left, Left], &rows)
        },
    )
}

fn count(commit: &Found, key: &str) -> u64 {
    commit.1.metadata.get(KEY).and_then(|facts| facts[key].as_u64()).unwrap_or(0)
}

fn row(found: &Found) -> Vec<String> {
    let (id, commit) = found;
    let step = commit.metadata.get(KEY).and_then(|facts| facts["step"].as_u64());
    vec![
        step.map_or_else(|| "latest".to_owned(), |step| step.to_string()),
        time(commit.time_millis),
        format!("{} tensors", number(count(found, "tensors"))),
        size(count(found, "bytes")),
        format!("{} written", size(count(found, "written"))),
        id.short(),
        commit.summary().to_owned(),
    ]
}

fn as_json(found: &Found) -> Json {
    let (id, commit) = found;
    json!({
        "step": commit.metadata.get(KEY).map(|facts| facts["step"].clone()),
        "time": time(commit.time_millis),
        "message": commit.message,
        "tensors": count(found, "tensors"),
        "bytes": count(found, "bytes"),
        "written": count(found, "written"),
        "commit": id,
    })
}
