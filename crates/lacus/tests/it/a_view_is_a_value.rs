//! A view stays what it is, whatever is written, and comes back from plain data.

use lacus::dataset::DatasetError;
use lacus::{Draw, ErrorKind, View, ViewData, WriteOptions};

use crate::world::{extend, numbered, run, words};

#[test]
fn rows_are_chosen_and_stay() {
    run(async {
        let mut main = numbered("view-stays", 10).await.unwrap();
        let view = main.view().await.unwrap().every(8, -3, 3).unwrap();
        assert_eq!(words(&view).await, ["word 8", "word 5", "word 2"]);
        main.dataset_mut().delete_rows(&[5], &WriteOptions::default()).await.unwrap();
        extend(&mut main, 10..20).await.unwrap();
        assert_eq!(words(&view).await, ["word 8", "word 5", "word 2"]);
        assert_eq!((main.view().await.unwrap().len(), view.len()), (19, 3));
    });
}

#[test]
fn plain_data_is_enough_to_open_it_again() {
    run(async {
        let main = numbered("view-data", 50).await.unwrap();
        let view = main.view().await.unwrap().shuffled(3).take(&[4, 4, 0]).unwrap();
        let text = serde_json::to_string(&view.data()).unwrap();
        let data: ViewData = serde_json::from_str(&text).unwrap();
        let again = main.repository().view_of(&data).await.unwrap();
        assert_eq!(words(&again).await, words(&view).await);
        assert_eq!(again.data(), view.data());
        fn is_send<T: Send + Sync + Clone + 'static>(_: &T) {}
        is_send(&again);

        let newer = ViewData { format: 9, ..data.clone() };
        let error = main.repository().view_of(&newer).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("form 9"), "{error}");
        let elsewhere = numbered("view-elsewhere", 50).await.unwrap();
        let error = elsewhere.repository().view_of(&data).await.unwrap_err();
        assert!(error.to_string().contains("this view belongs to dataset"), "{error}");
        let gone = lacus::Repository::at("memory://view-gone-elsewhere", &Default::default()).unwrap();
        let error = gone.view_of(&data).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("no dataset here"), "{error}");
        let garbage = ViewData { rows: "0".repeat(8), ..data };
        assert_eq!(main.repository().view_of(&garbage).await.unwrap_err().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn rows_that_are_gone_are_named() {
    run(async {
        let mut main = numbered("view-row-gone", 10).await.unwrap();
        let before = main.view().await.unwrap().take(&[2, 7]).unwrap().data();
        main.dataset_mut().delete_rows(&[7], &WriteOptions::default()).await.unwrap();
        let now = main.view().await.unwrap();
        // The rows of one state, read at another that has lost one of them.
        let mixed = ViewData { state: now.state(), ..before.clone() };
        let error = main.repository().view_of(&mixed).await.unwrap_err();
        assert!(matches!(&error, lacus::Error::Dataset(DatasetError::NoSuchRow { .. })), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(words(&main.repository().view_of(&before).await.unwrap()).await, ["word 2", "word 7"]);
    });
}

#[test]
fn all_of_ten_million_rows_is_a_few_bytes() {
    // The rows of a table are runs; what a view keeps of them does not grow with their number.
    let rows = lacus::RowSet::from_runs([(0, 4_000_000), (4_000_000, 6_000_000)]);
    assert_eq!((rows.len(), rows.to_bytes().len() < 16), (10_000_000, true));
}

#[test]
fn samples_and_splits_refuse_what_makes_no_sense() {
    run(async {
        let view = numbered("view-refuses", 10).await.unwrap().view().await.unwrap();
        let draw = Draw { count: 3, seed: 1, weights: None, replace: false };
        let refused = |view: Result<View, _>, part: &str| {
            let error: lacus::dataset::DatasetError = view.unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(part), "{error}");
        };
        refused(view.sampled(Draw { count: 11, ..draw }), "11 of 10 rows");
        refused(view.sampled(Draw { weights: Some(&[1.0; 3]), ..draw }), "3 weights for 10 rows");
        refused(view.sampled(Draw { weights: Some(&[-1.0; 10]), ..draw }), "invalid weight -1");
        refused(view.sampled(Draw { weights: Some(&[f64::NAN; 10]), ..draw }), "invalid weight NaN");
        refused(view.sampled(Draw { weights: Some(&[0.0; 10]), ..draw }), "add up to 0");
        refused(view.masked(&[true; 9]), "a mask of 9 for 10 rows");
        refused(view.every(5, 1, 6), "row 10 is out of bounds for 10 rows");
        refused(view.take(&[3, 10]), "row 10 is out of bounds");
        refused(view.select(&["word", "word"]), "named twice");
        assert_eq!(view.select(&["wort"]).unwrap_err().kind(), ErrorKind::NotFound);
        for shares in [&[][..], &[0.5, 0.6], &[0.5, 0.0], &[f64::INFINITY]] {
            assert_eq!(view.split(shares, None).unwrap_err().kind(), ErrorKind::Invalid);
        }
        let parts = view.split(&[0.25, 0.25, 0.5], Some(4)).unwrap();
        let mut all: Vec<u64> =
            parts.iter().flat_map(|part| part.rows().iter().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<u64>>());
    });
}
