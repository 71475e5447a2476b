//! `lacus revert`: undoes the changes of one commit.

use lacus_history::revert_message;

use super::{Context, merge::tell, record};
use crate::args::RevertArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: RevertArgs) -> Result<(), Failure> {
    let place = context.place(&args.dataset.url)?;
    let branch = place.writable()?;
    let mut table = place.open_to_write().await?;
    let (id, commit) = place.commit(Some(&args.revision)).await?;
    let record = record(args.message.unwrap_or_else(|| revert_message(&id, &commit, args.mainline)));
    let before = place.timeline.tip(branch).await?.head;
    let choice = args.settle.choice();
    let bar = context.output.bar("revert");
    let options = context.write_options(true, &bar);
    let (reverted, decide) = ((id, &*commit), &mut |_: &_| choice);
    let reverted = place
        .timeline
        .revert_along(branch, &mut table, reverted, args.mainline, &record, decide, &options)
        .await?;
    drop(bar);
    tell(context, &place, before, reverted).await
}
