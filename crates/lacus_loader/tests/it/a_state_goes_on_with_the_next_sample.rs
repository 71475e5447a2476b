//! A state, taken anywhere, goes on with the very next sample: on any number of ranks, with any prefetch.

use lacus_loader::{Loader, LoaderSpec, LoaderState, Settings, ShuffleWish};

use crate::made::{block_on, numbers, rest, settings, spec, view};

#[test]
fn at_every_step_and_on_other_numbers_of_ranks() {
    block_on(async {
        let view = view("resume", 53, 2).await;
        let made = |rank, world, size, prefetch: u64| {
            let settings = Settings { prefetch_bytes: prefetch, ..settings(size, rank, world) };
            LoaderSpec { settings, shuffle: ShuffleWish::Blocks { bytes: 300 }, ..spec(&view, &["number"]) }
        };
        let whole = Loader::new(made(0, 1, 6, 1 << 20)).await.unwrap();
        let order = rest(&mut whole.batches(9, 4, 0).unwrap()).await.unwrap().concat();
        for steps in 0..=whole.batch_count(0).unwrap() {
            let mut batches = whole.batches(9, 4, 0).unwrap();
            let mut seen = Vec::new();
            for _ in 0..steps {
                seen.extend(numbers(&batches.next().await.unwrap().unwrap()));
            }
            let state = whole.state(9, 4, batches.consumed());
            let text = serde_json::to_string(&state).unwrap();
            assert!(text.len() < 1024, "{text}");
            let state: LoaderState = serde_json::from_str(&text).unwrap();
            if steps == whole.batch_count(0).unwrap() {
                assert_eq!((state.epoch, state.consumed), (5, 0));
                continue;
            }
            for (world, size) in [(1, 5), (2, 3), (4, 2), (3, 1)] {
                let mut parts = Vec::new();
                for rank in 0..world {
                    let loader = Loader::new(made(rank, world, size, 2 << 10)).await.unwrap();
                    let loader = loader.resumed(&state).unwrap();
                    let mut left = loader.batches(state.seed, state.epoch, state.consumed).unwrap();
                    parts.push(rest(&mut left).await.unwrap());
                }
                let mut all = seen.clone();
                for batch in 0..parts[0].len() {
                    parts.iter().for_each(|rank| all.extend(&rank[batch]));
                }
                let tail = (order.len() as u64 - state.consumed) % (world * size);
                if tail == 0 || tail >= world {
                    assert_eq!(all, order, "after {steps} steps on {world} ranks");
                } else {
                    // Ranks that would have had none repeat a sample of the tail.
                    all.dedup();
                    assert_eq!(all, order);
                }
            }
        }
    });
}

#[test]
fn a_state_brings_its_own_way_to_shuffle() {
    block_on(async {
        let view = view("resume-shuffle", 40, 2).await;
        let made = |wish| LoaderSpec { shuffle: wish, ..spec(&view, &["number"]) };
        let first = Loader::new(made(ShuffleWish::Blocks { bytes: 200 })).await.unwrap();
        let other = Loader::new(made(ShuffleWish::Full)).await.unwrap();
        let resumed = other.resumed(&first.state(1, 0, 8)).unwrap();
        let expected = rest(&mut first.batches(1, 0, 8).unwrap()).await.unwrap();
        assert_eq!(rest(&mut resumed.batches(1, 0, 8).unwrap()).await.unwrap(), expected);
    });
}

#[test]
fn states_of_other_views_are_refused() {
    block_on(async {
        let whole = view("refused", 40, 2).await;
        let loader = Loader::new(spec(&whole, &["number"])).await.unwrap();
        let fewer = whole.every(0, 1, 39).unwrap();
        let fewer = Loader::new(spec(&fewer, &["number"])).await.unwrap();
        let error = fewer.resumed(&loader.state(1, 0, 4)).unwrap_err().to_string();
        assert!(error.contains("another view"), "{error}");
        // Columns do not matter.
        let other = Loader::new(spec(&whole, &["vector"])).await.unwrap();
        assert!(other.resumed(&loader.state(1, 0, 4)).is_ok());
        let mut newer = loader.state(1, 0, 4);
        newer.format = 99;
        assert!(loader.resumed(&newer).unwrap_err().to_string().contains("form 99"));
        let mut behind = loader.state(1, 0, 4);
        behind.consumed = 41;
        assert!(loader.resumed(&behind).unwrap_err().to_string().contains("41"));
    });
}
