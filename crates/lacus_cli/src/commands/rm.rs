//! `lacus rm`: removes tensors and columns, all in one version.

use serde_json::json;

use super::Context;
use crate::args::RmArgs;
use crate::failure::Failure;
use crate::output::few;

pub(crate) async fn run(context: &Context, args: RmArgs) -> Result<(), Failure> {
    let mut table = context.open_to_write(&args.dataset.url).await?;
    let mut names = args.names;
    names.sort();
    names.dedup();
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let bar = context.output.bar("rm");
    let version = table.remove(&wanted, &context.write_options(false, &bar)).await?;
    drop(bar);
    context.output.done(
        || json!({"version": version, "removed": names}),
        || format!("removed {}, version {version}", few(&names, 5)),
    )
}
