//! `lacus branch`: lists, makes, renames and deletes branches.

use lacus::history::{BranchInfo, MAIN};
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::BranchArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, count, few, time};
use crate::place::Standing;
use lacus::Place;

pub(crate) async fn run(context: &Context, args: BranchArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    if args.delete || args.force_delete {
        return delete(context, &here, &args.names, args.force_delete).await;
    }
    match (&args.names[..], args.rename) {
        ([], _) => list(context, &here).await,
        ([to], true) => rename(context, &here, here.writable()?, to).await,
        ([from, to], true) => rename(context, &here, from, to).await,
        ([name], false) => create(context, &here, name, None).await,
        ([name, from], false) => create(context, &here, name, Some(from)).await,
        _ => {
            Err(Failure::invalid("a branch has one name, and is made from one commit or gets one other name"))
        }
    }
}

async fn list(context: &Context, here: &Standing) -> Result<(), Failure> {
    let found = here.timeline().list_branches(here.branch()).await;
    let found = found.map_err(|error| here.explained(error))?;
    let is_current = |info: &BranchInfo| here.place == Place::on(&info.name);
    context.output.result(
        || found.iter().map(|info| as_json(info, is_current(info))).collect(),
        || {
            let detached = here.place.pinned.map(|at| format!("* (detached at {at})\n")).unwrap_or_default();
            let rows: Vec<Vec<String>> = found.iter().map(|info| row(info, is_current(info))).collect();
            detached + &columns(&[Side::Left; 3], &rows)
        },
    )
}

fn row(info: &BranchInfo, is_current: bool) -> Vec<String> {
    let mark = if is_current { '*' } else { ' ' };
    let mut stands = Vec::new();
    if let Some((ahead, behind)) = info.ahead_behind {
        stands.extend((ahead > 0).then(|| format!("ahead {ahead}")));
        stands.extend((behind > 0).then(|| format!("behind {behind}")));
    }
    stands.extend((info.draft > 0).then(|| format!("draft of {}", count(info.draft, "version"))));
    let stands = if stands.is_empty() { String::new() } else { format!("[{}] ", stands.join(", ")) };
    let head = info.head.map_or_else(|| "-".to_owned(), |id| id.short());
    vec![format!("{mark} {}", info.name), head, format!("{stands}{}", info.summary)]
}

fn as_json(info: &BranchInfo, is_current: bool) -> Json {
    json!({
        "name": info.name, "current": is_current, "head": info.head, "summary": info.summary,
        "time": info.head.map(|_| time(info.time_millis)), "draft": info.draft,
        "ahead": info.ahead_behind.map(|(ahead, _)| ahead), "behind": info.ahead_behind.map(|(_, behind)| behind),
        "directory": info.directory, "borrowed_files": info.borrowed_files,
    })
}

async fn create(context: &Context, here: &Standing, name: &str, from: Option<&str>) -> Result<(), Failure> {
    let (id, commit) = here.commit(from).await?;
    here.timeline().create_branch(name, (id, &commit)).await?;
    context.output.done(
        || json!({"branch": name, "commit": id}),
        || format!("made branch {name} at {} {}", id.short(), commit.summary()),
    )
}

async fn rename(context: &Context, here: &Standing, from: &str, to: &str) -> Result<(), Failure> {
    here.timeline().rename_branch(from, to).await?;
    // Who stands on it goes along.
    let url = here.timeline().home().url().as_str();
    let mut stood = context.checkouts.get(url)?;
    if stood.branch == from {
        stood.branch = to.to_owned();
        context.checkouts.set(url, stood)?;
    }
    context.output.done(|| json!({"from": from, "to": to}), || format!("renamed branch {from} to {to}"))
}

async fn delete(context: &Context, here: &Standing, names: &[String], force: bool) -> Result<(), Failure> {
    let stood = context.checkouts.get(here.timeline().home().url().as_str())?;
    for name in names {
        if *name == stood.branch || name == here.branch() {
            return Err(Failure::invalid(format!("delete branch: {name:?} is the branch one stands on"))
                .hint(format!(
                    "`lacus checkout {} {}` goes elsewhere",
                    here.url(),
                    if name == MAIN { "OTHER" } else { MAIN }
                )));
        }
        // All or none, as far as it can be seen before.
        here.timeline().tip(name).await?;
    }
    for name in names {
        here.timeline().delete_branch(name, force).await?;
    }
    context.output.done(|| json!({"deleted": names}), || format!("deleted branch {}", few(names, 10)))
}
