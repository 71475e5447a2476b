//! `lacus publish`: a branch becomes a table that any Delta reader opens.

use serde_json::json;

use super::Context;
use crate::args::PublishArgs;
use crate::failure::Failure;
use crate::output::count;

pub(crate) async fn run(context: &Context, args: PublishArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let branch = match &args.published {
        Some(name) => name,
        None => here.writable()?,
    };
    let bar = context.output.bar("publish");
    let (directory, files) = here.timeline().publish(branch, &context.write_options(true, &bar)).await?;
    drop(bar);
    let home = here.timeline().home().url().as_str();
    let url = match directory.is_empty() {
        true => home.to_owned(),
        false => format!("{}/{directory}", home.trim_end_matches('/')),
    };
    match files {
        0 => context.output.say(&format!("branch {branch} borrowed nothing: any Delta reader opens it")),
        files => {
            let files = count(files, "file");
            context
                .output
                .say(&format!("branch {branch} has {files} of its own now: any Delta reader opens it"));
        }
    }
    context.output.result(|| json!({"branch": branch, "url": url, "files": files}), || format!("{url}\n"))
}
