use super::*;
use crate::format::Packing;
use std::io::Cursor;
use std::path::Path;

fn parse(text: &str, options: &ReadOptions) -> Result<SparseTensor, String> {
    let lines = Lines::from_reader(Cursor::new(text.as_bytes().to_vec()), Packing::Plain).unwrap();
    read(lines, options).map_err(|fault| fault.in_file(Path::new("uber.tns")).to_string())
}

fn floats(tensor: &SparseTensor) -> Vec<f64> {
    tensor.values().cast::<f64>().to_vec()
}

#[test]
fn nonzeros_in_any_order_with_blanks_and_comments() {
    let text = "# New York\n\n2 1 3 1.5\n  1\t4 1 -2e0 \r\n# between\n1 1 1 0";
    let tensor = parse(text, &ReadOptions::default()).unwrap();
    assert_eq!((tensor.dtype(), tensor.shape().dims()), (DType::F64, &[2, 4, 3][..]));
    assert_eq!(
        (tensor.axis(0), tensor.axis(1), tensor.axis(2)),
        (&[0, 0, 1][..], &[0, 3, 0][..], &[0, 0, 2][..])
    );
    assert_eq!(floats(&tensor), [0.0, -2.0, 1.5]);
}

#[test]
fn options_say_what_the_file_does_not() {
    let zero_based = ReadOptions { one_based: false, ..Default::default() };
    assert_eq!(parse("0 0 1\n2 1 1", &zero_based).unwrap().shape().dims(), [3, 2]);
    let dims = ReadOptions { dims: Some(Shape::new([5, 6]).unwrap()), ..Default::default() };
    assert_eq!(parse("1 1 1", &dims).unwrap().shape().dims(), [5, 6]);
    assert_eq!(parse("", &dims).unwrap().nnz(), 0);
    let typed = ReadOptions { dtype: Some(DType::I8), ..Default::default() };
    assert_eq!(&parse("1 -1", &typed).unwrap().values()[..], [0xff]);
    let pattern = ReadOptions { tns_pattern: true, ..Default::default() };
    let graph = parse("8 2330 3959\n1 1 1", &pattern).unwrap();
    assert_eq!(graph.shape().dims(), [8, 2330, 3959]);
    assert_eq!(floats(&graph), [1.0, 1.0]);
    let complex = ReadOptions { dtype: Some(DType::C64), ..Default::default() };
    assert_eq!(parse("1 1 -2", &complex).unwrap().values().cast::<f32>(), [1.0, -2.0]);
    let sum = ReadOptions { sum_duplicates: true, ..Default::default() };
    assert_eq!(floats(&parse("1 1 2\n1 1 3", &sum).unwrap()), [5.0]);
}

#[test]
fn the_note_yields_to_options() {
    let text = "# lacus dtype=int16 shape=4,4\n1 1 7\n";
    let tensor = parse(text, &ReadOptions::default()).unwrap();
    assert_eq!((tensor.dtype(), tensor.shape().dims()), (DType::I16, &[4, 4][..]));
    let options = ReadOptions {
        dims: Some(Shape::new([9, 9]).unwrap()),
        dtype: Some(DType::F32),
        ..Default::default()
    };
    let tensor = parse(text, &options).unwrap();
    assert_eq!((tensor.dtype(), tensor.shape().dims()), (DType::F32, &[9, 9][..]));
    assert_eq!(parse("# lacus shape=4,4\n", &ReadOptions::default()).unwrap().nnz(), 0);
}

#[test]
fn errors_name_the_line_and_what_was_found() {
    let check = |text: &str, options: &ReadOptions, expected: &str| {
        assert_eq!(parse(text, options).unwrap_err(), format!("uber.tns: {expected}"));
    };
    let plain = ReadOptions::default();
    check("1 1 1\n1 0 1", &plain, "line 2: coordinate 0 in column 2, tns coordinates start at 1");
    check("1 1 1\n\n1 x 1", &plain, "line 3: \"x\" in column 2, where a coordinate should be");
    check("1 -1 1", &plain, "line 1: \"-1\" in column 2, where a coordinate should be");
    check("1 1.0 1", &plain, "line 1: \"1.0\" in column 2, where a coordinate should be");
    check("1 1 1\n1 1", &plain, "line 2: 2 columns, where 3 should be: \"1 1\"");
    check("1 1 1\n1 2 3 4", &plain, "line 2: 4 columns, where 3 should be: \"1 2 3 4\"");
    check("1 1 1\n1", &plain, "line 2: 1 columns, where 3 should be: \"1\"");
    check("1 1 x", &plain, "line 1: \"x\" where a float64 number should be");
    check("5", &plain, "line 1: \"5\" has no coordinates");
    check("# only this", &plain, "no nonzeros, so the shape must be given");
    check("9223372036854775808 1", &plain, "line 1: coordinate 9223372036854775808 in column 1 is too large");
    check("1 1 1\n2 2 1\n1 1 2", &plain, "the coordinates 1 1 occur more than once; they can be summed");
    let deep = "1 ".repeat(18);
    check(&deep, &plain, "line 1: number of dimensions must be within [0, 16], found 17");
    let dims = ReadOptions { dims: Some(Shape::new([2, 2]).unwrap()), ..Default::default() };
    check("1 3 1", &dims, "line 1: coordinate 3 in column 2 is outside of the shape (2, 2)");
    check("1 1 1 1", &dims, "line 1: 3 coordinates, where the shape (2, 2) needs 2");
    let typed = ReadOptions { dtype: Some(DType::U8), ..Default::default() };
    check("1 256", &typed, "line 1: 256 is out of the range of uint8");
    check("# lacus dtype=x\n1 1", &plain, "line 1: a lacus comment says \"dtype=x\"");
}

#[test]
fn a_coordinate_as_large_as_there_is() {
    let tensor = parse("9223372036854775807 1", &ReadOptions::default()).unwrap();
    assert_eq!(tensor.shape().dims(), [i64::MAX as u64]);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[0-9 .#\\-\nexlacusdtype=]{0,60}", noise in proptest::prelude::any::<Vec<u8>>()) {
        for pattern in [false, true] {
            let options = ReadOptions { tns_pattern: pattern, ..Default::default() };
            let _ = parse(&text, &options);
            let _ = parse(&String::from_utf8_lossy(&noise), &options);
        }
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            if let Ok(lines) = Lines::from_reader(Cursor::new(noise.clone()), packing) {
                let _ = read(lines, &ReadOptions::default());
            }
        }
    }
}
