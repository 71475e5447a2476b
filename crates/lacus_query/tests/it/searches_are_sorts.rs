//! A sort by a distance with a limit is a search: it gives the rows that the plain sort gives, in their order, and compares vectors
//! without sorting anything.

use lacus_dataset::{ColumnSpec, Dataset, Extend, Sample, View};
use lacus_io::{Store, World};
use lacus_query::{Question, ask, explain};
use lacus_search::{IndexSpec, Measure, create_index};
use lacus_table::{Table, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use std::sync::Arc;

use crate::datasets::{Only, numbers};

/// `n` counts the rows, `v` are vectors of three small numbers with many ties, some missing, some without a length, one with NaN.
async fn vectors(url: &str, rows: usize) -> Dataset {
    let store = Store::open(url, &Default::default()).unwrap();
    let mut dataset = Dataset::new(Table::create(store, World::real()).await.unwrap());
    let options = WriteOptions::default();
    let spec = |dtype, shape: &[Option<u64>]| ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape.to_vec()),
        ..ColumnSpec::default()
    };
    dataset.add_column("n", &spec(DType::I64, &[]), None, None, &options).await.unwrap();
    for (name, dtype) in [("v", DType::F32), ("d", DType::F64), ("b", DType::U8)] {
        dataset.add_column(name, &spec(dtype, &[Some(3)]), None, None, &options).await.unwrap();
    }
    let one = |at: usize| -> Option<[f32; 3]> {
        let part = |k: usize| ((at * 7919 + k * 104_729) % 5) as f32;
        match at % 23 {
            11 => None,
            13 => Some([0.0; 3]),
            _ => Some([part(1), part(2), part(3)]),
        }
    };
    let tensor = |dtype: DType, bytes: &[u8]| {
        let tensor = Tensor::new(dtype, Shape::new([3]).unwrap(), Buffer::from_slice(bytes)).unwrap();
        Sample::Tensor(Box::leak(Box::new(tensor)).as_ref())
    };
    let column = |of: &dyn Fn([f32; 3], usize) -> Sample<'static>| -> Vec<Sample<'static>> {
        (0..rows).map(|at| one(at).map_or(Sample::Missing, |vector| of(vector, at))).collect()
    };
    let singles = column(&|mut vector, at| {
        if at == 5 {
            vector[1] = f32::NAN;
        }
        tensor(DType::F32, &vector.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    });
    let doubles = column(&|vector, _| {
        tensor(DType::F64, &vector.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect::<Vec<_>>())
    });
    let bytes = column(&|vector, _| tensor(DType::U8, &vector.map(|x| x as u8)));
    let count = |at: usize| {
        let tensor =
            Tensor::new(DType::I64, Shape::default(), Buffer::from_slice(&(at as i64).to_le_bytes()));
        Sample::Tensor(Box::leak(Box::new(tensor.unwrap())).as_ref())
    };
    let columns = vec![
        ("n".to_owned(), (0..rows).map(count).collect::<Vec<_>>().into()),
        ("v".to_owned(), singles.into()),
        ("d".to_owned(), doubles.into()),
        ("b".to_owned(), bytes.into()),
    ];
    dataset.extend(Extend { columns, ..Extend::default() }, &options).await.unwrap();
    dataset
}

async fn whole(dataset: &Dataset) -> View {
    View::all(Arc::new(dataset.frozen()), None).await.unwrap()
}

async fn found(view: &View, text: &str, reads_all: bool) -> Vec<i64> {
    let question = Question { reads_all, ..Question::new(text) };
    match ask(&question, &Only(view.clone())).await.unwrap_or_else(|error| panic!("{text}: {error}")) {
        lacus_query::Answer::View(view) => numbers(&view).await,
        _ => panic!("{text} is no view"),
    }
}

const FUNCTIONS: &[&str] =
    &["cosine_similarity", "inner_product", "l2_distance", "l1_distance", "linf_distance", "hamming"];

#[tokio::test(flavor = "multi_thread")]
async fn with_the_node_and_without() {
    let dataset = vectors("memory://searches-are-sorts", 300).await;
    let view = whole(&dataset).await;
    for function in FUNCTIONS {
        for (column, vector) in
            [("v", "[1.5, 0, 2]"), ("d", "[1, 1, 1]"), ("b", "[0, 0, 3]"), ("v", "[0, 0, 0]")]
        {
            for (order, condition) in [
                ("", ""),
                ("DESC", ""),
                ("DESC NULLS LAST", "WHERE n % 3 = 1"),
                ("ASC NULLS FIRST", "WHERE n > 290"),
                ("", "WHERE v IS NOT NULL AND n < 40"),
                ("", "WHERE false"),
            ] {
                let text =
                    format!("SELECT * {condition} ORDER BY {function}({column}, {vector}) {order} LIMIT 17");
                assert_eq!(found(&view, &text, false).await, found(&view, &text, true).await, "{text}");
                let plan = explain(&Question::new(&text), &Only(view.clone()), false).await.unwrap();
                assert_eq!(plan.contains("LacusNearest"), condition != "WHERE false", "{text}: {plan}");
            }
            let text = format!("SELECT n, {function}({vector}, {column}) AS x ORDER BY x LIMIT 5 OFFSET 4");
            assert_eq!(found(&view, &text, false).await, found(&view, &text, true).await, "{text}");
        }
    }
    // A view of some rows, in another order, some of them twice.
    let some = view.take(&[250, 3, 3, 17, 9, 250, 12, 100]).unwrap();
    let text = "SELECT * ORDER BY l2_distance(v, [1, 2, 3]) LIMIT 6";
    assert_eq!(found(&some, text, false).await, found(&some, text, true).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_are_written_out() {
    let dataset = vectors("memory://searches-are-written-out", 200).await;
    let view = whole(&dataset).await;
    for metric in ["cosine", "dot", "l2", "l1", "linf", "hamming"] {
        let search = format!("SELECT * FROM vector_search('v', [1, 0, 2], 12, '{metric}') WHERE n <> 7");
        assert_eq!(found(&view, &search, false).await, found(&view, &search, true).await, "{search}");
    }
    // Rows without a vector or a direction come last.
    let all = found(&view, "SELECT * FROM vector_search('v', [1, 0, 2], 500)", false).await;
    assert_eq!(all.len(), 200);
    let is_odd = |n: &i64| n % 23 == 11 || n % 23 == 13 || *n == 5;
    assert!(all[all.len() - 18..].iter().all(is_odd), "{:?}", &all[all.len() - 18..]);
    let counted = "SELECT count(*) FROM vector_search('v', [1, 0, 2], 12) AS s WHERE score > 0";
    let plan = explain(&Question::new(counted), &Only(view.clone()), true).await.unwrap();
    assert!(plan.contains("LacusNearest"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_used_and_hidden() {
    let mut dataset = vectors("memory://searches-by-an-index", 900).await;
    let options = WriteOptions::default();
    for (measure, function, order) in [
        (Measure::Cosine, "cosine_similarity", "DESC NULLS LAST"),
        (Measure::L2, "l2_distance", ""),
        (Measure::Inner, "inner_product", "DESC NULLS LAST"),
    ] {
        let spec = IndexSpec { measure, ..IndexSpec::default() };
        let info = create_index(&mut dataset, "v", &spec, &options).await.unwrap();
        assert_eq!((info.covered, info.damage), (info.rows, None));
        let view = whole(&dataset).await;
        let text = format!("SELECT * ORDER BY {function}(v, [4, 1, 0.5]) {order} LIMIT 8");
        let (got, expected) = (found(&view, &text, false).await, found(&view, &text, true).await);
        assert_eq!((got.len(), got[0]), (8, expected[0]), "{text}");
        let plan = explain(&Question::new(&text), &Only(view.clone()), true).await.unwrap();
        assert!(plan.contains("index=ivf, index_covers="), "{plan}");
        // Farthest first, and by something else, all vectors are compared.
        for other in ["l1_distance(v, [4, 1, 0.5])", "inner_product(v, [4, 1, 0.5])"] {
            let text = format!("SELECT * ORDER BY {other} LIMIT 8");
            assert_eq!(found(&view, &text, false).await, found(&view, &text, true).await, "{text}");
        }
    }
    assert!(dataset.table().names().iter().all(|name| !name.starts_with('_')));
    assert!(!dataset.table().hidden_names().is_empty());
}
