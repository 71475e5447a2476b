use std::collections::{BTreeMap, BTreeSet};

use lacus_history::{CommitId, Commits, ahead_behind, ancestors, commit_path, is_ancestor, log, merge_base};
use lacus_io::Memory;
use lacus_simulation::Dice;
use lacus_tensor::ErrorKind;

use crate::support::{commit, history, memory};

const CROSSWISE: &str = "
    r:
    a: r
    b: r
    c: a b
    d: b a
    e: c
    z:
";

#[tokio::test]
async fn by_hand() {
    let commits = Commits::new(memory());
    let ids = history(&commits, CROSSWISE).await;
    let names: BTreeMap<CommitId, &str> = ids.iter().map(|(name, id)| (*id, name.as_str())).collect();
    let found = log(&commits, &[ids["e"]], 100).await.unwrap();
    let order: Vec<&str> = found.iter().map(|(id, _)| names[id]).collect();
    assert_eq!((order[0], order[1], order[4], order.len()), ("e", "c", "r", 5));
    assert_eq!(log(&commits, &[ids["e"]], 2).await.unwrap().len(), 2);
    assert_eq!(log(&commits, &[ids["e"]], 0).await.unwrap().len(), 0);
    assert_eq!(ancestors(&commits, &[ids["e"], ids["d"]]).await.unwrap().len(), 6);
    // Of two equally good ones, always the same.
    let (one, _) = merge_base(&commits, &ids["e"], &ids["d"]).await.unwrap().unwrap();
    let (other, _) = merge_base(&commits, &ids["d"], &ids["e"]).await.unwrap().unwrap();
    assert_eq!((one, one), (other, ids["a"].max(ids["b"])));
    assert_eq!(merge_base(&commits, &ids["e"], &ids["z"]).await.unwrap(), None);
    assert_eq!(ahead_behind(&commits, &ids["e"], &ids["d"]).await.unwrap(), (2, 1));
    assert_eq!(ahead_behind(&commits, &ids["e"], &ids["z"]).await.unwrap(), (5, 1));
}

#[tokio::test]
async fn random_graphs_against_sets() {
    for seed in 0..60 {
        let dice = Dice::new(seed);
        let commits = Commits::new(memory());
        let mut text = String::new();
        for n in 0..25u64 {
            let mut parents: BTreeSet<u64> = BTreeSet::new();
            for _ in 0..dice.below(3).min(n) {
                parents.insert(n - 1 - dice.below(n.min(6)));
            }
            let parents: Vec<String> = parents.iter().map(|parent| format!("c{parent}")).collect();
            text += &format!("c{n}: {}\n", parents.join(" "));
        }
        let ids = history(&commits, &text).await;
        let mut sets: BTreeMap<CommitId, BTreeSet<CommitId>> = BTreeMap::new();
        for id in ids.values() {
            let found = ancestors(&commits, &[*id]).await.unwrap();
            let mut seen = BTreeSet::new();
            for (id, commit) in found.iter().rev() {
                assert!(
                    commit.parents.iter().all(|parent| seen.contains(parent)),
                    "parents come after children"
                );
                seen.insert(*id);
            }
            sets.insert(*id, seen);
        }
        for (a, of_a) in &sets {
            for (b, of_b) in &sets {
                assert_eq!(is_ancestor(&commits, a, b).await.unwrap(), of_b.contains(a));
                let counts = ahead_behind(&commits, a, b).await.unwrap();
                assert_eq!(
                    counts,
                    (of_a.difference(of_b).count() as u64, of_b.difference(of_a).count() as u64)
                );
                let base = merge_base(&commits, a, b).await.unwrap().map(|(id, _)| id);
                assert_eq!(base.is_none(), of_a.is_disjoint(of_b));
                if let Some(base) = base {
                    let common: BTreeSet<CommitId> = of_a.intersection(of_b).copied().collect();
                    assert!(common.contains(&base));
                    assert!(
                        common.iter().all(|other| *other == base || !sets[other].contains(&base)),
                        "best"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_missing_or_damaged_is_named() {
    let store = memory();
    let ids = history(&Commits::new(store.clone()), CROSSWISE).await;
    store.remove(vec![commit_path(&ids["a"])]).await.unwrap();
    // Another process, which has not read it before.
    let commits = Commits::new(store.within(&Memory::new(1 << 20)));
    let error = log(&commits, &[ids["e"]], 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = error.to_string();
    assert!(text.contains(&ids["a"].to_string()) && text.contains(&ids["c"].short()), "{text}");
    assert_eq!(log(&commits, &[ids["e"]], 2).await.unwrap().len(), 2, "nothing is read that is not needed");
    // A generation that cannot be.
    let wrong = commits.write(&commit("wrong", 1, vec![ids["b"]])).await.unwrap();
    assert_eq!(log(&commits, &[wrong], 9).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn long_histories_are_read_many_at_once() {
    let store = memory();
    let commits = Commits::new(store.clone());
    let mut parents = Vec::new();
    for n in 0..500 {
        parents = vec![commits.write(&commit(&n.to_string(), n + 1, parents)).await.unwrap()];
    }
    let fresh = Commits::new(store.within(&Memory::new(1 << 20)));
    let found = ancestors(&fresh, &parents).await.unwrap();
    assert_eq!(found.len(), 500);
    assert_eq!(found[0].1.message, "499");
}
