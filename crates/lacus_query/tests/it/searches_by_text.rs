//! `bm25`, `text_search` and `hybrid_search` find the same rows, with an index and without; WHERE comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lacus_dataset::{ColumnSpec, Dataset, Extend, Sample, View};
use lacus_io::{Store, World};
use lacus_query::{Answer, Parameter, Parameters, Question, ask, compute, explain};
use lacus_search::create_text_index;
use lacus_table::{Table, WriteOptions};
use lacus_tensor::{DType, Tensor};

use crate::datasets::{Only, answer, answer_with, lines, numbers, tensor};

/// `n` counts the rows, `kind` is photo, drawing in turn; `vector` is (n, 1).
const CAPTIONS: &[Option<&str>] = &[
    Some("a black cat"),
    Some("a dog"),
    Some("black cat black cat"),
    None,
    Some("the cat sat on the mat, and the mat was black"),
    Some("a cat"),
    Some("nothing of this"),
    Some("a white cat and a black dog"),
];

async fn captions(is_indexed: bool) -> View {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let url = format!("memory://captions-{}", MADE.fetch_add(1, Ordering::Relaxed));
    let store = Store::open(&url, &Default::default()).unwrap();
    let mut dataset = Dataset::new(Table::create(store, World::real()).await.unwrap());
    let options = WriteOptions::default();
    let mut n =
        ColumnSpec { htype: Some("generic".into()), dtype: Some(DType::I64), ..ColumnSpec::default() };
    n.shape = Some(vec![]);
    let mut vector = ColumnSpec { dtype: Some(DType::F32), ..n.clone() };
    vector.shape = Some(vec![Some(2)]);
    let text = ColumnSpec { htype: Some("text".into()), ..ColumnSpec::default() };
    for (name, spec) in [("n", &n), ("kind", &text), ("caption", &text), ("vector", &vector)] {
        dataset.add_column(name, spec, None, None, &options).await.unwrap();
    }
    let count = CAPTIONS.len() as u64;
    let leaked = |tensor: Tensor| Sample::Tensor(Box::leak(Box::new(tensor)).as_ref());
    let numbers = |n: u64| leaked(tensor(DType::I64, &[], &n.to_le_bytes()));
    let vectors = |n: u64| {
        let bytes: Vec<u8> = [n as f32, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        leaked(tensor(DType::F32, &[2], &bytes))
    };
    let kind = |n: u64| Sample::Text(["photo", "drawing"][n as usize % 2].into());
    let caption =
        |text: &Option<&'static str>| text.map_or(Sample::Missing, |text| Sample::Text(text.into()));
    let columns = vec![
        ("n".to_owned(), (0..count).map(numbers).collect::<Vec<_>>().into()),
        ("kind".to_owned(), (0..count).map(kind).collect::<Vec<_>>().into()),
        ("caption".to_owned(), CAPTIONS.iter().map(caption).collect::<Vec<_>>().into()),
        ("vector".to_owned(), (0..count).map(vectors).collect::<Vec<_>>().into()),
    ];
    dataset.extend(Extend { columns, ..Extend::default() }, &options).await.unwrap();
    if is_indexed {
        create_text_index(&mut dataset, "caption", None, &options).await.unwrap();
    }
    View::all(Arc::new(dataset.frozen()), None).await.unwrap()
}

async fn rows(view: &View, text: &str) -> Vec<i64> {
    match answer(view, text).await {
        Ok(Answer::View(found)) => numbers(&found).await,
        Ok(Answer::Table(_)) => panic!("a table: {text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

async fn wrong(view: &View, text: &str) -> String {
    match answer(view, text).await {
        Ok(answer) => panic!("{text}: {answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_found_best_first() {
    for is_indexed in [false, true] {
        let view = captions(is_indexed).await;
        let cases: &[(&str, &[i64])] = &[
            ("SELECT * FROM text_search('caption', 'black cat', 3)", &[2, 0, 7]),
            ("SELECT * ORDER BY bm25(caption, 'black cat') DESC LIMIT 3", &[2, 0, 7]),
            ("SELECT * FROM text_search('caption', 'black cat', 100)", &[2, 0, 7, 5, 4]),
            ("SELECT * FROM text_search('caption', '\"black cat\"', 100)", &[2, 0]),
            ("SELECT * FROM text_search('caption', '+black -dog', 100)", &[2, 0, 4]),
            ("SELECT * FROM text_search('caption', 'fish', 100)", &[]),
            ("SELECT * FROM text_search('caption', '', 100)", &[]),
            // WHERE comes first, and as many rows come back as there are.
            ("SELECT * FROM text_search('caption', 'black cat', 2) WHERE kind = 'drawing'", &[7, 5]),
            (
                "SELECT * FROM text_search('caption', 'black cat', 2) AS t WHERE t.kind = 'drawing' AND t.score > 0",
                &[7, 5],
            ),
            ("SELECT * WHERE kind = 'drawing' ORDER BY bm25(caption, 'black cat') DESC LIMIT 2", &[7, 5]),
            (
                "SELECT * FROM text_search('caption', 'black cat', 9) WHERE row_id() <> row_id() OR n < 3",
                &[2, 0],
            ),
            // What comes after works on the rows that were found.
            ("SELECT * FROM text_search('caption', 'black cat', 3) ORDER BY n", &[0, 2, 7]),
            ("SELECT n, caption, score FROM text_search('caption', 'black cat', 3) LIMIT 1 OFFSET 1", &[0]),
            ("SELECT * WHERE bm25(caption, 'cat') > 0", &[0, 2, 4, 5, 7]),
            ("SELECT * WHERE n IN (SELECT n FROM text_search('caption', 'cat', 2) WHERE n > 3)", &[5, 7]),
            (
                "SELECT *, bm25(caption, 'dog') AS s WHERE bm25(caption, 'cat') > 0 ORDER BY s DESC LIMIT 1",
                &[7],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(rows(&view, text).await, *expected, "{text}, index: {is_indexed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_are_those_of_all_rows() {
    let (plain, indexed) = (captions(false).await, captions(true).await);
    let mut seen = Vec::new();
    for view in [&plain, &indexed] {
        let Answer::View(found) =
            answer(view, "SELECT * FROM text_search('caption', 'black cat', 4)").await.unwrap()
        else {
            panic!()
        };
        assert_eq!(found.columns(), ["n", "kind", "caption", "vector", "score"]);
        assert_eq!(found.computed()["score"], "bm25(\"caption\", 'black cat')");
        let scores = compute(&found, &["score".to_owned()], &[0, 1, 2, 3], &[]).await.unwrap();
        // The same as the view that answers an ORDER BY, and as a view of one of the rows.
        let text = "SELECT bm25(caption, 'black cat') AS score ORDER BY score DESC LIMIT 4";
        let Answer::View(sorted) = answer(view, text).await.unwrap() else { panic!() };
        assert_eq!(sorted.computed()["score"], "bm25(caption, 'black cat')");
        let again = compute(&sorted, &["score".to_owned()], &[0, 1, 2, 3], &[]).await.unwrap();
        assert_eq!(scores.column(0), again.column(0));
        let one =
            answer(&view.take(&[2]).unwrap(), "SELECT max(bm25(caption, 'black cat')), 1 + 1").await.unwrap();
        assert_eq!(lines(&one).len(), 1);
        seen.push((scores.column(0).clone(), lines(&one)));
    }
    assert_eq!(seen[0], seen[1]);
    // And as without late columns, zone maps and indexes.
    let text =
        "SELECT n, bm25(caption, 'the \"black cat\"') AS s, upper(caption) FROM dataset d ORDER BY s DESC, n";
    let slow = Question { reads_all: true, ..Question::new(format!("{text} LIMIT 100")) };
    let table = format!("SELECT DISTINCT * FROM ({text}) ORDER BY s DESC, n");
    let slow = ask(&Question { text: table.clone(), ..slow }, &Only(indexed.clone())).await.unwrap();
    assert_eq!(lines(&slow), lines(&answer(&indexed, &table).await.unwrap()));
    assert_eq!(lines(&slow), lines(&answer(&plain, &table).await.unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_of_searches() {
    let view = captions(true).await;
    let check = async |text: &str, expected: &[&str]| {
        assert_eq!(lines(&answer(&view, text).await.unwrap()), expected, "{text}");
    };
    check("SELECT count(*) FROM text_search('caption', 'black cat', 3)", &["3"]).await;
    check(
        "SELECT kind, count(*) AS c FROM text_search('caption', 'black cat', 9) GROUP BY kind ORDER BY kind",
        &["drawing | 2", "photo | 3"],
    )
    .await;
    check(
        "SELECT t.n, d.n FROM text_search('caption', 'black cat', 2) t JOIN dataset d ON d.n = t.n + 1 ORDER BY t.n",
        &["0 | 1", "2 | 3"],
    )
    .await;
    check("SELECT max(bm25(d.caption, 'fish')) FROM dataset d JOIN dataset e ON d.n = e.n", &["0.0"]).await;
    check(
        "WITH best AS (SELECT n, score FROM text_search('caption', 'black cat', 2)) SELECT n FROM best WHERE score > 0 ORDER BY n",
        &["0", "2"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rankings_are_joined() {
    for is_indexed in [false, true] {
        let view = captions(is_indexed).await;
        // By vector: 7, 6, 5, …; by text: 2, 0, 7, 5, 4.
        let vector =
            tensor(DType::F32, &[2], &[1.0f32, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        let parameter = || Parameters::Positional(vec![Parameter::tensor(&vector.as_ref()).unwrap()]);
        let text = "SELECT * FROM hybrid_search('vector', ?, 'caption', 'black cat', 3)";
        let Answer::View(found) = answer_with(&view, text, parameter()).await.unwrap() else { panic!() };
        assert_eq!(numbers(&found).await, [7, 5, 2]);
        let scores = compute(&found, &["score".to_owned()], &[0, 1, 2], &[]).await.unwrap();
        let best = 1.0 / 61.0 + 1.0 / 63.0;
        let scores: &arrow::array::Float64Array = scores.column(0).as_any().downcast_ref().unwrap();
        assert!((scores.value(0) - best).abs() < 1e-12, "{scores:?}");
        assert!(scores.value(0) > scores.value(1) && scores.value(1) > scores.value(2));
        let text = "SELECT * FROM hybrid_search('vector', ?, 'caption', 'black cat', 2) WHERE kind = 'photo'";
        let Answer::View(found) = answer_with(&view, text, parameter()).await.unwrap() else { panic!() };
        // By vector: 6, 4, 2, 0; by text: 2, 0, 4.
        assert_eq!(numbers(&found).await, [2, 4]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_what_the_index_covers() {
    let (plain, indexed) = (captions(false).await, captions(true).await);
    for text in [
        "SELECT * FROM text_search('caption', 'black cat', 3)",
        "SELECT * ORDER BY bm25(caption, 'black cat') DESC LIMIT 3",
    ] {
        for analyze in [false, true] {
            let said = explain(&Question::new(text), &Only(plain.clone()), analyze).await.unwrap();
            assert!(said.contains("no index; the texts of all 7 rows are read"), "{said}");
            let said = explain(&Question::new(text), &Only(indexed.clone()), analyze).await.unwrap();
            assert!(said.contains("the index (simple) covers all 7 rows"), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_what_is_wrong() {
    let view = captions(false).await;
    let check = async |text: &str, why: &str| {
        let found = wrong(&view, text).await;
        assert!(found.starts_with(why), "{text}: {found}");
    };
    check("SELECT * FROM text_search('n', 'cat', 3)", "text search: column \"n\" holds generic").await;
    check("SELECT * FROM text_search('captoin', 'cat', 3)", "no column \"captoin\"; did you mean caption?")
        .await;
    check(
        "SELECT * FROM text_search('caption', 'cat', 0)",
        "text_search: k must be a whole number, 1 at least, found `0`",
    )
    .await;
    check("SELECT * FROM text_search('caption', 'cat', 1.5)", "text_search: k must be a whole number").await;
    check("SELECT * FROM text_search('caption', 3, 1)", "text_search: the words must be a text, found `3`")
        .await;
    check("SELECT * FROM text_search('caption', NULL, 1)", "text_search: the words must be a text").await;
    check("SELECT bm25(n, 'cat')", "text search: column \"n\" holds generic").await;
    check("SELECT bm25(captoin, 'cat')", "no column \"captoin\"; did you mean caption?").await;
    check("SELECT bm25(caption, kind)", "bm25: the words must be a constant text").await;
    check("SELECT bm25(caption, 3)", "bm25: the words must be a text").await;
    check("SELECT bm25(caption)", "bm25: expected 2 arguments").await;
    check("SELECT bm52(caption, 'cat')", "no function \"bm52\"; did you mean bm25?").await;
    check("SELECT * FROM hybrid_search('nothing', [1, 0], 'caption', 'cat', 3)", "").await;
    check("SELECT * FROM hybrid_search('vector', [1, 0, 3], 'caption', 'cat', 3)", "").await;
}
