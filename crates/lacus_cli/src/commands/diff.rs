//! `lacus diff`: what differs between two states.

use lacus::history::State;

use super::Context;
use crate::args::DiffArgs;
use crate::failure::Failure;
use crate::place::Standing;
use crate::shown::{changed_values, changes_json, changes_text, values_json, values_text};

pub(crate) async fn run(context: &Context, args: DiffArgs) -> Result<(), Failure> {
    let here = context.here(&args.dataset.url)?;
    let (before, after) = states(&here, &args)?;
    let compared = here.timeline().diff(here.branch(), &before, &after).await;
    let compared = compared.map_err(|error| here.explained(error))?;
    let (mut json, mut text) = (changes_json(&compared), changes_text(&compared));
    if let Some(most) = args.values.values {
        let values = changed_values(compared, most).await?;
        text.push_str(&values_text(&values));
        json["values"] = values_json(values);
    }
    context.output.result(|| json, || text)
}

fn states(here: &Standing, args: &DiffArgs) -> Result<(State, State), Failure> {
    let revision = |text: &str| State::Revision(here.place.revision(text));
    Ok(match (args.before.as_deref(), args.after.as_deref()) {
        (None, _) if here.place.pinned.is_some() => (here.here(), here.here()),
        (None, _) => (State::Head, State::Newest),
        (Some(before), Some(after)) => (revision(before), revision(after)),
        // Names have no two dots in a row.
        (Some(text), None) => match text.split_once("..") {
            Some((_, after)) if after.starts_with('.') => {
                return Err(Failure::invalid(format!("{text:?}: give two states, as A B or A..B")));
            }
            Some((before, after)) => {
                let or_head = |text: &str| if text.is_empty() { revision("HEAD") } else { revision(text) };
                (or_head(before), or_head(after))
            }
            None => (revision(text), here.here()),
        },
    })
}
