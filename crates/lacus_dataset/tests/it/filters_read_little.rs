//! Filters give the rows that a plain look at every value gives, and read no more than the pages that may hold them.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use futures::TryStreamExt;
use lacus_dataset::{
    ColumnSpec, Compare, Constant, Dataset, ErrorKind, Extend, Filter, Sample, Samples, ScanOptions,
};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Place, extend, fixed, options, spec};

/// Rows in a page of numbers.
const PAGE: u32 = 32 << 10;

/// A dataset of sorted labels: 20 labels, a page of each.
async fn sorted(place: &Place) -> Dataset {
    let mut dataset = place.create().await;
    let label = ColumnSpec { dtype: Some(DType::U32), shape: Some(vec![]), ..ColumnSpec::default() };
    dataset.add_column("label", &label, None, None, &options()).await.unwrap();
    let labels: Vec<u32> = (0..20 * PAGE)
        .map(|row| row / PAGE * 1_000_003 + row.wrapping_mul(2_654_435_761) % 999_983)
        .collect();
    let shape = Shape::new([labels.len() as u64]).unwrap();
    let tensor = Tensor::new(DType::U32, shape, Buffer::from_elements(&labels)).unwrap();
    let rows = Samples::Rows(Box::new(tensor.as_ref()));
    dataset
        .extend(Extend { columns: vec![("label".into(), rows)], ..Extend::default() }, &options())
        .await
        .unwrap();
    place.open().await
}

fn read_bytes(dataset: &Dataset) -> u64 {
    dataset.table().store().counts().read_bytes()
}

async fn all_ids(dataset: &Dataset) -> Vec<(u64, u64)> {
    let axis = dataset.table().rows().await.unwrap();
    axis.id_runs(0..axis.len())
}

async fn scanned(dataset: &Dataset, filter: Filter) -> Vec<RecordBatch> {
    let options = ScanOptions { filter: Some(filter), ..ScanOptions::default() };
    let ids = all_ids(dataset).await;
    let scan = dataset.scan(ids, &["label".to_owned()], options).await.unwrap();
    scan.stream(dataset).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_labels_are_found_without_reading_the_others() {
    let place = Place::new();
    let dataset = sorted(&place).await;
    let low = u64::from(7 * 1_000_003u32);
    let filter = Filter::compare("label", Compare::AtLeast, low).and(Filter::compare(
        "label",
        Compare::Below,
        low + 1_000_003,
    ));
    // What reading the matching rows alone costs.
    let ideal = place.open().await;
    let ids = all_ids(&ideal).await;
    let before = read_bytes(&ideal);
    let first = ids[0].0 + u64::from(7 * PAGE);
    ideal.table().read_scalars("label", &[(first, u64::from(PAGE))]).await.unwrap();
    let matching = read_bytes(&ideal) - before;

    all_ids(&dataset).await;
    let before = read_bytes(&dataset);
    let found = scanned(&dataset, filter.clone()).await;
    let read = read_bytes(&dataset) - before;
    let rows: usize = found.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, PAGE as usize);
    assert!(found.iter().all(|batch| {
        batch.column(0).as_primitive::<UInt32Type>().values().iter().all(|label| label / 1_000_003 == 7)
    }));
    assert!(5 * read <= 6 * matching, "{read} bytes read where the matching rows take {matching}");
    let before = (read_bytes(&dataset), dataset.table().store().counts().reads());
    scanned(&dataset, filter).await;
    assert_eq!((read_bytes(&dataset), dataset.table().store().counts().reads()), before, "a second scan");
    // All of the column takes many times that, though its dictionary was read for the one page, too.
    let whole = place.open().await;
    let ids = all_ids(&whole).await;
    let before = read_bytes(&whole);
    whole.table().read_scalars("label", &ids).await.unwrap();
    let whole = read_bytes(&whole) - before;
    assert!(whole > 3 * read, "{read} bytes read of {whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_match_are_not_opened() {
    let place = Place::new();
    let mut dataset = place.create().await;
    dataset.add_column("name", &spec("text"), None, None, &options()).await.unwrap();
    for letter in ["a", "b", "c", "d"] {
        let names = (0..10).map(|i| Sample::Text(format!("{letter}{i} {}", "x".repeat(90)).into())).collect();
        extend(&mut dataset, vec![("name", names)]).await;
    }
    let dataset = place.open().await;
    let ids = all_ids(&dataset).await;
    let before = dataset.table().store().counts().reads();
    let none = dataset.matching(&ids, &Filter::compare("name", Compare::Above, "e")).await.unwrap();
    assert_eq!((none, dataset.table().store().counts().reads()), (vec![], before));
    let some = dataset.matching(&ids, &Filter::compare("name", Compare::AtLeast, "d")).await.unwrap();
    assert_eq!(some.iter().map(|(_, count)| count).sum::<u64>(), 10);
    // The footer and the page of one file.
    assert!(dataset.table().store().counts().reads() - before <= 3);
    // Compaction and renaming write zones again.
    let mut dataset = place.open().await;
    dataset.table_mut().compact(&options()).await.unwrap();
    dataset.rename_column("name", "title", &options()).await.unwrap();
    let dataset = place.open().await;
    let ids = all_ids(&dataset).await;
    let before = dataset.table().store().counts().reads();
    let none = dataset.matching(&ids, &Filter::compare("title", Compare::Above, "e")).await.unwrap();
    assert_eq!((none, dataset.table().store().counts().reads()), (vec![], before));
    let some = dataset.matching(&ids, &Filter::compare("title", Compare::Below, "b")).await.unwrap();
    assert_eq!(some.iter().map(|(_, count)| count).sum::<u64>(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn shapes_are_compared_without_reading_samples() {
    let place = Place::new();
    let mut dataset = place.create().await;
    dataset.add_column("boxes", &spec("bbox"), None, None, &options()).await.unwrap();
    dataset.add_column("any", &spec("generic"), None, None, &options()).await.unwrap();
    for counts in [[0u64, 1, 2], [5, 6, 7], [50, 60, 70]] {
        let of = |dims: Vec<u64>| Tensor::zeros(DType::F32, Shape::new(dims).unwrap()).unwrap();
        let boxes: Vec<Option<Tensor>> = counts.iter().map(|count| Some(of(vec![*count, 4]))).collect();
        let any: Vec<Option<Tensor>> = vec![Some(of(vec![counts[0]])), Some(of(vec![])), None];
        extend(&mut dataset, vec![("boxes", samples(&boxes)), ("any", samples(&any))]).await;
    }
    let dataset = place.open().await;
    let ids = all_ids(&dataset).await;
    let check = async |filter: Filter, expected: &[u64]| {
        let axis = dataset.table().rows().await.unwrap();
        let found = dataset.matching(&ids, &filter).await.unwrap();
        let found = found.iter().flat_map(|&(first, count)| first..first + count);
        assert_eq!(found.map(|id| axis.position(id).unwrap()).collect::<Vec<_>>(), expected, "{filter:?}");
    };
    let size = |column: &str, axis, how, size| Filter::Size(column.into(), axis, how, size);
    let reads = || dataset.table().store().counts().reads();
    let before = reads();
    check(size("boxes", 0, Compare::Above, 70), &[]).await;
    assert_eq!(reads(), before, "tags rule out every file");
    check(size("boxes", 0, Compare::AtLeast, 60), &[7, 8]).await;
    assert_eq!(reads() - before, 1, "the index of one file");
    check(size("boxes", 1, Compare::Equal, 4), &[0, 1, 2, 3, 4, 5, 6, 7, 8]).await;
    check(Filter::Not(Box::new(size("boxes", 0, Compare::Above, 1))), &[0, 1]).await;
    // Tensors without the axis are neither larger nor not larger.
    check(size("any", 0, Compare::AtLeast, 5), &[3, 6]).await;
    check(Filter::Not(Box::new(size("any", 0, Compare::AtLeast, 5))), &[0]).await;
    check(size("any", 3, Compare::Unequal, 0), &[]).await;
}

/// A value of each column of a row; `None` where it is missing.
type Row = (Option<u64>, Option<f64>, Option<String>, Option<usize>);

const CLASSES: [&str; 3] = ["cat", "dog", "owl"];

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let count = prop::sample::select(vec![0u64, 1, 5, i64::MAX as u64, 1 << 63, u64::MAX]);
    let score = prop::sample::select(vec![f64::NAN, -0.0, 0.0, 1.5, -3.0, f64::INFINITY]);
    let name = prop::sample::select(vec!["", "a", "ab", "zz"]).prop_map(str::to_owned);
    let row = (
        prop::option::of(count),
        prop::option::of(score),
        prop::option::of(name),
        prop::option::of(0usize..3),
    );
    prop::collection::vec(row, 1..40)
}

fn filters() -> impl Strategy<Value = Filter> {
    let how = prop::sample::select(vec![
        Compare::Equal,
        Compare::Unequal,
        Compare::Below,
        Compare::AtMost,
        Compare::Above,
        Compare::AtLeast,
    ]);
    let number = prop_oneof![
        prop::sample::select(vec![0u64, 1, 5, 1 << 63, u64::MAX]).prop_map(Constant::from),
        prop::sample::select(vec![f64::NAN, 0.0, 1.5, -1.0, 1e19]).prop_map(Constant::from),
    ];
    let class = prop::sample::select(vec!["cat", "owl", "cow"]);
    let leaf = prop_oneof![
        (prop::sample::select(vec!["count", "score"]), how.clone(), number.clone())
            .prop_map(|(column, how, number)| Filter::compare(column, how, number)),
        (how, prop::sample::select(vec!["", "a", "b"]))
            .prop_map(|(how, text)| Filter::compare("name", how, text)),
        (prop::bool::ANY, class).prop_map(|(is, class)| {
            Filter::compare("class", if is { Compare::Equal } else { Compare::Unequal }, class)
        }),
        prop::collection::vec(number, 0..3).prop_map(|all| Filter::In("score".into(), all)),
        prop::sample::select(vec!["count", "score", "name", "class"])
            .prop_map(|column| Filter::Missing(column.into())),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Any),
            inner.prop_map(|part| Filter::Not(Box::new(part))),
        ]
    })
}

/// The same by looking at the row, as simply as can be.
fn verdict(filter: &Filter, row: &Row) -> Option<bool> {
    let number = |column: &str| match column {
        "count" => row.0.map(|count| (count as f64, Some(count))),
        _ => row.1.map(|score| (score, None)),
    };
    match filter {
        Filter::Compare(column, how, constant) => match (column.as_str(), constant) {
            ("name", Constant::Text(text)) => row.2.as_ref().map(|name| holds(*how, name, text)),
            ("class", Constant::Text(text)) => row.3.map(|class| holds(*how, CLASSES[class], text)),
            (column, Constant::Int(int)) => number(column).map(|(float, whole)| match whole {
                Some(whole) => holds(*how, &i128::from(whole), int),
                None => holds(*how, &float, &(*int as f64)),
            }),
            (column, Constant::Float(constant)) => {
                number(column).map(|(float, _)| holds(*how, &float, constant))
            }
            _ => unreachable!(),
        },
        Filter::In(column, all) => {
            let parts = all.iter().map(|one| Filter::Compare(column.clone(), Compare::Equal, one.clone()));
            number(column).map(|_| parts.into_iter().any(|part| verdict(&part, row) == Some(true)))
        }
        Filter::Size(..) => unreachable!(),
        Filter::Missing(column) => Some(match column.as_str() {
            "count" => row.0.is_none(),
            "score" => row.1.is_none(),
            "name" => row.2.is_none(),
            _ => row.3.is_none(),
        }),
        Filter::All(parts) => {
            let all: Vec<_> = parts.iter().map(|part| verdict(part, row)).collect();
            if all.contains(&Some(false)) { Some(false) } else { (!all.contains(&None)).then_some(true) }
        }
        Filter::Any(parts) => {
            let all: Vec<_> = parts.iter().map(|part| verdict(part, row)).collect();
            if all.contains(&Some(true)) { Some(true) } else { (!all.contains(&None)).then_some(false) }
        }
        Filter::Not(part) => verdict(part, row).map(|is| !is),
    }
}

fn holds<T: PartialOrd + ?Sized>(how: Compare, a: &T, b: &T) -> bool {
    match how {
        Compare::Equal => a == b,
        Compare::Unequal => a != b,
        Compare::Below => a < b,
        Compare::AtMost => a <= b,
        Compare::Above => a > b,
        Compare::AtLeast => a >= b,
    }
}

fn samples(all: &[Option<Tensor>]) -> Vec<Sample<'_>> {
    all.iter().map(|one| one.as_ref().map_or(Sample::Missing, |one| Sample::Tensor(one.as_ref()))).collect()
}

fn one(dtype: DType, bits: u64) -> Tensor {
    Tensor::new(dtype, Shape::default(), Buffer::from_elements(&[bits])).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn filters_do_what_a_plain_look_does(rows in rows(), filters in prop::collection::vec(filters(), 12)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let place = Place::new();
            let mut dataset = place.create().await;
            let mut class = spec("class_label");
            class.options.insert("class_names".to_owned(), json!(CLASSES));
            for (name, spec) in [
                ("count", fixed(DType::U64, &[])),
                ("score", fixed(DType::F64, &[])),
                ("name", spec("text")),
                ("class", class),
            ] {
                dataset.add_column(name, &spec, None, None, &options()).await.unwrap();
            }
            // Several files, whose zones differ.
            for rows in rows.chunks(7) {
                let counts: Vec<Option<Tensor>> =
                    rows.iter().map(|row| row.0.map(|count| one(DType::U64, count))).collect();
                let scores: Vec<Option<Tensor>> =
                    rows.iter().map(|row| row.1.map(|score| one(DType::F64, score.to_bits()))).collect();
                let names = rows.iter().map(|row| match &row.2 {
                    Some(name) => Sample::Text(name.clone().into()),
                    None => Sample::Missing,
                });
                let classes = rows.iter().map(|row| match row.3 {
                    Some(class) => Sample::Text(CLASSES[class].into()),
                    None => Sample::Missing,
                });
                let columns = vec![
                    ("count", samples(&counts)),
                    ("score", samples(&scores)),
                    ("name", names.collect()),
                    ("class", classes.collect()),
                ];
                extend(&mut dataset, columns).await;
            }
            let axis = dataset.table().rows().await.unwrap();
            let ids = axis.id_runs(0..axis.len());
            for filter in &filters {
                let found = dataset.matching(&ids, filter).await.unwrap();
                let found: Vec<u64> = found
                    .iter()
                    .flat_map(|&(first, count)| first..first + count)
                    .map(|id| axis.position(id).unwrap())
                    .collect();
                let wanted: Vec<u64> = (0..)
                    .zip(&rows)
                    .filter(|(_, row)| verdict(filter, row) == Some(true))
                    .map(|(position, _)| position)
                    .collect();
                assert_eq!(found, wanted, "{filter:?} {rows:?}");
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_zones_are_looked_into() {
    let place = Place::new();
    let mut dataset = place.create().await;
    dataset.add_column("count", &fixed(DType::I64, &[]), None, None, &options()).await.unwrap();
    for first in [0u64, 100] {
        let counts: Vec<Option<Tensor>> =
            (first..first + 10).map(|count| Some(one(DType::I64, count))).collect();
        extend(&mut dataset, vec![("count", samples(&counts))]).await;
    }
    // As another tool leaves them: no tags, no checksums of entries.
    let log = place.directory.path().join("ds").join("_delta_log");
    let mut stripped = 0;
    for entry in std::fs::read_dir(&log).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let mut lines = String::new();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let mut action: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(add) = action.get_mut("add").and_then(|add| add.as_object_mut()) {
                stripped +=
                    usize::from(add.remove("tags").is_some_and(|tags| tags.to_string().contains("zone")));
            }
            if let Some(info) = action.pointer_mut("/commitInfo/lacus").and_then(|info| info.as_object_mut())
            {
                info.remove("crc32c");
            }
            lines.push_str(&format!("{action}\n"));
        }
        std::fs::write(&path, lines).unwrap();
    }
    assert_eq!(stripped, 2, "both files had zones");
    let dataset = place.open().await;
    let ids = all_ids(&dataset).await;
    for (filter, rows) in [
        (Filter::compare("count", Compare::AtLeast, 105i64), 5),
        (Filter::compare("count", Compare::Equal, 50i64), 0),
        (Filter::Not(Box::new(Filter::compare("count", Compare::Below, 3i64))), 17),
    ] {
        let found = dataset.matching(&ids, &filter).await.unwrap();
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), rows, "{filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_an_error() {
    let place = Place::new();
    let mut dataset = place.create().await;
    dataset.add_column("photo", &spec("image"), None, None, &options()).await.unwrap();
    dataset.add_column("name", &spec("text"), None, None, &options()).await.unwrap();
    dataset.add_column("class", &spec("class_label"), None, None, &options()).await.unwrap();
    let check = async |filter: Filter, kind: ErrorKind, says: &str| {
        let error = dataset.matching(&[], &filter).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    check(Filter::compare("photo", Compare::Equal, 1i64), ErrorKind::Invalid, "not one number or text").await;
    check(Filter::compare("name", Compare::Equal, 1i64), ErrorKind::Invalid, "compare it with text").await;
    check(Filter::compare("class", Compare::Below, "cat"), ErrorKind::Invalid, "have no order").await;
    check(Filter::Missing("nme".into()), ErrorKind::NotFound, "did you mean \"name\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_and_decimals_are_ruled_out_by_zones() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let cents = ColumnSpec {
        options: json!({"precision": 9, "scale": 2}).as_object().cloned().unwrap(),
        ..spec("decimal")
    };
    dataset.add_column("day", &spec("date"), None, None, &options()).await.unwrap();
    dataset.add_column("price", &cents, None, None, &options()).await.unwrap();
    for year in [1995, 1996, 1997, 1998] {
        let days = (1..=9).map(|day| Sample::Text(format!("{year}-01-0{day}").into())).collect();
        let prices = (1..=9).map(|cent| Sample::Text(format!("{year}.0{cent}").into())).collect();
        extend(&mut dataset, vec![("day", days), ("price", prices)]).await;
    }
    let dataset = place.open().await;
    let ids = all_ids(&dataset).await;
    let reads = || dataset.table().store().counts().reads();
    let before = reads();
    let late = Filter::compare("day", Compare::Above, "1998-01-09");
    assert_eq!((dataset.matching(&ids, &late).await.unwrap(), reads()), (vec![], before));
    let dear = Filter::compare("price", Compare::Above, 1998.095);
    assert_eq!((dataset.matching(&ids, &dear).await.unwrap(), reads()), (vec![], before));
    let found = |filter: Filter| {
        let (dataset, ids) = (&dataset, &ids);
        async move { dataset.matching(ids, &filter).await.unwrap().iter().map(|(_, count)| count).sum::<u64>() }
    };
    assert_eq!(found(Filter::compare("day", Compare::AtLeast, "1998-01-08")).await, 2);
    assert!(reads() - before <= 3, "one file was read");
    assert_eq!(found(Filter::compare("price", Compare::Equal, 1997i64)).await, 0);
    // Numbers of more digits than the column has lie between two of its own.
    assert_eq!(found(Filter::compare("price", Compare::Below, "1995.035")).await, 3);
    assert_eq!(found(Filter::compare("price", Compare::Equal, "1995.035")).await, 0);
    assert_eq!(found(Filter::In("day".into(), vec!["1995-01-01".into(), "1996-01-01".into()])).await, 2);
    let wrong = dataset.matching(&ids, &Filter::compare("day", Compare::Equal, "soon")).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    assert!(wrong.to_string().contains("expected a date such as 2026-01-31, found \"soon\""), "{wrong}");
}
