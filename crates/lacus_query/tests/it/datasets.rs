//! Datasets to ask, and how to ask them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use lacus_dataset::{ColumnSpec, Dataset, Extend, Sample, View};
use lacus_io::{Store, World};
use lacus_query::{Answer, Named, Parameters, QueryError, Question, Sources, ask};
use lacus_table::{Table, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use serde_json::json;

/// A view as the only dataset.
pub(crate) struct Only(pub(crate) View);

#[async_trait]
impl Sources for Only {
    fn has_default(&self) -> bool {
        true
    }

    fn names(&self) -> Vec<String> {
        vec!["dataset".to_owned()]
    }

    async fn open(&self, named: &Named) -> Result<Option<View>, QueryError> {
        Ok((named.name == "dataset" && named.at.is_none()).then(|| self.0.clone()))
    }
}

pub(crate) fn tensor(dtype: DType, dims: &[u64], bytes: &[u8]) -> Tensor {
    Tensor::new(dtype, Shape::new(dims).unwrap(), Buffer::from_slice(bytes)).unwrap()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A tensor as a sample that lives as long as the tests.
fn sample(tensor: Tensor) -> Sample<'static> {
    Sample::Tensor(Box::leak(Box::new(tensor)).as_ref())
}

/// Ten rows: `n` counts them, `label` is cat, dog, bird in turn, `score` is n / 10 and missing in row 4, `name` says the number, `pixels` is
/// (n + 1, 2) of n's (missing in row 7), `vector` is (n, n + 1, n + 2), `picture` an image of (2, n + 1, 3), all of value n,
/// `info` is `{"list": [n, "xn"], "even": …}`.
pub(crate) async fn animals() -> View {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let url = format!("memory://animals-{}", MADE.fetch_add(1, Ordering::Relaxed));
    let store = Store::open(&url, &Default::default()).unwrap();
    let mut dataset = Dataset::new(Table::create(store, World::real()).await.unwrap());
    let options = WriteOptions::default();
    let column = |htype: &str, dtype: Option<DType>| ColumnSpec {
        htype: Some(htype.to_owned()),
        dtype,
        ..ColumnSpec::default()
    };
    let mut label = column("class_label", None);
    label.options = [("class_names".to_owned(), json!(["cat", "dog", "bird"]))].into_iter().collect();
    let mut vector = column("generic", Some(DType::F32));
    vector.shape = Some(vec![Some(3)]);
    let mut pixels = column("generic", Some(DType::U8));
    pixels.shape = Some(vec![None, Some(2)]);
    let mut n = column("generic", Some(DType::I64));
    n.shape = Some(vec![]);
    let mut score = column("generic", Some(DType::F64));
    score.shape = Some(vec![]);
    for (name, spec) in [
        ("n", n),
        ("label", label),
        ("score", score),
        ("name", column("text", None)),
        ("pixels", pixels),
        ("vector", vector),
        ("picture", column("image", None)),
        ("info", column("json", None)),
    ] {
        dataset.add_column(name, &spec, None, None, &options).await.unwrap();
    }
    let all = |make: &dyn Fn(u64) -> Sample<'static>| (0..10).map(make).collect::<Vec<_>>();
    let number = |dtype, bytes: &[u8]| sample(tensor(dtype, &[], bytes));
    let columns = vec![
        ("n".to_owned(), all(&|n| number(DType::I64, &n.to_le_bytes())).into()),
        ("label".to_owned(), all(&|n| number(DType::U32, &(n as u32 % 3).to_le_bytes())).into()),
        (
            "score".to_owned(),
            all(&|n| match n {
                4 => Sample::Missing,
                n => number(DType::F64, &(n as f64 / 10.0).to_le_bytes()),
            })
            .into(),
        ),
        ("name".to_owned(), all(&|n| Sample::Text(format!("number {n}").into())).into()),
        (
            "pixels".to_owned(),
            all(&|n| match n {
                7 => Sample::Missing,
                n => sample(tensor(DType::U8, &[n + 1, 2], &vec![n as u8; 2 * (n as usize + 1)])),
            })
            .into(),
        ),
        (
            "vector".to_owned(),
            all(&|n| {
                let n = n as f32;
                sample(tensor(DType::F32, &[3], &floats(&[n, n + 1.0, n + 2.0])))
            })
            .into(),
        ),
        (
            "picture".to_owned(),
            all(&|n| sample(tensor(DType::U8, &[2, n + 1, 3], &vec![n as u8; 6 * (n as usize + 1)]))).into(),
        ),
        (
            "info".to_owned(),
            all(&|n| Sample::Json(json!({"list": [n, format!("x{n}")], "even": n % 2 == 0}))).into(),
        ),
    ];
    dataset.extend(Extend { columns, ..Extend::default() }, &options).await.unwrap();
    View::all(Arc::new(dataset.frozen()), None).await.unwrap()
}

/// The answer to a question.
pub(crate) async fn answer(view: &View, text: &str) -> Result<Answer, QueryError> {
    answer_with(view, text, Parameters::None).await
}

pub(crate) async fn answer_with(
    view: &View,
    text: &str,
    parameters: Parameters,
) -> Result<Answer, QueryError> {
    let question = Question { parameters, ..Question::new(text) };
    ask(&question, &Only(view.clone())).await
}

/// What an answer says, a line for each row; views say their `n`.
pub(crate) fn lines(answer: &Answer) -> Vec<String> {
    let table = match answer {
        Answer::Table(table) => table,
        Answer::View(_) => panic!("this is a view"),
    };
    let mut lines = Vec::new();
    for batch in table.batches() {
        let options = FormatOptions::default().with_null("NULL");
        let formatters: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = formatters.iter().map(|cells| cells.value(row).to_string()).collect();
            lines.push(cells.join(" | "));
        }
    }
    lines
}

/// The numbers of the rows of a view.
pub(crate) async fn numbers(view: &View) -> Vec<i64> {
    let places: Vec<u64> = (0..view.len()).collect();
    let whole = View::all(Arc::clone(view.source()), None).await.unwrap();
    let ids: Vec<u64> = places.iter().map(|place| view.rows().get(*place).unwrap()).collect();
    let mut found = Vec::new();
    for id in ids {
        let array = whole.array("n", &[(id, 1)]).await.unwrap().unwrap();
        assert_eq!(array.data_type(), &DataType::Int64);
        found.push(array.as_primitive::<Int64Type>().value(0));
    }
    found
}
