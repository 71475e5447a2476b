//! With errors raised, or when it is cancelled, an import leaves the dataset as it was: also when some of it was written
//! already.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lacus_exchange::{ErrorKind, ImportOptions, from_csv, from_folder};

use crate::support::{block_on, dataset, png, put, values};

#[test]
fn nothing_is_written_when_the_first_batch_fails() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "cat/1.png", png(3, 3, 1));
    put(root.path(), "cat/2.png", "no picture");
    block_on(async {
        let mut found = dataset().await;
        let error = from_folder(&mut found, root.path(), &ImportOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("cat/2.png: column \"image\""), "{error}");
        assert_eq!((found.len().await.unwrap(), found.column_names().len()), (0, 0));
        let source = put(root.path(), "a.csv", "a,b\n1,2\n3\n");
        let error = from_csv(&mut found, &source, &ImportOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("a.csv: line 3"), "{error}");
        assert!(found.column_names().is_empty());
    });
}

#[test]
fn what_was_written_is_taken_back() {
    let root = tempfile::tempdir().unwrap();
    // Several batches, and the last line is bad.
    let many = 700_000;
    let good = put(root.path(), "good.csv", "a\n1\n2\n");
    let bad = put(root.path(), "bad.csv", format!("a,b\n{}4\n", "1,2\n".repeat(many)));
    block_on(async {
        let mut found = dataset().await;
        from_csv(&mut found, &good, &ImportOptions::default()).await.unwrap();
        let options = ImportOptions { append: true, ..ImportOptions::default() };
        let error = from_csv(&mut found, &bad, &options).await.unwrap_err();
        assert!(error.to_string().contains(&format!("line {}", many + 2)), "{error}");
        assert_eq!((found.len().await.unwrap(), found.column_names()), (2, vec!["a".to_owned()]));
        assert_eq!(values(&found, "a").await.len(), 2);

        let cancel = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&cancel);
        let options = ImportOptions {
            append: true,
            progress: Some(Arc::new(move |_| raised.store(true, Ordering::Relaxed))),
            cancel: Some(cancel),
            on_error: lacus_exchange::OnError::Skip,
            ..ImportOptions::default()
        };
        let error = from_csv(&mut found, &bad, &options).await.unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        assert_eq!((found.len().await.unwrap(), found.column_names()), (2, vec!["a".to_owned()]));
    });
}
