//! `lacus lineage`: where a tensor came from.

use lacus::history::{Lineage, LineageStep};
use lacus::table::ErrorKind;
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::LineageArgs;
use crate::failure::Failure;
use crate::output::time;
use crate::shown::commit_json;

pub(crate) async fn run(context: &Context, args: LineageArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let (id, commit) = here.commit(args.at.as_deref()).await?;
    let steps = here.timeline().lineage(id, &args.name).await?;
    if steps.is_empty() {
        // A name that is close to it, if there is one.
        let state = here.timeline().state(&id, &commit).await?;
        if !state.contains(&args.name) {
            state.tensor(&args.name)?;
        }
        let why = format!("no commit before {} says that it changed {:?}", id.short(), args.name);
        return Err(Failure::new(ErrorKind::NotFound, why));
    }
    context.output.result(|| steps.iter().map(as_json).collect(), || steps.iter().map(as_text).collect())
}

fn as_json(step: &LineageStep) -> Json {
    json!({
        "depth": step.depth, "tensor": step.tensor, "commit": commit_json(&step.id, &step.commit),
        "lineage": step.lineage,
    })
}

fn as_text(step: &LineageStep) -> String {
    let blanks = "    ".repeat(step.depth);
    let commit = &step.commit;
    let mut text = format!(
        "{blanks}{}  {}  {}  {}  {}\n",
        step.tensor,
        step.id.short(),
        time(commit.time_millis),
        commit.author,
        commit.summary()
    );
    for line in step.lineage.iter().flat_map(made) {
        text.push_str(&format!("{blanks}  {line}\n"));
    }
    text
}

/// How it was made.
fn made(lineage: &Lineage) -> Vec<String> {
    let mut by: Vec<String> = lineage.program.iter().cloned().collect();
    by.extend(lineage.function.iter().map(|function| format!("function {function}")));
    let mut lines = Vec::new();
    if !by.is_empty() {
        lines.push(format!("by {}", by.join(", ")));
    }
    for input in &lineage.inputs {
        let tensors =
            if input.tensors.is_empty() { "everything".to_owned() } else { input.tensors.join(", ") };
        let at = input.commit.map(|id| format!(" at {}", id.short())).unwrap_or_default();
        let of = input.url.as_ref().map(|url| format!(" of {url}")).unwrap_or_default();
        lines.push(format!("from {tensors}{at}{of}"));
    }
    if let Some(parameters) = lineage.parameters.as_object().filter(|parameters| !parameters.is_empty()) {
        let said: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.push(format!("with {}", said.join(", ")));
    }
    lines
}
