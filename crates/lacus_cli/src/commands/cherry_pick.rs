//! `lacus cherry-pick`: the changes of one commit, on this branch as well.

use lacus_history::Record;

use super::{Context, merge::tell};
use crate::args::CherryPickArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: CherryPickArgs) -> Result<(), Failure> {
    let place = context.place(&args.dataset.url)?;
    let branch = place.writable()?;
    let mut table = place.open_to_write().await?;
    let (id, commit) = place.commit(Some(&args.revision)).await?;
    // It says what the picked one said; who picked it made it.
    let record = Record {
        message: args.message.unwrap_or_else(|| commit.message.clone()),
        author: None,
        metadata: commit.metadata.clone(),
        lineage: commit.lineage.clone(),
    };
    let before = place.timeline.tip(branch).await?.head;
    let choice = args.settle.choice();
    let bar = context.output.bar("cherry-pick");
    let options = context.write_options(true, &bar);
    let picked = place
        .timeline
        .cherry_pick(branch, &mut table, (id, &commit), &record, &mut |_| choice, &options)
        .await?;
    drop(bar);
    tell(context, &place, before, picked).await
}
