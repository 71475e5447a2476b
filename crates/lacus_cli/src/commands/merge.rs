//! `lacus merge`: brings what another branch changed to this one.

use lacus::history::{Combined, CommitId, FastForward, State};
use serde_json::json;

use super::{Context, record};
use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::place::Standing;
use crate::shown::changes_text;

pub(crate) async fn run(context: &Context, args: MergeArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = here.writable()?;
    let mut checkout = here.checkout().await?;
    let fast_forward = match (args.no_ff, args.ff_only) {
        (true, _) => FastForward::Never,
        (_, true) => FastForward::Only,
        _ => FastForward::Allowed,
    };
    let record = record(args.message.unwrap_or_default());
    let before = here.timeline().tip(branch).await?.head;
    let choice = args.settle.choice();
    let bar = context.output.bar("merge");
    let options = context.write_options(true, &bar);
    let merged = checkout.merge(&args.revision, &record, fast_forward, &mut |_| choice, &options).await?;
    drop(bar);
    tell(context, &here, before, merged).await
}

/// What came of bringing changes to a branch, and what changed by it.
pub(super) async fn tell(
    context: &Context,
    here: &Standing,
    before: Option<CommitId>,
    done: Combined,
) -> Result<(), Failure> {
    let (word, recorded) = match done {
        Combined::UpToDate => ("up_to_date", None),
        Combined::FastForward(recorded) => ("fast_forward", Some(recorded)),
        Combined::Committed(recorded) => ("committed", Some(recorded)),
    };
    let mut said = String::new();
    if let (Some(recorded), false) = (recorded, context.output.json || context.output.quiet) {
        let commit = here.timeline().commits().read(&recorded.id).await?;
        let id = recorded.id.short();
        let before = before.map(|id| State::Revision(id.to_string())).unwrap_or(State::Head);
        let after = State::Revision(recorded.id.to_string());
        let changes = changes_text(&here.timeline().diff(here.branch(), &before, &after).await?);
        said = match done {
            Combined::FastForward(_) => format!("Fast-forward to {id} {}\n{changes}", commit.summary()),
            _ => format!("[{} {id}] {}\n{changes}", here.branch(), commit.summary()),
        };
    }
    let (id, version) = (recorded.map(|done| done.id), recorded.map(|done| done.version));
    context.output.done(
        || json!({"result": word, "commit": id, "version": version, "branch": here.branch()}),
        || if recorded.is_none() { "Already up to date.".to_owned() } else { said },
    )
}
