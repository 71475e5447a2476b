//! Scores are those of the formula, with an index, without, and with one that covers some of the rows; whatever was appended, changed,
//! deleted or branched since it was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lacus_dataset::{ColumnSpec, Dataset, ErrorKind, Extend, Sample};
use lacus_io::{Store, World};
use lacus_search::{
    TextScores, create_text_index, drop_text_index, text_index, text_indexes, text_scores, update_text_index,
};
use lacus_table::{Table, WriteOptions};

/// Numbers that look random: the tests are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % end as u64) as usize
    }
}

const WORDS: &[&str] =
    &["cat", "dog", "black", "white", "the", "a", "on", "mat", "Cat", "naïve", "2024", "x-ray"];

/// Common words come often, as in a language.
fn text(dice: &mut Dice) -> Option<String> {
    if dice.below(12) == 0 {
        return None;
    }
    let length = dice.below(12);
    let word = |dice: &mut Dice| {
        let most = 1 + dice.below(WORDS.len());
        WORDS[dice.below(most)]
    };
    Some((0..length).map(|_| word(dice)).collect::<Vec<_>>().join([" ", ", ", " - "][dice.below(3)]))
}

const QUESTIONS: &[&str] = &[
    "cat",
    "black cat",
    "cat cat dog",
    "\"black cat\"",
    "+dog white -mat",
    "\"the cat\" x-ray",
    "naïve 2024",
    "unheard of",
    "-cat",
    "",
];

/// What BM25 says, written down again as simply as can be.
fn naive(texts: &[(u64, Option<String>)], question: &str) -> Vec<(u64, f64)> {
    let words = |text: &str| -> Vec<String> {
        let pieces = text.split(|letter: char| !letter.is_alphanumeric()).filter(|piece| !piece.is_empty());
        pieces.map(str::to_lowercase).collect()
    };
    let rows: Vec<(u64, Vec<String>)> =
        texts.iter().filter_map(|(id, text)| Some((*id, words(text.as_deref()?)))).collect();
    let count = rows.len() as f64;
    let mean = rows.iter().map(|(_, words)| words.len()).sum::<usize>() as f64 / count;
    let idf = |word: &String| {
        let with = rows.iter().filter(|(_, words)| words.contains(word)).count() as f64;
        (1.0 + (count - with + 0.5) / (with + 0.5)).ln()
    };
    // The sign of a piece, and its words.
    let mut clauses: Vec<(char, Vec<String>)> = Vec::new();
    for (at, part) in question.split('"').enumerate() {
        match at % 2 {
            1 => clauses.push((' ', words(part))),
            _ => {
                for piece in part.split_whitespace() {
                    match piece.chars().next() {
                        Some(sign @ ('+' | '-')) => clauses.push((sign, words(piece))),
                        _ => clauses.extend(words(piece).into_iter().map(|word| (' ', vec![word]))),
                    }
                }
            }
        }
    }
    let times =
        |words: &[String], phrase: &[String]| words.windows(phrase.len()).filter(|w| *w == phrase).count();
    let mut found = Vec::new();
    for (id, words) in &rows {
        let mut score = 0.0;
        let mut is_match = true;
        for (sign, phrase) in &clauses {
            let tf = times(words, phrase) as f64;
            match sign {
                '-' => is_match &= tf == 0.0,
                '+' => is_match &= tf > 0.0,
                _ => {}
            }
            if *sign != '-' && tf > 0.0 {
                let weight: f64 = phrase.iter().map(idf).sum();
                score += weight * tf / (tf + 1.2 * (0.25 + 0.75 * words.len() as f64 / mean));
            }
        }
        if is_match && score > 0.0 {
            found.push((*id, score));
        }
    }
    found
}

/// A dataset with a column of texts.
struct Texts {
    dataset: Dataset,
    options: WriteOptions,
}

impl Texts {
    async fn new() -> Texts {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let url = format!("memory://texts-{}", MADE.fetch_add(1, Ordering::Relaxed));
        let store = Store::open(&url, &Default::default()).unwrap();
        let mut dataset = Dataset::new(Table::create(store, World::real()).await.unwrap());
        let options = WriteOptions::default();
        for (name, htype) in [("caption", "text"), ("label", "class_label"), ("tags", "sequence[text]")] {
            let spec = ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() };
            dataset.add_column(name, &spec, None, None, &options).await.unwrap();
        }
        Texts { dataset, options }
    }

    /// Appends rows.
    async fn extend(&mut self, texts: &[Option<String>]) {
        let rows =
            Extend { columns: vec![("caption".to_owned(), samples(texts).into())], ..Extend::default() };
        self.dataset.extend(rows, &self.options).await.unwrap();
    }

    /// All rows: ids and texts.
    async fn rows(&self) -> Vec<(u64, Option<String>)> {
        let axis = self.dataset.table().rows().await.unwrap();
        let ids: Vec<u64> = (0..axis.len()).map(|position| axis.id(position).unwrap()).collect();
        let texts = self.dataset.table().read_texts("caption", &ids).await.unwrap();
        ids.into_iter().zip(texts).collect()
    }

    async fn scores(&self, words: &str, is_exact: bool) -> Arc<TextScores> {
        text_scores(&self.dataset, "caption", words, is_exact).await.unwrap()
    }

    /// Checks that all ways to the scores lead to the same.
    async fn check(&self, covered: u64) {
        let rows = self.rows().await;
        for question in QUESTIONS {
            let (by_index, by_reading) =
                (self.scores(question, false).await, self.scores(question, true).await);
            assert_eq!(by_index.ids(), by_reading.ids(), "{question}");
            assert_eq!(by_index.scores(), by_reading.scores(), "{question}");
            assert_eq!((by_index.covered, by_reading.covered), (covered, 0), "{question}");
            let expected = naive(&rows, question);
            let ids: Vec<u64> = expected.iter().map(|(id, _)| *id).collect();
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            assert_eq!(by_index.ids(), sorted, "{question}");
            for ((_, wanted), found) in expected.iter().zip(by_index.of(ids.into_iter())) {
                assert!((wanted - f64::from(found)).abs() < 1e-5, "{question}: {wanted} {found}");
            }
        }
    }
}

fn samples(texts: &[Option<String>]) -> Vec<Sample<'static>> {
    let sample = |text: &Option<String>| match text {
        Some(text) => Sample::Text(text.clone().into()),
        None => Sample::Missing,
    };
    texts.iter().map(sample).collect()
}

fn present(rows: &[(u64, Option<String>)]) -> u64 {
    rows.iter().filter(|(_, text)| text.is_some()).count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happened_since() {
    for seed in 0..6 {
        let mut dice = Dice(seed);
        let mut texts = Texts::new().await;
        texts.check(0).await;
        let some = |dice: &mut Dice, count: usize| -> Vec<Option<String>> {
            (0..count).map(|_| text(dice)).collect()
        };
        texts.extend(&some(&mut dice, 40)).await;
        texts.extend(&some(&mut dice, 25)).await;
        texts.check(0).await;

        let made = create_text_index(&mut texts.dataset, "caption", None, &texts.options).await.unwrap();
        let all = present(&texts.rows().await);
        assert_eq!((made.rows, made.covered, made.segments), (all, all, 1));
        texts.check(all).await;

        // Rows that came since, and the same once they were added.
        texts.extend(&some(&mut dice, 30)).await;
        texts.check(all).await;
        let updated = update_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap();
        let all = present(&texts.rows().await);
        assert_eq!((updated.rows, updated.covered, updated.segments), (all, all, 2));
        texts.check(all).await;

        // Rows that were changed, made missing, and deleted.
        let positions: Vec<u64> = (0..8).map(|at| at * 11).collect();
        let again = some(&mut dice, positions.len());
        texts.dataset.update("caption", &positions, samples(&again), false, &texts.options).await.unwrap();
        let gone: Vec<u64> = (0..20).map(|at| at * 3 + 1).collect();
        texts.dataset.delete_rows(&gone, &texts.options).await.unwrap();
        let now = text_index(&texts.dataset, "caption").await.unwrap();
        assert_eq!(now.rows, present(&texts.rows().await));
        assert!(now.covered < now.rows, "{now:?}");
        texts.check(now.covered).await;
        assert_eq!(text_indexes(&texts.dataset).await.unwrap(), [now.clone()]);

        // What nobody changed is found where it was, also after the index was made again and dropped.
        let updated = update_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap();
        assert_eq!(updated.covered, updated.rows);
        texts.check(updated.covered).await;
        assert!(drop_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap());
        assert!(!drop_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap());
        texts.check(0).await;
        assert_eq!(text_indexes(&texts.dataset).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_updates_become_one_segment() {
    let (mut dice, mut texts) = (Dice(9), Texts::new().await);
    create_text_index(&mut texts.dataset, "caption", None, &texts.options).await.unwrap();
    let mut most = 0;
    for _ in 0..20 {
        texts.extend(&(0..7).map(|_| text(&mut dice)).collect::<Vec<_>>()).await;
        let now = update_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap();
        assert_eq!(now.covered, now.rows);
        most = most.max(now.segments);
    }
    assert!((2..=8).contains(&most), "{most}");
    texts.check(present(&texts.rows().await)).await;
    // Without rows to add, nothing is written.
    let version = texts.dataset.table().version();
    update_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap();
    assert_eq!(texts.dataset.table().version(), version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tokenizer_of_the_index_counts() {
    let mut texts = Texts::new().await;
    let rows = ["running cats", "a cat runs", "dogs"].map(|text| Some(text.to_owned()));
    texts.extend(&rows).await;
    assert_eq!(texts.scores("cats run", false).await.ids().len(), 1);
    create_text_index(&mut texts.dataset, "caption", Some("en_stem"), &texts.options).await.unwrap();
    let found = texts.scores("cats run", false).await;
    assert_eq!((found.ids().len(), found.tokenizer.as_str()), (2, "en_stem"));
    assert_eq!(found.scores(), texts.scores("cats run", true).await.scores());
    // Rows that came since are cut into words in the same way.
    texts.extend(&[Some("cat".to_owned())]).await;
    assert_eq!(texts.scores("cats", false).await.ids().len(), 3);
    create_text_index(&mut texts.dataset, "caption", Some("whitespace"), &texts.options).await.unwrap();
    assert_eq!(texts.scores("cats", false).await.ids().len(), 1);
    assert_eq!(text_index(&texts.dataset, "caption").await.unwrap().segments, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_searched_is_refused() {
    let mut texts = Texts::new().await;
    texts.extend(&[Some("cat".to_owned())]).await;
    for column in ["label", "tags"] {
        let error = text_scores(&texts.dataset, column, "cat", false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("needs a column of type text"), "{error}");
        let made = create_text_index(&mut texts.dataset, column, None, &texts.options).await;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let error = text_scores(&texts.dataset, "captoin", "cat", false).await.unwrap_err();
    assert!(error.to_string().contains("did you mean caption?"), "{error}");
    let error =
        create_text_index(&mut texts.dataset, "caption", Some("french"), &texts.options).await.unwrap_err();
    assert!(error.to_string().contains("no tokenizer \"french\"; known: simple,"), "{error}");
    let error = update_text_index(&mut texts.dataset, "caption", &texts.options).await.unwrap_err();
    assert!(error.to_string().contains("create it first"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_and_huge_texts_are_texts() {
    let mut texts = Texts::new().await;
    let huge = format!("{} needle {}", "hay ".repeat(200_000), "x".repeat(100_000));
    let rows = ["\u{0}\u{feff}", "🐈 cat", &huge, "e\u{301}"].map(|text| Some(text.to_owned()));
    texts.extend(&rows).await;
    for is_indexed in [false, true] {
        if is_indexed {
            create_text_index(&mut texts.dataset, "caption", None, &texts.options).await.unwrap();
        }
        for (question, count) in
            [("needle", 1), ("\"hay hay\"", 1), ("🐈", 0), ("cat 🐈", 1), (&*"z ".repeat(50_000), 0)]
        {
            let (found, exact) = (texts.scores(question, false).await, texts.scores(question, true).await);
            assert_eq!((found.ids().len(), found.scores()), (count, exact.scores()), "{:.20}", question);
        }
    }
}
