//! Plan, fetch, decode: what comes out is what one call gives, and damage is found by the last of them.

use lacus_layout::Wish;
use lacus_simulation::Dice;
use lacus_table::{ErrorKind, Read, Table};
use lacus_tensor::{DType, Index};

use crate::support::{Place, layout, memory_table, put, random_tensor, read, slice};

async fn check(mut table: Table) {
    let dice = Dice::new(11);
    for (name, zeros) in [("FTSF", 1), ("COO", 20), ("CSR", 20), ("CSC", 20), ("CSF", 20), ("BSGS", 20)] {
        let tensor = random_tensor(&dice, DType::F32, &[300, 700], zeros);
        let chunks = (name == "FTSF").then(|| vec![64, 128]);
        let wish = Wish { chunk_shape: chunks, ..layout(name) };
        put(&mut table, name, &tensor, wish).await.unwrap();
        for indices in [vec![], vec![slice(3, 250), Index::At(17)], vec![Index::At(299)], vec![slice(5, 5)]] {
            let planned = table.plan(name, &indices).await.unwrap();
            let known = name == "COO" || indices == [slice(5, 5)] || planned.bytes() > 0;
            assert!(known, "{name}{indices:?} takes {} bytes", planned.bytes());
            let fetched = planned.fetch().await.unwrap();
            // Decoding needs neither the table nor a runtime.
            let decoded = std::thread::spawn(move || fetched.decode()).join().unwrap().unwrap();
            let found = match decoded {
                Read::Dense(tensor) => tensor,
                Read::Sparse(tensor) => tensor.to_dense().unwrap(),
            };
            assert!(found == read(&table, name, &indices).await, "{name}{indices:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_steps_give_what_one_call_gives() {
    check(memory_table("three-steps", 1).await).await;
    let place = Place::new();
    check(place.create().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found_by_the_last_step() {
    for name in ["FTSF", "CSR"] {
        let place = Place::new();
        let mut table = place.create().await;
        let tensor =
            random_tensor(&Dice::new(12), DType::F32, &[300, 700], if name == "CSR" { 9 } else { 1 });
        put(&mut table, "x", &tensor, layout(name)).await.unwrap();
        let file = std::fs::read_dir(place.directory.path().join("ds/data")).unwrap().next().unwrap();
        let file = file.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let fetched = table.plan("x", &[]).await.unwrap().fetch().await.unwrap();
        assert_eq!(fetched.decode().unwrap_err().kind(), ErrorKind::Corrupt, "{name}");
    }
}
