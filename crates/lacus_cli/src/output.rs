//! What people and programs see: results on stdout, talk on stderr.
//!
//! ```text
//! results  ─text | json→ stdout          talk ─say→ stderr, unless --quiet or --json
//! failures ─────────────────────────────────────→ stderr, always
//! ```

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lacus::table::{Progress, ProgressFn};
use serde_json::Value as Json;

use crate::failure::Failure;

/// How to speak.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub json: bool,
    pub quiet: bool,
}

impl Output {
    /// A result: `json` as one line for programs, else `text` for people.
    pub(crate) fn result(
        self,
        json: impl FnOnce() -> Json,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.json {
            true => self.stdout(&format!("{}\n", json())),
            false => self.stdout(&text()),
        }
    }

    /// A result of a command that changes something: `json` on stdout, or a word to people on stderr.
    pub(crate) fn done(
        self,
        json: impl FnOnce() -> Json,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.json {
            true => self.stdout(&format!("{}\n", json())),
            false => {
                self.say(&text());
                Ok(())
            }
        }
    }

    /// Text on stdout as it is.
    pub(crate) fn stdout(self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
    }

    /// A word to people.
    pub(crate) fn say(self, text: &str) {
        if !self.quiet && !self.json {
            to_stderr(text.trim_end());
        }
    }

    /// A failure, which is told even when quiet.
    pub(crate) fn fail(self, failure: &Failure) {
        let text = match self.json {
            true => failure.json().map(|json| json.to_string()),
            false => failure.text(),
        };
        if let Some(text) = text {
            to_stderr(&text);
        }
    }

    /// A progress bar that counts bytes, on a terminal only.
    pub(crate) fn bar(self, what: &str) -> Bar {
        self.bar_of(what, "{percent:>3} %  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left")
    }

    /// A progress bar that counts rows, on a terminal only.
    pub(crate) fn counter(self, what: &str) -> Bar {
        self.bar_of(what, "{percent:>3} %  {human_pos} of {human_len} rows  {per_sec}  {eta} left")
    }

    /// A progress bar that counts tasks, on a terminal only.
    pub(crate) fn tasks(self, what: &str) -> Bar {
        self.bar_of(what, "{percent:>3} %  {human_pos} of {human_len} tasks  {eta} left")
    }

    fn bar_of(self, what: &str, numbers: &str) -> Bar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return Bar { shown: None };
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(&format!("{{msg}}  {{bar:24}}  {numbers}")) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_message(what.to_owned());
        Bar { shown: Some(Arc::new((bar, Instant::now()))) }
    }
}

/// A line on stderr. When even that is closed there is nobody left to tell.
fn to_stderr(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A progress bar that appears once the work takes a while, and leaves nothing behind.
pub(crate) struct Bar {
    shown: Option<Arc<(ProgressBar, Instant)>>,
}

/// Work that is done before this needs no bar.
const UNSEEN: Duration = Duration::from_millis(300);

impl Bar {
    /// What the library tells progress to.
    pub(crate) fn listener(&self) -> Option<ProgressFn> {
        let shown = Arc::clone(self.shown.as_ref()?);
        Some(Arc::new(move |progress| move_to(&shown, progress)))
    }

    /// What imports and exports tell progress to.
    pub(crate) fn rows_listener(&self) -> Option<lacus::exchange::ProgressFn> {
        let shown = Arc::clone(self.shown.as_ref()?);
        Some(Arc::new(move |progress: lacus::exchange::Progress| {
            let total_bytes = progress.total_items.unwrap_or(progress.items);
            move_to(&shown, Progress { done_bytes: progress.items, total_bytes });
        }))
    }

    /// Says something in front of the bar.
    pub(crate) fn say(&self, text: &str) {
        if let Some(shown) = &self.shown {
            shown.0.set_message(text.to_owned());
        }
    }

    /// So far.
    pub(crate) fn set(&self, done_bytes: u64, total_bytes: u64) {
        if let Some(shown) = &self.shown {
            move_to(shown, Progress { done_bytes, total_bytes });
        }
    }
}

fn move_to((bar, since): &(ProgressBar, Instant), progress: Progress) {
    bar.set_length(progress.total_bytes);
    bar.set_position(progress.done_bytes);
    if bar.is_hidden() && since.elapsed() > UNSEEN {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(shown) = &self.shown {
            shown.0.finish_and_clear();
        }
    }
}

/// `1.50 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// `1,378,268`.
pub(crate) fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `3 tensors`, `1 file`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Part of a whole: `64.5 %`, or `None` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<String> {
    let share = part as f64 / whole as f64 * 100.0;
    match whole {
        0 => None,
        _ if share < 0.1 => Some(format!("{share:.2} %")),
        _ => Some(format!("{share:.1} %")),
    }
}

/// Milliseconds since 1970 as `2026-01-31T12:34:56.789Z`, which `--at` takes as it is.
pub(crate) fn time(millis: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(millis) {
        Some(time) => time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        None => format!("{millis} ms"),
    }
}

/// Some of many: at most `most` names, then how many more there are.
pub(crate) fn few(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Which side of a column its text keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Rows as aligned columns, two blanks between them, no blanks at the ends.
pub(crate) fn columns(sides: &[Side], rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; sides.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns_of(cell));
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, side), width) in row.iter().zip(sides).zip(&widths) {
            let blanks = " ".repeat(width - columns_of(cell));
            match side {
                Side::Left => line.extend([cell.as_str(), &blanks, "  "]),
                Side::Right => line.extend([blanks.as_str(), cell, "  "]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Named facts, one a line; further lines of a fact are indented under it.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let mut rows = Vec::new();
    for (name, fact) in facts {
        for (number, line) in fact.lines().enumerate() {
            let name = if number == 0 { *name } else { "" };
            rows.push(vec![name.to_owned(), line.to_owned()]);
        }
    }
    columns(&[Side::Left, Side::Left], &rows)
}

/// Terminal columns that a text takes: none for combining marks, two for East Asian characters and emoji.
fn columns_of(text: &str) -> usize {
    let of = |c: char| match c as u32 {
        0x0300..=0x036f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff01..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    };
    text.chars().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_whatever_is_in_them() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["NAME", "SIZE", ""]), row(["größe", "7", "x"]), row(["東京", "12345", ""])];
        let expected = "NAME    SIZE\ngröße      7  x\n東京   12345\n";
        assert_eq!(columns(&[Side::Left, Side::Right, Side::Left], &rows), expected);
    }

    #[test]
    fn facts_continue_under_their_names() {
        let text = facts(&[("a", "1".into()), ("long", "2\n3".into())]);
        assert_eq!(text, "a     1\nlong  2\n      3\n");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(size(1536), "1.50 KiB");
        assert_eq!(number(1_378_268), "1,378,268");
        assert_eq!(percent(1, 3).as_deref(), Some("33.3 %"));
        assert_eq!(percent(1, 3000).as_deref(), Some("0.03 %"));
        assert_eq!(percent(1, 0), None);
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(few(&names, 2), "a, b and 1 more");
        assert_eq!(few(&names, 3), "a, b, c");
    }
}
