//! The graph of commits, drawn in characters beside a log.
//!
//! ```text
//! *    merge
//! |\
//! | *  on a branch
//! * |  on main
//! |/
//! *    before
//! ```

use crate::id::CommitId;

/// What is drawn for one commit. Lines have no spaces at their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Beside the commit's first line of text.
    pub commit: String,
    /// Beside each further line of its text.
    pub beside: String,
    /// Between it and the next commit.
    pub below: Vec<String>,
}

/// Draws commits, each with its parents, children before parents (the order of [`log`](crate::log)). A parent that is not
/// among them is a line that goes on to the end.
pub fn graph(commits: &[(CommitId, Vec<CommitId>)]) -> Vec<Drawn> {
    let mut lanes: Vec<CommitId> = Vec::new();
    commits.iter().map(|(id, parents)| draw(&mut lanes, id, parents)).collect()
}

/// Draws one commit. `lanes` are the commits that the lines lead to, from left to right, each once.
fn draw(lanes: &mut Vec<CommitId>, id: &CommitId, parents: &[CommitId]) -> Drawn {
    let at = lanes.iter().position(|lane| lane == id).unwrap_or_else(|| {
        lanes.push(*id);
        lanes.len() - 1
    });
    let commit = line((0..lanes.len()).map(|lane| (2 * lane, if lane == at { '*' } else { '|' })));
    // Further lines of text come before the lanes change; the commit's own goes on if it has a parent.
    let goes_on = |lane: &usize| *lane != at || !parents.is_empty();
    let beside = line((0..lanes.len()).filter(goes_on).map(|lane| (2 * lane, '|')));
    let mut below = Vec::new();
    match parents.split_first() {
        Some((first, others)) => {
            lanes[at] = *first;
            for (number, other) in others.iter().enumerate() {
                // A new lane to the right; those behind move over.
                let from = at + number;
                let stay = (0..=from).map(|lane| (2 * lane, '|'));
                let move_over = (from..lanes.len()).map(|lane| (2 * lane + 1, '\\'));
                below.push(line(stay.chain(move_over)));
                lanes.insert(from + 1, *other);
            }
        }
        None => {
            lanes.remove(at);
            if at < lanes.len() {
                let stay = (0..at).map(|lane| (2 * lane, '|'));
                let move_over = (at..lanes.len()).map(|lane| (2 * lane + 1, '/'));
                below.push(line(stay.chain(move_over)));
            }
        }
    }
    while let Some((to, from)) = twice(lanes) {
        below.extend(join(lanes, to, from));
    }
    Drawn { commit, beside, below }
}

/// The first two lanes that lead to the same commit.
fn twice(lanes: &[CommitId]) -> Option<(usize, usize)> {
    (1..lanes.len()).find_map(|from| {
        let to = lanes[..from].iter().position(|lane| *lane == lanes[from])?;
        Some((to, from))
    })
}

/// Leads a lane into one to its left, across those between; those behind move over.
fn join(lanes: &mut Vec<CommitId>, to: usize, from: usize) -> Vec<String> {
    let stay = |end: usize| (0..end).map(|lane| (2 * lane, '|'));
    let move_over = (from..lanes.len()).map(|lane| (2 * lane - 1, '/'));
    lanes.remove(from);
    if from == to + 1 {
        return vec![line(stay(from).chain(move_over))];
    }
    let across = (to + 1..from - 1).map(|lane| (2 * lane + 1, '_'));
    let first = line(stay(from).chain(across).chain(move_over));
    vec![first, line(stay(lanes.len()).chain([(2 * to + 1, '/')]))]
}

fn line(marks: impl Iterator<Item = (usize, char)>) -> String {
    let mut text = Vec::new();
    for (at, mark) in marks {
        if text.len() <= at {
            text.resize(at + 1, ' ');
        }
        text[at] = mark;
    }
    text.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws commits written as `child: parent parent`, each on a line, with its name beside it.
    fn check(text: &str, expected: &str) {
        let id = |name: &str| CommitId::of(name.as_bytes());
        let mut commits = Vec::new();
        let mut names = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, parents) = line.split_once(':').unwrap();
            names.push(name);
            commits.push((id(name), parents.split_whitespace().map(id).collect()));
        }
        let mut drawn = String::new();
        for (lines, name) in graph(&commits).into_iter().zip(names) {
            drawn += &format!("{}  {name}\n", lines.commit);
            lines.below.iter().for_each(|line| drawn += &format!("{line}\n"));
        }
        assert_eq!(drawn, expected.trim_start_matches('\n'), "\n{drawn}");
    }

    #[test]
    fn a_line() {
        check("c: b\nb: a\na:", "*  c\n*  b\n*  a\n");
    }

    #[test]
    fn a_merge() {
        check(
            "m: b x\nx: a\nb: a\na:",
            "
*  m
|\\
| *  x
* |  b
|/
*  a
",
        );
    }

    #[test]
    fn two_heads() {
        check(
            "x: a\nb: a\na:",
            "
*  x
| *  b
|/
*  a
",
        );
    }

    #[test]
    fn a_lane_crosses_others() {
        check(
            "x: a\ny: b\nz: c\nw: a\nc: b\nb: a\na:",
            "
*  x
| *  y
| | *  z
| | | *  w
| |_|/
|/| |
| | *  c
| |/
| *  b
|/
*  a
",
        );
    }

    #[test]
    fn lanes_behind_a_merge_and_a_join_move_over() {
        check(
            "m: b x\nn: d\nx: b\nb: a\nd: a\na:",
            "
*  m
|\\
| | *  n
| * |  x
|/ /
* |  b
| *  d
|/
*  a
",
        );
        check(
            "p: q\nm: b x\nr: q\nx: b\nb: q\nq:",
            "
*  p
| *  m
| |\\
| | | *  r
| |_|/
|/| |
| | *  x
| |/
| *  b
|/
*  q
",
        );
    }

    #[test]
    fn a_merge_of_what_is_already_drawn() {
        check(
            "x: c\nm: b c\nc: b\nb:",
            "
*  x
| *  m
| |\\
| |/
|/|
* |  c
|/
*  b
",
        );
    }

    #[test]
    fn crosswise_merges() {
        check(
            "m: a b\nn: b a\nb: r\na: r\nr:",
            "
*  m
|\\
| | *  n
| | |\\
| |/ /
| |/
|/|
| *  b
* |  a
|/
*  r
",
        );
    }

    #[test]
    fn several_beginnings() {
        check(
            "a: b\nx:\nb:\nc:",
            "
*  a
| *  x
*  b
*  c
",
        );
        check(
            "x:\na: b\nb:",
            "
*  x
*  a
*  b
",
        );
        check(
            "m: x a\nx:\na: b\nb:",
            "
*  m
|\\
* |  x
 /
*  a
*  b
",
        );
    }

    #[test]
    fn parents_that_are_not_shown() {
        check(
            "m: a b\na: z",
            "
*  m
|\\
* |  a
",
        );
    }

    #[test]
    fn further_lines_go_beside() {
        let id = |name: &str| CommitId::of(name.as_bytes());
        let drawn = graph(&[(id("m"), vec![id("x"), id("y")]), (id("x"), vec![]), (id("y"), vec![])]);
        let beside: Vec<&str> = drawn.iter().map(|drawn| drawn.beside.as_str()).collect();
        assert_eq!(beside, ["|", "  |", ""]);
    }
}
