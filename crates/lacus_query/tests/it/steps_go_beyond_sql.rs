//! ARRANGE BY, SAMPLE BY, EXPAND BY, UNGROUP BY, and GROUP BY without aggregates.

use lacus_query::{Answer, Parameter, Parameters, Question, explain};

use crate::datasets::{Only, animals, answer, answer_with, lines, numbers};

async fn rows(text: &str) -> Vec<i64> {
    match answer(&animals().await, text).await {
        Ok(Answer::View(view)) => numbers(&view).await,
        Ok(Answer::Table(_)) => panic!("a table: {text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

async fn table(text: &str) -> Vec<String> {
    match answer(&animals().await, text).await {
        Ok(answer @ Answer::Table(_)) => lines(&answer),
        Ok(Answer::View(_)) => panic!("a view: {text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

async fn error(text: &str) -> String {
    match answer(&animals().await, text).await {
        Ok(answer) => panic!("{text}: {answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_rows_stand_together() {
    for (text, expected) in [
        ("SELECT * ARRANGE BY label", vec![0, 3, 6, 9, 1, 4, 7, 2, 5, 8]),
        ("SELECT * WHERE n > 3 ARRANGE BY label", vec![4, 7, 5, 8, 6, 9]),
        ("SELECT * ORDER BY n DESC ARRANGE BY label LIMIT 5", vec![9, 6, 3, 0, 8]),
        ("SELECT name WHERE n < 4 ARRANGE BY n % 2, label", vec![0, 1, 2, 3]),
        ("SELECT name WHERE n < 4 ARRANGE BY n % 2 OFFSET 1", vec![2, 1, 3]),
        ("SELECT n, score * 10 AS ten WHERE n < 4 ARRANGE BY ten > 1", vec![0, 1, 2, 3]),
        ("SELECT * WHERE n > 20 ARRANGE BY label", vec![]),
        ("SELECT * ARRANGE BY mean(pixels) > 4", vec![0, 1, 2, 3, 4, 5, 6, 8, 9, 7]),
    ] {
        assert_eq!(rows(text).await, expected, "{text}");
    }
    let Ok(Answer::View(view)) = answer(&animals().await, "SELECT name, n + 1 AS m ARRANGE BY label").await
    else {
        panic!("no view")
    };
    assert_eq!(view.columns(), ["name", "m"]);
    let with = "WITH q AS (SELECT n FROM dataset) SELECT n FROM q WHERE n < 4 ORDER BY n ARRANGE BY n % 2";
    assert_eq!(table(with).await, ["0", "2", "1", "3"]);
    let grouped = "SELECT d.label, count(*) FROM dataset d GROUP BY d.label ORDER BY d.label ARRANGE BY d.label = 'dog'";
    assert_eq!(table(grouped).await, ["bird | 3", "cat | 4", "dog | 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_drawn_by_weight() {
    let sorted = async |text: &str| {
        let mut found = rows(text).await;
        found.sort_unstable();
        found
    };
    assert_eq!(sorted("SELECT * SAMPLE BY label = 'dog'").await, [1, 4, 7]);
    assert_eq!(
        sorted("SELECT * SAMPLE BY max_weight(label = 'cat': 5, True: 0) LIMIT 50 PERCENT").await,
        [0, 3, 6, 9]
    );
    assert_eq!(sorted("SELECT * LIMIT 3 SAMPLE BY 1").await, [0, 1, 2]);
    assert_eq!(sorted("SELECT * OFFSET 7 SAMPLE BY 1").await, [7, 8, 9]);
    assert_eq!(sorted("SELECT * SAMPLE BY score LIMIT 100").await, [1, 2, 3, 5, 6, 7, 8, 9]);
    assert_eq!(rows("SELECT * WHERE n = 3 SAMPLE BY 1 REPLACE LIMIT 4").await, [3, 3, 3, 3]);
    assert_eq!(rows("SELECT * SAMPLE BY 1 REPLACE LIMIT 500 PERCENT").await.len(), 50);
    assert_eq!(rows("SELECT * SAMPLE BY 1 LIMIT 5 LIMIT 2").await.len(), 2);
    assert!(rows("SELECT * WHERE n > 20 SAMPLE BY 1").await.is_empty());
    let some = rows("SELECT * SAMPLE BY n + 1 LIMIT 6 SEED 4").await;
    assert_eq!(rows("SELECT * SAMPLE BY n + 1 LIMIT 6 SEED 4").await, some);
    assert_ne!(rows("SELECT * SAMPLE BY n + 1 LIMIT 6 SEED 5").await, some);
    let draw = |weight: i64| Parameters::Positional(vec![Parameter::from(weight), Parameter::from(2i64)]);
    let text = "SELECT * SAMPLE BY n > ? LIMIT ?";
    let Ok(Answer::View(view)) = answer_with(&animals().await, text, draw(7)).await else {
        panic!("no view")
    };
    let mut found = numbers(&view).await;
    found.sort_unstable();
    assert_eq!(found, [8, 9]);
    // Of a table, the columns of the answer are meant.
    let mut found = table("SELECT label, count(*) AS many GROUP BY label SAMPLE BY many - 3 LIMIT 2").await;
    found.sort();
    assert_eq!(found, ["cat | 4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_bring_their_neighbours() {
    for (text, expected) in [
        ("SELECT * WHERE n = 4 EXPAND BY 1 2", vec![3, 4, 5, 6]),
        ("SELECT * WHERE n IN (0, 9) EXPAND BY 1, 1 ORDER BY n DESC", vec![9, 8, 1, 0]),
        ("SELECT name WHERE label = 'bird' AND n < 3 EXPAND BY 1 0", vec![1, 2]),
        ("SELECT d.n FROM dataset d WHERE d.n = 2 EXPAND BY 0 1 ARRANGE BY d.label LIMIT 1", vec![2]),
        ("SELECT * WHERE n IN (SELECT max(n) FROM dataset) EXPAND BY 2 2", vec![7, 8, 9]),
        ("SELECT * WHERE n = 99 EXPAND BY 5 5", vec![]),
    ] {
        assert_eq!(rows(text).await, expected, "{text}");
    }
    assert_eq!(table("SELECT count(*) AS c WHERE n = 4 EXPAND BY 1 2").await, ["4"]);
    let mut labels = table("SELECT DISTINCT label WHERE n = 0 EXPAND BY 0 1").await;
    labels.sort();
    assert_eq!(labels, ["cat", "dog"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_become_sequences_and_come_apart() {
    for (text, expected) in [
        (
            "SELECT label, n GROUP BY label ORDER BY label",
            vec!["bird | [2, 5, 8]", "cat | [0, 3, 6, 9]", "dog | [1, 4, 7]"],
        ),
        ("SELECT n, label AS of GROUP BY of LIMIT 1", vec!["[0, 3, 6, 9] | cat"]),
        ("SELECT label, mean(pixels) AS m GROUP BY label LIMIT 1", vec!["cat | [0.0, 3.0, 6.0, 9.0]"]),
        (
            "SELECT n % 2 AS odd, vector[0] AS first WHERE n < 4 GROUP BY 1 ORDER BY odd DESC",
            vec!["1 | [1.0, 3.0]", "0 | [0.0, 2.0]"],
        ),
        ("SELECT label, name WHERE n = 2 EXPAND BY 3 0 GROUP BY label LIMIT 1", vec!["cat | [number 0]"]),
        ("SELECT label, n WHERE n > 50 GROUP BY label", vec![]),
        // SQL's own.
        ("SELECT label GROUP BY label ORDER BY label", vec!["bird", "cat", "dog"]),
        (
            "SELECT n, vector WHERE n < 2 UNGROUP BY vector",
            vec!["0 | 0.0", "0 | 1.0", "0 | 2.0", "1 | 1.0", "1 | 2.0", "1 | 3.0"],
        ),
        ("SELECT n WHERE n < 2 UNGROUP BY pixels", vec!["0", "1", "1"]),
        ("SELECT n, pixels WHERE n = 1 UNGROUP BY pixels LIMIT 1", vec!["1 | [1, 1]"]),
        ("SELECT n WHERE n = 7 UNGROUP BY pixels", vec![]),
        ("SELECT vector AS v, n WHERE n = 1 UNGROUP BY vector", vec!["1.0 | 1", "2.0 | 1", "3.0 | 1"]),
        (
            "SELECT n, vector, vector[0] AS x WHERE n = 1 UNGROUP BY vector ORDER BY vector DESC LIMIT 2",
            vec!["1 | 3.0 | 1.0", "1 | 2.0 | 1.0"],
        ),
    ] {
        assert_eq!(table(text).await, expected, "{text}");
    }
    let view = animals().await;
    let Ok(Answer::Table(all)) = answer(&view, "SELECT * GROUP BY label").await else { panic!("no table") };
    assert_eq!(all.rows(), 3);
    let names: Vec<&String> = all.schema().fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, view.columns().iter().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused() {
    for (text, expected) in [
        ("SELECT label, name, count(*) GROUP BY label", "GROUP BY"),
        ("SELECT label, lable GROUP BY label", "no column \"lable\""),
        (
            "SELECT a.n FROM dataset a JOIN dataset b ON a.n = b.n EXPAND BY 1 1",
            "EXPAND BY needs one dataset",
        ),
        ("SELECT * SAMPLE BY name", "SAMPLE BY needs a number for each row, found Utf8"),
        ("SELECT * SAMPLE BY n - 5", "invalid weight -5"),
        ("SELECT * SAMPLE BY 1 LIMIT n", "LIMIT needs a whole number, zero or above, found `n`"),
        ("SELECT * SAMPLE BY 1 LIMIT 10 LIMIT 2.5", "LIMIT needs a whole number"),
        ("SELECT * SAMPLE BY wieght", "no column \"wieght\""),
        ("SELECT * ARRANGE BY lable", "did you mean \"label\"?"),
        ("SELECT * ARRANGE BY meen(n)", "no function \"meen\""),
        ("SELECT * UNGROUP BY name", "\"name\" holds text, which is no sequence"),
        ("SELECT * WHERE n = 0 UNGROUP BY vector, pixels", "row 0 has 3 of \"vector\" and 1 of \"pixels\""),
        ("SELECT count(*) UNGROUP BY vector", ""),
    ] {
        let found = error(text).await;
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_are_explained() {
    let view = animals().await;
    let question = Question::new("SELECT * WHERE n > 3 EXPAND BY 1 0 ARRANGE BY label SAMPLE BY 1 LIMIT 2");
    let text = explain(&question, &Only(view.clone()), false).await.unwrap();
    let then: Vec<&str> = text.lines().filter(|line| line.starts_with("then")).collect();
    assert_eq!(then, ["then EXPAND BY 1 0", "then ARRANGE BY label", "then SAMPLE BY 1 LIMIT 2"]);
    let grouped = Question::new("SELECT label, count(*) AS many GROUP BY label SAMPLE BY many");
    let text = explain(&grouped, &Only(view.clone()), false).await.unwrap();
    assert!(text.contains("Aggregate") && text.ends_with("then SAMPLE BY many\n"), "{text}");
    let text = explain(&question, &Only(view), true).await.unwrap();
    let then: Vec<&str> = text.lines().filter(|line| line.starts_with("then")).collect();
    assert_eq!(
        then,
        [
            "then EXPAND BY: 7 rows",
            "then SELECT: 7 rows",
            "then ARRANGE BY: 7 rows",
            "then SAMPLE BY: 2 rows",
        ]
    );
}
