//! Commits, a branch, a merge. `cargo run -p lacus --example history`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lacus::history::{Choice, Conflict};
use lacus::{ColumnSpec, Error, Extend, FastForward, Record, Repository, Sample, WriteOptions};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let options = WriteOptions::default();
    let mut here = Repository::create("memory://history", &Default::default()).await?;
    let text = ColumnSpec { htype: Some("text".into()), ..ColumnSpec::default() };
    here.dataset_mut().add_column("name", &text, None, None, &options).await?;
    here.commit(&said("A column"), false).await?;

    here.switch_to_new("add-ada", None, false).await?;
    let names = vec![Sample::Text("Ada".into())];
    let rows = Extend { columns: vec![("name".into(), names.into())], ..Extend::default() };
    here.dataset_mut().extend(rows, &options).await?;
    here.commit(&said("Add Ada"), false).await?;

    here.switch(&"main".into(), false).await?;
    let decide = &mut |_: &Conflict| Choice::Stop;
    here.merge("add-ada", &Record::default(), FastForward::Never, decide, &options).await?;
    let (head, _) = here.repository().commit_at(here.place(), None).await?;
    for (id, commit) in here.repository().timeline().log(&[head], 10).await? {
        println!("{} {}", id.short(), commit.summary());
    }
    println!("{} row on main", here.view().await?.len());
    Ok(())
}

fn said(message: &str) -> Record {
    Record { message: message.to_owned(), ..Record::default() }
}
