//! The functions of the language, over tensors, media files and what is in them.
//!
//! Each is an ordinary function over Arrow values; [`reference`] is the page about all of them, made from the code.
//!
//! Types may depend on constants: `x[0:2]` has another type than `x[0:n]`, and `image * 2` another than `image * n`. DataFusion
//! demands that a type stays the same while it folds constants, so whoever makes a call hands in literals: `1 + 1` is folded to
//! `2` before the call is planned. Lists are the exception, their values never matter to a type.

mod function;
mod promote;
mod broadcast;
mod shape_of;
mod decode;
mod subscript;
mod reduce;
mod arithmetic;
mod elementwise;
mod linear;
mod arrange;
mod distance;
mod statistics;
mod boxes;
mod media;
mod classes;
mod json;
mod contains;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod in_sql;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use function::Function;

/// How the message begins when a reduction is asked of something that is no tensor: it may be an aggregate of SQL.
pub(crate) const NOT_A_TENSOR: &str = "not a tensor";

/// The functions by what they are about.
fn rooms() -> Vec<(&'static str, Vec<Function>)> {
    vec![
        ("Shapes", shape_of::functions()),
        ("Parts and files", [decode::functions(), subscript::functions()].into_iter().flatten().collect()),
        ("Reductions", reduce::functions()),
        ("Operators", arithmetic::functions()),
        ("Element by element", elementwise::functions()),
        ("Vectors and matrices", linear::functions()),
        ("Axes", arrange::functions()),
        ("Distances", distance::functions()),
        ("Statistics", statistics::functions()),
        ("Boxes", boxes::functions()),
        ("Facts about files", media::functions()),
        ("Class labels", classes::functions()),
        ("JSON", json::functions()),
        ("Membership", contains::functions()),
    ]
}

/// All functions.
pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    let udfs = rooms().into_iter().flat_map(|(title, functions)| {
        functions.into_iter().map(move |function| Arc::new(function.into_udf(title)))
    });
    udfs.collect()
}

/// What is written like a function and is a column of each table: which row it is.
const ROWS: &[(&str, &str, &str)] = &[
    (
        "row_id([table])",
        "The number that a row keeps in all states of the dataset. With several tables in FROM, name the one you mean.",
        "SELECT * WHERE row_id() NOT IN (SELECT row_id() FROM dataset@\"v1\")",
    ),
    (
        "row_number([table])",
        "The place of a row in its table, from 0 on. With OVER it is the function of SQL.",
        "SELECT * WHERE row_number() % 10 = 0",
    ),
    (
        "random(seed[, table])",
        "A number from 0 (which it may be) to 1 (which it never is) that looks random and depends on the seed and the row alone. \
         Without a seed it is the function of SQL, which differs in every run.",
        "SELECT * WHERE random(7) < 0.1",
    ),
];

/// What is written like a function and reads an array.
const ARRAYS: &[(&str, &str, &str)] = &[
    (
        "slice([dataset, ]'name'[, subscript…])",
        "An array of the dataset as a value, with numpy's subscripts inside of the brackets or behind them. It is read once, and with \
         constant bounds only as far as it is needed. `@\"v1\"` behind it means another state.",
        "SELECT * WHERE dot(embedding, slice('weights', 0, :)) > 0.5",
    ),
    (
        "cells([dataset, ]'name')",
        "In FROM: an array as a table, with a row for each stored element, its coordinates c0, c1, … and its value.",
        "SELECT c0, sum(value) FROM cells('visits') GROUP BY c0",
    ),
];

/// A page in Markdown about all functions: their parameters, what they do, an example of each.
pub fn reference() -> String {
    let (mut page, mut title) = (String::from("# Functions\n"), "");
    for udf in all() {
        let Some(about) = udf.documentation() else { continue };
        if about.doc_section.label != title {
            title = about.doc_section.label;
            page.push_str(&format!("\n## {title}\n"));
        }
        page.push_str(&format!("\n### `{}`\n\n{}\n", about.syntax_example, about.description));
        if !udf.aliases().is_empty() {
            let names: Vec<String> = udf.aliases().iter().map(|alias| format!("`{alias}`")).collect();
            page.push_str(&format!("\nAlso called {}.\n", names.join(", ")));
        }
        if let Some(example) = &about.sql_example {
            page.push_str(&format!("\n```sql\n{example}\n```\n"));
        }
    }
    for (title, all) in [("Rows", ROWS), ("Arrays", ARRAYS)] {
        page.push_str(&format!("\n## {title}\n"));
        for (syntax, about, example) in all {
            page.push_str(&format!("\n### `{syntax}`\n\n{about}\n\n```sql\n{example}\n```\n"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_on_the_page() {
        let page = reference();
        for udf in all() {
            assert!(page.contains(&format!("### `{}(", udf.name())), "{}", udf.name());
            for alias in udf.aliases() {
                assert!(page.contains(&format!("`{alias}`")), "{alias}");
            }
        }
        assert!(page.contains("### `shape(x[, axis])`"));
    }

    #[test]
    fn names_are_given_once() {
        let mut names: Vec<String> =
            all().iter().flat_map(|udf| [&[udf.name().to_owned()], udf.aliases()].concat()).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
