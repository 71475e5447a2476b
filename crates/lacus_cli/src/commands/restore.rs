//! `lacus restore`: the newest version becomes what the dataset was.

use lacus::At;
use serde_json::json;

use super::Context;
use crate::args::RestoreArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: RestoreArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = here.writable()?;
    let mut checkout = here.checkout().await?;
    let bar = context.output.bar("restore");
    let options = context.write_options(false, &bar);
    let version = checkout.restore(&At::from(args.revision.as_str()), &options).await?;
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
