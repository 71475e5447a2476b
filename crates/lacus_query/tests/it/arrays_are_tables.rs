//! Arrays are tables: cells of every layout, and of them no more is read than is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lacus_dataset::{Dataset, View};
use lacus_io::{Store, World};
use lacus_query::{Question, explain};
use lacus_table::{Put, Table, Value, Wish, WriteOptions};
use lacus_tensor::{DType, Tensor};

use crate::datasets::{Only, answer, lines, tensor};

pub(crate) async fn dataset(arrays: &[(&str, &Tensor, Wish)]) -> View {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let url = format!("memory://arrays-{}", MADE.fetch_add(1, Ordering::Relaxed));
    let store = Store::open(&url, &Default::default()).unwrap();
    let mut table = Table::create(store, World::real()).await.unwrap();
    let mut puts = Vec::with_capacity(arrays.len());
    for (name, tensor, wish) in arrays {
        let value = Value::Dense(tensor.as_ref());
        puts.push(Put { name: (*name).to_owned(), value, wish: wish.clone(), metadata: None });
    }
    table.put(puts, &WriteOptions::default()).await.unwrap();
    View::all(Arc::new(Dataset::new(table).frozen()), None).await.unwrap()
}

pub(crate) fn layout(name: &str) -> Wish {
    Wish { layout: Some(name.to_owned()), ..Wish::default() }
}

pub(crate) async fn rows(view: &View, text: &str) -> Vec<String> {
    lines(&answer(view, text).await.unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// An array of which every third element is zero, and the others are what no codec makes small.
pub(crate) fn numbers(dims: [u64; 2]) -> Tensor {
    let mixed = |at: u64| {
        let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56
    };
    let element = |at: u64| if at.is_multiple_of(3) { 0 } else { mixed(at) as u8 | 1 };
    let bytes: Vec<u8> = (0..dims[0] * dims[1]).map(element).collect();
    tensor(DType::U8, &dims, &bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_of_every_layout_are_rows() {
    let array = numbers([7, 9]);
    for name in ["FTSF", "COO", "CSR", "CSC", "CSF", "BSGS"] {
        let view = dataset(&[("x", &array, layout(name))]).await;
        let expected = |keep: &dyn Fn(u64, u64) -> bool| -> Vec<String> {
            let cells = (0..7).flat_map(|a| (0..9).map(move |b| (a, b)));
            cells
                .map(|(a, b)| (a, b, array.bytes()[(a * 9 + b) as usize]))
                .filter(|&(a, b, value)| keep(a, b) && (value != 0 || name == "FTSF"))
                .map(|(a, b, value)| format!("{a} | {b} | {value}"))
                .collect()
        };
        let check = async |condition: &str, keep: &dyn Fn(u64, u64) -> bool| {
            let text = format!("SELECT * FROM cells('x'){condition}");
            assert_eq!(rows(&view, &text).await, expected(keep), "{name}: {text}");
        };
        check("", &|_, _| true).await;
        check(" WHERE c0 = 3", &|a, _| a == 3).await;
        check(" WHERE c1 >= 2 AND 5 > c1", &|_, b| (2..5).contains(&b)).await;
        check(" WHERE c0 BETWEEN 1 AND 4 AND c1 IN (8, 0, 4, 5)", &|a, b| {
            (1..=4).contains(&a) && [8, 0, 4, 5].contains(&b)
        })
        .await;
        check(" WHERE c0 = 0 OR c1 = 0", &|a, b| a == 0 || b == 0).await;
        check(" WHERE c0 <> 2 AND c1 > -5 AND c1 < 1000", &|a, _| a != 2).await;
        check(" WHERE c0 > 7", &|_, _| false).await;
        check(" WHERE c0 + c1 = 4", &|a, b| a + b == 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_chunks_that_are_asked_for_are_read() {
    // Chunks that have a page of their own.
    let array = numbers([200, 20_000]);
    let chunks = Wish { chunk_shape: Some(vec![10, 20_000]), ..layout("FTSF") };
    let view = dataset(&[("dense", &array, chunks)]).await;
    let bytes = || view.source().table().store().counts().read_bytes();
    let read = async |text: &str| {
        rows(&view, text).await;
        let before = bytes();
        rows(&view, text).await;
        bytes() - before
    };
    let all = read("SELECT sum(value) FROM cells('dense')").await;
    let some = read("SELECT sum(value) FROM cells('dense') WHERE c0 = 57").await;
    assert!(some > 0 && some * 10 < all, "{some} of {all} bytes");
    assert_eq!(read("SELECT sum(c1) FROM cells('dense')").await, 0);
    assert_eq!(read("SELECT count(*) FROM cells('dense')").await, 0);
    assert_eq!(rows(&view, "SELECT count(*) FROM cells('dense') WHERE c1 < 3").await, ["600"]);

    let question = Question::new("SELECT value FROM cells('dense') WHERE c0 >= 15 AND c0 < 40");
    let plan = explain(&question, &Only(view.clone()), false).await.unwrap();
    assert!(plan.contains("LacusCells: array=\"dense\""), "{plan}");
    assert!(plan.contains("ranges=[15:40, :], chunks=3 of 20"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_are_the_first_cells() {
    let array = numbers([200, 1000]);
    let view = dataset(&[("x", &array, layout("FTSF"))]).await;
    assert_eq!(rows(&view, "SELECT c0, c1 FROM cells('x') LIMIT 2").await, ["0 | 0", "0 | 1"]);
    let text = "SELECT c0, c1 FROM cells('x') WHERE c0 > 3 LIMIT 2 OFFSET 999";
    assert_eq!(rows(&view, text).await, ["4 | 999", "5 | 0"]);
    let text = "SELECT c0, c1 FROM cells('x') ORDER BY c0 DESC, c1 LIMIT 2";
    assert_eq!(rows(&view, text).await, ["199 | 0", "199 | 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_meet_in_joins() {
    let (a, b) = (numbers([3, 4]), numbers([4, 2]));
    let view = dataset(&[("a", &a, layout("CSR")), ("b", &b, layout("FTSF"))]).await;
    let text = "SELECT a.c0, b.c1, sum(a.value::int * b.value) FROM cells('a') JOIN cells('b') ON a.c1 = b.c0 \
                GROUP BY a.c0, b.c1 ORDER BY 1, 2";
    let at = |tensor: &Tensor, place: usize| u64::from(tensor.bytes()[place]);
    let mut expected = Vec::new();
    for row in 0..3 {
        for column in 0..2 {
            let sum: u64 = (0..4).map(|k| at(&a, row * 4 + k) * at(&b, k * 2 + column)).sum();
            expected.push(format!("{row} | {column} | {sum}"));
        }
    }
    assert_eq!(rows(&view, text).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_array_is_refused() {
    let view = dataset(&[("uber", &numbers([2, 2]), Wish::default())]).await;
    for (text, why) in [
        ("SELECT * FROM cells('ubre')", "no array \"ubre\"; did you mean \"uber\"?\n1 | SELECT * FROM cells"),
        ("SELECT * FROM cells('photographs')", "no array \"photographs\"; arrays: uber"),
        ("SELECT * FROM cells(other, 'uber')", "no dataset \"other\""),
        ("SELECT c2 FROM cells('uber')", "no column \"c2\""),
    ] {
        let error = answer(&view, text).await.unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}
