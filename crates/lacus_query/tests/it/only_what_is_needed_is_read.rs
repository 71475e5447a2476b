//! How many samples a query reads, as `EXPLAIN ANALYZE` counts them.

use lacus_query::{Answer, Question, explain};

use crate::datasets::{Only, animals, answer, lines};

/// How many samples of wide columns a query reads.
async fn samples_read(text: &str) -> u64 {
    let told = explain(&Question::new(text), &Only(animals().await), true).await;
    let told = told.unwrap_or_else(|error| panic!("{text}: {error}"));
    let counts = told.split("samples_read=").skip(1).map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or_else(|_| panic!("{text}: {told}"))
    });
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_of_rows_that_matter() {
    for (text, expected) in [
        ("SELECT * WHERE mean(picture) > 5", 10),
        ("SELECT * WHERE label = 1 AND mean(picture) > 5", 3),
        ("SELECT * WHERE mean(picture) > 5 AND label < 1", 4),
        ("SELECT * WHERE label = 1 OR mean(picture) > 5", 7),
        ("SELECT * WHERE mean(picture) > 5 OR label = 1", 7),
        ("SELECT * WHERE (label = 1 AND mean(picture) > 5) OR (label = 2 AND mean(picture) < 3)", 6),
        ("SELECT * WHERE CASE WHEN n < 4 THEN mean(picture) > 1 ELSE false END", 4),
        ("SELECT * WHERE coalesce(score, mean(picture)) > 0.5", 1),
        ("SELECT * WHERE false AND mean(picture) > 5", 0),
        // What indexes know.
        ("SELECT count(picture), count(pixels)", 0),
        ("SELECT label, count(picture) GROUP BY label", 0),
        ("SELECT * WHERE shape(pixels, -1) = 2 AND ndim(pixels) = 2 AND size(pixels) > 4", 0),
        ("SELECT * WHERE channels(picture) = 3 AND dtype(picture) = 'uint8' AND height(picture) = 2", 0),
        ("SELECT * WHERE width(picture) > 8", 0),
    ] {
        assert_eq!(samples_read(text).await, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_verbose_shows_every_plan() {
    let view = animals().await;
    let shown = async |text: &str| match answer(&view, text).await {
        Ok(answer @ Answer::Table(_)) => lines(&answer).join("\n"),
        Ok(answer) => panic!("{answer:?}"),
        Err(error) => panic!("{text}: {error}"),
    };
    let (short, long) = (
        shown("EXPLAIN SELECT * WHERE mean(picture) > 5").await,
        shown("EXPLAIN VERBOSE SELECT * WHERE mean(picture) > 5").await,
    );
    for part in ["as asked:", "optimized:", "with late columns:", "steps:"] {
        assert!(long.contains(part) && !short.contains(part), "{part} {long}");
    }
    assert!(shown("EXPLAIN ANALYZE VERBOSE SELECT * WHERE n > 5").await.contains("as asked:"));
}
