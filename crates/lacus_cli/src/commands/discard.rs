//! `lacus discard`: throws the draft away.

use serde_json::json;

use super::Context;
use crate::args::DiscardArgs;
use crate::failure::Failure;
use crate::output::count;

pub(crate) async fn run(context: &Context, args: DiscardArgs) -> Result<(), Failure> {
    let place = context.place(&args.dataset.url)?;
    let branch = place.writable()?;
    let mut table = place.open_to_write().await?;
    let bar = context.output.bar("discard");
    let options = context.write_options(true, &bar);
    let discarded = place.timeline.discard(branch, &mut table, None, args.force, &options).await;
    drop(bar);
    let discarded = discarded.map_err(|error| {
        let failure = Failure::from(error);
        match failure.message().contains("of others") {
            true => failure.hint("--force throws them away, too"),
            false => failure,
        }
    })?;
    context.output.done(
        || json!({"discarded": discarded, "version": table.version(), "branch": branch}),
        || match discarded {
            0 => "nothing to discard".to_owned(),
            number => format!("discarded {} of branch {branch}", count(number, "version")),
        },
    )
}
