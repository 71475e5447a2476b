//! `lacus restore`: the newest version becomes what the dataset was.

use serde_json::json;

use super::Context;
use crate::args::RestoreArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: RestoreArgs) -> Result<(), Failure> {
    let place = context.place(&args.dataset.url)?;
    let branch = place.writable()?;
    let mut table = place.open_to_write().await?;
    let state = place.open(Some(&args.revision)).await?;
    let bar = context.output.bar("restore");
    let options = context.write_options(false, &bar);
    let version = place.timeline.restore(branch, &mut table, &state, &options).await?;
    drop(bar);
    context.output.done(
        || json!({"version": version, "branch": branch, "from": args.revision}),
        || {
            let url = &args.dataset.url;
            format!(
                "restored {} as version {version}; `lacus commit {url}` keeps it, `lacus discard {url}` does not",
                args.revision
            )
        },
    )
}
