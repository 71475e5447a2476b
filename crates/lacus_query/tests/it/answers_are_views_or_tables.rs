//! Queries whose rows are rows of the dataset answer with views, others with tables; the values are right.

use lacus_query::{Answer, Parameter, Parameters, compute};
use lacus_tensor::DType;

use crate::datasets::{animals, answer, answer_with, lines, numbers, tensor};

async fn rows(text: &str) -> Vec<i64> {
    let view = animals().await;
    match answer(&view, text).await {
        Ok(Answer::View(view)) => numbers(&view).await,
        Ok(Answer::Table(_)) => panic!("a table: {text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

async fn table(text: &str) -> Vec<String> {
    let view = animals().await;
    match answer(&view, text).await {
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

/// Queries that views answer, with the numbers of their rows.
pub(crate) const VIEWS: &[(&str, &[i64])] = &[
    ("SELECT *", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("SELECT * FROM dataset WHERE n > 6", &[7, 8, 9]),
    ("SELECT * WHERE label = 'dog'", &[1, 4, 7]),
    ("SELECT * WHERE label = 1", &[1, 4, 7]),
    ("SELECT * WHERE label IN ('cat', 'bird') AND n < 4", &[0, 2, 3]),
    ("SELECT * ORDER BY n DESC LIMIT 3", &[9, 8, 7]),
    ("SELECT * ORDER BY label, n DESC", &[8, 5, 2, 9, 6, 3, 0, 7, 4, 1]),
    ("SELECT * ORDER BY label LIMIT 4", &[2, 5, 8, 0]),
    ("SELECT * LIMIT 2 OFFSET 3", &[3, 4]),
    ("SELECT * WHERE score IS NULL", &[4]),
    ("SELECT * WHERE score > 0.75", &[8, 9]),
    ("SELECT * WHERE pixels IS NULL", &[7]),
    ("SELECT * WHERE pixels IS NOT NULL AND n > 5", &[6, 8, 9]),
    ("SELECT * WHERE name LIKE '%3'", &[3]),
    ("SELECT * WHERE mean(pixels) > 7.5", &[8, 9]),
    ("SELECT * WHERE shape(pixels, 0) > 8", &[8, 9]),
    ("SELECT * WHERE shape(pixels)[0] = 3", &[2]),
    ("SELECT * WHERE width(picture) = 4 OR width(picture) = 6", &[3, 5]),
    ("SELECT * WHERE max(picture) >= 8", &[8, 9]),
    ("SELECT * WHERE any(picture > 8)", &[9]),
    ("SELECT * ORDER BY vector[1] DESC LIMIT 2", &[9, 8]),
    ("SELECT * ORDER BY mean(picture) DESC LIMIT 2", &[9, 8]),
    ("SELECT * WHERE n = ANY (SELECT n FROM dataset WHERE n < 2)", &[0, 1]),
    ("SELECT * WHERE n <> ALL (SELECT n FROM dataset WHERE n > 1)", &[0, 1]),
    ("SELECT * WHERE n IN (SELECT max(n) FROM dataset GROUP BY label)", &[7, 8, 9]),
    ("SELECT n, label FROM dataset d WHERE d.n = 5", &[5]),
    ("SELECT n, sum(vector) AS total WHERE n < 2", &[0, 1]),
    ("SELECT name ORDER BY sum(vector) DESC LIMIT 1", &[9]),
    ("SELECT * WHERE false", &[]),
    ("SELECT * LIMIT 0", &[]),
    ("SELECT n, label WHERE 1 = 0 ORDER BY label", &[]),
    ("SELECT * WHERE n > 3 AND n < 2 LIMIT 3", &[]),
    ("SELECT * WHERE n IN (SELECT n FROM dataset WHERE false)", &[]),
    ("SELECT * WHERE label IN (1, 2) AND n < 6", &[1, 2, 4, 5]),
    ("SELECT * WHERE label NOT IN (1, 2) AND n < 6", &[0, 3]),
    ("SELECT * WHERE label IN ('cat', 1) AND n < 6", &[0, 1, 3, 4]),
    ("SELECT * WHERE label BETWEEN 1 AND 2 AND n < 6", &[1, 2, 4, 5]),
    ("SELECT * WHERE label < 2 AND n < 6", &[0, 1, 3, 4]),
    ("SELECT * WHERE 1 <= label AND n < 6", &[1, 2, 4, 5]),
    ("SELECT * WHERE label <> 0 AND n < 3", &[1, 2]),
    ("SELECT * WHERE label = n", &[0, 1, 2]),
    ("SELECT * WHERE label + 1 = 3", &[2, 5, 8]),
    ("SELECT * WHERE label = 1.0", &[1, 4, 7]),
    ("SELECT * WHERE (label IS DISTINCT FROM 0) AND n < 3", &[1, 2]),
    ("SELECT * WHERE CASE label WHEN 1 THEN n > 4 WHEN 2 THEN n < 4 ELSE false END", &[2, 7]),
    ("SELECT * WHERE label IN (SELECT n FROM dataset WHERE n = 1)", &[1, 4, 7]),
    ("SELECT * WHERE any(-vector = -11) AND n > 7", &[9]),
    ("SELECT * WHERE all(NOT (vector > 3))", &[0, 1]),
    ("SELECT * WHERE all(vector BETWEEN 3 AND 6)", &[3, 4]),
    ("SELECT * WHERE any(vector NOT BETWEEN 0 AND 10)", &[9]),
    ("SELECT * WHERE avg(vector) > 8.5", &[8, 9]),
    ("SELECT * WHERE -vector[0] < -7", &[8, 9]),
    ("SELECT * WHERE NOT (vector[0] < 8)", &[8, 9]),
    ("SELECT * WHERE sum(power(vector, 2)) > 200", &[8, 9]),
    ("SELECT * WHERE l2(vector, [3.0, 4.0, 5.0]) = 0 OR l1(vector, [8.0, 9.0, 10.0]) = 0", &[3, 8]),
    ("SELECT * WHERE amax(vector) = 5 OR amin(vector) = 5", &[3, 5]),
    ("SELECT * WHERE nonzero(vector) = 2", &[0]),
    ("SELECT * WHERE DATA(vector, 0) = 4 OR DATA(pixels, 0, 1) = 5", &[4, 5]),
    ("SELECT * WHERE info['list'][0] = 3", &[3]),
    ("SELECT * WHERE info['list'][1] = 'x5'", &[5]),
    ("SELECT * WHERE info['list'][0] > 7", &[8, 9]),
    ("SELECT * WHERE info['even'] = true AND n > 5", &[6, 8]),
    ("SELECT * WHERE CASE WHEN shape(pixels, 0) > 8 THEN pixels[8, 0] >= 8 END", &[8, 9]),
    ("SELECT * WHERE shape(pixels, 0) > 9 AND pixels[9, 0] = 9", &[9]),
    ("SELECT * WHERE (n = 8 AND pixels[8, 0] = 8) OR (n = 3 AND pixels[3, 1] = 3)", &[3, 8]),
    ("SELECT * WHERE coalesce(score > 5, mean(pixels) = 4)", &[4]),
    ("SELECT * WHERE ndim(pixels) = 2 AND size(pixels) > 16 AND bytes(pixels) < 20", &[8]),
    ("SELECT * WHERE shape(pixels, -1) = 2 AND shape(pixels, -2) = 4", &[3]),
    ("SELECT * WHERE dtype(pixels) = 'uint8' AND channels(picture) = 3 AND size(picture) > 50", &[8, 9]),
    ("SELECT * WHERE width(picture) > 8 AND height(picture) = 2", &[8, 9]),
    ("SELECT * ORDER BY max_weight(n > 2: 1, n > 5: 7, True: 3) DESC, n LIMIT 5", &[6, 7, 8, 9, 0]),
    ("SELECT * WHERE row_number() IN (2, 3)", &[2, 3]),
    ("SELECT * ORDER BY row_id() DESC LIMIT 2", &[9, 8]),
    ("SELECT row_id() AS id, n WHERE row_number() > 7", &[8, 9]),
];

/// Queries that tables answer, with their lines; sorted where the query has no order.
pub(crate) const TABLES: &[(&str, &[&str])] = &[
    ("SELECT count(*)", &["10"]),
    ("SELECT count(score), count(pixels), count(picture)", &["9 | 9 | 10"]),
    ("SELECT label, count(*) AS c GROUP BY label ORDER BY label", &["bird | 3", "cat | 4", "dog | 3"]),
    ("SELECT sum(n), round(avg(score), 6), min(name)", &["45 | 0.455556 | number 0"]),
    ("SELECT max(width(picture)), avg(mean(pixels))", &["10 | 4.222222222222222"]),
    ("SELECT a.n, b.n FROM dataset a JOIN dataset b ON a.n = b.n + 8 ORDER BY 1", &["8 | 0", "9 | 1"]),
    (
        "SELECT a.n, sum(b.vector) FROM dataset a LEFT JOIN dataset b ON a.n = b.n + 8 WHERE a.n > 6 ORDER BY 1",
        &["7 | NULL", "8 | 3.0", "9 | 6.0"],
    ),
    ("SELECT DISTINCT label ORDER BY label", &["bird", "cat", "dog"]),
    ("SELECT n FROM dataset WHERE n < 2 UNION ALL SELECT n FROM dataset WHERE n > 8", &["0", "1", "9"]),
    ("SELECT n, row_number() OVER (ORDER BY n DESC) AS r ORDER BY r LIMIT 2", &["9 | 1", "8 | 2"]),
    (
        "WITH big AS (SELECT n, vector FROM dataset WHERE n > 7) SELECT n, vector[-1] FROM big ORDER BY n",
        &["8 | 10.0", "9 | 11.0"],
    ),
    ("SELECT m FROM (SELECT mean(vector) AS m, n FROM dataset) WHERE n = 3", &["4.0"]),
    ("SELECT max([1, 2, 3][1]) AS x", &["1"]),
    ("SELECT label, count(picture) AS c GROUP BY label ORDER BY label", &["bird | 3", "cat | 4", "dog | 3"]),
    (
        "SELECT a.n, b.pixels IS NULL FROM dataset a LEFT JOIN dataset b ON a.n = b.n + 8 WHERE a.n IN (7, 8) ORDER BY 1",
        &["7 | true", "8 | false"],
    ),
    ("SELECT count(*) FROM dataset a LEFT JOIN dataset b ON a.n = b.n + 8 WHERE b.vector IS NULL", &["8"]),
    ("SELECT row_number(), n WHERE n > 7 ORDER BY n", &["8 | 8", "9 | 9"]),
    (
        "SELECT n, lag(n) OVER (ORDER BY mean(picture)) AS a, lead(n) OVER (ORDER BY mean(picture)) AS b ORDER BY n LIMIT 2",
        &["0 | NULL | 1", "1 | 0 | 2"],
    ),
    ("SELECT unnest([n, 2]) AS x WHERE n = 9 ORDER BY x", &["2", "9"]),
    ("SELECT DISTINCT array_transform([1, 2], v -> v * 10) AS x", &["[10, 20]"]),
    (
        "SELECT name, label, count(*) AS c WHERE n < 2 GROUP BY GROUPING SETS ((name), (label)) ORDER BY name, label",
        &["number 0 | NULL | 1", "number 1 | NULL | 1", "NULL | cat | 1", "NULL | dog | 1"],
    ),
    (
        "SELECT d.n, t.m FROM dataset d LEFT JOIN (SELECT b.n, a.pixels IS NULL AS m FROM dataset b LEFT JOIN dataset a ON a.n = b.n + 100) t ON d.n = t.n WHERE d.n < 2 ORDER BY 1",
        &["0 | true", "1 | true"],
    ),
    ("SELECT arrow_cast(decode('6869', 'hex'), 'Utf8') AS x, count(*) GROUP BY x", &["hi | 10"]),
    ("SELECT a.n FROM dataset a JOIN dataset b ON row_id(a) = row_id(b) + 8 ORDER BY 1", &["8", "9"]),
    (
        "SELECT a.n, count(*) FROM (SELECT n, row_id() AS id FROM dataset) a JOIN (SELECT row_id() AS id FROM dataset) b USING (id) WHERE n = 3 GROUP BY a.n",
        &["3 | 1"],
    ),
    (
        "SELECT CASE WHEN n = 0 THEN 0 WHEN 9 / n > 4 THEN mean(pixels) ELSE vector[0] END AS x, count(*) FROM dataset WHERE n < 4 GROUP BY x ORDER BY x",
        &["0.0 | 1", "1.0 | 1", "2.0 | 1", "3.0 | 1"],
    ),
    ("SELECT max(row_number()) - min(row_number())", &["9"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn views() {
    for (text, expected) in VIEWS {
        assert_eq!(rows(text).await, *expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables() {
    for (text, expected) in TABLES {
        let mut found = table(text).await;
        if !text.contains("ORDER BY") {
            found.sort();
        }
        assert_eq!(found, *expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn computed_columns_are_read_when_they_are_asked_for() {
    let view = animals().await;
    let text = "SELECT n, pixels[0, :] * 2 AS twice, mean(picture) WHERE n > 7 ORDER BY n DESC";
    let Ok(Answer::View(found)) = answer(&view, text).await else { panic!("no view") };
    assert_eq!(found.columns(), ["n", "twice", "mean(picture)"]);
    let names = found.columns();
    let batch = compute(&found, &names, &[0, 1], &[]).await.unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&[batch]).unwrap().to_string();
    assert!(shown.contains("| 9 | [18, 18] | 9.0 "), "{shown}");
    assert!(shown.contains("| 8 | [16, 16] | 8.0 "), "{shown}");
    // A view is data, and goes on with what it computes.
    let again =
        lacus_dataset::View::from_data(std::sync::Arc::clone(view.source()), &found.data()).await.unwrap();
    assert!(again.is_same_as(&found));
    let Ok(Answer::View(fewer)) = answer(&again, "SELECT n, twice[0] + 1 AS more WHERE twice[0] > 16").await
    else {
        panic!("no view")
    };
    assert_eq!(numbers(&fewer).await, [9]);
    let batch = compute(&fewer, &["more".to_owned()], &[0], &[]).await.unwrap();
    assert_eq!(format!("{:?}", batch.column(0)).lines().nth(2).map(str::trim), Some("19,"));
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_values() {
    let view = animals().await;
    let ask = async |text: &str, parameters: Parameters| match answer_with(&view, text, parameters).await {
        Ok(Answer::View(found)) => numbers(&found).await,
        Ok(found) => panic!("{found:?}"),
        Err(error) => panic!("{text}: {error}"),
    };
    let positional = Parameters::Positional(vec![Parameter::from(3i64), Parameter::from("dog")]);
    assert_eq!(ask("SELECT * WHERE n > ? AND label = ?", positional).await, [4, 7]);
    let named = Parameters::Named(vec![("low".into(), 3.5.into()), ("most".into(), 2i64.into())]);
    assert_eq!(ask("SELECT * WHERE n > :low LIMIT :most", named).await, [4, 5]);
    let bytes: Vec<u8> = [3.0f32, 4.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let vector = Parameter::tensor(&tensor(DType::F32, &[3], &bytes).as_ref()).unwrap();
    let nearest = "SELECT * ORDER BY norm(vector - ?) LIMIT 2";
    assert_eq!(ask(nearest, Parameters::Positional(vec![vector])).await, [3, 2]);
    let missing = answer(&view, "SELECT * WHERE n = ?").await.unwrap_err().to_string();
    assert!(missing.contains("no value was given for parameter 1"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_point_at_the_text() {
    for (text, expected) in [
        ("SELECT lable", "no column \"lable\"; did you mean \"label\"?\n1 | SELECT lable\n           ^^^^^"),
        ("SELECT meen(pixels)", "no function \"meen\"; did you mean"),
        ("SELECT * FROM datset", "no dataset \"datset\"; did you mean \"dataset\"?"),
        ("SELECT pixels + vector", "(?, 2)"),
        ("SELECT * WHERE vector[3] > 1", "index 3 is out of bounds for axis 0 with size 3"),
        ("INSERT INTO dataset VALUES (1)", "quer"),
        (
            "SELECT row_id() FROM dataset a, dataset b",
            "`row_id` of which table?; write row_id(a)\n1 | SELECT row_id()",
        ),
        ("SELECT row_id() FROM (SELECT n FROM dataset) q", "`row_id` needs a dataset in FROM"),
        ("SELECT * WHERE n > ALL (SELECT n FROM dataset)", "`> ALL` of a query is not supported"),
        ("", "empty"),
        ("SELECT n / 0 AS x, count(*) GROUP BY x", "division by zero"),
    ] {
        let found = error(text).await;
        assert!(found.contains(expected), "{text}: {found}");
    }
}
