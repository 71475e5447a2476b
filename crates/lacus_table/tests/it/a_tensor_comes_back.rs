//! Whatever is put comes back bit for bit, whole and in slices, from every layout and store.

use lacus_io::World;
use lacus_layout::Wish;
use lacus_simulation::Dice;
use lacus_table::{At, ErrorKind, Read, Table, WriteOptions};
use lacus_tensor::{DType, Index, Shape, Tensor};

use crate::support::{Place, assert_same, layout, memory_table, put, random_tensor, read, selected, slice};

const LAYOUTS: [&str; 6] = ["FTSF", "COO", "CSR", "CSC", "CSF", "BSGS"];

fn selections() -> Vec<Vec<Index>> {
    let step = |start, stop, step| Index::Slice { start, stop, step: Some(step) };
    vec![
        vec![],
        vec![Index::At(3)],
        vec![Index::At(-1), slice(1, 4)],
        vec![slice(2, 5), Index::Ellipsis, Index::At(0)],
        vec![step(None, None, -2), step(Some(5), Some(0), -1)],
        vec![Index::List { dims: vec![3], values: vec![4, 0, -1] }],
        vec![slice(0, 0)],
        vec![Index::Ellipsis, Index::List { dims: vec![2], values: vec![1, 1] }],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn from_every_layout_and_dtype() {
    let place = Place::new();
    let mut table = place.create().await;
    let dice = Dice::new(1);
    let mut kept = Vec::new();
    for dtype in DType::ALL {
        for name in LAYOUTS {
            let tensor = random_tensor(&dice, dtype, &[7, 6, 5], 6);
            let key = format!("{}/{}", name, dtype.name());
            put(&mut table, &key, &tensor, layout(name)).await.unwrap();
            assert_eq!(table.tensor(&key).unwrap().header.layout.name(), name);
            kept.push((key, tensor));
        }
    }
    let reopened = place.open().await;
    for (key, tensor) in &kept {
        for indices in selections() {
            let what = format!("{key} {indices:?}");
            assert_same(&read(&table, key, &indices).await, &selected(tensor, &indices), &what);
        }
        assert_same(&read(&reopened, key, &[]).await, tensor, key);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn from_odd_shapes() {
    let mut table = memory_table("odd", 2).await;
    let dice = Dice::new(2);
    for (i, dims) in [vec![], vec![0], vec![3, 0, 2], vec![1; 16], vec![1], vec![100_000], vec![2, 300, 1]]
        .into_iter()
        .enumerate()
    {
        for name in ["auto", "FTSF", "COO", "CSF", "BSGS"] {
            if dims.is_empty() && name != "auto" && name != "FTSF" {
                continue;
            }
            let tensor = random_tensor(&dice, DType::F32, &dims, 3);
            let key = format!("{name}-{i}");
            put(&mut table, &key, &tensor, layout(name))
                .await
                .unwrap_or_else(|e| panic!("{key} {dims:?}: {e}"));
            assert_same(&read(&table, &key, &[]).await, &tensor, &key);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_chunks_land_in_place() {
    let place = Place::new();
    let mut table = place.create().await;
    let dice = Dice::new(3);
    let tensor = random_tensor(&dice, DType::U8, &[40, 3, 64, 100], 1);
    for (name, compression) in
        [("raw", lacus_layout::CompressionWish::None), ("zstd", lacus_layout::CompressionWish::Zstd(1))]
    {
        let wish = Wish { compression, chunk_shape: Some(vec![7, 3, 64, 100]), ..layout("FTSF") };
        put(&mut table, name, &tensor, wish).await.unwrap();
        for indices in
            [vec![], vec![slice(3, 30)], vec![slice(5, 6), slice(1, 2)], vec![Index::Ellipsis, slice(7, 9)]]
        {
            assert_same(&read(&table, name, &indices).await, &selected(&tensor, &indices), name);
        }
    }
    let mut out = vec![0; 3 * 64 * 100];
    table.read_into("raw", &[Index::At(11)], &mut out).await.unwrap();
    assert_eq!(out, selected(&tensor, &[Index::At(11)]).bytes());
    assert!(table.read_into("raw", &[Index::At(11)], &mut out[1..]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_appends_and_resizes_do_what_they_say() {
    let place = Place::new();
    let mut table = place.create().await;
    let dice = Dice::new(4);
    let options = WriteOptions::default();
    let shape = Shape::new(vec![10, 8]).unwrap();
    let wish = Wish { chunk_shape: Some(vec![4, 3]), ..Wish::default() };
    table.create_array("a", DType::I16, shape.clone(), &wish, None, &options).await.unwrap();
    let mut model = Tensor::zeros(DType::I16, shape).unwrap();
    assert_same(&read(&table, "a", &[]).await, &model, "new array");

    let patch = random_tensor(&dice, DType::I16, &[3, 4], 1);
    table.write_region("a", &[slice(2, 5), slice(1, 5)], patch.as_ref(), &options).await.unwrap();
    for i in 0..3 {
        let at = ((2 + i) * 8 + 1) * 2;
        let row = patch.bytes()[i * 8..(i + 1) * 8].to_vec();
        model.bytes_mut()[at..at + 8].copy_from_slice(&row);
    }
    assert_same(&read(&table, "a", &[]).await, &model, "region");

    let more = random_tensor(&dice, DType::I16, &[5, 8], 1);
    table.append("a", lacus_layout::Value::Dense(more.as_ref()), &options).await.unwrap();
    let mut bytes = model.bytes().to_vec();
    bytes.extend_from_slice(more.bytes());
    assert_eq!(read(&table, "a", &[]).await.bytes(), bytes);

    table.resize("a", 6, &options).await.unwrap();
    assert_eq!(read(&table, "a", &[]).await.bytes(), &bytes[..6 * 16]);
    table.resize("a", 9, &options).await.unwrap();
    bytes.truncate(6 * 16);
    bytes.resize(9 * 16, 0);
    assert_eq!(read(&table, "a", &[]).await.bytes(), bytes);
    assert_eq!(read(&place.open().await, "a", &[]).await.bytes(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_stays_readable() {
    let place = Place::new();
    let mut table = place.create().await;
    let dice = Dice::new(5);
    let options = WriteOptions::default();
    let first = random_tensor(&dice, DType::F64, &[50, 10], 1);
    let second = random_tensor(&dice, DType::F64, &[20], 1);
    let v1 = put(&mut table, "x", &first, Wish::default()).await.unwrap();
    let v2 = put(&mut table, "x", &second, Wish::default()).await.unwrap();
    let v3 = table.rename("x", "group/y", &options).await.unwrap();
    let v4 = table.remove(&["group/y"], &options).await.unwrap();
    let at = |v| Table::open(place.store(), World::real(), At::Version(v));
    assert_same(&read(&at(v1).await.unwrap(), "x", &[]).await, &first, "v1");
    assert_same(&read(&at(v2).await.unwrap(), "x", &[]).await, &second, "v2");
    assert_same(&read(&at(v3).await.unwrap(), "group/y", &[]).await, &second, "v3");
    assert!(at(v4).await.unwrap().names().is_empty());
    let mut pinned = at(v1).await.unwrap();
    let error = put(&mut pinned, "z", &first, Wish::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(at(v4 + 5).await.unwrap_err().kind(), ErrorKind::NotFound);

    let history = table.history(None).await.unwrap();
    let operations: Vec<&str> = history.iter().map(|h| h.operation.as_str()).collect();
    assert_eq!(operations, ["REMOVE", "RENAME", "PUT", "PUT", "CREATE"]);
    assert_eq!(history[1].detail["to"], "group/y");
    let by_time = Table::open(place.store(), World::real(), At::Time(history[2].time_millis)).await.unwrap();
    assert!(by_time.version() >= v2 && by_time.names() == ["x"] || by_time.version() >= v3);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_kept_per_tensor_and_dataset() {
    let place = Place::new();
    let mut table = place.create().await;
    let options = WriteOptions::default();
    let tensor = random_tensor(&Dice::new(6), DType::U8, &[4], 1);
    put(&mut table, "x", &tensor, Wish::default()).await.unwrap();
    table.set_metadata(Some("x"), serde_json::json!({"unit": "K"}), &options).await.unwrap();
    table.set_metadata(None, serde_json::json!({"owner": "me"}), &options).await.unwrap();
    table.set_metadata(None, serde_json::json!({"owner": "you"}), &options).await.unwrap();
    for table in [&table, &place.open().await] {
        assert_eq!(table.tensor("x").unwrap().metadata["unit"], "K");
        assert_eq!(table.metadata()["owner"], "you");
        assert_eq!(table.names(), ["x"]);
        assert_same(&read(table, "x", &[]).await, &tensor, "x");
    }
    let refused = table.set_metadata(None, serde_json::json!([1]), &options).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_and_write_nothing() {
    let place = Place::new();
    let mut table = place.create().await;
    let options = WriteOptions::default();
    let tensor = random_tensor(&Dice::new(7), DType::U8, &[4, 4], 1);
    put(&mut table, "dense", &tensor, layout("FTSF")).await.unwrap();
    put(&mut table, "sparse", &tensor, layout("COO")).await.unwrap();
    let version = table.version();
    for name in ["", "a\nb", "a//b", "/a", "a/", "..", "a/../b"] {
        let error = put(&mut table, name, &tensor, Wish::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}: {error}");
    }
    let not_found = table.read("dens", &[]).await.unwrap_err();
    assert_eq!(not_found.kind(), ErrorKind::NotFound);
    assert!(not_found.to_string().contains("did you mean \"dense\""), "{not_found}");
    let outside = table.read("dense", &[Index::At(4)]).await.unwrap_err();
    assert!(outside.is_out_of_bounds(), "{outside}");
    let region = table.write_region("sparse", &[Index::At(0)], tensor.as_ref(), &options).await.unwrap_err();
    assert!(region.to_string().contains("COO"), "{region}");
    let shape = table.write_region("dense", &[Index::At(0)], tensor.as_ref(), &options).await.unwrap_err();
    assert!(shape.to_string().contains("(4,)"), "{shape}");
    assert!(table.rename("dense", "sparse", &options).await.unwrap_err().kind() == ErrorKind::Conflict);
    assert!(table.remove(&["nope"], &options).await.unwrap_err().kind() == ErrorKind::NotFound);
    assert!(put(&mut table, "x", &tensor, layout("zip")).await.unwrap_err().kind() == ErrorKind::Invalid);
    assert_eq!(table.refresh().await.unwrap(), version);
    assert_eq!(Table::create(place.store(), World::real()).await.unwrap_err().kind(), ErrorKind::Conflict);
    let nowhere = Place::new();
    let error = Table::open(nowhere.store(), World::real(), At::Tip).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found_and_named() {
    let place = Place::new();
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(8), DType::U8, &[400, 1000], 1);
    put(&mut table, "x", &tensor, layout("FTSF")).await.unwrap();
    let cells = random_tensor(&Dice::new(9), DType::F32, &[50, 50], 3);
    put(&mut table, "cells", &cells, layout("COO")).await.unwrap();
    let files: Vec<_> = std::fs::read_dir(place.directory.path().join("ds/data"))
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    let healthy = table.doctor(&WriteOptions::default()).await.unwrap();
    assert!(healthy.damage.is_empty() && healthy.verified_bytes > 0, "{healthy:?}");
    // What a handle has learned of files is believed as long as it is open, by all others too; only the doctor looks again.
    drop(table);
    for path in files {
        let good = std::fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(good.len() / 23) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            let table = place.open().await;
            for name in ["x", "cells"] {
                // A flipped bit is noticed, or it was in a byte nobody needs.
                match table.read(name, &[]).await {
                    Ok(Read::Dense(found)) => assert_same(&found, &tensor, "x"),
                    Ok(Read::Sparse(found)) => assert_same(&found.to_dense().unwrap(), &cells, "cells"),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid), "{error}")
                    }
                }
            }
        }
        for length in [0, 3, good.len() / 2, good.len() - 1] {
            std::fs::write(&path, &good[..length]).unwrap();
            let table = place.open().await;
            let errors = [table.read("x", &[]).await.err(), table.read("cells", &[]).await.err()];
            let kinds: Vec<_> = errors.iter().flatten().map(|e| e.kind()).collect();
            assert_eq!(kinds, [ErrorKind::Corrupt], "{errors:?}");
            assert!(!table.doctor(&WriteOptions::default()).await.unwrap().damage.is_empty());
        }
        std::fs::write(&path, &good).unwrap();
    }
    assert_eq!(place.open().await.doctor(&WriteOptions::default()).await.unwrap().damage, []);
}
