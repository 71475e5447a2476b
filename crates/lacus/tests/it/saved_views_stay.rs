//! A saved view is there for everybody, keeps its rows from the clean-up, and is never replaced.

use std::time::Duration;

use lacus::history::{GcOptions, SavedView};
use lacus::{ErrorKind, Hint, Place, WriteOptions};

use crate::world::{commit, extend, numbered, run, words};

#[test]
fn a_name_is_given_once() {
    run(async {
        let main = numbered("saved-once", 10).await.unwrap();
        let (repository, view) = (main.repository(), main.view().await.unwrap());
        let first = view.every(0, 1, 4).unwrap();
        let saved = repository.save_view("hard/cases", &first, "odd ones", None).await.unwrap();
        assert_eq!((saved.rows, saved.message.as_str()), (4, "odd ones"));
        let error = repository.save_view("hard/cases", &view, "", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let (_, found) = repository.saved_view("hard/cases").await.unwrap();
        assert_eq!(words(&found).await, words(&first).await);
        let error = repository.saved_view("nothing").await.unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::NotFound, Some(Hint::ListViews)));
        repository.delete_view("hard/cases").await.unwrap();
        assert!(repository.views().await.unwrap().is_empty());
        repository.save_view("hard/cases", &view, "", None).await.unwrap();
    });
}

#[test]
fn rows_of_a_draft_are_refused_until_they_are_committed() {
    run(async {
        let mut main = numbered("saved-draft", 3).await.unwrap();
        extend(&mut main, 3..6).await.unwrap();
        let view = main.view().await.unwrap();
        let repository = main.repository().clone();
        let error = repository.save_view("all", &view, "", None).await.unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::Invalid, Some(Hint::Commit)));
        commit(&mut main, "more").await.unwrap();
        // The rows are the commit's now: the same view can be saved.
        repository.save_view("all", &view, "", None).await.unwrap();
        assert_eq!(repository.saved_view("all").await.unwrap().1.len(), 6);
    });
}

#[test]
fn the_clean_up_keeps_what_a_view_needs() {
    run(async {
        let mut main = numbered("saved-gc", 10).await.unwrap();
        main.switch_to_new("try", None, false).await.unwrap();
        extend(&mut main, 10..12).await.unwrap();
        commit(&mut main, "on try").await.unwrap();
        let repository = main.repository().clone();
        repository.save_view("tried", &main.view().await.unwrap(), "", None).await.unwrap();
        main.switch(&"main".into(), false).await.unwrap();
        // What only a saved view reaches is not lost with the branch.
        repository.timeline().delete_branch("try", false).await.unwrap();
        let gc = GcOptions { dry_run: false, grace: Duration::ZERO, retention: None, dropped_grace: None };
        let report = repository.timeline().gc(&gc, &WriteOptions::default()).await.unwrap();
        assert!(report.kept.iter().any(|kept| kept.reason == "view \"tried\""), "{:?}", report.kept);
        let (_, view) = repository.saved_view("tried").await.unwrap();
        assert_eq!(words(&view).await[11], "word 11");
        let checked = repository.timeline().check(false, &WriteOptions::default()).await.unwrap();
        assert!(checked.is_healthy() && checked.views == 1, "{checked:?}");

        repository.delete_view("tried").await.unwrap();
        let data = view.data();
        drop(view);
        repository.timeline().gc(&gc, &WriteOptions::default()).await.unwrap();
        repository.timeline().gc(&gc, &WriteOptions::default()).await.unwrap();
        let error = repository.view_of(&data).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
}

#[test]
fn a_view_of_a_newer_form_says_so() {
    run(async {
        let main = numbered("saved-newer", 10).await.unwrap();
        let repository = main.repository();
        let saved = repository.save_view("now", &main.view().await.unwrap(), "", None).await.unwrap();
        // As a newer version would save it: a form that is not known, or with parts that are of another kind.
        let other = |name: &str, key: &str, value: serde_json::Value| {
            let mut view = saved.view.clone();
            view[key] = value;
            SavedView { name: name.to_owned(), view, ..saved.clone() }
        };
        for newer in
            [other("form", "format", 9.into()), other("parts", "rows", serde_json::json!({"runs": []}))]
        {
            let name = newer.name.clone();
            repository.timeline().save_view(newer).await.unwrap();
            let error = repository.saved_view(&name).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let text = error.to_string();
            assert!(text.contains("form 9") || text.contains("cannot be read by this version"), "{text}");
        }
        assert_eq!(repository.saved_view("now").await.unwrap().1.len(), 10, "the others can still be read");
    });
}

#[test]
fn damage_is_found_and_never_read() {
    run(async {
        let main = numbered("saved-damage", 10).await.unwrap();
        let repository = main.repository();
        repository.save_view("v", &main.view().await.unwrap(), "", None).await.unwrap();
        let path = "_lacus/views/v";
        let bytes = repository.store().read_all(path).await.unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            repository.store().remove(vec![path.to_owned()]).await.unwrap();
            repository.store().put_new(path, changed.into()).await.unwrap();
            let error = repository.saved_view("v").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
        }
        let checked = repository.timeline().check(false, &WriteOptions::default()).await.unwrap();
        assert!(checked.damage.iter().any(|finding| finding.what == "view \"v\""), "{checked:?}");
        repository.delete_view("v").await.unwrap();
    });
}

#[test]
fn a_copy_says_where_it_came_from() {
    run(async {
        let main = numbered("saved-copy", 10).await.unwrap();
        let view = main.repository().view("main").await.unwrap().every(9, -2, 5).unwrap();
        let (repository, options) = (main.repository(), WriteOptions::default());
        let to = "memory://saved-copy-to";
        let made = repository.materialize(&view, to, &Default::default(), &options, &[]).await.unwrap();
        let copy = made.view("main").await.unwrap();
        assert_eq!(words(&copy).await, words(&view).await);
        let (_, commit) = made.commit_at(&Place::main(), None).await.unwrap();
        assert_eq!(commit.lineage[0].inputs[0].url.as_deref(), Some("memory://saved-copy"));
        assert_eq!(commit.lineage[0].outputs, ["word"]);
    });
}
