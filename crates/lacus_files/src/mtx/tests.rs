use super::*;
use crate::format::Packing;
use std::io::Cursor;
use std::path::Path;

fn parse(text: &str, options: &ReadOptions) -> Result<Held, String> {
    let lines = Lines::from_reader(Cursor::new(text.as_bytes().to_vec()), Packing::Plain).unwrap();
    read(lines, options).map_err(|fault| fault.in_file(Path::new("m.mtx")).to_string())
}

/// The matrix as rows of words, whatever way it is held.
fn rows(text: &str) -> (DType, Vec<String>) {
    let dense = match parse(text, &ReadOptions::default()).unwrap() {
        Held::Dense(dense) => dense.borrow(&[]).unwrap().to_tensor(),
        Held::Sparse(sparse) => sparse.to_dense().unwrap(),
    };
    let (dtype, columns) = (dense.dtype(), dense.shape().dims()[1] as usize);
    let words: Vec<String> = dense
        .bytes()
        .chunks_exact(dtype.size_bytes())
        .map(|item| {
            let mut text = Vec::new();
            crate::numbers::write_value(&mut text, dtype, item);
            String::from_utf8(text).unwrap()
        })
        .collect();
    (dtype, words.chunks(columns.max(1)).map(|row| row.join(" ")).collect())
}

#[test]
fn every_kind_of_matrix() {
    let check = |header: &str, body: &str, dtype: DType, expected: &[&str]| {
        let text = format!("%%MatrixMarket matrix {header}\n% comment\n\n{body}");
        assert_eq!(rows(&text), (dtype, expected.iter().map(|row| row.to_string()).collect()), "{header}");
    };
    check("coordinate real general", "2 3 2\n1 3 1.5\n2 1 -2\n", DType::F64, &["0 0 1.5", "-2 0 0"]);
    check("coordinate integer general", "2 2 1\n2 2 7\n", DType::I64, &["0 0", "0 7"]);
    check(
        "coordinate unsigned-integer general",
        "1 1 1\n1 1 18446744073709551615",
        DType::U64,
        &["18446744073709551615"],
    );
    check("coordinate complex general", "1 2 1\n1 2 1 -1\n", DType::C128, &["0 0 1 -1"]);
    check("coordinate pattern general", "2 2 2\n2 1\n1 1\n", DType::F64, &["1 0", "1 0"]);
    check("coordinate real symmetric", "2 2 2\n1 1 5\n2 1 3\n", DType::F64, &["5 3", "3 0"]);
    check("coordinate pattern symmetric", "2 2 1\n2 1\n", DType::F64, &["0 1", "1 0"]);
    check("coordinate integer skew-symmetric", "2 2 1\n2 1 3\n", DType::I64, &["0 -3", "3 0"]);
    check("coordinate real skew-symmetric", "2 2 1\n2 1 3.5\n", DType::F64, &["0 -3.5", "3.5 0"]);
    check("coordinate complex hermitian", "2 2 2\n1 1 5 0\n2 1 1 2\n", DType::C128, &["5 0 1 -2", "1 2 0 0"]);
    check("array real general", "2 3\n1\n2\n3\n4\n5\n6\n", DType::F64, &["1 3 5", "2 4 6"]);
    check("array integer general", "1 2\n1\n2\n", DType::I64, &["1 2"]);
    check("array complex general", "1 1\n1 2\n", DType::C128, &["1 2"]);
    check("array real symmetric", "2 2\n1\n2\n3\n", DType::F64, &["1 2", "2 3"]);
    check("array integer skew-symmetric", "3 3\n1\n2\n3\n", DType::I64, &["0 -1 -2", "1 0 -3", "2 3 0"]);
    check("array complex hermitian", "2 2\n1 0\n2 3\n4 0\n", DType::C128, &["1 0 2 -3", "2 3 4 0"]);
    check("array real general", "0 3\n", DType::F64, &[]);
    check("array real symmetric", "0 0\n", DType::F64, &[] as &[&str]);
}

#[test]
fn headers_have_any_case_and_explicit_zeros_stay() {
    let text = "%%matrixmarket MATRIX Coordinate Real General\n2 2 1\n1 1 0\n";
    let Held::Sparse(tensor) = parse(text, &ReadOptions::default()).unwrap() else { panic!("dense") };
    assert_eq!(tensor.nnz(), 1);
}

#[test]
fn a_dtype_may_be_asked_for() {
    let asked = |text: &str, dtype: DType| {
        let options = ReadOptions { dtype: Some(dtype), ..Default::default() };
        parse(text, &options).map(|held| match held {
            Held::Sparse(tensor) => tensor.values().to_vec(),
            Held::Dense(dense) => dense.owned.unwrap().to_vec(),
        })
    };
    let real = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.0\n";
    assert_eq!(asked(real, DType::U8).unwrap(), [2]);
    assert_eq!(asked(real, DType::F32).unwrap(), 2f32.to_le_bytes());
    assert_eq!(asked(real, DType::C64).unwrap().len(), 8);
    let pattern = "%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n";
    assert_eq!(asked(pattern, DType::Bool).unwrap(), [1]);
    let complex = "%%MatrixMarket matrix array complex general\n1 1\n1 2\n";
    assert!(asked(complex, DType::F64).unwrap_err().contains("a complex matrix cannot be read as float64"));
    let noted = "%%MatrixMarket matrix array real general\n% lacus dtype=float16\n1 1\n1\n";
    let Held::Dense(dense) = parse(noted, &ReadOptions::default()).unwrap() else { panic!("sparse") };
    assert_eq!(dense.dtype, DType::F16);
}

#[test]
fn errors_name_the_line_and_what_was_found() {
    let check = |text: &str, expected: &str| {
        let error = parse(text, &ReadOptions::default()).unwrap_err();
        assert_eq!(error, format!("m.mtx: {expected}"));
    };
    let sparse = |body: &str| format!("%%MatrixMarket matrix coordinate real general\n{body}");
    check("", "the file is empty");
    check("1 1 1\n", "line 1: \"1 1 1\" is no MatrixMarket header");
    check("%%MatrixMarket matrix array pattern general", "line 1: an array cannot be a pattern");
    check(
        "%%MatrixMarket matrix coordinate pattern skew-symmetric",
        "line 1: a pattern cannot be skew-symmetric",
    );
    check("%%MatrixMarket matrix sparse real general", "line 1: MatrixMarket header: unknown \"sparse\"");
    check("%%MatrixMarket matrix array text general", "line 1: MatrixMarket header: unknown \"text\"");
    check("%%MatrixMarket matrix array real odd", "line 1: MatrixMarket header: unknown \"odd\"");
    check(
        "%%MatrixMarket vector array real",
        "line 1: \"%%MatrixMarket vector array real\"; known is: %%MatrixMarket matrix <layout> <field> <symmetry>",
    );
    check(&sparse("%"), "ends before the line of sizes");
    check(&sparse("2 2"), "line 2: \"2 2\" where rows, columns and entries should be");
    check(&sparse("2 2 -1"), "line 2: \"2 2 -1\" where rows, columns and entries should be");
    check(&sparse("2 2 2\n1 1 1"), "1 entries, where the header says 2");
    check(&sparse("2 2 1\n1 1 1\n% here\n1 2 1"), "line 5: more than the 1 entries that the header says");
    check(&sparse("2 2 1\n0 1 1"), "line 3: row 0; mtx coordinates start at 1");
    check(&sparse("2 3 1\n1 4 1"), "line 3: column 4 of a matrix with 3 columns");
    check(&sparse("2 3 1\nx 1 1"), "line 3: \"x\" where a row should be");
    check(&sparse("2 3 1\n1"), "line 3: the column is missing");
    check(&sparse("2 3 1\n1 1"), "line 3: the value is missing");
    check(&sparse("2 3 1\n1 1 1 1"), "line 3: \"1\" behind the value");
    check(&sparse("2 3 1\n1 1 x"), "line 3: \"x\" where a float64 number should be");
    check(&sparse("2 2 2\n1 2 1\n1 2 1"), "the coordinates 1 2 occur more than once; they can be summed");
    let skew = "%%MatrixMarket matrix coordinate real skew-symmetric\n";
    check(&format!("{skew}2 2 1\n1 1 1"), "line 3: the diagonal entry \"1 1 1\", in a skew-symmetric matrix");
    check(&format!("{skew}2 3 1\n1 1 1"), "line 2: a symmetric matrix of 2 rows and 3 columns");
    let array = |body: &str| format!("%%MatrixMarket matrix array real general\n{body}");
    check(&array("2 2 1"), "line 2: \"2 2 1\" where rows and columns should be");
    check(&array("2 1\n1"), "1 values, where the header says 2");
    check(&array("1 1\n1\n2"), "line 4: more than the 1 values that the header says");
}

#[test]
fn sizes_are_not_believed() {
    let sparse = "%%MatrixMarket matrix coordinate real general\n9000000000000000000 9000000000000000000 9000000000000000000\n1 1 1\n";
    assert!(parse(sparse, &ReadOptions::default()).unwrap_err().contains("1 entries, where"));
    let array = "%%MatrixMarket matrix array real symmetric\n1000000000 1000000000\n1\n";
    assert!(parse(array, &ReadOptions::default()).unwrap_err().contains("1 values, where"));
    let array = "%%MatrixMarket matrix array real general\n10000000000 10000000000\n1\n";
    assert!(parse(array, &ReadOptions::default()).unwrap_err().contains("too large"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(
        layout in "coordinate|array",
        field in "real|integer|complex|pattern|unsigned-integer",
        symmetry in "general|symmetric|skew-symmetric|hermitian",
        body in "[0-4]{1,2} [0-4]{1,2}( [0-4])?\n([0-9 .e%\\-\n]{0,60})",
    ) {
        let text = format!("%%MatrixMarket matrix {layout} {field} {symmetry}\n{body}");
        for dtype in [None, Some(DType::U8), Some(DType::I8), Some(DType::C64)] {
            let _ = parse(&text, &ReadOptions { dtype, ..Default::default() });
        }
    }
}
