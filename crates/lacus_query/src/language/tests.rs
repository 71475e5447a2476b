//! Tables of cases: text → the SQL that the statement prints, or the error that is shown.

use std::collections::HashSet;

use super::clauses::{ExpandBy, SampleBy};
use super::reductions::Reduction;
use super::*;

/// What a text becomes.
fn sql(text: &str) -> String {
    parse(text, true).map_or_else(|error| format!("error: {error}"), |parsed| parsed.statement.to_string())
}

/// The first line of the error of a text, and the piece that is underlined.
fn error(text: &str) -> (String, String) {
    match parse(text, true) {
        Ok(parsed) => (format!("no error: {}", parsed.statement), String::new()),
        Err(QueryError::Text { why, place }) => {
            let piece = place.map(|place| {
                place.text.chars().skip(place.column - 1).take(place.length).collect::<String>()
            });
            (why, piece.unwrap_or_default())
        }
        Err(other) => (other.to_string(), String::new()),
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(text, expected)| sql(text) != *expected)
        .map(|(text, expected)| format!("{text}\n  expected {expected}\n  found    {}", sql(text)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each error begins with the second text, and the third is underlined.
#[track_caller]
fn check_errors(cases: &[(&str, &str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(text, why, piece)| {
            let (found, underlined) = error(text);
            !found.starts_with(why) || underlined != *piece
        })
        .map(|(text, why, piece)| {
            format!("{text}\n  expected {:?}\n  found    {:?}", (why, piece), error(text))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn subscripts_are_those_of_numpy() {
    check(&[
        ("SELECT x[1] FROM t", "SELECT x[1] FROM t"),
        ("SELECT x[-1] FROM t", "SELECT x[-1] FROM t"),
        ("SELECT x[1:2] FROM t", "SELECT x[1:2] FROM t"),
        ("SELECT x['key'] FROM t", "SELECT x['key'] FROM t"),
        ("SELECT x[a-1:b] FROM t", "SELECT x[a - 1:b] FROM t"),
        ("SELECT x[1][2:3] FROM t", "SELECT x[1][2:3] FROM t"),
        ("SELECT t.x[1].y FROM t", "SELECT t.x[1].y FROM t"),
        ("SELECT t.x[1].y[0] FROM t", "SELECT t.x[1].y[0] FROM t"),
        (
            "SELECT images[100:500, ::2, 0:2] FROM t",
            "SELECT subscript(images, 'a:b,::c,a:b', 100, 500, 2, 0, 2) FROM t",
        ),
        ("SELECT x[:, ..., 0] FROM t", "SELECT subscript(x, ':,...,i', 0) FROM t"),
        ("SELECT x[::-1] FROM t", "SELECT subscript(x, '::c', -1) FROM t"),
        ("SELECT x[...] FROM t", "SELECT subscript(x, '...') FROM t"),
        ("SELECT x[:] FROM t", "SELECT subscript(x, ':') FROM t"),
        ("SELECT x[::] FROM t", "SELECT subscript(x, ':') FROM t"),
        ("SELECT x[1:] FROM t", "SELECT subscript(x, 'a:', 1) FROM t"),
        ("SELECT x[:1] FROM t", "SELECT subscript(x, ':b', 1) FROM t"),
        ("SELECT x[a:b] FROM t", "SELECT x[a:b] FROM t"),
        ("SELECT x[:b] FROM t", "SELECT subscript(x, ':b', b) FROM t"),
        ("SELECT x[a::2] FROM t", "SELECT subscript(x, 'a::c', a, 2) FROM t"),
        ("SELECT x[:b:2] FROM t", "SELECT subscript(x, ':b:c', b, 2) FROM t"),
        ("SELECT x[1:2:3] FROM t", "SELECT subscript(x, 'a:b:c', 1, 2, 3) FROM t"),
        ("SELECT x[1, 2][3] FROM t", "SELECT subscript(x, 'i,i', 1, 2)[3] FROM t"),
        ("SELECT x[3][1, 2] FROM t", "SELECT subscript(x[3], 'i,i', 1, 2) FROM t"),
        ("SELECT x[y[0, 1], 2] FROM t", "SELECT subscript(x, 'i,i', subscript(y, 'i,i', 0, 1), 2) FROM t"),
        ("SELECT \"my col\"[0, 1] FROM t", "SELECT subscript(\"my col\", 'i,i', 0, 1) FROM t"),
        ("SELECT f(x)[0, 1] + 1 FROM t", "SELECT subscript(f(x), 'i,i', 0, 1) + 1 FROM t"),
        ("SELECT (x + y)[0, 1] FROM t", "SELECT subscript((x + y), 'i,i', 0, 1) FROM t"),
        ("SELECT -x[0, 1] * 2 FROM t", "SELECT -subscript(x, 'i,i', 0, 1) * 2 FROM t"),
        ("SELECT x[0, 1] > 2 AND y FROM t", "SELECT subscript(x, 'i,i', 0, 1) > 2 AND y FROM t"),
        ("SELECT values[0, 1] FROM t", "SELECT subscript(values, 'i,i', 0, 1) FROM t"),
        // Casts outside, and inside of parentheses.
        ("SELECT x[0, 1]::int FROM t", "SELECT subscript(x, 'i,i', 0, 1)::INT FROM t"),
        ("SELECT x[(a::int):3] FROM t", "SELECT x[(a::INT):3] FROM t"),
        ("SELECT x[f(a::int)::2] FROM t", "SELECT subscript(x, 'a::c', f(a::INT), 2) FROM t"),
        ("SELECT a::int[] FROM t", "SELECT a::INT[] FROM t"),
    ]);
    check_errors(&[
        ("SELECT x[] FROM t", "expected an index or a slice, found `]`", "]"),
        ("SELECT x[1 FROM t", "expected `]`, found `FROM`", "FROM"),
        ("SELECT x[..] FROM t", "expected `.`, found `]`", "]"),
    ]);
}

#[test]
fn array_literals_stay() {
    check(&[
        ("SELECT [1, 2, 3] FROM t", "SELECT [1, 2, 3] FROM t"),
        ("SELECT ARRAY[1, 2] FROM t", "SELECT ARRAY[1, 2] FROM t"),
        ("SELECT [[1, 2], [3]] FROM t", "SELECT [[1, 2], [3]] FROM t"),
        ("SELECT f([1, 2], x) FROM t", "SELECT f([1, 2], x) FROM t"),
        ("SELECT x + [1, 2] FROM t", "SELECT x + [1, 2] FROM t"),
        ("SELECT x = [1, 2] OR [1][0] = 2 FROM t", "SELECT x = [1, 2] OR [1][0] = 2 FROM t"),
        ("SELECT [1, 2][0:1] FROM t", "SELECT [1, 2][0:1] FROM t"),
        (
            "SELECT CASE WHEN a THEN [1] ELSE [2] END FROM t",
            "SELECT CASE WHEN a THEN [1] ELSE [2] END FROM t",
        ),
        ("SELECT a IN [1, 2] FROM t", "SELECT a IN (1, 2) FROM t"),
        ("SELECT a NOT IN [x[0], 2] FROM t", "SELECT a NOT IN (x[0], 2) FROM t"),
        ("SELECT a IN ([1, 2], [3]) FROM t", "SELECT a IN ([1, 2], [3]) FROM t"),
        ("SELECT [a::int] FROM t", "SELECT [a::INT] FROM t"),
    ]);
}

#[test]
fn from_may_be_left_out() {
    check(&[
        ("SELECT *", "SELECT * FROM dataset"),
        ("SELECT * WHERE label = 1", "SELECT * FROM dataset WHERE label = 1"),
        ("SELECT a ORDER BY b LIMIT 3", "SELECT a FROM dataset ORDER BY b LIMIT 3"),
        ("SELECT a UNION SELECT b FROM t", "SELECT a FROM dataset UNION SELECT b FROM t"),
        ("(SELECT a) INTERSECT (SELECT b)", "(SELECT a FROM dataset) INTERSECT (SELECT b FROM dataset)"),
        ("WITH c AS (SELECT a) SELECT * FROM c", "WITH c AS (SELECT a FROM dataset) SELECT * FROM c"),
        ("WITH c AS (SELECT a) SELECT *", "WITH c AS (SELECT a FROM dataset) SELECT * FROM dataset"),
        ("SELECT (SELECT 1)", "SELECT (SELECT 1) FROM dataset"),
        ("SELECT a WHERE a IN (SELECT 1)", "SELECT a FROM dataset WHERE a IN (SELECT 1)"),
        ("VALUES (1), (2)", "VALUES (1), (2)"),
        ("FROM t", "SELECT * FROM t"),
        ("SELECT Label", "SELECT Label FROM dataset"),
        ("SELECT a;", "SELECT a FROM dataset"),
    ]);
    assert_eq!(parse("SELECT 1", false).unwrap().statement.to_string(), "SELECT 1");
    assert_eq!(parse("SELECT 1", false).unwrap().tables, []);
    assert_eq!(parse("SELECT  1", true).unwrap().tables[0].bytes, 0..6);
}

/// The key, name and state of each table.
fn tables(text: &str) -> Vec<(String, String, Option<At>)> {
    let parsed = parse(text, true).unwrap();
    for table in &parsed.tables {
        let named = &text[table.bytes.clone()];
        assert!(named.contains(&table.name) || named == "SELECT", "{named}");
    }
    parsed.tables.into_iter().map(|table| (table.key, table.name, table.at)).collect()
}

#[test]
fn datasets_are_read_at_states() {
    check(&[
        ("SELECT * FROM dataset@\"main~2\"", "SELECT * FROM \"dataset@main~2\" AS dataset"),
        ("SELECT * FROM dataset@v1", "SELECT * FROM \"dataset@v1\" AS dataset"),
        ("SELECT * FROM dataset@3f2a x", "SELECT * FROM \"dataset@3f2a\" x"),
        (
            "SELECT * FROM \"s3://bucket/ds\"@\"main\"",
            "SELECT * FROM \"s3://bucket/ds@main\" AS \"s3://bucket/ds\"",
        ),
        ("SELECT * FROM \"s3://bucket/ds\"", "SELECT * FROM \"s3://bucket/ds\""),
        ("SELECT * FROM dataset VERSION AS OF 3", "SELECT * FROM \"dataset@version 3\" AS dataset"),
        ("SELECT * FROM dataset VERSION AS OF 'main~2' AS d", "SELECT * FROM \"dataset@main~2\" AS d"),
        (
            "SELECT * FROM dataset TIMESTAMP AS OF '2026-01-01' d",
            "SELECT * FROM \"dataset@timestamp 2026-01-01\" d",
        ),
        (
            "SELECT * FROM dataset FOR SYSTEM_TIME AS OF '2026-01-01'",
            "SELECT * FROM \"dataset@timestamp 2026-01-01\" AS dataset",
        ),
        ("SELECT * FROM dataset AT ('main~2')", "SELECT * FROM \"dataset@main~2\" AS dataset"),
        ("SELECT * FROM dataset AT (version => 3)", "SELECT * FROM \"dataset@version 3\" AS dataset"),
        (
            "SELECT * FROM dataset AT (timestamp => 'x') WHERE a",
            "SELECT * FROM \"dataset@timestamp x\" AS dataset WHERE a",
        ),
        (
            "SELECT * FROM dataset a JOIN dataset@v1 b ON a.id = b.id",
            "SELECT * FROM dataset a JOIN \"dataset@v1\" b ON a.id = b.id",
        ),
        ("SELECT * FROM cells('uber')", "SELECT * FROM \"cells(dataset, uber)\" AS \"uber\""),
        ("SELECT * FROM unnest([1, 2]) AS u(x)", "SELECT * FROM UNNEST([1, 2]) AS u (x)"),
        ("SELECT * FROM generate_series(1, 3)", "SELECT * FROM generate_series(1, 3)"),
    ]);
    let at = |key: &str, name: &str, at: At| (key.to_owned(), name.to_owned(), Some(at));
    let plain = |name: &str| (name.to_owned(), name.to_owned(), None);
    assert_eq!(
        tables("SELECT * FROM a@v1, b VERSION AS OF 3, c TIMESTAMP AS OF 'x'"),
        [
            at("a@v1", "a", At::Revision("v1".into())),
            at("b@version 3", "b", At::Version(3)),
            at("c@timestamp x", "c", At::Timestamp("x".into())),
        ]
    );
    // Different states have different keys, whatever they look like.
    assert_eq!(
        tables("SELECT * FROM \"a@v1\", a@v1"),
        [plain("a@v1"), at("a@v1'", "a", At::Revision("v1".into()))]
    );
    // Names of WITH are no datasets where they are visible.
    assert_eq!(tables("WITH c AS (SELECT * FROM t) SELECT * FROM c"), [plain("t")]);
    assert_eq!(tables("WITH t AS (SELECT * FROM t) SELECT * FROM t"), [plain("t")]);
    assert_eq!(tables("SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) x, c"), [plain("c")]);
    assert_eq!(
        tables("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT (SELECT max(x) FROM b) FROM c"),
        [plain("b"), plain("c")]
    );
    assert_eq!(
        tables("WITH RECURSIVE r AS (SELECT 1 FROM t UNION ALL SELECT 1 FROM r) SELECT * FROM r"),
        [plain("t")]
    );
    assert_eq!(
        tables("SELECT * FROM a WHERE x IN (SELECT y FROM b) ORDER BY (SELECT z FROM c)"),
        [plain("a"), plain("b"), plain("c")]
    );
    check_errors(&[
        ("SELECT * FROM t, t@v1", "`t` stands twice in this FROM; tell them apart with AS", "t"),
        ("SELECT * FROM t@v1 JOIN t@v2 ON true", "`t` stands twice", "t"),
        ("WITH c AS (SELECT 1) SELECT * FROM c@v1", "`c` is a query of WITH", "c"),
        ("SELECT * FROM t@main~2", "after `@` a branch, a tag or a commit is expected", "@"),
        ("SELECT * FROM t VERSION AS OF x", "a version is a number or a revision in quotes", "VERSION"),
        ("SELECT * FROM t VERSION AS OF 1.5", "a version is a whole number", "VERSION"),
        ("SELECT * FROM t TIMESTAMP AS OF 3", "a time is written in quotes", "TIMESTAMP"),
        ("SELECT * FROM t AT (what => 3)", "AT takes", "AT"),
        ("SELECT * FROM t AT ('a', 'b')", "AT takes one state", "AT"),
        (
            "SELECT * FROM a.b",
            "the name of a dataset has one part; write one with dots in double quotes: \"a.b\"",
            "a.b",
        ),
    ]);
}

#[test]
fn what_is_not_handled_is_refused() {
    check_errors(&[
        ("INSERT INTO t VALUES (1)", "queries only read: instead of INSERT, use `ds.extend`", "INSERT"),
        ("update t set a = 1", "queries only read: instead of UPDATE, use", "update"),
        ("DELETE FROM t", "queries only read: instead of DELETE, use `ds.delete_rows`", "DELETE"),
        ("CREATE TABLE t (a int)", "queries only read", "CREATE"),
        ("COPY t TO 'x'", "queries only read", "COPY"),
        ("SET a = 1", "queries only read", "SET"),
        ("DROP TABLE t", "queries only read", "DROP"),
        ("COMMIT", "queries only read: instead of COMMIT, use `ds.commit`", "COMMIT"),
        ("EXPLAIN INSERT INTO t VALUES (1)", "queries only read", "INSERT"),
        ("EXPLAIN FORMAT JSON SELECT 1", "`EXPLAIN FORMAT` is not supported", "FORMAT"),
        ("label = 3", "a query begins with SELECT, WITH, FROM, VALUES or EXPLAIN, not with `label`", "label"),
        (
            "WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c",
            "`INSERT` is not supported: queries only read",
            "INSERT",
        ),
        ("WITH c AS (SELECT 1) DELETE FROM t", "`DELETE` is not supported", "DELETE"),
        ("SELECT a INTO b FROM t", "`INTO` is not supported: queries only read", "INTO"),
        ("SELECT TOP 5 a FROM t", "`TOP` is not supported; write LIMIT", "TOP"),
        ("SELECT a FROM t FETCH FIRST 5 ROWS ONLY", "`FETCH` is not supported; write LIMIT", "FETCH"),
        ("SELECT a FROM t FOR UPDATE", "`FOR` is not supported", "FOR"),
        ("SELECT a FROM t LIMIT 1 BY b", "`LIMIT … BY` is not supported", "b"),
        ("SELECT a FROM t SETTINGS x = 1", "`SETTINGS` is not supported", "SETTINGS"),
        ("SELECT a FROM t FORMAT JSON", "`FORMAT` is not supported", "FORMAT"),
        ("SELECT a FROM t ORDER BY a WITH FILL", "`WITH FILL` is not supported", "WITH FILL"),
        (
            "SELECT a FROM t ORDER BY a WITH FILL INTERPOLATE (b)",
            "`INTERPOLATE` is not supported",
            "INTERPOLATE",
        ),
        ("SELECT a FROM t CLUSTER BY a", "`CLUSTER BY` is not supported", "CLUSTER BY"),
        ("SELECT a FROM t DISTRIBUTE BY a", "`DISTRIBUTE BY` is not supported", "DISTRIBUTE BY"),
        ("SELECT a FROM t SORT BY a", "`SORT BY` is not supported", "SORT BY"),
        ("SELECT a FROM t LATERAL VIEW explode(a) x AS y", "`LATERAL VIEW` is not supported", "LATERAL VIEW"),
        ("SELECT a FROM t PREWHERE a", "`PREWHERE` is not supported; write WHERE", "PREWHERE"),
        ("SELECT a FROM t START WITH a = 1 CONNECT BY b = c", "`START WITH` is not supported", "START WITH"),
        ("SELECT a FROM t CONNECT BY b = c", "`CONNECT BY` is not supported", "CONNECT BY"),
        (
            "SELECT a FROM t GROUP BY a WITH ROLLUP",
            "`WITH ROLLUP` is not supported; write GROUP BY ROLLUP",
            "WITH ROLLUP",
        ),
        (
            "SELECT a FROM t TABLESAMPLE (10)",
            "`TABLESAMPLE` is not supported; write SAMPLE BY",
            "TABLESAMPLE",
        ),
        ("SELECT a FROM (SELECT 1) x TABLESAMPLE (10)", "`TABLESAMPLE` is not supported", "TABLESAMPLE"),
        ("SELECT a FROM t WITH (NOLOCK)", "`WITH` is not supported", "WITH"),
        ("SELECT a FROM t PARTITION (p)", "`PARTITION` is not supported", "PARTITION"),
        ("SELECT a FROM f(1) WITH ORDINALITY", "`WITH ORDINALITY` is not supported", "WITH ORDINALITY"),
        (
            "SELECT a FROM unnest([1]) WITH ORDINALITY",
            "`WITH ORDINALITY` is not supported",
            "WITH ORDINALITY",
        ),
        ("SELECT a FROM t |> WHERE a", "`|>` is not supported", "|>"),
        ("SELECT a FROM t[0]", "a table has no subscript", "FROM"),
        ("TABLE t", "a query begins with", "TABLE"),
        ("SELECT 1 UNION TABLE t", "`TABLE` is not supported", "TABLE"),
        ("SELECT a FROM t PIVOT (sum(a) FOR b IN (1))", "`PIVOT` is not supported", "PIVOT"),
        ("SELECT * RENAME (a AS b) FROM t", "`RENAME` is not supported", "RENAME"),
        (
            "SELECT a FROM t SEMI JOIN u ON true",
            "`SEMI JOIN` is not supported; write LEFT SEMI JOIN",
            "SEMI JOIN",
        ),
        ("SELECT a FROM t ANTI JOIN u ON true", "`ANTI JOIN` is not supported", "ANTI JOIN"),
        ("SELECT a FROM t CROSS APPLY u", "`CROSS APPLY` is not supported", "CROSS APPLY"),
        ("SELECT a FROM t GLOBAL JOIN u ON true", "`GLOBAL` is not supported", "GLOBAL"),
        ("SELECT a FROM t ARRAY JOIN u", "`ARRAY JOIN` is not supported", "ARRAY JOIN"),
        (
            "WITH c AS MATERIALIZED (SELECT 1) SELECT * FROM c",
            "expected `(`, found `MATERIALIZED`",
            "MATERIALIZED",
        ),
        ("SELECT quantile(0.5)(x) FROM t", "`quantile` takes one list of arguments", "quantile"),
        ("SELECT abs(DISTINCT x) FROM t", "`abs` is computed per row", "abs"),
        ("SELECT abs(x) FILTER (WHERE y) FROM t", "`abs` is computed per row", "abs"),
        ("SELECT abs(x) OVER () FROM t", "`abs` is computed per row", "abs"),
        ("SELECT abs(x) IGNORE NULLS FROM t", "`abs` is computed per row", "abs"),
        ("SELECT ARRAY(SELECT 1) FROM t", "`ARRAY` of a query is not supported", "ARRAY"),
        ("SELECT (SELECT TOP 1 a FROM t) FROM t", "`TOP` is not supported", "TOP"),
        ("SELECT a FROM t WHERE a IN (SELECT b FROM t FOR UPDATE)", "`FOR` is not supported", "FOR"),
    ]);
    check(&[
        (
            "SELECT sum(DISTINCT x) FILTER (WHERE y), lag(x) OVER (ORDER BY z) FROM t",
            "SELECT sum(DISTINCT x) FILTER (WHERE y), lag(x) OVER (ORDER BY z) FROM t",
        ),
        ("SELECT * EXCLUDE (a) FROM t", "SELECT * EXCLUDE (a) FROM t"),
        (
            "SELECT a FROM t QUALIFY row_number() OVER () = 1",
            "SELECT a FROM t QUALIFY row_number() OVER () = 1",
        ),
        ("SELECT a FROM t LEFT ANTI JOIN u USING (id)", "SELECT a FROM t LEFT ANTI JOIN u USING(id)"),
    ]);
}

#[test]
fn our_clauses_are_taken_out() {
    let clauses = |text: &str| parse(text, true).map(|parsed| parsed.clauses).unwrap();
    check(&[
        ("SELECT * ARRANGE BY label, x[0, 1] LIMIT 3", "SELECT * FROM dataset LIMIT 3"),
        ("SELECT * WHERE a EXPAND BY 2 3 ORDER BY b", "SELECT * FROM dataset WHERE a ORDER BY b"),
        ("SELECT * GROUP BY a UNGROUP BY frames", "SELECT * FROM dataset GROUP BY a"),
        (
            "SELECT * ORDER BY a SAMPLE BY w REPLACE LIMIT 5 SEED 7 LIMIT 3;",
            "SELECT * FROM dataset ORDER BY a LIMIT 3",
        ),
        (
            "SELECT a IS DISTINCT FROM b ARRANGE BY c IS DISTINCT FROM d",
            "SELECT a IS DISTINCT FROM b FROM dataset",
        ),
        ("SELECT arrange, sample, expand FROM t", "SELECT arrange, sample, expand FROM t"),
    ]);
    let arranged = clauses("SELECT * ARRANGE BY label, x[0, 1]").arrange_by.unwrap();
    let keys: Vec<String> = arranged.value.iter().map(ToString::to_string).collect();
    assert_eq!((keys, arranged.bytes), (vec!["label".into(), "subscript(x, 'i,i', 0, 1)".into()], 9..34));
    assert_eq!(clauses("SELECT * EXPAND BY 2 3").expand_by.unwrap().value, ExpandBy { before: 2, after: 3 });
    let columns = clauses("SELECT * UNGROUP BY a.b, c").ungroup_by.unwrap().value;
    assert_eq!(columns.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.b", "c"]);
    let sample = |text: &str| {
        let SampleBy { weight, replace, limit, percent, seed, after_limit } =
            clauses(text).sample_by.unwrap().value;
        (weight.to_string(), replace, limit.map(|limit| limit.to_string()), percent, seed, after_limit)
    };
    assert_eq!(sample("SELECT * SAMPLE BY w"), ("w".into(), false, None, false, None, false));
    assert_eq!(
        sample("SELECT * LIMIT 9 SAMPLE BY max_weight(x > 2: 5, True: 1) replace LIMIT 10 PERCENT SEED 3"),
        (
            "greatest(CASE WHEN x > 2 THEN 5 END, CASE WHEN true THEN 1 END)".into(),
            true,
            Some("10".into()),
            true,
            Some(3),
            true
        )
    );
    check(&[
        (
            "SELECT max_weight(x > 2: 5, True: 1)",
            "SELECT greatest(CASE WHEN x > 2 THEN 5 END, CASE WHEN true THEN 1 END) FROM dataset",
        ),
        (
            "SELECT SUM_WEIGHT(a: 1, b = 2: w)",
            "SELECT (CASE WHEN a THEN 1 ELSE 0 END + CASE WHEN b = 2 THEN w ELSE 0 END) FROM dataset",
        ),
    ]);
    check_errors(&[
        (
            "SELECT * FROM (SELECT * ARRANGE BY a)",
            "`ARRANGE BY` is only possible in the outermost query",
            "ARRANGE",
        ),
        (
            "SELECT * FROM a UNION SELECT * FROM b SAMPLE BY c",
            "`SAMPLE BY` is not possible together with UNION",
            "SAMPLE",
        ),
        ("SELECT * ARRANGE BY a WHERE b", "`WHERE` stands before `ARRANGE BY`", "WHERE"),
        ("SELECT * LIMIT 3 ARRANGE BY a", "`ARRANGE BY` stands before `LIMIT`", "ARRANGE"),
        ("SELECT * ARRANGE BY a ARRANGE BY b", "`ARRANGE BY` stands twice", "ARRANGE"),
        ("SELECT * ARRANGE BY", "`ARRANGE BY` is incomplete", "ARRANGE BY"),
        ("SELECT * EXPAND BY 2", "`EXPAND BY` is incomplete", "EXPAND BY 2"),
        ("SELECT * SAMPLE BY a b", "expected the end of the clause, found `b`", "b"),
        ("SELECT * UNGROUP BY 1 + 2", "expected the name of a column, found `1`", "1"),
        ("SELECT * ARRANGE BY (SELECT a FROM t)", "a query is not possible here", "t"),
        ("SELECT max_weight(x)", "expected `:`, found `)`", ")"),
    ]);
}

#[test]
fn parameters_are_numbered_or_named() {
    check(&[
        ("SELECT a WHERE a = ? AND b = ?", "SELECT a FROM dataset WHERE a = $1 AND b = $2"),
        ("SELECT a WHERE a = :low AND b < $high", "SELECT a FROM dataset WHERE a = $low AND b < $high"),
        ("SELECT a WHERE a = $2 AND b = $1", "SELECT a FROM dataset WHERE a = $2 AND b = $1"),
        ("SELECT a::int, :b::int", "SELECT a::INT, $b::INT FROM dataset"),
        ("SELECT x[:a], x[b:c], x[(:a):2]", "SELECT subscript(x, ':b', a), x[b:c], x[($a):2] FROM dataset"),
        ("SELECT x[?:?]", "SELECT x[$1:$2] FROM dataset"),
        ("SELECT x[1 + :a, 0]", "SELECT subscript(x, 'i,i', 1 + $a, 0) FROM dataset"),
        ("SELECT [:a, :b], f(:c)", "SELECT [$a, $b], f($c) FROM dataset"),
        ("SELECT max_weight(x > :a: :b)", "SELECT CASE WHEN x > $a THEN $b END FROM dataset"),
        ("SELECT a LIMIT :limit", "SELECT a FROM dataset LIMIT $limit"),
        ("SELECT ':a', \":b\" -- ? :c", "SELECT ':a', \":b\" FROM dataset"),
    ]);
    let parameters = parse("SELECT ?, ? SAMPLE BY ?", true).unwrap().parameters;
    let parameters: Vec<_> =
        parameters.into_iter().map(|parameter| (parameter.name, parameter.bytes)).collect();
    assert_eq!(parameters, [("1".into(), 7..8), ("2".into(), 10..11), ("3".into(), 22..23)]);
    check_errors(&[
        ("SELECT ?, :a", "parameters are either all", ":a"),
        ("SELECT $a, $1", "parameters are either all", "$1"),
        ("SELECT ?, $1", "parameters are either all", "$1"),
        ("SELECT $0", "parameters are counted from 1", "$0"),
        ("SELECT ?1", "a parameter is written", "?1"),
    ]);
}

#[test]
fn explain_is_a_kind() {
    let kind = |text: &str| parse(text, true).unwrap().kind;
    assert_eq!(kind("SELECT a"), Kind::Query);
    assert_eq!(kind("EXPLAIN SELECT a"), Kind::Explain { analyze: false, verbose: false });
    assert_eq!(kind("explain analyze verbose SELECT a"), Kind::Explain { analyze: true, verbose: true });
    assert_eq!(sql("EXPLAIN VERBOSE SELECT a"), "SELECT a FROM dataset");
}

#[test]
fn errors_say_what_was_expected() {
    check_errors(&[
        ("", "the query is empty", ""),
        (" ; ", "the query is empty", ""),
        ("-- nothing", "the query is empty", ""),
        ("SELECT a; SELECT b", "one query at a time", "SELECT"),
        ("SELECT a FROM", "expected a name, found the end of the query", ""),
        ("SELECT FROM t", "expected an expression, found `FROM`", "FROM"),
        ("SELECT a FROM t WHERE", "expected an expression, found the end of the query", ""),
        ("SELECT a FROM t WHERE (a", "expected `)`, found the end of the query", ""),
        ("SELECT a FROM t x y", "expected the end of the query, found `y`", "y"),
        ("SELECT 'abc", "the string that begins before this place has no closing `'`", "'"),
        ("SELECT é, \"abc", "the quoted name has no closing quotation mark", "\""),
        ("SELECT a b c", "expected the end of the query, found `c`", "c"),
    ]);
    assert_eq!(
        parse("SELECT é,\n  a FROM t WHERE )", true).unwrap_err().to_string(),
        "expected an expression, found `)`\n2 |   a FROM t WHERE )\n                     ^"
    );
}

/// What reductions become if `image` and `mask` are tensors.
fn reduced(text: &str, keep_plain: &[usize]) -> (String, Vec<Reduction>) {
    let mut statement = parse(text, true).unwrap().statement;
    let is_tensor = |name: &str| ["image", "mask"].contains(&name);
    let keep_plain: HashSet<usize> = keep_plain.iter().copied().collect();
    let found = resolve_reductions(&mut statement, &is_tensor, &|_| false, &keep_plain);
    (statement.to_string(), found)
}

#[test]
fn reductions_are_of_rows_or_of_elements() {
    let check = |text: &str, expected: &str| assert_eq!(reduced(text, &[]).0, expected, "{text}");
    check("SELECT max(label)", "SELECT max(label) FROM dataset");
    check("SELECT MAX(image)", "SELECT tensor_max(image) FROM dataset");
    check(
        "SELECT mean(label), std(label), var(label)",
        "SELECT avg(label), stddev(label), var(label) FROM dataset",
    );
    check("SELECT any(a), all(b > 2)", "SELECT bool_or(a), bool_and(b > 2) FROM dataset");
    check("SELECT any(image > 2)", "SELECT tensor_any(image > 2) FROM dataset");
    check("SELECT ALL(mask)", "SELECT tensor_all(mask) FROM dataset");
    check(
        "SELECT a WHERE any(mask > 2) AND all(mask = 1)",
        "SELECT a FROM dataset WHERE tensor_any(mask > 2) AND tensor_all(mask = 1)",
    );
    check("SELECT max(x, 0)", "SELECT tensor_max(x, 0) FROM dataset");
    check("SELECT max(mean(image))", "SELECT max(tensor_mean(image)) FROM dataset");
    check("SELECT max(mean(image, 0))", "SELECT tensor_max(tensor_mean(image, 0)) FROM dataset");
    check(
        "SELECT max(width(image)), sum(shape(image)[0])",
        "SELECT max(width(image)), sum(shape(image)[0]) FROM dataset",
    );
    check("SELECT prod(shape(image))", "SELECT tensor_prod(shape(image)) FROM dataset");
    check(
        "SELECT sum(sqrt(image[0, 1:2]))",
        "SELECT tensor_sum(sqrt(subscript(image, 'i,a:b', 0, 1, 2))) FROM dataset",
    );
    check(
        "SELECT sum(cosine_similarity(image, [1]))",
        "SELECT sum(cosine_similarity(image, [1])) FROM dataset",
    );
    check(
        "SELECT sum(CASE WHEN max(image) > 1 THEN 1 END)",
        "SELECT sum(CASE WHEN tensor_max(image) > 1 THEN 1 END) FROM dataset",
    );
    check(
        "SELECT std(x) OVER (), mean(DISTINCT x)",
        "SELECT stddev(x) OVER (), avg(DISTINCT x) FROM dataset",
    );
    check("SELECT min(d.image) FROM dataset d", "SELECT tensor_min(d.image) FROM dataset d");
    check("SELECT a ORDER BY max(image)", "SELECT a FROM dataset ORDER BY tensor_max(image)");
    check(
        "SELECT label GROUP BY label HAVING max(x) > 1",
        "SELECT label FROM dataset GROUP BY label HAVING max(x) > 1",
    );
    // Names from inner queries.
    check(
        "SELECT max(i), max(m) FROM (SELECT image * 2 AS i, mean(image) AS m FROM dataset) q",
        "SELECT tensor_max(i), max(m) FROM (SELECT image * 2 AS i, tensor_mean(image) AS m FROM dataset) q",
    );
    check(
        "WITH c AS (SELECT image AS i, label AS image) SELECT max(i), max(image) FROM c",
        "WITH c AS (SELECT image AS i, label AS image FROM dataset) SELECT tensor_max(i), max(image) FROM c",
    );
    check(
        "WITH c(i) AS (SELECT image) SELECT max(i) FROM c",
        "WITH c (i) AS (SELECT image FROM dataset) SELECT tensor_max(i) FROM c",
    );
    check(
        "SELECT max(image) FROM (SELECT * FROM dataset) q",
        "SELECT tensor_max(image) FROM (SELECT * FROM dataset) q",
    );
    check(
        "SELECT mean(image) AS image ORDER BY max(image)",
        "SELECT tensor_mean(image) AS image FROM dataset ORDER BY max(image)",
    );
    check(
        "SELECT a WHERE label = (SELECT max(label) FROM t WHERE max(image) > 2)",
        "SELECT a FROM dataset WHERE label = (SELECT max(label) FROM t WHERE tensor_max(image) > 2)",
    );
    check(
        "SELECT max(label) UNION SELECT max(image)",
        "SELECT max(label) FROM dataset UNION SELECT tensor_max(image) FROM dataset",
    );
}

#[test]
fn reductions_are_numbered_and_may_be_kept_plain() {
    let text = "WITH c AS (SELECT max(image[0]) AS x) SELECT mean(image[1, 2]), sum(x) FROM c, dataset";
    let (_, found) = reduced(text, &[]);
    let found: Vec<_> = found
        .into_iter()
        .map(|found| (found.number, found.name, found.of_tensor, &text[found.bytes]))
        .collect();
    assert_eq!(
        found,
        [(0, "max".into(), true, "max"), (1, "mean".into(), true, "mean"), (2, "sum".into(), false, "sum"),]
    );
    assert_eq!(
        reduced(text, &[0, 1]).0,
        "WITH c AS (SELECT max(image[0]) AS x FROM dataset) SELECT avg(subscript(image, 'i,i', 1, 2)), sum(x) FROM c, dataset"
    );
}

/// Parses on a small stack: the error, or "fine".
fn on_a_small_stack(text: String) -> String {
    let run = move || match parse(&text, true) {
        Ok(mut parsed) => {
            resolve_reductions(&mut parsed.statement, &|_| true, &|_| false, &HashSet::new());
            "fine".to_owned()
        }
        Err(QueryError::Text { why, .. }) => why,
        Err(other) => other.to_string(),
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap()
}

#[test]
fn no_text_is_too_much() {
    let check = |text: String, why: &str| {
        let shown: String = text.chars().take(60).collect();
        let found = on_a_small_stack(text);
        assert!(found.starts_with(why), "{shown}: {found}");
    };
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let joined = |term: &str, by: &str, times: usize| format!("SELECT {}", vec![term; times].join(by));
    let deep = "more than 128 levels of nesting";
    check(nested("(", "1", ")", 100_000), deep);
    check(nested("(", "1", "", 100_000), deep);
    check(nested("(", "1", ")", 120), "fine");
    check(nested("f(", "1", ")", 120), "fine");
    check(nested("(SELECT ", "1", ")", 120), "fine");
    check(nested("(SELECT ", "1", ")", 10_000), deep);
    check(nested("CASE WHEN a THEN ", "1", " END", 120), "fine");
    check(nested("CASE WHEN a THEN ", "1", " END", 10_000), deep);
    check(nested("CASE WHEN a THEN ", "1", "", 100), "expected");
    check(nested("x[", "1", "]", 120), "fine");
    check(nested("[", "1", "]", 10_000), deep);
    check(nested("- ", "1", "", 10_000), deep);
    check(nested("- ", "1", "", 100), "fine");
    check(nested("NOT ", "a", "", 1_000), deep);
    check(nested("NOT ", "a", "", 100), "fine");
    check(nested("- NOT ~", "a", "", 1_000), deep);
    check(nested("end(", "a", ")", 500), "the query is nested too deeply");
    check(nested("cast(", "a", " AS int)", 100), "fine");
    check(nested("cast(", "a", ")", 100), "expected");
    check(nested("NOT (", "a b c d", ")", 100), "expected");
    check(nested("interval(", "a b c", ")", 100), "");
    let too_deep = "more than 32 levels of nesting in FROM";
    check(format!("SELECT 1 FROM {}t{}", "(".repeat(100), ")".repeat(100)), too_deep);
    check(format!("SELECT 1 FROM {}t{}", "(".repeat(32), ")".repeat(32)), "");
    check(format!("SELECT 1 FROM {}t{}", "(a JOIN ".repeat(100), ")".repeat(100)), too_deep);
    check(format!("SELECT 1 FROM {}t{}", "(a JOIN ".repeat(30), ")".repeat(30)), "");
    check(format!("SELECT 1 FROM {}SELECT 1{}", "(".repeat(60), ") a".repeat(60)), too_deep);
    check(format!("SELECT 1 FROM {}t{}", "(SELECT * FROM ".repeat(32), ")".repeat(32)), "");
    check(format!("SELECT 1 FROM {}t{}", "(SELECT * FROM ".repeat(33), ")".repeat(33)), too_deep);
    check(joined("x = 1", " OR ", 50_000), "fine");
    check(joined("x = 1 AND y", " OR ", 20_000), "fine");
    check(joined("x", " AND ", 50_000), "fine");
    check(joined("x", ", ", 50_000), "fine");
    check(joined("x", " + ", 900), "fine");
    check(joined("x", " + ", 50_000), "an expression with more than 2000 parts");
    check(joined("1 BETWEEN 2 AND 3", " BETWEEN 2 AND ", 5_000), "an expression with more than 2000 parts");
    check(joined("x", " IS NULL OR ", 10_000), "fine");
    check(format!("SELECT x{}", " IS NULL".repeat(10_000)), "an expression with more than 2000 parts");
    check(format!("SELECT x{}", "[0, 0]".repeat(10_000)), "an expression with more than 2000 parts");
    check(format!("SELECT x{}", ".y".repeat(900)), "");
    check(joined("1", " UNION SELECT ", 10_000), "more than 128 queries joined");
    check(joined("1", " UNION SELECT ", 100), "fine");
    check(format!("SELECT * FROM {}", ["t"; 2].join(" a, ")), "fine");
    let withs: Vec<String> = (0..40_000).map(|at| format!("q{at} AS (SELECT 1)")).collect();
    check(format!("WITH {} SELECT 1", withs.join(", ")), "WITH names 256 queries at most");
    check(format!("{}x ARRANGE BY y", "SELECT ".repeat(100_000)), "");
    let many: Vec<String> = (0..300).map(|at| format!("t{at}")).collect();
    check(format!("SELECT * FROM {}", many.join(", ")), "a query reads 256 tables at most");
    check(format!("SELECT '{}'", "a".repeat(1 << 20)), "the query has 1048585 bytes, more than the 1048576");
}
