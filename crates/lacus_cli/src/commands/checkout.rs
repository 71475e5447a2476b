//! `lacus checkout`: goes to a branch, or looks at an older state. Nothing of the dataset is moved.

use lacus::history::{HistoryError, MAIN, Resolved};
use serde_json::json;

use super::Context;
use crate::args::CheckoutArgs;
use crate::failure::Failure;
use crate::output::count;
use crate::place::Standing;
use lacus::{Pinned, Place};

pub(crate) async fn run(context: &Context, args: CheckoutArgs) -> Result<(), Failure> {
    let mut here = context.here(&args.dataset.url)?;
    let mut draft = 0;
    match here.timeline().tip(here.branch()).await {
        Ok(tip) if here.place.pinned.is_none() => draft = tip.draft.len(),
        Ok(_) => {}
        // The branch one stood on is gone: one can still go elsewhere.
        Err(HistoryError::NoSuchRef { .. }) => here.place = Place::on(MAIN),
        Err(error) => return Err(error.into()),
    }
    let refuse = |to: &Place| match draft > 0 && !args.force && *to != here.place {
        true => Err(in_the_way(&here, draft)),
        false => Ok(()),
    };
    let (to, said) = match (&args.create, &args.revision) {
        (Some(name), from) => {
            refuse(&Place::on(name))?;
            let (id, commit) = here.commit(from.as_deref()).await?;
            here.timeline().create_branch(name, (id, &commit)).await?;
            (Place::on(name), format!("Switched to a new branch '{name}'"))
        }
        (None, Some(revision)) => {
            let found = find(&here, revision).await?;
            refuse(&found.0)?;
            found
        }
        (None, None) => return Err(Failure::invalid("checkout needs a branch, or another state")),
    };
    context.checkouts.set(here.timeline().home().url().as_str(), to.clone())?;
    if context.on_branch.as_ref().is_some_and(|name| *name != to.branch) {
        context.output.say("note: --branch and LACUS_BRANCH count more than what is checked out");
    }
    context.output.done(
        || {
            let commit = match to.pinned {
                Some(Pinned::Commit(id)) => Some(id),
                _ => None,
            };
            let version = match to.pinned {
                Some(Pinned::Version(version)) => Some(version),
                _ => None,
            };
            let branch = to.pinned.is_none().then_some(&to.branch);
            json!({"branch": branch, "commit": commit, "version": version})
        },
        || said,
    )
}

async fn find(here: &Standing, revision: &str) -> Result<(Place, String), Failure> {
    let branch = here.branch().to_owned();
    let at = |at: Pinned| Place { branch: branch.clone(), pinned: Some(at) };
    let looking = "It is only looked at: `lacus checkout -b NAME` makes a branch of it.";
    Ok(match here.resolve(revision).await? {
        Resolved::Branch(held) => {
            let to = Place::on(held.name());
            let said = if to == here.place { "Already on" } else { "Switched to branch" };
            (to, format!("{said} '{}'", held.name()))
        }
        Resolved::Commit(id, commit) => {
            // What cannot be read is not gone to.
            here.timeline().state(&id, &commit).await?;
            let said = format!("Detached at {} {}\n{looking}", id.short(), commit.summary());
            (at(Pinned::Commit(id)), said)
        }
        Resolved::Version(_) | Resolved::Time(_) => {
            let version = here.open(Some(revision)).await?.version();
            let said = format!("Detached at version {version} of branch '{branch}'\n{looking}");
            (at(Pinned::Version(version)), said)
        }
    })
}

fn in_the_way(here: &Standing, draft: usize) -> Failure {
    let (branch, url) = (here.branch(), &here.url());
    let versions = count(draft, "version");
    Failure::invalid(format!("checkout: branch {branch:?} has a draft of {versions}"))
        .hint(format!("`lacus commit {url}` or `lacus discard {url}` first, or --force leaves it there"))
}
