//! `lacus checkout`: goes to a branch, or looks at an older state. Nothing of the dataset is moved.

use lacus_history::{HistoryError, MAIN, Resolved};
use serde_json::json;

use super::Context;
use crate::args::CheckoutArgs;
use crate::checkouts::{Detached, Position};
use crate::failure::Failure;
use crate::output::count;
use crate::place::Place;

pub(crate) async fn run(context: &Context, args: CheckoutArgs) -> Result<(), Failure> {
    let mut place = context.place(&args.dataset.url)?;
    let mut draft = 0;
    match place.timeline.tip(place.branch()).await {
        Ok(tip) if place.position.detached.is_none() => draft = tip.draft.len(),
        Ok(_) => {}
        // The branch one stood on is gone: one can still go elsewhere.
        Err(HistoryError::NoSuchRef { .. }) => place.position = Position::on(MAIN),
        Err(error) => return Err(error.into()),
    }
    let refuse = |to: &Position| match draft > 0 && !args.force && *to != place.position {
        true => Err(in_the_way(&place, draft)),
        false => Ok(()),
    };
    let (to, said) = match (&args.create, &args.revision) {
        (Some(name), from) => {
            refuse(&Position::on(name))?;
            let (id, commit) = place.commit(from.as_deref()).await?;
            place.timeline.create_branch(name, (id, &commit)).await?;
            (Position::on(name), format!("Switched to a new branch '{name}'"))
        }
        (None, Some(revision)) => {
            let found = find(&place, revision).await?;
            refuse(&found.0)?;
            found
        }
        (None, None) => return Err(Failure::invalid("checkout needs a branch, or another state")),
    };
    context.checkouts.set(place.timeline.home().url().as_str(), to.clone())?;
    if context.on_branch.as_ref().is_some_and(|name| *name != to.branch) {
        context.output.say("note: --branch and LACUS_BRANCH count more than what is checked out");
    }
    context.output.done(
        || {
            let commit = match to.detached {
                Some(Detached::Commit(id)) => Some(id),
                _ => None,
            };
            let version = match to.detached {
                Some(Detached::Version(version)) => Some(version),
                _ => None,
            };
            let branch = to.detached.is_none().then_some(&to.branch);
            json!({"branch": branch, "commit": commit, "version": version})
        },
        || said,
    )
}

async fn find(place: &Place, revision: &str) -> Result<(Position, String), Failure> {
    let branch = place.branch().to_owned();
    let at = |at: Detached| Position { branch: branch.clone(), detached: Some(at) };
    let looking = "It is only looked at: `lacus checkout -b NAME` makes a branch of it.";
    Ok(match place.resolve(revision).await? {
        Resolved::Branch(held) => {
            let to = Position::on(held.name());
            let said = if to == place.position { "Already on" } else { "Switched to branch" };
            (to, format!("{said} '{}'", held.name()))
        }
        Resolved::Commit(id, commit) => {
            // What cannot be read is not gone to.
            place.timeline.state(&id, &commit).await?;
            let said = format!("Detached at {} {}\n{looking}", id.short(), commit.summary());
            (at(Detached::Commit(id)), said)
        }
        Resolved::Version(_) | Resolved::Time(_) => {
            let version = place.open(Some(revision)).await?.version();
            let said = format!("Detached at version {version} of branch '{branch}'\n{looking}");
            (at(Detached::Version(version)), said)
        }
    })
}

fn in_the_way(place: &Place, draft: usize) -> Failure {
    let (branch, url) = (place.branch(), &place.url);
    let versions = count(draft, "version");
    Failure::invalid(format!("checkout: branch {branch:?} has a draft of {versions}"))
        .hint(format!("`lacus commit {url}` or `lacus discard {url}` first, or --force leaves it there"))
}
