//! Where statements end: at a `;` that stands in no text, name or comment.

/// The next statement of a text and what is behind it; `None` if it does not end.
pub(crate) fn split_statement(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b';' => return Some((&text[..at], &text[at + 1..])),
            quote @ (b'\'' | b'"') => at = past(text, at + 1, &(quote as char).to_string())?,
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = past(text, at, "\n")?,
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = past(text, at + 2, "*/")?,
            _ => at += 1,
        }
    }
    None
}

/// Behind the next place where `end` stands.
fn past(text: &str, from: usize, end: &str) -> Option<usize> {
    text[from..].find(end).map(|found| from + found + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons() {
        let check = |text: &str, found: Option<(&str, &str)>| assert_eq!(split_statement(text), found);
        check("SELECT 1; SELECT 2", Some(("SELECT 1", " SELECT 2")));
        check("SELECT ';' AS \";\";", Some(("SELECT ';' AS \";\"", "")));
        check("SELECT 'it''s;';", Some(("SELECT 'it''s;'", "")));
        check("SELECT 1 -- ;\n;", Some(("SELECT 1 -- ;\n", "")));
        check("SELECT /* ; */ 1;x", Some(("SELECT /* ; */ 1", "x")));
        check("SELECT 1", None);
        check("SELECT ';", None);
        check("é;", Some(("é", "")));
    }
}
