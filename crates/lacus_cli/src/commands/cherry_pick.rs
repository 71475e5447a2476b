//! `lacus cherry-pick`: the changes of one commit, on this branch as well.

use lacus::history::Record;

use super::{Context, merge::tell};
use crate::args::CherryPickArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: CherryPickArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = here.writable()?;
    let mut checkout = here.checkout().await?;
    let (_, commit) = here.commit(Some(&args.revision)).await?;
    // It says what the picked one said; who picked it made it.
    let record = Record {
        message: args.message.unwrap_or_else(|| commit.message.clone()),
        author: None,
        metadata: commit.metadata.clone(),
        lineage: commit.lineage.clone(),
    };
    let before = here.timeline().tip(branch).await?.head;
    let choice = args.settle.choice();
    let bar = context.output.bar("cherry-pick");
    let options = context.write_options(true, &bar);
    let picked = checkout.cherry_pick(&args.revision, &record, &mut |_| choice, &options).await?;
    drop(bar);
    tell(context, &here, before, picked).await
}
