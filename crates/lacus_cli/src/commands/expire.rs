//! `lacus expire`: old versions that are in no commit can be opened no more.

use serde_json::{Value as Json, json};

use super::Context;
use crate::args::ExpireArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: ExpireArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let report = here.timeline().expire(args.older_than, args.dry_run).await?;
    let one = |(branch, versions): &(String, u64)| json!({"branch": branch, "versions": versions});
    context.output.result(
        || json!({"dry_run": args.dry_run, "expired": report.expired.iter().map(one).collect::<Json>()}),
        || {
            let word = if args.dry_run { "would expire" } else { "expired" };
            let line = |(branch, versions): &(String, u64)| match versions {
                1 => format!("{word} 1 version of branch {branch}\n"),
                versions => format!("{word} {versions} versions of branch {branch}\n"),
            };
            match report.expired.iter().all(|(_, versions)| *versions == 0) {
                true => "nothing to expire\n".to_owned(),
                false => report.expired.iter().map(line).collect(),
            }
        },
    )
}
