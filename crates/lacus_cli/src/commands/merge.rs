//! `lacus merge`: brings what another branch changed to this one.

use lacus_history::{Combined, CommitId, FastForward, State, merge_message};
use serde_json::json;

use super::{Context, record};
use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::place::Place;
use crate::shown::changes_text;

pub(crate) async fn run(context: &Context, args: MergeArgs) -> Result<(), Failure> {
    let place = context.place(&args.dataset.url)?;
    let branch = place.writable()?;
    let mut table = place.open_to_write().await?;
    let (id, commit) = place.commit(Some(&args.revision)).await?;
    let fast_forward = match (args.no_ff, args.ff_only) {
        (true, _) => FastForward::Never,
        (_, true) => FastForward::Only,
        _ => FastForward::Allowed,
    };
    let record = record(args.message.unwrap_or_else(|| merge_message(&args.revision, branch)));
    let before = place.timeline.tip(branch).await?.head;
    let choice = args.settle.choice();
    let bar = context.output.bar("merge");
    let options = context.write_options(true, &bar);
    let merged = place
        .timeline
        .merge(branch, &mut table, (id, &commit), &record, fast_forward, &mut |_| choice, &options)
        .await?;
    drop(bar);
    tell(context, &place, before, merged).await
}

/// What came of bringing changes to a branch, and what changed by it.
pub(super) async fn tell(
    context: &Context,
    place: &Place,
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
        let commit = place.timeline.commits().read(&recorded.id).await?;
        let id = recorded.id.short();
        let before = before.map(|id| State::Revision(id.to_string())).unwrap_or(State::Head);
        let after = State::Revision(recorded.id.to_string());
        let changes = changes_text(&place.timeline.diff(place.branch(), &before, &after).await?);
        said = match done {
            Combined::FastForward(_) => format!("Fast-forward to {id} {}\n{changes}", commit.summary()),
            _ => format!("[{} {id}] {}\n{changes}", place.branch(), commit.summary()),
        };
    }
    let (id, version) = (recorded.map(|done| done.id), recorded.map(|done| done.version));
    context.output.done(
        || json!({"result": word, "commit": id, "version": version, "branch": place.branch()}),
        || if recorded.is_none() { "Already up to date.".to_owned() } else { said },
    )
}
