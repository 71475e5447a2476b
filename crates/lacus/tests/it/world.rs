//! A dataset of numbered rows.

use lacus::{Checkout, ColumnSpec, Error, Extend, Record, Repository, Sample, WriteOptions};

/// Runs it on a runtime.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

/// A dataset with rows `0..count`: a number and a word each, committed.
pub(crate) async fn numbered(name: &str, count: i64) -> Result<Checkout, Error> {
    let mut main = Repository::create(&format!("memory://{name}"), &Default::default()).await?;
    let options = WriteOptions::default();
    let text = ColumnSpec { htype: Some("text".into()), ..ColumnSpec::default() };
    main.dataset_mut().add_column("word", &text, None, None, &options).await?;
    extend(&mut main, 0..count).await?;
    commit(&mut main, "numbers").await?;
    Ok(main)
}

/// Appends rows.
pub(crate) async fn extend(to: &mut Checkout, numbers: std::ops::Range<i64>) -> Result<(), Error> {
    let words: Vec<Sample<'_>> =
        numbers.map(|number| Sample::Text(format!("word {number}").into())).collect();
    let rows = Extend { columns: vec![("word".into(), words.into())], ..Extend::default() };
    to.dataset_mut().extend(rows, &WriteOptions::default()).await?;
    Ok(())
}

pub(crate) async fn commit(to: &mut Checkout, message: &str) -> Result<(), Error> {
    to.commit(&Record { message: message.to_owned(), ..Record::default() }, false).await?;
    Ok(())
}

/// The words of a view.
pub(crate) async fn words(view: &lacus::View) -> Vec<String> {
    let places: Vec<u64> = (0..view.len()).collect();
    let lacus::Batch::Values(values) = view.read("word", &places, &[]).await.unwrap() else {
        panic!("texts")
    };
    let word = |value| match value {
        Some(lacus::dataset::Value::Text(text)) => text,
        other => panic!("{other:?}"),
    };
    values.into_iter().map(word).collect()
}
