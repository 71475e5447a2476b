//! `lacus log`: the commits, newest first.

use lacus::history::{Drawn, Found, graph};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::LogArgs;
use crate::failure::Failure;
use crate::shown::{Names, commit_json, header};

pub(crate) async fn run(context: &Context, args: LogArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let mut from = Vec::new();
    for text in &args.revisions {
        from.push(here.commit(Some(text)).await?.0);
    }
    if from.is_empty() && !args.all {
        from.push(here.commit(None).await?.0);
    }
    let names = Names::of(here.timeline(), &here.place).await?;
    if args.all {
        from.extend(names.commits());
    }
    let found = here.timeline().log(&from, args.limit.unwrap_or(usize::MAX)).await?;
    let drawn = args
        .graph
        .then(|| graph(&found.iter().map(|(id, commit)| (*id, commit.parents.clone())).collect::<Vec<_>>()));
    context.output.result(
        || found.iter().map(|commit| as_json(commit, &names)).collect(),
        || as_text(&found, &names, args.oneline, drawn.as_deref()),
    )
}

fn as_json((id, commit): &Found, names: &Names) -> Json {
    let mut json = commit_json(id, commit);
    json["refs"] = json!(names.get(id));
    json
}

fn as_text(found: &[Found], names: &Names, oneline: bool, drawn: Option<&[Drawn]>) -> String {
    let mut text = String::new();
    for (number, (id, commit)) in found.iter().enumerate() {
        let is_last = number + 1 == found.len();
        let mut lines = match oneline {
            true => vec![format!("{}{} {}", id.short(), names.in_brackets(id), commit.summary())],
            false => header(id, commit, names),
        };
        if !oneline && !is_last {
            lines.push(String::new());
        }
        let Some(drawn) = drawn.and_then(|drawn| drawn.get(number)) else {
            lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            continue;
        };
        let width = drawn.commit.len();
        for (number, line) in lines.iter().enumerate() {
            let beside = if number == 0 { &drawn.commit } else { &drawn.beside };
            let line = format!("{beside:width$} {line}");
            text.push_str(&format!("{}\n", line.trim_end()));
        }
        if !is_last {
            drawn.below.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
    }
    text
}
