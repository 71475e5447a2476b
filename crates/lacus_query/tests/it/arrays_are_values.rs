//! `slice('name', …)`: arrays of every layout as values, of which no more is read than the subscript needs.

use lacus_query::{Answer, Question, ask};
use lacus_table::Wish;
use lacus_tensor::Tensor;

use crate::arrays_are_tables::{dataset, layout, numbers, rows};
use crate::datasets::{Only, answer};

/// A table with two rows, which is not the dataset.
const ROWS: &str = "FROM (VALUES (1), (3)) AS t(a)";

fn element(tensor: &Tensor, a: usize, b: usize) -> u8 {
    tensor.bytes()[a * 9 + b]
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_every_layout_are_values() {
    let array = numbers([7, 9]);
    for name in ["FTSF", "COO", "CSR", "CSC", "CSF", "BSGS"] {
        let view = dataset(&[("x", &array, layout(name))]).await;
        let check = async |text: &str, expected: &dyn Fn(usize) -> String| {
            let text = format!("SELECT {text} {ROWS}");
            assert_eq!(rows(&view, &text).await, [expected(1), expected(3)], "{name}: {text}");
        };
        let listed = |rows: &[usize], columns: &[usize]| {
            let cells = rows.iter().flat_map(|a| columns.iter().map(move |b| (*a, *b)));
            let cells: Vec<String> = cells.map(|(a, b)| element(&array, a, b).to_string()).collect();
            format!("[{}]", cells.join(", "))
        };
        check("slice('x')[1:3, ::4]", &|_| listed(&[1, 2], &[0, 4, 8])).await;
        check("slice('x')[-1, 7:]", &|_| listed(&[6], &[7, 8])).await;
        check("slice('x')[2:4][1, ::-8]", &|_| listed(&[3], &[8, 0])).await;
        check("slice('x', 5, 4)", &|_| element(&array, 5, 4).to_string()).await;
        check("slice('x')[5][4] + a", &|a| (u64::from(element(&array, 5, 4)) + a as u64).to_string()).await;
        // Bounds that differ from row to row.
        check("slice('x')[a, 2:4]", &|a| listed(&[a], &[2, 3])).await;
        check("slice(x, a, a)", &|a| element(&array, a, a).to_string()).await;
        let sum = |a: usize| (0..9).map(|b| u64::from(element(&array, a, b))).sum::<u64>();
        check("sum(slice('x', 2))", &|_| sum(2).to_string()).await;
        check("sum(slice('x')[a])", &|a| sum(a).to_string()).await;
        check("shape(slice('x'))[1]", &|_| "9".to_owned()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_chunks_that_are_asked_for_are_read() {
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
    let all = read(&format!("SELECT sum(slice('dense')) {ROWS}")).await;
    let some = read(&format!("SELECT slice('dense', 57, 3:5) {ROWS}")).await;
    assert!(some > 0 && some * 10 < all, "{some} of {all} bytes");
    // Twice the same is read once.
    let twice = read(&format!("SELECT slice('dense', 57, 3:5), sum(slice('dense', 57, 3:5)) {ROWS}")).await;
    assert_eq!(twice, some);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_an_error() {
    let view = dataset(&[("uber", &numbers([2, 3]), Wish::default())]).await;
    for (text, why) in [
        ("slice('ubre')", "no array \"ubre\"; did you mean \"uber\"?\n1 | SELECT slice('ubre')"),
        ("slice('uber', 2)", "index 2 is out of bounds for axis 0 with size 2"),
        ("slice('uber', 0, 0, 0)", "too many indices"),
        ("slice('uber')[a + 7]", "out of bounds"),
        ("slice(other, 'uber')", "no dataset \"other\""),
        ("slice(1)", "expected the name of an array in quotes"),
    ] {
        let error = answer(&view, &format!("SELECT {text} {ROWS}")).await.unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let large = dataset(&[("large", &numbers([2000, 2000]), Wish::default())]).await;
    let question =
        Question { memory: Some(1 << 20), ..Question::new(format!("SELECT slice('large') {ROWS}")) };
    let error = ask(&question, &Only(large.clone())).await.unwrap_err().to_string();
    assert!(error.contains("takes 4000000 bytes; read less of it"), "{error}");
    let question = Question { text: format!("SELECT slice('large', 3, 5) {ROWS}"), ..question };
    assert!(matches!(ask(&question, &Only(large)).await.unwrap(), Answer::Table(_)));
}
