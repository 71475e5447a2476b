//! `lacus show`: a commit and what it changed.

use lacus::history::tags;
use serde_json::json;

use super::Context;
use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::output::time;
use crate::shown::{
    Names, changed_values, changes_json, changes_text, commit_json, date, header, values_json, values_text,
};

pub(crate) async fn run(context: &Context, args: ShowArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let (id, commit) = here.commit(args.revision.as_deref()).await?;
    let names = Names::of(here.timeline(), &here.place).await?;
    // A name of both kinds is the branch's; a tag then points elsewhere.
    let tag = match &args.revision {
        Some(text) => tags::find(here.timeline().home(), text).await?.filter(|tag| tag.commit == id),
        None => None,
    };
    let compared = here.timeline().changes_of(&id, &commit).await?;
    let (mut json, mut text) = (commit_json(&id, &commit), String::new());
    if let Some(tag) = tag {
        json["tag"] = json!({
            "name": tag.name, "author": tag.author, "time": time(tag.time_millis), "message": tag.message,
        });
        text.push_str(&format!(
            "tag {}\nTagger: {}\nDate:   {}\n",
            tag.name,
            tag.author,
            date(tag.time_millis)
        ));
        let message = tag.message.trim().lines().map(|line| format!("    {line}\n")).collect::<String>();
        text.push_str(&if message.is_empty() { "\n".to_owned() } else { format!("\n{message}\n") });
    }
    json["refs"] = json!(names.get(&id));
    json["changes"] = changes_json(&compared);
    text.push_str(&format!("{}\n", header(&id, &commit, &names).join("\n")));
    let changes = changes_text(&compared);
    if !changes.is_empty() {
        text.push_str(&format!("\n{changes}"));
    }
    if let Some(most) = args.values.values {
        let values = changed_values(compared, most).await?;
        text.push_str(&values_text(&values));
        json["values"] = values_json(values);
    }
    context.output.result(|| json, || text)
}
