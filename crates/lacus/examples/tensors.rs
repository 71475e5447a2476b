//! Arrays: put, slice, write a part, look at an older version. `cargo run -p lacus --example tensors`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lacus::layout::{Value, Wish};
use lacus::{At, DType, Error, Index, Place, Put, Read, Repository, Shape, TensorRef, WriteOptions};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut main = Repository::create("memory://tensors", &Default::default()).await?;
    let shape = Shape::new(vec![3, 4])?;
    let numbers: Vec<u8> = (0..12).collect();
    let value = Value::Dense(TensorRef::contiguous(DType::U8, &shape, &numbers)?);
    let put = Put { name: "grid".into(), value, wish: Wish::default(), metadata: None };
    main.table_mut().put(vec![put], &WriteOptions::default()).await?;

    let row = Shape::new(vec![4])?;
    let nines = TensorRef::contiguous(DType::U8, &row, &[9; 4])?;
    main.table_mut().write_region("grid", &[Index::At(1)], nines, &WriteOptions::default()).await?;

    let before = main.repository().look(&Place::main(), &At::Version(1)).await?;
    for (when, table) in [("now", main.table()), ("before", before.table())] {
        if let Read::Dense(row) = table.read("grid", &[Index::At(1)]).await? {
            println!("row 1 {when}: {:?}", row.bytes());
        }
    }
    Ok(())
}
