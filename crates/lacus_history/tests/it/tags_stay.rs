use bytes::Bytes;
use lacus_history::{CommitId, Tag, tags};
use lacus_simulation::{Faults, FlakyStore, seeded_world};
use lacus_tensor::ErrorKind;
use object_store::memory::InMemory;
use std::sync::Arc;

use crate::support::{memory, store_over};

fn tag(name: &str) -> Tag {
    let commit = CommitId::of(b"x");
    Tag { name: name.to_owned(), commit, author: "Ada".to_owned(), time_millis: 0, message: String::new() }
}

#[tokio::test]
async fn until_they_are_deleted() {
    let (store, world) = (memory(), seeded_world(1));
    let made = tags::create(&store, &world, tag("run-1/step-2000")).await.unwrap();
    assert_eq!(tags::get(&store, "run-1/step-2000").await.unwrap(), made);
    let error = tags::create(&store, &world, tag("run-1/step-2000")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Conflict, "there is a tag \"run-1/step-2000\" already",)
    );
    tags::create(&store, &world, tag("a")).await.unwrap();
    assert_eq!(tags::names(&store).await.unwrap(), ["a", "run-1/step-2000"]);
    assert_eq!(tags::list(&store).await.unwrap().len(), 2);
    let error = tags::get(&store, "run-1/step-200").await.unwrap_err();
    assert!(error.to_string().contains("did you mean run-1/step-2000?"), "{error}");
    assert_eq!(tags::create(&store, &world, tag("a b")).await.unwrap_err().kind(), ErrorKind::Invalid);
    tags::delete(&store, "a").await.unwrap();
    assert_eq!(tags::delete(&store, "a").await.unwrap_err().kind(), ErrorKind::NotFound);
    tags::create(&store, &world, tag("a")).await.unwrap();
}

#[tokio::test]
async fn damage_shows_and_can_be_deleted() {
    let store = memory();
    for torn in ["", "{}"] {
        store.put_new(&tags::tag_path("torn"), Bytes::from(torn)).await.unwrap();
        assert_eq!(tags::get(&store, "torn").await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(tags::names(&store).await.unwrap(), ["torn"]);
        tags::delete(&store, "torn").await.unwrap();
    }
}

#[tokio::test]
async fn a_put_that_met_itself_is_recognised() {
    let faults = Faults { refused_retry: 1, ..Faults::default() };
    let store = store_over(Arc::new(FlakyStore::new(Arc::new(InMemory::new()), faults, 1)));
    tags::create(&store, &seeded_world(1), tag("a")).await.unwrap();
    assert_eq!(
        tags::create(&store, &seeded_world(2), tag("a")).await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
}
