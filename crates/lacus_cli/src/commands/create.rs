//! `lacus create`: an empty dataset.

use lacus::io::World;
use lacus::table::Table;
use serde_json::json;

use super::Context;
use crate::args::CreateArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: CreateArgs) -> Result<(), Failure> {
    let url = args.dataset.url;
    let store = context.store(&url)?;
    let table = Table::create(store.clone(), World::real()).await?;
    context.checkouts.forget(store.url().as_str())?;
    if url.starts_with("memory://") {
        context.output.say("note: memory:// lives as long as this command; use a directory to keep data");
    }
    context.output.done(
        || json!({"url": url, "version": table.version()}),
        || format!("created an empty dataset at {url}"),
    )
}
