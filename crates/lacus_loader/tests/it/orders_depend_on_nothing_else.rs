//! The order of an epoch depends on the view, the seed, the epoch and how it is shuffled; not on ranks, threads or prefetch.

use lacus_loader::order::{Draws, OrderSpec, Shuffle, entropy};
use lacus_loader::{Loader, LoaderSpec, Settings, ShuffleWish};

use crate::made::{block_on, epoch, settings, spec, view};

/// Global batches as all ranks together see them.
async fn together(
    world: u64,
    batch_size: u64,
    threads: usize,
    prefetch: u64,
    wish: ShuffleWish,
) -> Vec<Vec<u64>> {
    let view = view(&format!("together-{world}-{threads}-{prefetch}"), 203, threads).await;
    let mut ranks = Vec::new();
    for rank in 0..world {
        let settings = Settings { prefetch_bytes: prefetch, ..settings(batch_size, rank, world) };
        let spec = LoaderSpec { settings, shuffle: wish, ..spec(&view, &["number", "vector"]) };
        ranks.push(epoch(&Loader::new(spec).await.unwrap(), 5, 2).await);
    }
    assert!(ranks.iter().all(|rank| rank.len() == ranks[0].len()), "ranks have equally many batches");
    (0..ranks[0].len()).map(|batch| ranks.iter().flat_map(|rank| rank[batch].clone()).collect()).collect()
}

#[test]
fn ranks_threads_and_prefetch_change_nothing() {
    block_on(async {
        for wish in [ShuffleWish::Blocks { bytes: 400 }, ShuffleWish::Full, ShuffleWish::None] {
            let alone = together(1, 16, 1, 256 << 20, wish).await;
            let mut all = alone.concat();
            all.sort_unstable();
            assert_eq!(all, (0..203).collect::<Vec<_>>(), "every sample once");
            for (world, batch_size) in [(2, 8), (4, 4), (8, 2)] {
                for (threads, prefetch) in [(1, 1 << 10), (2, 64 << 10), (4, 256 << 20)] {
                    let shared = together(world, batch_size, threads, prefetch, wish).await;
                    assert_eq!(shared, alone, "{world} ranks, {threads} threads, {prefetch} bytes, {wish:?}");
                }
            }
        }
    });
}

#[test]
fn seeds_and_epochs_change_it() {
    block_on(async {
        let view = view("seeds", 100, 2).await;
        let loader = Loader::new(spec(&view, &["number"])).await.unwrap();
        let first = epoch(&loader, 1, 0).await;
        assert_eq!(epoch(&loader, 1, 0).await, first);
        assert_ne!(epoch(&loader, 1, 1).await, first);
        assert_ne!(epoch(&loader, 2, 0).await, first);
        let plain = LoaderSpec { shuffle: ShuffleWish::None, ..spec(&view, &["number"]) };
        let plain = epoch(&Loader::new(plain).await.unwrap(), 1, 0).await.concat();
        assert_eq!(plain, (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn blocks_shuffle_nearly_as_well_as_everything_at_once() {
    // A million pictures of 6 KB in blocks of 64 MiB: about 11,000 rows each, in 64 runs.
    let shuffle = Shuffle::Blocks { run: 170, block: 11_000 };
    let spec = OrderSpec::new(vec![1_000_000], vec![shuffle], Draws::All).unwrap();
    let quality = spec.quality(1).unwrap();
    assert!(quality >= 0.95, "{quality}");
    let full = OrderSpec::new(vec![1_000_000], vec![Shuffle::Full], Draws::All).unwrap();
    assert!(full.quality(1).unwrap() > 0.99);
    assert!(OrderSpec::new(vec![1000], vec![Shuffle::None], Draws::All).unwrap().quality(1).unwrap() < 0.01);
    // A whole epoch, measured directly.
    let mut order = OrderSpec::new(vec![50_000], vec![Shuffle::Blocks { run: 60, block: 4000 }], Draws::All)
        .unwrap()
        .epoch(3, 0)
        .unwrap();
    let places: Vec<u64> = order.range(0..50_000).iter().map(|placed| placed.place).collect();
    let mut full =
        OrderSpec::new(vec![50_000], vec![Shuffle::Full], Draws::All).unwrap().epoch(3, 0).unwrap();
    let best: Vec<u64> = full.range(0..50_000).iter().map(|placed| placed.place).collect();
    assert!(entropy(&places) >= 0.95 * entropy(&best), "{} {}", entropy(&places), entropy(&best));
}

#[test]
fn a_hundred_million_rows_cost_nothing_until_they_are_asked_for() {
    for shuffle in [Shuffle::Full, Shuffle::Blocks { run: 128, block: 8192 }] {
        let spec = OrderSpec::new(vec![100_000_000], vec![shuffle], Draws::All).unwrap();
        let mut order = spec.epoch(1, 7).unwrap();
        let (a, b) = (order.at(99_999_999), order.at(50_000_000));
        assert!(a != b && a.place < 100_000_000 && b.place < 100_000_000);
    }
}

#[test]
fn weights_and_mixes_follow_their_numbers() {
    block_on(async {
        let view = view("weights", 60, 2).await;
        let weights: Vec<f64> = (0..60).map(|row| if row < 10 { 5.0 } else { 0.0 }).collect();
        let draws = Draws::Weighted { weights: weights.into(), count: 200, replace: true };
        let drawn = LoaderSpec { draws, ..spec(&view, &["number"]) };
        let drawn = epoch(&Loader::new(drawn).await.unwrap(), 1, 0).await.concat();
        assert_eq!(drawn.len(), 200);
        assert!((0..10).all(|row| drawn.contains(&row)) && drawn.iter().all(|row| *row < 10));
        let weights: Vec<f64> = (0..60).map(f64::from).collect();
        let draws = Draws::Weighted { weights: weights.into(), count: 59, replace: false };
        let once = LoaderSpec { draws, ..spec(&view, &["number"]) };
        let mut once = epoch(&Loader::new(once).await.unwrap(), 1, 0).await.concat();
        once.sort_unstable();
        assert_eq!(once, (1..60).collect::<Vec<_>>());

        let other = crate::made::view("weights-other", 30, 2).await;
        let mut mixed = spec(&view, &["number"]);
        mixed.views.push(other);
        mixed.draws = Draws::Mixed { shares: vec![3.0, 1.0], count: 2048 };
        let loader = Loader::new(mixed).await.unwrap();
        let mut batches = loader.batches(1, 0, 0).unwrap();
        let mut sources = [0u64; 2];
        while let Some(batch) = batches.next().await.unwrap() {
            batch.rows.iter().for_each(|row| sources[row.source as usize] += 1);
        }
        assert_eq!(sources, [1536, 512]);
    });
}
