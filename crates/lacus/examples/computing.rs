//! A program over stored arrays, its result stored with its lineage. `cargo run -p lacus --example computing`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus::algebra::{Functions, Inputs, check, parse};
use lacus::execute::{Input, RunOptions, Target, run_into};
use lacus::layout::{Value, Wish};
use lacus::{DType, Error, Put, Read, Repository, Shape, TensorRef, WriteOptions};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut main = Repository::create("memory://computing", &Default::default()).await?;
    let options = WriteOptions::default();
    let shape = Shape::new(vec![2, 2])?;
    let bytes: Vec<u8> = [1.0f64, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let value = Value::Dense(TensorRef::contiguous(DType::F64, &shape, &bytes)?);
    let put = Put { name: "a".into(), value, wish: Wish::default(), metadata: None };
    main.table_mut().put(vec![put], &options).await?;

    let program = parse("a = load(\"a\"); save(a @ a + 1.0, \"b\")")?;
    let program = check(&program, &Inputs::new().with("a", DType::F64, shape), &Functions::new())?;
    let inputs =
        BTreeMap::from([("a".to_owned(), Input::Stored(Arc::new(main.table().frozen()), "a".into()))]);
    let targets = BTreeMap::from([("b".to_owned(), Target { name: "b".into(), ..Target::default() })]);
    let into = Some((main.table_mut(), &options));
    run_into(&program, &inputs, into, targets, &RunOptions::default()).await?;

    if let Read::Dense(b) = main.table().read("b", &[]).await? {
        let numbers: Vec<f64> =
            b.bytes().chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap_or_default())).collect();
        println!("a @ a + 1 = {numbers:?}");
    }
    Ok(())
}
