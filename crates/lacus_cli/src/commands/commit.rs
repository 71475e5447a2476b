//! `lacus commit`: names the newest version.

use lacus::history::{Lineage, LineageInput, Record};
use lacus::table::Fate;
use serde_json::{Map, Value as Json, json};

use super::Context;
use crate::args::{CommitArgs, MadeArgs};
use crate::failure::Failure;
use crate::place::Standing;

pub(crate) async fn run(context: &Context, args: CommitArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = here.writable()?;
    let mut checkout = here.checkout().await?;
    let record = Record {
        message: args.message,
        author: args.author,
        metadata: values(&args.meta),
        lineage: lineage(&here, &args.lineage).await?.into_iter().collect(),
    };
    let done = checkout.commit(&record, args.allow_empty).await?;
    let commit = here.timeline().commits().read(&done.id).await?;
    context.output.done(
        || json!({"commit": done.id, "version": done.version, "branch": branch, "changed": commit.changed}),
        || {
            let first = if commit.parents.is_empty() { " (first commit)" } else { "" };
            let changed = match commit.changed.len() {
                0 => String::new(),
                number => format!("\n {} changed", crate::output::count(number, "tensor")),
            };
            format!("[{branch}{first} {}] {}{changed}", done.id.short(), commit.summary())
        },
    )
}

/// Values are JSON, or else texts.
fn values(pairs: &[(String, String)]) -> Map<String, Json> {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    pairs.iter().map(|(key, text)| (key.clone(), value(text))).collect()
}

async fn lineage(here: &Standing, made: &MadeArgs) -> Result<Option<Lineage>, Failure> {
    let MadeArgs { program, function, inputs, params, outputs } = made;
    if program.is_none() && function.is_none() && inputs.is_empty() && params.is_empty() {
        return match outputs.is_empty() {
            true => Ok(None),
            false => Err(Failure::invalid("--output names what was made, but nothing says how")
                .hint("--program, --function, --input or --param says how")),
        };
    }
    let outputs = match outputs.is_empty() {
        false => outputs.clone(),
        true => {
            let changed = here.timeline().status(here.branch()).await?.difference.tensors;
            changed.into_iter().filter(|t| t.fate != Fate::Dropped).map(|t| t.name).collect()
        }
    };
    let parameters = if params.is_empty() { Json::Null } else { Json::Object(values(params)) };
    let mut from: Vec<LineageInput> = Vec::new();
    for text in inputs {
        let (revision, tensor) = text.split_once(':').unwrap_or((text, ""));
        let (id, commit) =
            here.commit(Some(revision)).await.map_err(|failure| failure.about(format!("--input {text}")))?;
        if !tensor.is_empty() {
            let state = here.timeline().state(&id, &commit).await?;
            if !state.contains(tensor) {
                state
                    .tensor(tensor)
                    .map_err(|error| Failure::from(error).about(format!("--input {text}")))?;
            }
        }
        let tensors = (!tensor.is_empty()).then(|| tensor.to_owned());
        match from.iter_mut().find(|input| input.commit == Some(id)) {
            Some(input) => input.tensors.extend(tensors),
            None => from.push(LineageInput {
                commit: Some(id),
                url: None,
                tensors: tensors.into_iter().collect(),
            }),
        }
    }
    Ok(Some(Lineage {
        outputs,
        program: program.clone(),
        function: function.clone(),
        inputs: from,
        parameters,
    }))
}
