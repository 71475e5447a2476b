//! `lacus discard`: throws the draft away.

use serde_json::json;

use super::Context;
use crate::args::DiscardArgs;
use crate::failure::Failure;
use crate::output::count;

pub(crate) async fn run(context: &Context, args: DiscardArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = here.writable()?;
    let mut checkout = here.checkout().await?;
    let bar = context.output.bar("discard");
    let options = context.write_options(true, &bar);
    let discarded = checkout.discard(None, args.force, &options).await?;
    drop(bar);
    context.output.done(
        || json!({"discarded": discarded, "version": checkout.table().version(), "branch": branch}),
        || match discarded {
            0 => "nothing to discard".to_owned(),
            number => format!("discarded {} of branch {branch}", count(number, "version")),
        },
    )
}
