//! What an import or export leaves out is told, with its place and its reason.

use lacus_dataset::Sample;
use lacus_exchange::{
    ErrorKind, ExchangeError, ExportOptions, ImportOptions, Kind, MOST_SKIPPED, from_csv, from_folder,
    to_csv, to_folder, to_safetensors, to_webdataset,
};
use serde_json::json;

use crate::support::{block_on, dataset, filled, png, put, reasons, skip, skip_out, spec, wav};

#[test]
fn of_a_folder() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "cat/1.png", png(3, 3, 1));
    put(root.path(), "cat/2.png", &png(3, 3, 1)[..40]);
    put(root.path(), "cat/3.wav", wav(3));
    put(root.path(), "dog/4", png(3, 3, 1));
    put(root.path(), "dog/notes.txt", "hello");
    put(root.path(), "README.md", "hello");
    block_on(async {
        let mut found = dataset().await;
        let report = from_folder(&mut found, root.path(), &skip()).await.unwrap();
        let told = reasons(&report).join("\n");
        assert_eq!((report.rows, report.skipped_total), (2, 4), "{told}");
        for reason in [
            "README.md: is in no class folder",
            "cat/3.wav: is audio, but most files are image",
            "dog/notes.txt: is of no known media format",
            "cat/2.png: column \"image\"",
        ] {
            assert!(told.contains(reason), "{reason}\n{told}");
        }
        let nothing = tempfile::tempdir().unwrap();
        let error = from_folder(&mut dataset().await, nothing.path(), &skip()).await.unwrap_err();
        assert!(error.to_string().contains("no media files"), "{error}");
        let missing = root.path().join("none");
        let error = from_folder(&mut dataset().await, &missing, &skip()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(Kind::of_source(&missing).unwrap_err().kind(), ErrorKind::NotFound);
        let odd = put(root.path(), "data.xyz", "?");
        let error = Kind::of_source(&odd).unwrap_err();
        assert!(matches!(error, ExchangeError::UnknownKind { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn of_many_only_the_number() {
    let root = tempfile::tempdir().unwrap();
    let source = put(root.path(), "a.csv", format!("a,b\n1,2\n{}", "1\n".repeat(MOST_SKIPPED + 5)));
    block_on(async {
        let report = from_csv(&mut dataset().await, &source, &skip()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (1, MOST_SKIPPED as u64 + 5));
        assert_eq!(report.skipped.len(), MOST_SKIPPED);
    });
}

#[test]
fn of_an_export() {
    let root = tempfile::tempdir().unwrap();
    block_on(async {
        let encoded = |bytes: Vec<u8>| Sample::Encoded(bytes.into());
        let found = filled(vec![
            (
                "image",
                spec("image", json!({})),
                vec![encoded(png(3, 4, 1)), Sample::Missing, encoded(png(2, 2, 2))],
            ),
            (
                "label",
                spec("class_label", json!({})),
                vec![Sample::Json(json!(1)), Sample::Json(json!(2)), Sample::Missing],
            ),
            (
                "words",
                spec("sequence[text]", json!({})),
                vec![Sample::Missing, Sample::Missing, Sample::Missing],
            ),
        ])
        .await;
        let out = root.path().join("a.csv");
        let error = to_csv(&found, &out, &ExportOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("column \"image\": a CSV file has no place for image"), "{error}");
        assert!(!out.exists());
        let report = to_csv(&found, &out, &skip_out()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (3, 1));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "label,words\n1,\n2,\n,\n");

        let folder = root.path().join("folder");
        let error = to_folder(&found, &folder, &ExportOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("row 1: it has no image"), "{error}");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing half-made is left");
        let report = to_folder(&found, &folder, &skip_out()).await.unwrap();
        assert_eq!(reasons(&report), ["row 1: it has no image", "row 2: it has no label"]);
        assert!(folder.join("1/00000000.png").is_file());

        let report = to_webdataset(&found, &root.path().join("a.tar"), &skip_out()).await.unwrap();
        assert_eq!(reasons(&report), ["column \"words\": a WebDataset has no place for sequence[text]"]);
        let error =
            to_safetensors(&found, &root.path().join("a.safetensors"), &skip_out()).await.unwrap_err();
        assert!(error.to_string().contains("no arrays"), "{error}");
        let columns = Some(vec!["nothing".to_owned()]);
        let options = ExportOptions { columns, ..ExportOptions::default() };
        assert_eq!(to_csv(&found, &out, &options).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn progress_is_heard() {
    let root = tempfile::tempdir().unwrap();
    let source = put(root.path(), "a.csv", "a\n1\n2\n");
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let listener = std::sync::Arc::clone(&heard);
    let options = ImportOptions {
        progress: Some(std::sync::Arc::new(move |progress| listener.lock().unwrap().push(progress))),
        ..ImportOptions::default()
    };
    block_on(async { from_csv(&mut dataset().await, &source, &options).await.unwrap() });
    let last = *heard.lock().unwrap().last().unwrap();
    assert_eq!((last.items, last.bytes, last.total_items), (2, 16, Some(2)));
}
