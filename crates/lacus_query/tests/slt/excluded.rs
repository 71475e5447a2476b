//! Which records of DataFusion's suite need not pass, and why: `tests/slt/excluded.txt`.
//!
//! ```text
//! file   spark/                  -> why: none of these files is run
//! sql    ^explain                -> why: statements that begin so (without ^: that have this in them) are not asked
//! plain                          -> why: DataFusion itself, with the features we build, does not answer so
//! error  no column "             -> why: refused with a message that has this in it; a wrong answer is never covered
//! at     joins.slt:12,90         -> why: these lines
//! ```

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The rules.
pub(crate) struct Excluded {
    rules: Vec<Rule>,
    /// Which rules applied, by their number; of those by line, which lines.
    used: Mutex<BTreeSet<(usize, usize)>>,
}

struct Rule {
    kind: Kind,
    why: String,
}

enum Kind {
    File(String),
    Sql(String),
    Plain,
    Error(String),
    At(String, Vec<usize>),
}

impl Excluded {
    pub(crate) fn read(text: &str) -> Result<Excluded, String> {
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let rule = rule(line).ok_or_else(|| format!("line {}: cannot be read: {line}", at + 1))?;
            rules.push(rule);
        }
        Ok(Excluded { rules, used: Mutex::default() })
    }

    /// Why a file is not run.
    pub(crate) fn file(&self, name: &str) -> Option<&str> {
        self.find(|kind| matches!(kind, Kind::File(start) if name.starts_with(start.as_str())).then_some(0))
    }

    /// Why a statement is not asked.
    pub(crate) fn sql(&self, sql: &str) -> Option<&str> {
        let sql = flat(sql);
        self.find(|kind| match kind {
            Kind::Sql(pattern) => match pattern.strip_prefix('^') {
                Some(start) => sql.starts_with(start).then_some(0),
                None => sql.contains(pattern).then_some(0),
            },
            _ => None,
        })
    }

    /// Why it counts that DataFusion does not answer as expected either.
    pub(crate) fn plain(&self) -> Option<&str> {
        self.find(|kind| matches!(kind, Kind::Plain).then_some(0))
    }

    /// Why a query may be refused.
    pub(crate) fn error(&self, message: &str) -> Option<&str> {
        let message = flat(message);
        self.find(|kind| matches!(kind, Kind::Error(part) if message.contains(part)).then_some(0))
    }

    /// Why a record need not pass.
    pub(crate) fn at(&self, name: &str, line: usize) -> Option<&str> {
        self.find(|kind| match kind {
            Kind::At(file, lines) if file == name => lines.iter().position(|known| *known == line),
            _ => None,
        })
    }

    fn find(&self, applies: impl Fn(&Kind) -> Option<usize>) -> Option<&str> {
        let found = |(number, rule): (usize, &Rule)| applies(&rule.kind).map(|item| (number, item));
        let (number, item) = self.rules.iter().enumerate().find_map(found)?;
        self.used.lock().unwrap().insert((number, item));
        Some(&self.rules[number].why)
    }

    /// What never applied, as it is written. A list that is longer than it needs to be hides what breaks later.
    pub(crate) fn unused(&self) -> Vec<String> {
        let used = self.used.lock().unwrap();
        let mut unused = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            let is_used = |item: usize| used.contains(&(number, item));
            match &rule.kind {
                Kind::At(file, lines) => {
                    let lines = lines.iter().enumerate().filter(|(item, _)| !is_used(*item));
                    unused.extend(lines.map(|(_, line)| format!("at {file}:{line}")));
                }
                _ if is_used(0) => {}
                Kind::File(what) => unused.push(format!("file {what}")),
                Kind::Sql(what) => unused.push(format!("sql {what}")),
                Kind::Error(what) => unused.push(format!("error {what}")),
                Kind::Plain => unused.push("plain".to_owned()),
            }
        }
        unused
    }
}

fn rule(line: &str) -> Option<Rule> {
    let (what, why) = line.rsplit_once(" -> ")?;
    let (kind, what) = what.trim().split_once(' ').unwrap_or((what.trim(), ""));
    let what = what.trim();
    let kind = match kind {
        "file" if !what.is_empty() => Kind::File(what.to_owned()),
        "sql" if !what.is_empty() => Kind::Sql(flat(what)),
        "error" if !what.is_empty() => Kind::Error(flat(what)),
        "plain" if what.is_empty() => Kind::Plain,
        "at" => {
            let (file, lines) = what.rsplit_once(':')?;
            let lines = lines.split(',').map(|line| line.trim().parse()).collect::<Result<_, _>>();
            Kind::At(file.to_owned(), lines.ok()?)
        }
        _ => return None,
    };
    Some(Rule { kind, why: why.trim().to_owned() })
}

/// Text in small letters and with single spaces, without the comments of SQL before it.
pub(crate) fn flat(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.trim().is_empty() || line.trim().starts_with("--"));
    let words = lines.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[test]
fn rules_apply_and_are_missed() {
    let text = "# why\nfile spark/ -> no Spark\nsql ^explain -> plans\nplain -> features\nerror no column \" -> names\nat a.slt:3, 7 -> odd\n";
    let excluded = Excluded::read(text).unwrap();
    assert_eq!(excluded.file("spark/x.slt"), Some("no Spark"));
    assert_eq!(excluded.file("a.slt"), None);
    assert_eq!(excluded.sql("-- so\n  EXPLAIN  select 1"), Some("plans"));
    assert_eq!(excluded.sql("select 'explain'"), None);
    assert_eq!(excluded.error("no column \"A\""), Some("names"));
    assert_eq!(excluded.at("a.slt", 7), Some("odd"));
    assert_eq!(excluded.at("a.slt", 8), None);
    assert_eq!(excluded.unused(), ["plain", "at a.slt:3"]);
    assert!(Excluded::read("at a.slt:x -> y").is_err());
    assert!(Excluded::read("sql -> y").is_err());
}
