//! Rows of samples, and views of them. `cargo run -p lacus --example samples`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lacus::{Batch, ColumnSpec, Error, Extend, Repository, Sample, WriteOptions};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut main = Repository::create("memory://samples", &Default::default()).await?;
    let (dataset, options) = (main.dataset_mut(), WriteOptions::default());
    let text = ColumnSpec { htype: Some("text".into()), ..ColumnSpec::default() };
    dataset.add_column("caption", &text, None, None, &options).await?;
    let captions: Vec<Sample<'_>> = (0..100).map(|i| Sample::Text(format!("picture {i}").into())).collect();
    let rows = Extend { columns: vec![("caption".into(), captions.into())], ..Extend::default() };
    dataset.extend(rows, &options).await?;

    // A view is a value: choosing rows reads nothing.
    let parts = main.view().await?.split(&[0.8, 0.2], Some(7))?;
    println!("{} rows to train on, {} to test with", parts[0].len(), parts[1].len());
    if let Batch::Values(found) = parts[1].read("caption", &[0, 1], &[]).await? {
        println!("{found:?}");
    }
    println!("{}", serde_json::to_string(&main.view().await?.data()).unwrap_or_default());
    Ok(())
}
