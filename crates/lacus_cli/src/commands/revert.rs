//! `lacus revert`: undoes the changes of one commit.

use super::{Context, merge::tell, record};
use crate::args::RevertArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: RevertArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = here.writable()?;
    let mut checkout = here.checkout().await?;
    let record = record(args.message.unwrap_or_default());
    let before = here.timeline().tip(branch).await?.head;
    let choice = args.settle.choice();
    let bar = context.output.bar("revert");
    let options = context.write_options(true, &bar);
    let reverted = checkout.revert(&args.revision, args.mainline, &record, &mut |_| choice, &options).await?;
    drop(bar);
    tell(context, &here, before, reverted).await
}
