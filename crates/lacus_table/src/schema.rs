//! The columns of the table, the same for every dataset, and the properties it is made with.
//!
//! ```text
//! tensor | row | c0 … c15 | shape chunk_shape layout dtype htype parameters metadata | codec crc bytes data | int float real text
//! name     id    place      header rows only                                           chunk rows        cells, scalars
//! ```

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lacus_tensor::MAX_RANK;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use serde_json::{Value as Json, json};

/// The number of the table format. A table with a higher one is not opened.
pub const FORMAT: u32 = 1;

/// The table property that carries [`FORMAT`].
pub(crate) const FORMAT_PROPERTY: &str = "lacus.format";

/// The name under which the dataset's own metadata is kept; no tensor can be called so.
pub(crate) const DATASET_ROW: &str = "";

/// The name under which the rows of the dataset are kept; no tensor can be called so.
pub(crate) const ROW_AXIS: &str = "/rows";

/// Names of tensors that belong to indexes begin with this: [`is_hidden`].
pub const INDEX_PREFIX: &str = "_index/";

/// Whether a tensor belongs to an index, by its name. Such tensors are stored, versioned and checked like all others, but they are not
/// listed, and users cannot write to them.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(INDEX_PREFIX)
}

/// What the header row of a column has as its layout.
pub(crate) const COLUMN_LAYOUT: &str = "COLUMN";

/// Column names, as the format document lists them.
pub(crate) mod column {
    pub(crate) const TENSOR: &str = "tensor";
    pub(crate) const ROW: &str = "row";
    pub(crate) const SHAPE: &str = "shape";
    pub(crate) const CHUNK_SHAPE: &str = "chunk_shape";
    pub(crate) const LAYOUT: &str = "layout";
    pub(crate) const DTYPE: &str = "dtype";
    pub(crate) const HTYPE: &str = "htype";
    pub(crate) const PARAMETERS: &str = "parameters";
    pub(crate) const METADATA: &str = "metadata";
    pub(crate) const CODEC: &str = "codec";
    pub(crate) const CRC: &str = "crc";
    pub(crate) const BYTES: &str = "bytes";
    pub(crate) const DATA: &str = "data";
    pub(crate) const INT: &str = "int";
    pub(crate) const FLOAT: &str = "float";
    pub(crate) const REAL: &str = "real";
    pub(crate) const TEXT: &str = "text";
}

/// The name of coordinate column `k`.
pub(crate) fn coordinate(k: usize) -> String {
    format!("c{k}")
}

/// The place of coordinate column `k` in the schema.
pub(crate) const fn coordinate_at(k: usize) -> usize {
    2 + k
}

/// The schema in Arrow's terms.
pub(crate) fn arrow_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let longs = || DataType::List(Arc::new(Field::new("element", DataType::Int64, true)));
        let mut fields = vec![
            Field::new(column::TENSOR, DataType::Utf8, true),
            Field::new(column::ROW, DataType::Int64, true),
        ];
        fields.extend((0..MAX_RANK).map(|k| Field::new(coordinate(k), DataType::Int64, true)));
        fields.extend([
            Field::new(column::SHAPE, longs(), true),
            Field::new(column::CHUNK_SHAPE, longs(), true),
            Field::new(column::LAYOUT, DataType::Utf8, true),
            Field::new(column::DTYPE, DataType::Utf8, true),
            Field::new(column::HTYPE, DataType::Utf8, true),
            Field::new(column::PARAMETERS, DataType::Utf8, true),
            Field::new(column::METADATA, DataType::Utf8, true),
            Field::new(column::CODEC, DataType::Utf8, true),
            Field::new(column::CRC, DataType::Int32, true),
            Field::new(column::BYTES, DataType::Int64, true),
            Field::new(column::DATA, DataType::Binary, true),
            Field::new(column::INT, DataType::Int64, true),
            Field::new(column::FLOAT, DataType::Float32, true),
            Field::new(column::REAL, DataType::Float64, true),
            Field::new(column::TEXT, DataType::Utf8, true),
        ]);
        Arc::new(Schema::new(fields))
    });
    Arc::clone(&SCHEMA)
}

/// The columns in the order in which chunk files have them: `data` first, the others as in the table.
///
/// Readers of the parquet-mr family give a row group to the split that holds the offset of its first column plus half
/// of its size. The bytes of `data` come first in the file and are most of it: with any other column first, that
/// point lies beyond the end of the file, and the rows are in no split.
pub(crate) fn chunk_file_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let (data, others): (Vec<_>, Vec<_>) =
            arrow_schema().fields().iter().cloned().partition(|field| field.name() == column::DATA);
        Arc::new(Schema::new(data.into_iter().chain(others).collect::<Vec<_>>()))
    });
    Arc::clone(&SCHEMA)
}

/// The schema in Delta's terms, as the `metaData` action carries it.
fn delta_schema() -> String {
    let fields: Vec<Json> = arrow_schema()
        .fields()
        .iter()
        .map(|field| {
            let kind = match field.data_type() {
                DataType::Int64 => json!("long"),
                DataType::Int32 => json!("integer"),
                DataType::Float32 => json!("float"),
                DataType::Float64 => json!("double"),
                DataType::Binary => json!("binary"),
                DataType::List(_) => json!({"type": "array", "elementType": "long", "containsNull": true}),
                _ => json!("string"),
            };
            json!({"name": field.name(), "type": kind, "nullable": true, "metadata": {}})
        })
        .collect();
    json!({"type": "struct", "fields": fields}).to_string()
}

/// The `protocol` action of a table: plain, or with deletion vectors and no other feature.
pub(crate) fn protocol_action(deletion_vectors: bool) -> Json {
    if deletion_vectors {
        json!({"protocol": {
            "minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
        }})
    } else {
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    }
}

/// The `metaData` action of a table.
pub(crate) fn metadata_action(id: &str, created_millis: i64, deletion_vectors: bool) -> Json {
    let mut skipping = vec![column::TENSOR.to_owned(), column::ROW.to_owned()];
    skipping.extend((0..MAX_RANK).map(coordinate));
    let mut configuration = json!({
        FORMAT_PROPERTY: FORMAT.to_string(),
        "delta.dataSkippingStatsColumns": skipping.join(","),
        // History needs old files and old log entries, so stock vacuums and log clean-ups must
        // leave them; the project's own clean-up knows what can go.
        "delta.deletedFileRetentionDuration": "interval 36500 days",
        "delta.logRetentionDuration": "interval 36500 days",
        "delta.enableExpiredLogCleanup": "false",
    });
    if deletion_vectors {
        configuration["delta.enableDeletionVectors"] = json!("true");
    }
    json!({"metaData": {
        "id": id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema(),
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": created_millis,
    }})
}

/// Rows in a page of cells, which is what a slice reads at least: that many sorted coordinates take
/// some 50 KB, below which an object store charges the same for less.
pub(crate) const CELL_PAGE_ROWS: usize = 32 << 10;

/// Bytes of text in a page: what reading one text costs at least.
pub(crate) const TEXT_PAGE_BYTES: usize = 32 << 10;

/// Bytes of distinct floats above which a dictionary of them is given up: until then, each of them was
/// written twice.
const FLOAT_DICTIONARY_BYTES: usize = 64 << 10;

/// How the Parquet files are written; `cells` for files of COO cells.
pub(crate) fn writer_properties(cells: bool, value_is_smooth: bool) -> WriterProperties {
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    let zstd = || Compression::ZSTD(ZstdLevel::try_new(1).unwrap_or_default());
    let mut builder: WriterPropertiesBuilder = WriterProperties::builder()
        .set_created_by(concat!("lacus ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(zstd())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        // Statistics of names are never cut short: a cut one would skip the wrong file.
        .set_statistics_truncate_length(None)
        .set_column_index_truncate_length(None)
        // The table bounds row groups itself, in bytes.
        .set_max_row_group_row_count(None)
        // Cells are written page by page: what is written together is one page.
        .set_data_page_row_count_limit(if cells { CELL_PAGE_ROWS } else { 1 << 20 })
        .set_write_batch_size(if cells { CELL_PAGE_ROWS } else { 8 << 10 });
    for name in [column::TENSOR, column::LAYOUT, column::DTYPE, column::HTYPE, column::CODEC] {
        builder = builder.set_column_dictionary_enabled(path(name), true);
    }
    builder = builder.set_column_statistics_enabled(path(column::TENSOR), EnabledStatistics::Page);
    let mut sorted = vec![column::ROW.to_owned()];
    sorted.extend((0..MAX_RANK).map(coordinate));
    builder = builder.set_column_encoding(path(column::BYTES), Encoding::DELTA_BINARY_PACKED);
    for name in sorted {
        builder = builder
            .set_column_encoding(path(&name), Encoding::DELTA_BINARY_PACKED)
            .set_column_statistics_enabled(path(&name), EnabledStatistics::Page);
    }
    for name in [column::FLOAT, column::REAL] {
        // BYTE_STREAM_SPLIT would be smaller for measured values, and Spark 4.0 refuses every file that has it,
        // even where all values are null.
        builder = builder.set_column_encoding(path(name), Encoding::PLAIN);
        if cells && !value_is_smooth {
            builder = builder
                .set_column_dictionary_enabled(path(name), true)
                .set_column_dictionary_page_size_limit(path(name), FLOAT_DICTIONARY_BYTES);
        }
    }
    // Texts are read a page at a time, so pages are small.
    builder = builder.set_column_data_page_size_limit(path(column::TEXT), TEXT_PAGE_BYTES);
    // Few distinct integers pack into a dictionary; many do better as deltas.
    builder = if value_is_smooth {
        builder.set_column_encoding(path(column::INT), Encoding::DELTA_BINARY_PACKED)
    } else {
        builder.set_column_dictionary_enabled(path(column::INT), true)
    };
    builder.build()
}
