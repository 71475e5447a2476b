//! Real files, where they are on the machine; without them these tests say that they were skipped.

use std::path::PathBuf;
use std::time::Instant;

use lacus_files::{FileValue, Format, Item, Packing, ReadOptions, open, write};
use lacus_tensor::{DType, SparseTensor};

/// A folder of real data, if it is there.
fn data(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("SKIPPED: no real data at {}", path.display());
    None
}

fn sparse<'a>(value: FileValue<'a>) -> &'a SparseTensor {
    match value {
        FileValue::Sparse(tensor) => tensor,
        FileValue::Dense(_) => panic!("dense"),
    }
}

#[test]
fn all_matrices() {
    let Some(folder) = data("matrices") else { return };
    let list = std::fs::read_to_string(folder.join("LIST.tsv")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut found = 0;
    for line in list.lines().skip(1) {
        let [name, shape, nnz, header, ..] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let path = folder.join(format!("{name}.mtx.zst"));
        if !path.exists() {
            continue;
        }
        found += 1;
        let file = open(&path, &ReadOptions::default()).unwrap();
        let tensor = sparse(file.get(name).unwrap());
        assert_eq!(
            (tensor.shape().to_string().as_str(), tensor.nnz().to_string().as_str()),
            (shape, nnz),
            "{name}"
        );
        let dtype = match header.split(' ').next().unwrap() {
            "integer" => DType::I64,
            "complex" => DType::C128,
            _ => DType::F64,
        };
        assert_eq!(tensor.dtype(), dtype, "{name}");
        let copy = dir.path().join("copy.mtx.gz");
        let item = Item { name, value: FileValue::Sparse(tensor), metadata: None };
        write(&copy, Format::Mtx, Packing::Gzip, &[item]).unwrap();
        assert!(
            sparse(open(&copy, &ReadOptions::default()).unwrap().get("copy").unwrap()) == tensor,
            "{name}"
        );
    }
    let files = std::fs::read_dir(&folder).unwrap();
    let files =
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "zst")).count();
    assert_eq!(found, files, "every matrix is in the list");
    eprintln!("read {found} matrices");
}

#[test]
fn the_uber_tensor_as_text_and_as_arrays() {
    let Some(folder) = data("uber") else { return };
    let options = ReadOptions { dtype: Some(DType::I32), ..Default::default() };
    let start = Instant::now();
    let text = open(folder.join("uber_2014_apr-jun.tns.zst"), &options).unwrap();
    eprintln!("uber .tns.zst read in {:?}", start.elapsed());
    let text = sparse(text.entries().next().unwrap().value()).clone();
    assert_eq!((text.shape().to_string().as_str(), text.nnz()), ("(91, 24, 887, 1410)", 1_378_268));

    let archive = folder.join("uber_2014_apr-jun.npz");
    let error = open(&archive, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("\"mode1_dates\"") && error.contains("text"), "{error}");
    let options = ReadOptions {
        only: vec!["uber_2014_apr-jun".into(), "mode3_latitudes".into()],
        ..Default::default()
    };
    let start = Instant::now();
    let arrays = open(&archive, &options).unwrap();
    eprintln!("uber .npz read in {:?}", start.elapsed());
    assert!(sparse(arrays.get("uber_2014_apr-jun").unwrap()) == &text);
    assert_eq!(arrays.get("mode3_latitudes").unwrap().shape().dims(), [887]);

    let dir = tempfile::tempdir().unwrap();
    for name in ["u.tns", "u.tns.zst", "u.tns.gz", "u.npz"] {
        let path = dir.path().join(name);
        let (format, packing) = Format::from_path(&path).unwrap();
        let start = Instant::now();
        write(&path, format, packing, &[Item { name: "u", value: FileValue::Sparse(&text), metadata: None }])
            .unwrap();
        let written = start.elapsed();
        let start = Instant::now();
        let again = open(&path, &ReadOptions::default()).unwrap();
        eprintln!("{name} written in {written:?}, read in {:?}", start.elapsed());
        assert!(sparse(again.get("u").unwrap()) == &text, "{name}");
    }
}

#[test]
fn patterns_without_values() {
    let Some(folder) = data("kg_tns") else { return };
    let options = ReadOptions { tns_pattern: true, dtype: Some(DType::Bool), ..Default::default() };
    for (name, rank, nnz) in [("KG_JF17K_3_ids_1based", 4, 34_544), ("KG_JF17K_4_ids_1based", 5, 9_509)] {
        let file = open(folder.join(format!("{name}.tns.zst")), &options).unwrap();
        let tensor = sparse(file.get(name).unwrap());
        assert_eq!((tensor.shape().rank(), tensor.nnz()), (rank, nnz));
        assert!(tensor.values().iter().all(|&value| value == 1));
    }
}

#[test]
fn dense_arrays_in_both_orders() {
    let Some(folder) = data("dense") else { return };
    let file = open(folder.join("tensorly_real_tensors.npz"), &ReadOptions::default()).unwrap();
    let facts: Vec<_> = file
        .entries()
        .map(|entry| format!("{} {} {}", entry.name(), entry.value().dtype(), entry.value().shape()))
        .collect();
    assert_eq!(
        facts,
        [
            "indian_pines uint16 (145, 145, 200)",
            "indian_pines_gt uint8 (145, 145)",
            "kinetic float64 (64, 12, 10, 60)",
            "kinetic_missing bool (64, 12, 10, 60)",
            "covid19 float64 (438, 6, 11)",
            "il2 float64 (13, 4, 12, 8)",
        ]
    );
    let Some(FileValue::Dense(il2)) = file.get("il2") else { panic!("il2") };
    let nan = il2.to_tensor().buffer().cast::<f64>().iter().filter(|value| value.is_nan()).count();
    assert_eq!(nan, 192);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.npz");
    let names: Vec<_> = file.entries().map(|entry| entry.name()).collect();
    let items: Vec<_> =
        names.iter().map(|name| Item { name, value: file.get(name).unwrap(), metadata: None }).collect();
    write(&path, Format::Npz, Packing::Plain, &items).unwrap();
    let copy = open(&path, &ReadOptions::default()).unwrap();
    for (one, other) in file.entries().zip(copy.entries()) {
        let (FileValue::Dense(one), FileValue::Dense(other)) = (one.value(), other.value()) else {
            panic!("sparse")
        };
        assert!(one.to_tensor() == other.to_tensor());
    }
}
