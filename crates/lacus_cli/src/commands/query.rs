//! `lacus query`: a question in SQL, and its answer as a table, JSON, CSV, a file or a saved view.

use std::io::Read;
use std::path::Path;

use lacus::dataset::ScanOptions;
use lacus::exchange::ParquetFile;
use lacus::{Answer, AnswerScan, Asked, At, Question, View};
use serde_json::json;

use super::Context;
use super::head::Shown;
use crate::args::{QueryArgs, Version};
use crate::failure::Failure;
use crate::output::{count, number};
use crate::parameters::parameters;
use crate::place::Standing;
use crate::shown::{batch_cells, csv_line, expanded_text, row_json, table_text};

pub(crate) async fn run(context: &Context, args: QueryArgs) -> Result<(), Failure> {
    let mut text = args.text;
    if text == "-" {
        text.clear();
        let failed = |error: std::io::Error| Failure::file("read", Path::new("-"), &error);
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    }
    let (here, asked) = opened(context, &args.dataset.url, &args.version).await?;
    let parameters = parameters(&text, &args.parameters)?;
    let question = Question { parameters, memory: args.memory, ..Question::new(text) };
    if args.explain || args.analyze {
        let told = lacus::explain(&question, &asked, args.analyze).await?;
        return context.output.result(|| json!({"plan": told}), || format!("{}\n", told.trim_end()));
    }
    let answer = lacus::ask(&question, &asked).await?;
    match (&args.save, &args.parquet) {
        (Some(name), _) => save(context, &here, &asked, &answer, name, &question.text).await,
        (None, Some(dest)) => to_parquet(context, &answer, dest).await,
        (None, None) if args.csv => csv(context, &answer).await,
        (None, None) => print(context, &answer, args.shown, false).await,
    }
}

/// What a query may read: the state that is meant, where the user stands, and everything that has a URL.
pub(super) async fn opened(
    context: &Context,
    url: &str,
    version: &Version,
) -> Result<(Standing, Asked), Failure> {
    let here = context.here(url)?;
    let at = version.at.as_deref().map_or(At::Here, At::from);
    let checkout = here.repository.look(&here.place, &at).await.map_err(|error| here.explained(error))?;
    let asked = Asked {
        dataset: Some(checkout.view().await?),
        repository: Some(here.repository.clone()),
        place: here.place.clone(),
        storage_options: context.storage_options.clone(),
        ..Asked::default()
    };
    Ok((here, asked))
}

/// Prints an answer: its first rows for people, all of them for programs.
pub(super) async fn print(
    context: &Context,
    answer: &Answer,
    most: u64,
    is_expanded: bool,
) -> Result<(), Failure> {
    let output = context.output;
    if output.json {
        let mut scan = AnswerScan::of(answer).await?;
        let names = names(&scan);
        let mut before = "[";
        while let Some(batch) = scan.next().await? {
            let cells = batch_cells(&batch)?;
            let mut text = String::new();
            for row in 0..batch.num_rows() {
                text.push_str(&format!("{before}{}", row_json(&names, &cells, row)));
                before = ",";
            }
            output.stdout(&text)?;
        }
        return output.stdout(if before == "[" { "[]\n" } else { "]\n" });
    }
    let (rows, what) = match answer {
        Answer::View(view) => (view.len(), "a view"),
        Answer::Table(table) => (table.rows() as u64, "a table"),
    };
    let (names, cells) = first(answer, most).await?;
    let text = match is_expanded {
        true => expanded_text(&names, &cells),
        false => table_text(&names, &cells),
    };
    output.stdout(&text)?;
    let all = count(rows as usize, "row");
    match rows > most {
        true => output.say(&format!("… {} more rows; {all} in {what}", number(rows - most))),
        false => output.say(&format!("{all} in {what}")),
    }
    Ok(())
}

/// The first rows of an answer, by batches of columns. No more is read than is shown.
async fn first(answer: &Answer, most: u64) -> Result<(Vec<String>, Vec<Vec<Vec<Shown>>>), Failure> {
    let mut scan = match answer {
        Answer::View(view) => {
            let some = view.every(0, 1, most.min(view.len()))?;
            AnswerScan::of_view(&some, None, ScanOptions::default(), &[]).await?
        }
        Answer::Table(table) => AnswerScan::of_table(table),
    };
    let (names, mut left, mut found) =
        (names(&scan), usize::try_from(most).unwrap_or(usize::MAX), Vec::new());
    while left > 0
        && let Some(batch) = scan.next().await?
    {
        let batch = batch.slice(0, batch.num_rows().min(left));
        left -= batch.num_rows();
        found.push(batch_cells(&batch)?);
    }
    Ok((names, found))
}

fn names(scan: &AnswerScan) -> Vec<String> {
    scan.schema().fields().iter().map(|field| field.name().clone()).collect()
}

async fn csv(context: &Context, answer: &Answer) -> Result<(), Failure> {
    let mut scan = AnswerScan::of(answer).await?;
    let header: Vec<_> = names(&scan).into_iter().map(serde_json::Value::String).collect();
    context.output.stdout(&csv_line(header.iter()))?;
    while let Some(batch) = scan.next().await? {
        let cells = batch_cells(&batch)?;
        let line = |row: usize| csv_line(cells.iter().map(|column| &column[row].json));
        context.output.stdout(&(0..batch.num_rows()).map(line).collect::<String>())?;
    }
    Ok(())
}

async fn to_parquet(context: &Context, answer: &Answer, dest: &Path) -> Result<(), Failure> {
    let mut scan = AnswerScan::of(answer).await?;
    let mut file = ParquetFile::create(dest, scan.schema().clone())?;
    let mut rows = 0;
    while let Some(batch) = scan.next().await? {
        file.write(&batch)?;
        rows += batch.num_rows();
    }
    file.finish()?;
    context.output.done(
        || json!({"rows": rows, "dest": dest.display().to_string()}),
        || format!("wrote {} to {}", count(rows, "row"), dest.display()),
    )
}

async fn save(
    context: &Context,
    here: &Standing,
    asked: &Asked,
    answer: &Answer,
    name: &str,
    query: &str,
) -> Result<(), Failure> {
    let Answer::View(view) = answer else {
        return Err(Failure::invalid(
            "the answer is a table, and only rows of the dataset can be saved as a view",
        )
        .hint("leave GROUP BY, DISTINCT, JOIN and UNION out, or write a file with --parquet"));
    };
    let is_ours = |ours: &View| ours.state().dataset == view.state().dataset;
    if !asked.dataset.as_ref().is_some_and(is_ours) {
        return Err(Failure::invalid(format!("the rows are of another dataset than {}", here.url()))
            .hint("ask that dataset"));
    }
    let saved = here.repository.save_view(name, view, "", Some(query.trim().to_owned())).await?;
    context.output.done(
        || json!({"view": saved.name, "rows": saved.rows, "commit": saved.commit}),
        || format!("saved {} of {} as {name}", count(view.len() as usize, "row"), saved.commit.short()),
    )
}
