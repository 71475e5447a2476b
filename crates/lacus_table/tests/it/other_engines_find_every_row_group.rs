//! Every row group of every file is in exactly one split, by the rules of the engines that read Parquet in splits, and
//! nothing is encoded in a way that they refuse.
//!
//! parquet-mr (Spark, Hive, Flink) gives a row group to the split that holds the offset of its first column plus half of its
//! compressed size; Trino and DataFusion to the one in which it begins. A point beyond the end of the file is in no split:
//! the rows are not there, without an error.

use std::fs::File;
use std::path::{Path, PathBuf};

use lacus_layout::{CompressionWish, Wish};
use lacus_simulation::Dice;
use lacus_table::{RowChange, Table, WriteOptions};
use lacus_tensor::{DType, Shape, Tensor};
use parquet::basic::Encoding;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use serde_json::json;

use crate::rows_do_what_a_model_does::{FORMS, header, random_cell, write};
use crate::support::{Place, layout, put, random_tensor, slice};

/// What Spark 4.0's vectorised reader decodes.
const READ_BY_ALL: [Encoding; 7] = [
    Encoding::PLAIN,
    Encoding::RLE,
    Encoding::RLE_DICTIONARY,
    Encoding::PLAIN_DICTIONARY,
    Encoding::DELTA_BINARY_PACKED,
    Encoding::DELTA_LENGTH_BYTE_ARRAY,
    Encoding::DELTA_BYTE_ARRAY,
];

/// Where a column's bytes begin: at its dictionary, if it has one in front of its pages.
fn start(group: &RowGroupMetaData, column: usize) -> u64 {
    let column = group.column(column);
    let pages = column.data_page_offset();
    let first = column.dictionary_page_offset().filter(|at| *at > 0 && *at < pages).unwrap_or(pages);
    u64::try_from(first).unwrap()
}

/// The point by which parquet-mr assigns a row group to a split.
fn midpoint(group: &RowGroupMetaData) -> u64 {
    start(group, 0) + u64::try_from(group.compressed_size()).unwrap() / 2
}

/// The splits of a file of `bytes` that hold `point`.
fn splits_with(point: u64, bytes: u64, split: u64) -> usize {
    (0..bytes)
        .step_by(usize::try_from(split).unwrap())
        .filter(|from| (*from..from + split).contains(&point))
        .count()
}

fn check(path: &Path) -> ParquetMetaData {
    let bytes = path.metadata().unwrap().len();
    let file = File::open(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let shown = path.display();
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let what = format!("row group {number} of {shown}, {bytes} bytes");
        let columns: Vec<(u64, u64)> = (0..group.num_columns())
            .map(|at| (start(group, at), u64::try_from(group.column(at).compressed_size()).unwrap()))
            .collect();
        let (first, last) = (columns[0].0, columns.iter().map(|(from, size)| from + size).max().unwrap());
        let point = midpoint(group);
        assert!(point < bytes, "{what}: its middle is at {point}");
        assert!((first..last).contains(&point), "{what}: its middle is at {point}, it is at {first}..{last}");
        assert_eq!(group.file_offset(), Some(first as i64), "{what}");
        assert!(columns.iter().all(|(from, _)| *from >= first), "{what}: a column is before the first");
        for size in [1 << 10, 4097, 64 << 10, 1 << 20, 16 << 20, 128 << 20, 1 << 40] {
            if bytes / size < 10_000 {
                assert_eq!(splits_with(point, bytes, size), 1, "{what}, splits of {size}");
                assert_eq!(splits_with(first, bytes, size), 1, "{what}, splits of {size}");
            }
        }
        for column in group.columns() {
            for encoding in column.encodings() {
                assert!(READ_BY_ALL.contains(&encoding), "{what}: {encoding} of {}", column.column_path());
            }
        }
        taken.extend(columns);
    }
    taken.sort_unstable();
    assert!(taken.first().is_none_or(|(from, _)| *from >= 4), "{shown}");
    assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{shown}: columns overlap");
    metadata
}

fn files(place: &Place) -> Vec<PathBuf> {
    let data = Path::new(&place.url()).join("data");
    std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn uncompressed(chunk_shape: Vec<u64>) -> Wish {
    Wish { chunk_shape: Some(chunk_shape), compression: CompressionWish::None, ..layout("FTSF") }
}

/// An array of so many bytes, none of them zero.
fn array(bytes: u64) -> Tensor {
    let mut tensor = Tensor::zeros(DType::U8, Shape::new(vec![bytes]).unwrap()).unwrap();
    tensor.bytes_mut().fill(7);
    tensor
}

#[tokio::test(flavor = "multi_thread")]
async fn in_chunk_files_of_1_kilobyte_to_200_megabytes() {
    const KB: u64 = 1 << 10;
    for (bytes, chunk) in [
        (KB, KB),
        (8 * KB, 8 * KB),
        (9 * KB, KB),
        (64 * KB - 1, 64 * KB),
        (64 * KB, 64 * KB),
        // Rows of one byte: the other columns are most of the file.
        (20 * KB, 1),
        (KB * KB, 100_000),
        (20 * KB * KB, KB * KB),
        // Two row groups: all their bytes come before the other columns of either.
        (200 * KB * KB, 4 * KB * KB),
    ] {
        let place = Place::new();
        put(&mut place.create().await, "x", &array(bytes), uncompressed(vec![chunk])).await.unwrap();
        let files = files(&place);
        assert_eq!(files.len(), 1);
        let metadata = check(&files[0]);
        assert_eq!(metadata.num_row_groups(), if bytes > 128 * KB * KB { 2 } else { 1 });
        let rows: i64 = metadata.row_groups().iter().map(|group| group.num_rows()).sum();
        assert_eq!(rows as u64, 1 + bytes.div_ceil(chunk));
        assert_eq!(metadata.row_group(0).column(0).column_path().string(), "data");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_cell_files_of_all_sizes() {
    let dice = Dice::new(15);
    for dtype in [DType::I32, DType::F32, DType::F64, DType::C64] {
        for (dims, zeros) in [(vec![4, 5], 3), (vec![40, 50, 20], 9), (vec![70, 40, 30], 1)] {
            let place = Place::new();
            let tensor = random_tensor(&dice, dtype, &dims, zeros);
            put(&mut place.create().await, "x", &tensor, layout("COO")).await.unwrap();
            files(&place).iter().for_each(|path| drop(check(path)));
        }
    }
    // More rows than fit one row group.
    let place = Place::new();
    put(&mut place.create().await, "x", &array(2_200_000), layout("COO")).await.unwrap();
    let found: Vec<ParquetMetaData> = files(&place).iter().map(|path| check(path)).collect();
    assert_eq!(found.iter().map(|metadata| metadata.num_row_groups()).max(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_files_of_samples_and_after_changes() {
    let place = Place::new();
    let mut table = place.create().await;
    let (dice, options) = (Dice::new(3), WriteOptions::default());
    samples(&mut table, &dice, 60).await;
    put(&mut table, "x", &array(3 << 20), uncompressed(vec![300_000])).await.unwrap();
    let part = array(10);
    table.write_region("x", &[slice(5, 15)], part.as_ref(), &options).await.unwrap();
    samples(&mut table, &dice, 5).await;
    table.compact(&options).await.unwrap();
    files(&place).iter().for_each(|path| drop(check(path)));
}

/// Appends rows with a sample of each form.
async fn samples(table: &mut Table, dice: &Dice, count: u64) {
    let ids: Vec<u64> = table.reserve_ids(count).await.unwrap().collect();
    let is_new = table.columns().unwrap().is_empty();
    let mut change = RowChange { op: "TEST", detail: json!({}), append: ids.clone(), ..RowChange::default() };
    for form in FORMS {
        let name = format!("{form:?}").to_lowercase();
        let cells: Vec<_> = ids.iter().map(|id| (*id, random_cell(dice, form))).collect();
        if is_new {
            change.headers.push((name.clone(), header(form)));
        }
        change.writes.push(write(&name, form, &cells));
    }
    table.change_rows(change, &WriteOptions::default()).await.unwrap();
}
