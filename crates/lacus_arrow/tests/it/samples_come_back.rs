//! Samples of every type become an Arrow array whose field says what they are, and come back from it bit by bit.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, Schema};
use lacus_arrow::{Cell, Mapping, Take, cells, plain_values, taken};
use lacus_sample::{Column, ColumnSpec};
use lacus_tensor::DType;
use proptest::prelude::*;
use serde_json::json;

const DTYPES: [DType; 15] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

/// A type of column, and what one of its samples is like.
#[derive(Clone, Debug)]
struct Kind {
    spec: ColumnSpec,
    one: One,
}

#[derive(Clone, Debug)]
enum One {
    Tensor(DType, Vec<Option<u64>>),
    Unranked(DType),
    Class(u64),
    Text,
    Json,
    Bytes,
    Polygons,
    /// A date or a time, of so many counts.
    Count(DType, u64),
    Decimal,
    Several(Box<One>),
}

fn kinds() -> Vec<Kind> {
    let spec = |htype: &str, dtype: Option<DType>, shape: Option<Vec<Option<u64>>>| ColumnSpec {
        htype: Some(htype.to_owned()),
        dtype,
        shape,
        ..ColumnSpec::default()
    };
    let mut all = Vec::new();
    let shapes: [&[Option<u64>]; 6] =
        [&[], &[None], &[Some(3)], &[Some(2), Some(0)], &[None, Some(4)], &[None, None, Some(2)]];
    for dtype in DTYPES {
        for shape in shapes {
            let shape = shape.to_vec();
            let one = One::Tensor(dtype, shape.clone());
            all.push(Kind { spec: spec("generic", Some(dtype), Some(shape.clone())), one: one.clone() });
            let several = One::Several(Box::new(one));
            all.push(Kind { spec: spec("sequence[generic]", Some(dtype), Some(shape)), one: several });
        }
        all.push(Kind { spec: spec("generic", Some(dtype), None), one: One::Unranked(dtype) });
    }
    let several = |one: One| One::Several(Box::new(one));
    for (htype, one) in
        [("text", One::Text), ("json", One::Json), ("bytes", One::Bytes), ("image", One::Bytes)]
    {
        all.push(Kind { spec: spec(htype, None, None), one: one.clone() });
        all.push(Kind { spec: spec(&format!("sequence[{htype}]"), None, None), one: several(one) });
    }
    for htype in ["audio", "video", "dicom", "image.gray"] {
        all.push(Kind { spec: spec(htype, None, None), one: One::Bytes });
    }
    all.push(Kind { spec: spec("polygon", None, None), one: One::Polygons });
    all.push(Kind {
        spec: ColumnSpec { compression: Some("none".into()), ..spec("image", None, None) },
        one: One::Tensor(DType::U8, vec![None, None, Some(3)]),
    });
    let with = |htype: &str, options: serde_json::Value| ColumnSpec {
        options: options.as_object().cloned().unwrap(),
        ..spec(htype, None, None)
    };
    for (htype, options, one) in [
        ("date", json!({}), One::Count(DType::I32, 1 << 20)),
        ("timestamp", json!({"unit": "ns"}), One::Count(DType::I64, 1 << 30)),
        ("timestamp", json!({"unit": "s", "timezone": "Europe/Zurich"}), One::Count(DType::I64, 1 << 30)),
        ("time", json!({"unit": "ms"}), One::Count(DType::I64, 86_400_000)),
        ("time", json!({"unit": "us"}), One::Count(DType::I64, 86_400_000)),
        ("duration", json!({"unit": "ms"}), One::Count(DType::I64, 1 << 30)),
        ("decimal", json!({"precision": 38, "scale": 2}), One::Decimal),
    ] {
        all.push(Kind { spec: with(htype, options.clone()), one: one.clone() });
        all.push(Kind { spec: with(&format!("sequence[{htype}]"), options), one: several(one) });
    }
    let mut named = spec("class_label", None, None);
    named.options.insert("class_names".to_owned(), json!(["cat", "dog", "7"]));
    all.push(Kind { spec: named.clone(), one: One::Class(3) });
    named.htype = Some("sequence[class_label]".to_owned());
    all.push(Kind { spec: named, one: several(One::Class(3)) });
    all
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

fn sample(one: &One, dice: &mut Dice) -> Cell {
    match one {
        One::Tensor(dtype, shape) => {
            let dims: Vec<u64> = shape.iter().map(|size| size.unwrap_or_else(|| dice.below(4))).collect();
            tensor(*dtype, &dims, dice)
        }
        One::Unranked(dtype) => {
            let dims: Vec<u64> = (0..dice.below(4)).map(|_| dice.below(4)).collect();
            tensor(*dtype, &dims, dice)
        }
        One::Class(count) => Cell::scalar(DType::U32, &(dice.below(*count) as u32).to_le_bytes()),
        One::Text => Cell::text(["", "a", "Größe", "日本語", "7"][dice.below(5) as usize]),
        One::Json => Cell::Json(
            [json!(null), json!({"a": [1, 2.5]}), json!("text"), json!([]), json!(18446744073709551615u64)]
                [dice.below(5) as usize]
                .clone(),
        ),
        One::Bytes => Cell::Media((0..dice.below(20)).map(|_| dice.below(256) as u8).collect()),
        One::Polygons => Cell::List(
            (0..dice.below(3))
                .map(|_| {
                    let points = 1 + dice.below(4);
                    tensor(DType::F32, &[points, 2], dice)
                })
                .collect(),
        ),
        One::Count(dtype, end) => Cell::scalar(*dtype, &dice.below(*end).to_le_bytes()),
        One::Decimal => Cell::text(["0.00", "-0.01", "12345678901234567890.12"][dice.below(3) as usize]),
        One::Several(one) => Cell::List((0..dice.below(4)).map(|_| sample(one, dice)).collect()),
    }
}

fn tensor(dtype: DType, dims: &[u64], dice: &mut Dice) -> Cell {
    let length = dims.iter().product::<u64>() as usize * dtype.size_bytes();
    // Any bits: NaNs, signs of zero, numbers beyond those of signed ones.
    let most = if dtype == DType::Bool { 2 } else { 256 };
    let bytes: Vec<u8> = (0..length).map(|_| dice.below(most) as u8).collect();
    Cell::tensor(dtype, dims, &bytes).unwrap()
}

/// Classes come back by name.
fn expected(cell: &Cell, one: &One) -> Cell {
    match (cell, one) {
        (Cell::Scalar(..), One::Class(_)) => Cell::text(["cat", "dog", "7"][cell.as_int().unwrap() as usize]),
        (Cell::List(items), One::Several(one)) => {
            Cell::List(items.iter().map(|item| expected(item, one)).collect())
        }
        _ => cell.clone(),
    }
}

fn field(column: &Column) -> (Mapping, Field) {
    let mapping = Mapping::of(column, None).unwrap();
    let field = mapping.field("x", column, None);
    (mapping, field)
}

/// Takes an array back by its field alone.
fn back(field: &Field, array: &ArrayRef) -> (ColumnSpec, Vec<Cell>) {
    let schema = Schema::new(vec![field.clone()]);
    let taken = taken(field, &schema, None, || panic!("the field says all")).unwrap().unwrap();
    assert!(matches!(taken.take, Take::Ours(_)), "{taken:?}");
    let found = cells(&plain_values(array).unwrap(), &taken.take, None).unwrap();
    (taken.spec, found.into_iter().collect::<Result<_, _>>().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn samples_of_every_type_come_back(seed in any::<u64>(), rows in 0usize..20) {
        let mut dice = Dice(seed);
        for kind in kinds() {
            let column = Column::new(&kind.spec).unwrap();
            let samples: Vec<Cell> = (0..rows)
                .map(|_| match dice.below(4) {
                    0 => Cell::Missing,
                    _ => sample(&kind.one, &mut dice),
                })
                .collect();
            let (mapping, field) = field(&column);
            let array = mapping.array(&samples).unwrap();
            prop_assert_eq!(array.data_type(), field.data_type());
            prop_assert_eq!(array.len(), rows);
            array.to_data().validate_full().unwrap();
            let missing = samples.iter().filter(|cell| **cell == Cell::Missing).count();
            prop_assert_eq!(array.logical_null_count(), missing, "{:?}", kind);
            let (spec, found) = back(&field, &array);
            prop_assert_eq!(Column::new(&spec).unwrap(), column);
            let wanted: Vec<Cell> = samples.iter().map(|cell| expected(cell, &kind.one)).collect();
            prop_assert_eq!(found, wanted, "{:?}", kind);
            // A part of an array is read by its own offsets.
            if rows > 2 {
                let (_, part) = back(&field, &array.slice(1, rows - 2));
                let wanted: Vec<Cell> =
                    samples[1..rows - 1].iter().map(|cell| expected(cell, &kind.one)).collect();
                prop_assert_eq!(part, wanted, "{:?}", kind);
            }
        }
    }
}

#[test]
fn tensors_have_the_types_that_arrow_names() {
    let check = |spec: ColumnSpec, data_type: &str, name: Option<&str>, note: &str| {
        let (_, field) = field(&Column::new(&spec).unwrap());
        assert_eq!(field.data_type().to_string(), data_type);
        assert_eq!(field.metadata().get("ARROW:extension:name").map(String::as_str), name);
        let found = field.metadata().get("ARROW:extension:metadata");
        assert_eq!(found.map_or("", String::as_str), note);
    };
    let generic = |dtype, shape: &[Option<u64>]| ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape.to_vec()),
        ..ColumnSpec::default()
    };
    let fixed = Some("arrow.fixed_shape_tensor");
    check(
        generic(DType::F32, &[Some(2), Some(3)]),
        "FixedSizeList(6 x non-null Float32)",
        fixed,
        r#"{"shape":[2,3]}"#,
    );
    check(
        generic(DType::C64, &[Some(2)]),
        "FixedSizeList(4 x non-null Float32)",
        fixed,
        r#"{"shape":[2,2]}"#,
    );
    check(
        ColumnSpec { htype: Some("bbox".into()), ..ColumnSpec::default() },
        r#"Struct("data": non-null List(non-null Float32), "shape": non-null FixedSizeList(2 x non-null Int32))"#,
        Some("arrow.variable_shape_tensor"),
        r#"{"uniform_shape":[null,4]}"#,
    );
    check(generic(DType::BF16, &[]), "UInt16", None, "");
    check(ColumnSpec { htype: Some("json".into()), ..ColumnSpec::default() }, "Utf8", Some("arrow.json"), "");
}

#[test]
fn a_class_without_a_name_is_its_number() {
    let mut spec = ColumnSpec { htype: Some("class_label".into()), ..ColumnSpec::default() };
    spec.options.insert("class_names".to_owned(), json!(["cat"]));
    let (mapping, field) = field(&Column::new(&spec).unwrap());
    let array = mapping.array(&[Cell::int(5), Cell::int(0), Cell::Missing, Cell::int(5)]).unwrap();
    assert_eq!(
        array.as_any_dictionary().values().as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
        ["cat", "5"]
    );
    let (_, found) = back(&field, &array);
    assert_eq!(found, [Cell::int(5), Cell::text("cat"), Cell::Missing, Cell::int(5)]);
}

#[test]
fn what_an_engine_changed_is_still_ours() {
    let spec = ColumnSpec { htype: Some("sequence[text]".into()), ..ColumnSpec::default() };
    let (mapping, field) = field(&Column::new(&spec).unwrap());
    let samples = [Cell::List(vec![Cell::text("a"), Cell::text("b")]), Cell::Missing];
    let array = mapping.array(&samples).unwrap();
    let view = DataType::LargeList(Arc::new(Field::new("item", DataType::LargeUtf8, true)));
    let changed = arrow::compute::cast(&array, &view).unwrap();
    let field = field.with_data_type(view);
    assert_eq!(back(&field, &changed).1, samples);
}

#[test]
fn decimals_of_a_few_digits_are_integers_where_they_are_stored() {
    let mut spec = ColumnSpec { htype: Some("decimal".into()), ..ColumnSpec::default() };
    spec.options = json!({"precision": 5, "scale": 2}).as_object().cloned().unwrap();
    let (mapping, field) = field(&Column::new(&spec).unwrap());
    assert_eq!(field.data_type(), &DataType::Decimal128(5, 2));
    // An integer is how often the last digit is there; it comes back as its text, which says the value.
    let array = mapping.array(&[Cell::int(1250), Cell::Missing, Cell::int(-1)]).unwrap();
    let (_, found) = back(&field, &array);
    assert_eq!(found, [Cell::text("12.50"), Cell::Missing, Cell::text("-0.01")]);
    assert!(mapping.array(&[Cell::int(100_000)]).unwrap_err().to_string().contains("more than 5 digits"));
}
