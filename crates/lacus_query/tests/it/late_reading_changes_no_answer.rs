//! A query is answered the same whether wide columns are read late and rows are pruned, or everything is read where it is scanned.

use lacus_dataset::View;
use lacus_query::{Answer, Question, ask};

use crate::answers_are_views_or_tables::{TABLES, VIEWS};
use crate::datasets::{Only, animals, lines, numbers};

/// What a query says: the kind of its answer and its lines, or that it fails.
async fn told(view: &View, text: &str, reads_all: bool) -> Result<(&'static str, Vec<String>), String> {
    let question = Question { reads_all, ..Question::new(text) };
    match ask(&question, &Only(view.clone())).await {
        Ok(Answer::View(found)) => {
            let columns = format!("{:?} {:?}", found.columns(), found.computed());
            let rows = numbers(&found).await.into_iter().map(|n| n.to_string());
            Ok(("view", std::iter::once(columns).chain(rows).collect()))
        }
        Ok(table) => {
            let mut lines = lines(&table);
            // Without an order, rows come as they like; that of a query of WITH says nothing.
            if !text.contains("ORDER BY") || text.starts_with("WITH") {
                lines.sort();
            }
            Ok(("table", lines))
        }
        Err(error) => Err(error.to_string()),
    }
}

async fn check(view: &View, text: &str) {
    let (late, eager) = (told(view, text, false).await, told(view, text, true).await);
    assert_eq!(late, eager, "{text}");
    assert!(late.is_ok(), "{text}: {late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_known_queries() {
    let view = animals().await;
    for text in VIEWS.iter().map(|(text, _)| *text).chain(TABLES.iter().map(|(text, _)| *text)) {
        // SQL does not promise which side of AND and OR is computed first; late reading is kinder here.
        if text.contains("pixels[9, 0]") || text.contains("pixels[8, 0] = 8") {
            continue;
        }
        check(&view, text).await;
    }
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % count
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const CONDITIONS: &[&str] = &[
    "n > 4",
    "n <> 3",
    "score < 0.5",
    "score IS NULL",
    "label = 'dog'",
    "label IN (0, 2)",
    "label < 2",
    "name LIKE '%7'",
    "pixels IS NULL",
    "pixels IS NOT NULL",
    "mean(pixels) > 3",
    "shape(pixels, 0) <= 6",
    "shape(pixels)[1] = 2",
    "ndim(picture) = 3",
    "width(picture) > 4",
    "max(picture) < 7",
    "any(vector = 5)",
    "vector[1] > 4",
    "pixels[0, 1] = n",
    "CASE WHEN n > 5 THEN mean(picture) > 7 WHEN label = 1 THEN vector[2] > 4 ELSE score > 0.2 END",
    "coalesce(mean(pixels), n) > 6",
    "info['even'] = true",
    "row_number() < 8",
];

const VALUES: &[&str] = &[
    "n",
    "label",
    "score",
    "name",
    "sum(vector)",
    "mean(picture)",
    "shape(pixels, 0)",
    "width(picture)",
    "size(pixels)",
    "pixels[0, 0]",
    "CASE WHEN n > 3 THEN vector[0] END",
    "coalesce(mean(pixels), -1)",
    "row_id()",
];

fn condition(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return dice.one(CONDITIONS).to_owned();
    }
    let (left, right) = (condition(dice, depth - 1), condition(dice, depth - 1));
    match dice.below(4) {
        0 => format!("({left} AND {right})"),
        1 => format!("({left} OR {right})"),
        2 => format!("NOT ({left})"),
        _ => left,
    }
}

fn query(dice: &mut Dice) -> String {
    let depth = dice.below(3);
    let condition = condition(dice, depth);
    let (value, key) = (dice.one(VALUES), dice.one(VALUES));
    let (direction, limit) = (dice.one(&["", " DESC"]), dice.below(12));
    match dice.below(6) {
        0 => format!("SELECT * WHERE {condition}"),
        1 => format!("SELECT n, {value} AS x WHERE {condition} ORDER BY {key}{direction}, n LIMIT {limit}"),
        2 => format!("SELECT count(*), count(pixels), max({value}), min(n) WHERE {condition}"),
        3 => format!("SELECT label, count({value}) AS c, sum(n) AS s WHERE {condition} GROUP BY label"),
        4 => {
            let value = value.replace("row_id()", "n");
            format!(
                "SELECT a.n, x FROM dataset a LEFT JOIN (SELECT n AS m, {value} AS x FROM dataset WHERE {condition}) b \
                 ON a.n = m + {limit}"
            )
        }
        _ => format!(
            "WITH q AS (SELECT n, {value} AS x FROM dataset WHERE {condition} ORDER BY {key}{direction}, n LIMIT {limit}) \
             SELECT x, count(*) FROM q GROUP BY x UNION ALL SELECT x, n FROM q"
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_made_queries() {
    let (view, mut dice) = (animals().await, Dice(7));
    for _ in 0..120 {
        check(&view, &query(&mut dice)).await;
    }
}
