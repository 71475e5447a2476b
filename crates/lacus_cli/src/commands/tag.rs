//! `lacus tag`: lists, makes and deletes tags.

use lacus::history::tags;
use serde_json::{Value as Json, json};

use super::Context;
use crate::args::TagArgs;
use crate::failure::Failure;
use crate::output::{Side, columns, few, time};
use crate::place::Standing;

pub(crate) async fn run(context: &Context, args: TagArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    // A place without a dataset has no tags, but that is not what is to be said.
    here.open(None).await?;
    if args.delete {
        return delete(context, &here, &args.names).await;
    }
    match &args.names[..] {
        [] => list(context, &here).await,
        [name] => create(context, &here, name, None, args.message).await,
        [name, revision] => create(context, &here, name, Some(revision), args.message).await,
        _ => Err(Failure::invalid("a tag has one name, and is of one commit")),
    }
}

async fn list(context: &Context, here: &Standing) -> Result<(), Failure> {
    let found = tags::list(here.timeline().home()).await?;
    let mut rows = Vec::new();
    for tag in &found {
        // A tag whose commit cannot be read is still a tag.
        let commit = here.timeline().commits().read(&tag.commit).await;
        let summary = commit.as_ref().map_or("(cannot be read)", |commit| commit.summary());
        let told = tag.message.trim().lines().next().unwrap_or(summary);
        rows.push(vec![tag.name.clone(), tag.commit.short(), told.to_owned()]);
    }
    let one = |tag: &tags::Tag| -> Json {
        json!({
            "name": tag.name, "commit": tag.commit, "author": tag.author, "time": time(tag.time_millis),
            "message": tag.message,
        })
    };
    context.output.result(|| found.iter().map(one).collect(), || columns(&[Side::Left; 3], &rows))
}

async fn create(
    context: &Context,
    here: &Standing,
    name: &str,
    revision: Option<&str>,
    message: Option<String>,
) -> Result<(), Failure> {
    let (id, commit) = here.commit(revision).await?;
    let tag = here.timeline().create_tag(name, id, None, message.unwrap_or_default()).await?;
    context.output.done(
        || json!({"tag": tag.name, "commit": id}),
        || format!("tagged {} {} as {name}", id.short(), commit.summary()),
    )
}

async fn delete(context: &Context, here: &Standing, names: &[String]) -> Result<(), Failure> {
    let home = here.timeline().home();
    let known = tags::names(home).await?;
    // All or none. A damaged tag is there, too.
    for name in names.iter().filter(|name| !known.contains(name)) {
        tags::get(home, name).await?;
    }
    for name in names {
        tags::delete(home, name).await?;
    }
    context.output.done(|| json!({"deleted": names}), || format!("deleted tag {}", few(names, 10)))
}
