//! Branches, commits, versions and times are found by one function, and writes go only where one may write.

use lacus::{At, ErrorKind, FastForward, Hint, Pinned, Place, Record, Repository, WriteOptions};

use crate::world::{commit, extend, numbered, run, words};

#[test]
fn every_kind_of_state_is_found() {
    run(async {
        let mut main = numbered("states", 2).await.unwrap();
        let repository = main.repository().clone();
        let first = repository.commit_at(&Place::main(), None).await.unwrap().0;
        extend(&mut main, 2..4).await.unwrap();
        commit(&mut main, "more").await.unwrap();
        repository.timeline().create_tag("v1", first, None, String::new()).await.unwrap();
        for (at, rows) in [
            (At::Here, 4),
            (At::from("main"), 4),
            (At::from("main~1"), 2),
            (At::from("v1"), 2),
            (At::from(&first.to_string()[..12]), 2),
            (At::Version(2), 2),
            (At::from("@2"), 2),
            (At::Time(i64::MAX), 4),
            (At::TextOrTime("nothing of this name".to_owned(), i64::MAX), 4),
        ] {
            let found = repository.look(&Place::main(), &at).await.unwrap();
            assert_eq!(found.view().await.unwrap().len(), rows, "{at:?}");
            assert!(found.place().pinned.is_some() && found.table().is_read_only());
        }
        let old = repository.look(&Place::main(), &At::from("v1")).await.unwrap();
        assert_eq!(old.place().pinned, Some(Pinned::Commit(first)));
        // Where one stays, HEAD is.
        let again = repository.look(old.place(), &At::from("HEAD")).await.unwrap();
        assert_eq!(again.view().await.unwrap().len(), 2);
        let error = repository.look(&Place::main(), &At::from("@99")).await.unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::NotFound, Some(Hint::ListVersions)));
        let error = repository.checkout("mian").await.unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::NotFound, Some(Hint::OtherBranch)));
        let nothing = Repository::at("memory://nothing-here", &Default::default()).unwrap();
        let error = nothing.look(&Place::main(), &At::from("v1")).await.unwrap_err();
        assert!(matches!(error.hint(), Some(Hint::Create { .. })), "{error}");
    });
}

#[test]
fn a_state_that_is_looked_at_refuses_every_write() {
    run(async {
        let main = numbered("refuses", 2).await.unwrap();
        let mut old = main.repository().look(&Place::main(), &At::from("main")).await.unwrap();
        let (record, options) = (Record::default(), WriteOptions::default());
        let message = Record { message: "no".into(), ..Record::default() };
        assert_eq!(extend(&mut old, 0..1).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(old.commit(&message, true).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(old.begin().unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(old.discard(None, true, &options).await.unwrap_err().kind(), ErrorKind::Invalid);
        let decide = &mut |_: &lacus::history::Conflict| lacus::history::Choice::Stop;
        let merged = old.merge("main", &record, FastForward::Allowed, decide, &options).await;
        assert_eq!(merged.unwrap_err().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn branches_are_switched_and_merged() {
    run(async {
        let mut here = numbered("switched", 2).await.unwrap();
        here.switch_to_new("dev", None, false).await.unwrap();
        extend(&mut here, 2..3).await.unwrap();
        // A draft is not left behind by accident.
        let error = here.switch(&At::from("main"), false).await.unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::Invalid, Some(Hint::Commit)));
        commit(&mut here, "on dev").await.unwrap();
        here.switch(&At::from("main"), false).await.unwrap();
        extend(&mut here, 7..8).await.unwrap();
        commit(&mut here, "on main").await.unwrap();
        let decide = &mut |_: &lacus::history::Conflict| lacus::history::Choice::Stop;
        let (record, options) = (Record::default(), WriteOptions::default());
        here.merge("dev", &record, FastForward::Allowed, decide, &options).await.unwrap();
        let mut found = words(&here.view().await.unwrap()).await;
        found.sort();
        assert_eq!(found, ["word 0", "word 1", "word 2", "word 7"]);
        let (_, merged) = here.repository().commit_at(here.place(), None).await.unwrap();
        assert_eq!(merged.summary(), "Merge dev into main");

        here.begin().unwrap();
        extend(&mut here, 8..9).await.unwrap();
        let error =
            here.commit(&Record { message: "x".into(), ..Record::default() }, false).await.unwrap_err();
        assert!(error.to_string().contains("a transaction is open"), "{error}");
        here.abandon().await.unwrap();
        assert_eq!(here.view().await.unwrap().len(), 4);
        assert!(here.abandon().await.unwrap_err().to_string().contains("no transaction is open"));
    });
}
