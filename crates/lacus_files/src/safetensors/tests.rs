use super::*;
use crate::error::Cause;
use lacus_tensor::TensorRef;
use std::path::Path;

/// A file with a header of our choice.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn names(bytes: &[u8]) -> Vec<String> {
    read(bytes, |_| true).unwrap().0.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_file_as_the_reference_writes_it() {
    let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I64","shape":[0,2],"data_offsets":[7,7]}}   "#;
    let bytes = file(header, &[1, 2, 3, 4, 5, 6, 7]);
    let (entries, metadata) = read(&bytes, |_| true).unwrap();
    assert_eq!(metadata, Metadata::from([("format".into(), "pt".into())]));
    let found: Vec<_> = entries
        .iter()
        .map(|(name, held)| {
            let Held::Dense(dense) = held else { panic!("sparse") };
            let tensor = dense.borrow(&bytes).unwrap();
            (
                name.as_str(),
                tensor.dtype(),
                tensor.shape().to_string(),
                tensor.contiguous_bytes().unwrap().to_vec(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a", DType::F32, "()".into(), vec![1, 2, 3, 4]),
            ("b", DType::U8, "(3,)".into(), vec![5, 6, 7]),
            ("none", DType::I64, "(0, 2)".into(), vec![]),
        ]
    );
    assert_eq!(names(&file("{}", &[])), Vec::<String>::new());
}

#[test]
fn malformed_files_are_errors() {
    let check = |bytes: &[u8], expected: &str| {
        let error = read(bytes, |_| true).unwrap_err().in_file(Path::new("m.safetensors")).to_string();
        assert!(error.contains(expected), "{error}");
    };
    let one = |facts: &str, data: &[u8]| file(&format!("{{\"a\":{facts}}}"), data);
    check(b"", "0 bytes are no safetensors");
    check(&[255; 100], "at most 100000000");
    check(&[[9, 0, 0, 0, 0, 0, 0, 0].as_slice(), b"{}"].concat(), "9 bytes in a file that has 2 left");
    check(&file("[]", &[]), "not a JSON object");
    check(&file("{", &[]), "not JSON");
    check(&file(&"[".repeat(10_000), &[]), "not JSON");
    check(&file(r#"{"__metadata__":{"a":1}}"#, &[]), "__metadata__");
    check(&file("{}", &[0]), "of which tensors take 0");
    check(&one("1", &[]), "data_offsets");
    check(&one(r#"{"dtype":"U8","shape":[1],"data_offsets":[0]}"#, &[0]), "data_offsets");
    check(&one(r#"{"dtype":"U8","shape":[1],"data_offsets":[-1,1]}"#, &[0]), "data_offsets");
    check(&one(r#"{"dtype":"U8","shape":[1],"data_offsets":[1,2]}"#, &[0, 0]), "end at 0");
    check(&one(r#"{"dtype":"U8","shape":[1],"data_offsets":[0,2]}"#, &[0, 0]), "take 1 bytes, found 2");
    check(&one(r#"{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#, &[0]), "1 bytes of data");
    check(&one(r#"{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#, &[0; 3]), "of which tensors take 2");
    let huge = r#"{"dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976]}"#;
    check(&one(huge, &[0; 8]), "8 bytes of data");
    let product = r#"{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}"#;
    check(&one(product, &[]), "too large");
    check(&one(r#"{"dtype":"U8","shape":"x","data_offsets":[0,0]}"#, &[]), "shape");
    check(&one(r#"{"shape":[0],"data_offsets":[0,0]}"#, &[]), "dtype");
    let overlap = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#;
    check(&file(overlap, &[0; 3]), "\"b\": data offsets [1, 3], where the bytes before end at 2");
}

#[test]
fn an_unknown_dtype_only_matters_when_it_is_wanted() {
    let header = r#"{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let bytes = file(header, &[0, 7]);
    let fault = read(&bytes, |_| true).unwrap_err();
    assert!(matches!(fault.cause, Cause::Unsupported(_)), "{fault:?}");
    assert_eq!(read(&bytes, |name| name == "b").unwrap().0.len(), 1);
}

#[test]
fn every_cut_is_an_error() {
    let whole = file(r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#, &[0; 2]);
    for length in 0..whole.len() {
        assert!(read(&whole[..length], |_| true).is_err(), "{length}");
    }
}

#[test]
fn metadata_is_united_and_never_lost() {
    let shape = Shape::new([1]).unwrap();
    let tensor = TensorRef::contiguous(DType::U8, &shape, &[1]).unwrap();
    let of = |pairs: &[(&str, &str)]| -> Metadata {
        pairs.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect()
    };
    let (first, second) = (of(&[("format", "pt"), ("unit", "m")]), of(&[("format", "pt"), ("unit", "s")]));
    let item = |name, metadata| Item { name, value: FileValue::Dense(tensor.clone()), metadata };
    let mut bytes = Vec::new();
    write(&mut bytes, &[item("x", Some(&first)), item("y", Some(&second)), item("z", None)]).unwrap();
    let (_, metadata) = read(&bytes, |_| true).unwrap();
    assert_eq!(metadata, of(&[("format", "pt"), ("x/unit", "m"), ("y/unit", "s")]));
    assert_eq!(bytes.len() % 8, 3, "the data begin at a multiple of 8");
    assert!(write(&mut Vec::new(), &[item("x", None), item("x", None)]).is_err());
    assert!(write(&mut Vec::new(), &[item("__metadata__", None)]).is_err());
}

proptest::proptest! {
    #[test]
    fn no_header_panics(header in "[{}\\[\\]\":,a-z0-9_]{0,60}", noise in proptest::prelude::any::<Vec<u8>>()) {
        let _ = read(&file(&header, &noise), |_| true);
        let _ = read(&noise, |_| true);
    }

    #[test]
    fn no_facts_panic(from in 0u64..20, to in proptest::prelude::any::<u64>(), dim in proptest::prelude::any::<u64>()) {
        let header = format!(r#"{{"a":{{"dtype":"F16","shape":[{dim}],"data_offsets":[{from},{to}]}}}}"#);
        let _ = read(&file(&header, &[0; 10]), |_| true);
    }
}
