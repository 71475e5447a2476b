//! Import, export, head, and what info, ls, rm and mv say and do when there are columns.

use serde_json::{Value as Json, json};

use crate::harness::{Sandbox, counting, tree};

/// The smallest pictures: 2 × 1 gray pixels.
fn bmp(pixel: u8) -> Vec<u8> {
    let (width, height) = (2u32, 1u32);
    let pixels = [pixel, pixel, pixel, 0, 0, 255, 0, 0];
    let mut bytes = b"BM".to_vec();
    bytes.extend((54 + pixels.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(54u32.to_le_bytes());
    bytes.extend(40u32.to_le_bytes());
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(24u16.to_le_bytes());
    bytes.extend([0; 24]);
    bytes.extend(pixels);
    bytes
}

fn put(sandbox: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) {
    let path = sandbox.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn photos() -> Sandbox {
    let sandbox = Sandbox::empty();
    put(&sandbox, "photos/cat/1.bmp", bmp(1));
    put(&sandbox, "photos/cat/2.bmp", bmp(2));
    put(&sandbox, "photos/dog/1.bmp", bmp(3));
    sandbox
}

#[test]
fn a_folder_there_and_back() {
    let sandbox = photos();
    let import = sandbox.lacus(["import", "photos", "d"]);
    assert_eq!(import.stdout(), "");
    let said = import.stderr();
    assert_eq!(import.code(), Some(0), "{said}");
    assert_eq!(said, "imported 3 rows (210 B) into image, label, file_name, version 4\n");
    let export = sandbox.lacus(["export", "d", "out", "--json"]).json();
    assert_eq!((&export["kind"], &export["rows"]), (&json!("folder"), &json!(3)));
    assert_eq!(std::fs::read(sandbox.path("out/dog/1.bmp")).unwrap(), bmp(3));
    let again = sandbox.lacus(["export", "d", "out"]).fails(4);
    assert!(again.contains("there is something already"), "{again}");
    sandbox.lacus(["export", "d", "wide", "--wide"]).ok();
    assert!(sandbox.path("wide/_delta_log/00000000000000000000.json").is_file());
    sandbox.lacus(["export", "d", "d.parquet"]).ok();
    sandbox.lacus(["import", "d.parquet", "e"]).ok();
    assert_eq!(sandbox.lacus(["head", "d", "--json"]).json(), sandbox.lacus(["head", "e", "--json"]).json());
    sandbox.lacus(["export", "d", "d.tar", "--columns", "image,label"]).ok();
    sandbox.lacus(["import", "d.tar", "f"]).ok();
    assert_eq!(sandbox.lacus(["ls", "f"]).ok(), "image\nkey\nlabel\n");
}

#[test]
fn rows_on_lines() {
    let sandbox = photos();
    sandbox.lacus(["import", "photos", "d"]).ok();
    let head = sandbox.lacus(["head", "d", "-n", "2", "--columns", "image,label"]).ok();
    assert_eq!(
        head,
        "ROW  image               label\n  0  bmp (1, 2, 3) 62 B  cat\n  1  bmp (1, 2, 3) 62 B  cat\n"
    );
    let json = sandbox.lacus(["head", "d", "--columns", "label", "--json"]).json();
    assert_eq!(json, json!([{"label": "cat"}, {"label": "cat"}, {"label": "dog"}]));
    put(&sandbox, "people.csv", format!("name,age\nAda,36\n{},\n", "x".repeat(50)));
    sandbox.lacus(["import", "people.csv", "p"]).ok();
    let head = sandbox.lacus(["head", "p", "--columns", "name,age"]).ok();
    assert_eq!(
        head,
        format!(
            "ROW  name                                       age\n  0  Ada                                        36\n  1  {}…  -\n",
            "x".repeat(40)
        )
    );
    let error = sandbox.lacus(["head", "p", "--columns", "nme"]).fails(3);
    assert!(error.contains("no column \"nme\"; did you mean \"name\""), "{error}");
}

#[test]
fn columns_are_known_to_the_other_commands() {
    let sandbox = photos();
    sandbox.lacus(["import", "photos", "d"]).ok();
    sandbox.write_one("a.npy", &counting(&[2, 3]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    let names = |sandbox: &Sandbox| {
        let listed = sandbox.lacus(["ls", "d"]).ok();
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(names(&sandbox), ["a", "file_name", "image", "label"]);
    let long = sandbox.lacus(["ls", "d", "--long"]).ok();
    let row = long.lines().find(|line| line.starts_with("image")).unwrap();
    assert!(row.contains("uint8") && row.contains("(?, ?, ?)") && row.contains("rows of image"), "{long}");
    let listed = sandbox.lacus(["ls", "d", "--json"]).json();
    let is_image = |column: &&Json| column["name"] == "image";
    let image = listed.as_array().unwrap().iter().find(is_image).unwrap();
    assert_eq!(image["htype"], json!("image"));
    let info = sandbox.lacus(["info", "d"]).ok();
    for said in [
        "rows     3",
        "columns  3",
        "tensors  1",
        "COLUMN     TYPE",
        "\nimage      image        uint8   ",
        "(1, 2, 3)",
    ] {
        assert!(info.contains(said), "{said}: {info}");
    }
    let info = sandbox.lacus(["info", "d", "--json"]).json();
    let image = info["columns"].as_array().unwrap().iter().find(is_image).unwrap();
    assert_eq!((&info["rows"], &image["shape_max"]), (&json!(3), &json!([1, 2, 3])));
    let info = sandbox.lacus(["info", "d", "label"]).ok();
    assert!(info.contains("type         class_label") && info.contains("samples      3"), "{info}");
    let error = sandbox.lacus(["get", "d", "image"]).fails(2);
    assert!(error.contains("is a column") && error.contains("`lacus head`"), "{error}");
    sandbox.lacus(["mv", "d", "label", "class"]).ok();
    sandbox.lacus(["rm", "d", "image"]).ok();
    sandbox.lacus(["rm", "d", "file_name"]).ok();
    assert_eq!(names(&sandbox), ["a", "class"]);
    assert_eq!(sandbox.lacus(["head", "d", "-n", "1"]).ok(), "ROW  class\n  0  cat\n");
    let history = sandbox.lacus(["history", "d"]).ok();
    assert!(history.contains("append") && history.contains("3 rows"), "{history}");
    assert!(sandbox.lacus(["doctor", "d"]).ok().ends_with("healthy\n"));
    sandbox.lacus(["compact", "d"]).ok();
    assert_eq!(sandbox.lacus(["head", "d", "-n", "1"]).ok(), "ROW  class\n  0  cat\n");
}

#[test]
fn what_does_not_fit_is_told_or_stops_it() {
    let sandbox = photos();
    put(&sandbox, "photos/dog/2.bmp", "no picture");
    let error = sandbox.lacus(["import", "photos", "d"]).fails(2);
    assert!(
        error.contains("photos/dog/2.bmp: column \"image\"") && error.contains("--on-error skip"),
        "{error}"
    );
    assert!(!sandbox.path("d").exists() || tree(&sandbox.path("d")).is_empty(), "no dataset is left behind");
    let said = sandbox.lacus(["import", "photos", "d", "--on-error", "skip"]).stderr();
    assert!(
        said.starts_with("left out 1:\n  photos/dog/2.bmp: column \"image\"")
            && said.contains("imported 3 rows"),
        "{said}"
    );
    let error = sandbox.lacus(["import", "photos", "d", "--on-error", "skip"]).fails(4);
    assert!(error.contains("there is a tensor \"image\" already") && error.contains("--append"), "{error}");
    let json = sandbox.lacus(["import", "photos", "d", "--on-error", "skip", "--append", "--json"]).json();
    assert_eq!((&json["rows"], &json["skipped_total"]), (&json!(3), &json!(1)));
    assert!(json["skipped"][0]["place"].as_str().unwrap().ends_with("2.bmp"), "{json}");
    let rows: Json = sandbox.lacus(["head", "d", "--json"]).json();
    assert_eq!(rows.as_array().unwrap().len(), 6);

    let check = |args: &[&str], code: i32, said: &str| {
        let error = sandbox.lacus(args).fails(code);
        assert!(error.contains(said), "{args:?}: {error}");
    };
    check(&["import", "nothing", "x"], 3, "nothing");
    check(&["import", "nothing.csv", "x"], 3, "nothing.csv");
    put(&sandbox, "thing.xyz", "?");
    check(&["import", "thing.xyz", "x"], 2, "--as");
    check(&["import", "photos", "x", "--as", "delta"], 2, "one of folder, coco, csv");
    check(&["import", "photos", "x", "--on-error", "ignore"], 2, "raise or skip");
    check(&["export", "d", "a.csv"], 2, "column \"image\": a CSV file has no place for image");
    check(&["export", "d", "a.csv", "--delimiter", "ab"], 2, "one character");
    check(&["export", "nowhere", "a.csv"], 3, "no dataset here");
    check(&["export", "d", "a.safetensors"], 2, "no arrays");
    assert!(!sandbox.path("x").exists() || tree(&sandbox.path("x")).is_empty());
    sandbox.lacus(["create", "y"]).ok();
    check(&["head", "y"], 2, "no columns");
}

#[test]
fn tables_and_arrays() {
    let sandbox = Sandbox::empty();
    put(&sandbox, "a.csv", "x;y\n1;2\n3;\n");
    sandbox.lacus(["import", "a.csv", "d", "--delimiter", ";", "--prefix", "t"]).ok();
    assert_eq!(sandbox.lacus(["ls", "d"]).ok(), "t/x\nt/y\n");
    sandbox.lacus(["export", "d", "b.tsv", "--columns", "t/y,t/x"]).ok();
    assert_eq!(std::fs::read_to_string(sandbox.path("b.tsv")).unwrap(), "t/y\tt/x\n2\t1\n\t3\n");
    sandbox.write("m.safetensors", &[("w", &counting(&[2, 2])), ("b", &counting(&[2]))]);
    let said = sandbox.lacus(["import", "m.safetensors", "d"]).stderr();
    assert!(said.starts_with("imported 2 tensors (24 B) into "), "{said}");
    sandbox.lacus(["export", "d", "n.safetensors"]).ok();
    assert_eq!(sandbox.read("m.safetensors").len(), sandbox.read("n.safetensors").len());
    let old = sandbox.lacus(["head", "d", "--at", "1"]).code();
    assert_eq!(old, Some(0));
}
