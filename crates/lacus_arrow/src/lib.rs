//! How is a sample said in Arrow? Columns as Arrow types and samples as Arrow arrays, both ways. There is no I/O here.
//!
//! ```text
//! Column ─Mapping::of→ Mapping ─field→ Field        Cells ─Mapping::array→ Array
//! Field ─taken→ ColumnSpec, Take                    Array ─cells→ Cells
//! ```
//!
//! ```
//! use lacus_arrow::{Cell, Mapping, cells, plain_values, taken};
//! use lacus_sample::{Column, ColumnSpec};
//!
//! let column = Column::new(&ColumnSpec { htype: Some("text".into()), ..ColumnSpec::default() })?;
//! let mapping = Mapping::of(&column, None)?;
//! let array = mapping.array(&[Cell::text("a cat"), Cell::Missing]).map_err(|unfit| unfit.to_string())?;
//!
//! let field = mapping.field("caption", &column, None);
//! let schema = arrow::datatypes::Schema::new(vec![field.clone()]);
//! let taken = taken(&field, &schema, None, || Ok(Vec::new()))?.unwrap();
//! assert_eq!(Column::new(&taken.spec)?, column);
//! let found = cells(&plain_values(&array)?, &taken.take, None)?;
//! assert_eq!(found, [Ok(Cell::text("a cat")), Ok(Cell::Missing)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types of a scan
//!
//! | column | Arrow |
//! |---|---|
//! | numbers | the same; bfloat16 as uint16 |
//! | `class_label` with names | dictionary (int32) of the names; a number without a name is written out |
//! | `text` | utf8 |
//! | `json`, `list`, `tag` | utf8, `arrow.json` |
//! | `date`, `timestamp`, `time`, `duration`, `decimal` | date32, timestamp, time32 or time64, duration, decimal128 |
//! | texts that came as dates, times or decimals, JSON that came as structs, … | the type they came as |
//! | media files, `bytes` | binary; the kind and format are in the field's metadata |
//! | tensors of one shape | `arrow.fixed_shape_tensor` |
//! | tensors of one axis, of any length | list |
//! | tensors of as many axes | `arrow.variable_shape_tensor`, also pictures and sound that are not kept as files |
//! | tensors of any rank | struct of `data` (list) and `shape` (list of int32) |
//! | complex numbers | as tensors with a last axis of two: real and imaginary part |
//! | `polygon` | list of lists of lists of numbers |
//! | `sequence[t]` | list of what t is |
//! | `link[t]` | what it leads to |
//! | a column without a dtype yet | null |
//!
//! Missing samples are null. The metadata of a field has the column's type under `lacus`, so that [`taken`] makes the same
//! column of it. The first lines of `foreign.rs` list what other people's types become, those of `plain.rs` how [`Plain`] says
//! columns for engines that know nothing of Lacus.
//!
//! Functions fail with the reason as text; the caller knows the column and the row to name with it.

mod cell;
mod numbers;
mod counts;
mod logical;
mod note;
mod mapping;
mod to_array;
mod from_array;
mod foreign;
mod take;
mod plain;
mod fields;

pub use cell::{Cell, class_name, double};
pub use fields::{sample_cells, type_name};
pub use foreign::{Take, Taken, label_spec, taken};
pub use from_array::Cells;
pub use logical::Dialect;
pub use mapping::{Mapping, is_file_codec, is_files};
pub use numbers::{elements, list_item};
pub use plain::{Plain, plain_arrays, plain_fields};
pub use take::{cells, plain_values};
pub use to_array::Unfit;
