//! Random work by several writers on several branches, beside a model that keeps whole contents in memory.
//!
//! A failing seed is printed; `LACUS_SEED` runs it alone, `LACUS_STEPS` sets how many steps a seed takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lacus_history::{Choice, Combined, CommitId, HistoryError, Timeline};
use lacus_simulation::{Dice, seeded_world};
use lacus_table::{Table, TableError};
use lacus_tensor::ErrorKind;
use object_store::memory::InMemory;

use crate::tables::{
    Content, add_labels, append, branch, content, delete_row, merge, options, put, record, relabel,
    store_over, write,
};

/// Elements of an array, and of a chunk of it.
const LENGTH: usize = 6;
const CHUNK: usize = 2;

#[derive(Clone, Debug)]
struct Line {
    now: Content,
    head: Option<CommitId>,
    /// Whether something was written since the head.
    draft: bool,
}

#[derive(Default)]
struct Model {
    branches: BTreeMap<String, Line>,
    commits: HashMap<CommitId, (Content, Vec<CommitId>)>,
    tags: BTreeMap<String, CommitId>,
}

impl Model {
    fn ancestors(&self, from: CommitId) -> BTreeSet<CommitId> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(id) = waiting.pop() {
            if found.insert(id) {
                waiting.extend(&self.commits[&id].1);
            }
        }
        found
    }
}

/// Takes theirs where only they changed it; what both changed differently is a conflict, for which ours counts.
fn three_way<T: Clone + PartialEq>(base: &T, ours: &T, theirs: &T, take_theirs: bool) -> (T, bool) {
    if ours == theirs || base == theirs {
        (ours.clone(), false)
    } else if base == ours {
        (theirs.clone(), false)
    } else {
        (if take_theirs { theirs } else { ours }.clone(), true)
    }
}

/// What a merge should give, and whether it is in conflict.
fn merged(base: &Content, ours: &Content, theirs: &Content, take_theirs: bool) -> (Content, bool) {
    let mut conflict = false;
    let mut arrays = BTreeMap::new();
    let names: BTreeSet<&String> =
        [base, ours, theirs].iter().flat_map(|content| content.arrays.keys()).collect();
    for name in names {
        let of = |content: &Content| content.arrays.get(name).cloned();
        let result = match (of(base), of(ours), of(theirs)) {
            (Some(b), Some(o), Some(t)) => {
                let mut whole = Vec::new();
                for at in (0..LENGTH).step_by(CHUNK) {
                    let part = |values: &[i64]| values[at..at + CHUNK].to_vec();
                    let (chunk, clash) = three_way(&part(&b), &part(&o), &part(&t), take_theirs);
                    conflict |= clash;
                    whole.extend(chunk);
                }
                Some(whole)
            }
            (b, o, t) => {
                let (whole, clash) = three_way(&b, &o, &t, take_theirs);
                conflict |= clash;
                whole
            }
        };
        arrays.extend(result.map(|values| (name.clone(), values)));
    }
    let map = |content: &Content| content.rows.iter().copied().collect::<BTreeMap<u64, Option<i64>>>();
    let (b, o, t) = (map(base), map(ours), map(theirs));
    let mut kept = BTreeMap::new();
    for id in b.keys().chain(o.keys()).chain(t.keys()).collect::<BTreeSet<_>>() {
        let (row, clash) = three_way(&b.get(id), &o.get(id), &t.get(id), take_theirs);
        conflict |= clash;
        kept.extend(row.map(|label| (*id, *label)));
    }
    // Ours in their order, then what came from theirs in its order.
    let mut rows: Vec<(u64, Option<i64>)> = Vec::new();
    let mut take = |(id, _): &(u64, Option<i64>)| {
        if let Some(label) = kept.remove(id) {
            rows.push((*id, label));
        }
    };
    ours.rows.iter().for_each(&mut take);
    theirs.rows.iter().for_each(&mut take);
    (Content { arrays, rows }, conflict)
}

struct Writer {
    branch: String,
    table: Table,
}

struct Run {
    dice: Dice,
    timeline: Timeline,
    model: Model,
    writers: Vec<Writer>,
    next_name: u64,
}

impl Run {
    async fn begin(seed: u64) -> Run {
        let (store, world) = (store_over(Arc::new(InMemory::new())), seeded_world(seed));
        let mut main = Table::create(store.clone(), world.clone()).await.unwrap();
        add_labels(&mut main).await.unwrap();
        put(&mut main, "a0", &[0; LENGTH]).await.unwrap();
        let timeline = Timeline::new(store, world);
        let first = timeline.commit(&mut main, &record("first"), false).await.unwrap();
        let now = content(&main).await;
        let mut model = Model::default();
        model.commits.insert(first.id, (now.clone(), Vec::new()));
        model.branches.insert("main".into(), Line { now, head: Some(first.id), draft: false });
        let mut writers = Vec::new();
        for _ in 0..3 {
            let table = timeline.open("main", None).await.unwrap().table;
            writers.push(Writer { branch: "main".into(), table });
        }
        Run { dice: Dice::new(seed), timeline, model, writers, next_name: 1 }
    }

    fn line(&mut self, branch: &str) -> &mut Line {
        self.model.branches.get_mut(branch).unwrap()
    }

    fn pick<T: Clone>(&self, from: impl Iterator<Item = T>) -> Option<T> {
        let all: Vec<T> = from.collect();
        (!all.is_empty()).then(|| all[self.dice.below(all.len() as u64) as usize].clone())
    }

    async fn step(&mut self) {
        let at = self.dice.below(self.writers.len() as u64) as usize;
        let mut writer = self.writers.swap_remove(at);
        // Now and then a writer looks at what others did; at other times it writes over an old state.
        if !self.dice.one_in(3) {
            writer.table.refresh().await.unwrap();
        }
        let roll = self.dice.below(20);
        let (branch, version) = (&writer.branch, writer.table.version());
        trace(|| format!("roll {roll} on {branch} at version {version}: {:?}", self.model.branches[branch]));
        match roll {
            0..=7 => self.write(&mut writer).await,
            8..=10 => self.commit(&mut writer).await,
            11 => self.branch().await,
            12 | 13 => self.checkout(&mut writer).await,
            14 | 15 => self.merge(&mut writer).await,
            16 => self.undo(&mut writer).await,
            17 => self.transaction(&mut writer).await,
            18 => self.discard_or_restore(&mut writer).await,
            _ => self.upkeep(&mut writer).await,
        }
        self.compare(&writer.branch).await;
        self.writers.push(writer);
    }

    /// The branch is what the model says, seen by somebody new.
    async fn compare(&self, branch: &str) {
        let tip = self.timeline.tip(branch).await.unwrap();
        let line = &self.model.branches[branch];
        assert_eq!(content(&tip.table).await, line.now, "content of {branch}");
        assert_eq!(tip.head, line.head, "head of {branch}");
        assert_eq!(!tip.draft.is_empty(), line.draft, "draft of {branch}");
        if branch == "main" {
            assert_eq!(tip.table.borrowed_files().0, 0, "main stays plain");
        }
    }

    /// One random write, done to the table and, if that took it, to the content.
    async fn write_once(&self, table: &mut Table, now: &mut Content) -> Result<bool, TableError> {
        let value = self.dice.below(5) as i64;
        let array = self.pick(now.arrays.keys().cloned()).filter(|name| table.contains(name));
        let row = self.pick(now.rows.iter().map(|(id, _)| *id));
        let known = match row {
            Some(id) => table.rows().await?.position(id).is_some(),
            None => false,
        };
        match (self.dice.below(6), array, row.filter(|_| known)) {
            (0, ..) => {
                let name = format!("a{}", self.dice.below(4));
                let values: Vec<i64> = (0..LENGTH).map(|_| self.dice.below(3) as i64).collect();
                put(table, &name, &values).await?;
                now.arrays.insert(name, values);
            }
            (1 | 2, Some(name), _) => {
                let place = self.dice.below(LENGTH as u64) as usize;
                write(table, &name, place, value).await?;
                now.arrays.get_mut(&name).unwrap()[place] = value;
            }
            (3, _, Some(id)) => {
                relabel(table, id, value).await?;
                now.rows.iter_mut().filter(|(of, _)| *of == id).for_each(|row| row.1 = Some(value));
            }
            (4, _, Some(id)) if self.dice.one_in(2) => {
                delete_row(table, id).await?;
                now.rows.retain(|(of, _)| *of != id);
            }
            (5, Some(name), _) if self.dice.one_in(4) => {
                table.remove(&[&name], &options()).await?;
                now.arrays.remove(&name);
            }
            (3..=5, ..) => {
                let ids = append(table, &[value, value + 1]).await?;
                now.rows.extend(ids.into_iter().zip([value, value + 1]).map(|(id, v)| (id, Some(v))));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    async fn write(&mut self, writer: &mut Writer) {
        let mut now = self.line(&writer.branch).now.clone();
        match self.write_once(&mut writer.table, &mut now).await {
            Ok(wrote) => {
                trace(|| format!("  wrote {wrote}: {now:?}"));
                let line = self.line(&writer.branch);
                line.now = now;
                line.draft |= wrote;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }

    async fn commit(&mut self, writer: &mut Writer) {
        let result = self.timeline.commit(&mut writer.table, &record("work"), false).await;
        let line = self.model.branches.get_mut(&writer.branch).unwrap();
        match result {
            Ok(done) => {
                assert!(line.draft, "there was nothing to commit");
                self.model.commits.insert(done.id, (line.now.clone(), line.head.into_iter().collect()));
                line.head = Some(done.id);
                line.draft = false;
            }
            Err(error) => {
                assert!(matches!(error, HistoryError::NothingToCommit { .. }), "{error}");
                assert!(!line.draft);
            }
        }
    }

    async fn branch(&mut self) {
        let Some(from) = self.pick(self.model.commits.keys().copied().collect::<BTreeSet<_>>().into_iter())
        else {
            return;
        };
        let name = format!("b{}", self.next_name);
        self.next_name += 1;
        let table = branch(&self.timeline, &name, &from.to_string()).await.unwrap();
        let now = self.model.commits[&from].0.clone();
        assert_eq!(content(&table).await, now);
        self.model.branches.insert(name, Line { now, head: Some(from), draft: false });
        if self.dice.one_in(3) {
            let name = format!("t{}", self.next_name);
            self.timeline.create_tag(&name, from, None, String::new()).await.unwrap();
            self.model.tags.insert(name, from);
        }
    }

    async fn checkout(&mut self, writer: &mut Writer) {
        let name = self.pick(self.model.branches.keys().cloned()).unwrap();
        writer.table = self.timeline.open(&name, None).await.unwrap().table;
        writer.branch = name;
        // Any commit can be read as it was.
        if let Some((tag, id)) = self.pick(self.model.tags.clone().into_iter()) {
            let opened = self.timeline.open("main", Some(&tag)).await.unwrap();
            assert_eq!(content(&opened.table).await, self.model.commits[&id].0, "tag {tag}");
        }
    }

    async fn merge(&mut self, writer: &mut Writer) {
        let theirs = self.pick(self.model.branches.keys().cloned()).unwrap();
        let choice = [Choice::Stop, Choice::Ours, Choice::Theirs][self.dice.below(3) as usize];
        let result = merge(&self.timeline, &writer.branch, &mut writer.table, &theirs, &mut |_| choice).await;
        let (ours, theirs) =
            (self.model.branches[&writer.branch].clone(), self.model.branches[&theirs].clone());
        let (Some(our_head), Some(their_head)) = (ours.head, theirs.head) else { return };
        if ours.draft {
            let error = result.unwrap_err();
            assert!(matches!(error, HistoryError::Draft { .. }), "{error}");
            return;
        }
        let (our_past, their_past) = (self.model.ancestors(our_head), self.model.ancestors(their_head));
        if our_past.contains(&their_head) {
            assert_eq!(result.unwrap(), Combined::UpToDate);
            return;
        }
        if their_past.contains(&our_head) {
            assert!(matches!(result.unwrap(), Combined::FastForward(at) if at.id == their_head));
            let now = self.model.commits[&their_head].0.clone();
            *self.line(&writer.branch) = Line { now, head: Some(their_head), draft: false };
            return;
        }
        // Which of several equally good ancestors counts is the history's to say.
        let (base, _) = lacus_history::merge_base(self.timeline.commits(), &our_head, &their_head)
            .await
            .unwrap()
            .unwrap();
        assert!(our_past.contains(&base) && their_past.contains(&base));
        let (expected, conflict) = merged(
            &self.model.commits[&base].0,
            &ours.now,
            &self.model.commits[&their_head].0,
            choice == Choice::Theirs,
        );
        match result {
            Ok(Combined::Committed(done)) => {
                assert!(!conflict || choice != Choice::Stop, "a conflict was overlooked");
                self.model.commits.insert(done.id, (expected.clone(), vec![our_head, their_head]));
                *self.line(&writer.branch) = Line { now: expected, head: Some(done.id), draft: false };
            }
            Ok(other) => panic!("{other:?}"),
            Err(HistoryError::Conflicts { .. }) => assert!(conflict && choice == Choice::Stop),
            Err(error) => panic!("{error}"),
        }
    }

    /// Undoes, or does once more, some commit.
    async fn undo(&mut self, writer: &mut Writer) {
        let line = self.model.branches[&writer.branch].clone();
        let Some(head) = line.head else { return };
        let Some(id) = self.pick(self.model.ancestors(head).into_iter()) else { return };
        let parents = self.model.commits[&id].1.clone();
        let commit = self.timeline.commits().read(&id).await.unwrap();
        let (timeline, record) = (&self.timeline, record("undone"));
        let mut stop = |_: &_| Choice::Stop;
        let result = timeline.revert(&mut writer.table, (id, &commit), &record, &mut stop, &options()).await;
        trace(|| format!("  revert {id} of {parents:?}: {result:?}"));
        if line.draft || parents.len() != 1 {
            let error = result.unwrap_err();
            assert!(matches!(error, HistoryError::Draft { .. } | HistoryError::Refused { .. }), "{error}");
            return;
        }
        let (mut expected, conflict) =
            merged(&self.model.commits[&id].0, &line.now, &self.model.commits[&parents[0]].0, false);
        match result {
            Ok(Combined::Committed(done)) => {
                assert!(!conflict, "a conflict was overlooked");
                // Rows that come back go to where they were, which the model does not know.
                let found = content(&timeline.tip(&writer.branch).await.unwrap().table).await;
                let sorted = |content: &Content| {
                    let mut rows = content.rows.clone();
                    rows.sort();
                    rows
                };
                assert_eq!(sorted(&found), sorted(&expected));
                expected.rows = found.rows;
                self.model.commits.insert(done.id, (expected.clone(), vec![head]));
                *self.line(&writer.branch) = Line { now: expected, head: Some(done.id), draft: false };
            }
            Ok(other) => panic!("{other:?}"),
            Err(HistoryError::Conflicts { .. }) => assert!(conflict),
            Err(HistoryError::NothingToCommit { .. }) => assert_eq!(expected, line.now),
            Err(error) => panic!("{error}"),
        }
    }

    async fn transaction(&mut self, writer: &mut Writer) {
        writer.table.refresh().await.unwrap();
        let mut now = self.line(&writer.branch).now.clone();
        writer.table.begin().unwrap();
        let mut wrote = false;
        for _ in 0..=self.dice.below(4) {
            wrote |= self.write_once(&mut writer.table, &mut now).await.unwrap();
        }
        assert_eq!(content(&writer.table).await, now, "inside a transaction");
        if self.dice.one_in(3) {
            writer.table.abandon().await;
            return;
        }
        let done = self
            .timeline
            .commit_transaction(&mut writer.table, &record("together"), &options())
            .await
            .unwrap();
        assert_eq!(done.is_some(), wrote);
        if let Some(done) = done {
            let line = self.model.branches.get_mut(&writer.branch).unwrap();
            self.model.commits.insert(done.id, (now.clone(), line.head.into_iter().collect()));
            *line = Line { now, head: Some(done.id), draft: false };
        }
    }

    async fn discard_or_restore(&mut self, writer: &mut Writer) {
        let line = self.model.branches[&writer.branch].clone();
        if line.draft {
            let (timeline, table) = (&self.timeline, &mut writer.table);
            assert!(timeline.discard(table, Some("ada"), false, &options()).await.unwrap() > 0);
            let now = self.model.commits[&line.head.unwrap()].0.clone();
            *self.line(&writer.branch) = Line { now, head: line.head, draft: false };
            return;
        }
        let Some(id) = self.pick(self.model.commits.keys().copied().collect::<BTreeSet<_>>().into_iter())
        else {
            return;
        };
        let state = self.timeline.open(&writer.branch, Some(&id.to_string())).await.unwrap().table;
        self.timeline.restore(&mut writer.table, &state, &options()).await.unwrap();
        let now = self.model.commits[&id].0.clone();
        *self.line(&writer.branch) = Line { now, head: line.head, draft: true };
    }

    async fn upkeep(&mut self, writer: &mut Writer) {
        match self.dice.below(3) {
            0 => drop(writer.table.compact(&options()).await.unwrap()),
            1 => drop(self.timeline.publish(&writer.branch, &options()).await.unwrap()),
            _ => {
                let name = self.pick(self.model.branches.keys().filter(|b| *b != "main").cloned());
                let Some(name) = name.filter(|name| self.writers.iter().all(|w| w.branch != *name)) else {
                    return;
                };
                if name == writer.branch {
                    return;
                }
                self.timeline.delete_branch(&name, true).await.unwrap();
                self.model.branches.remove(&name);
            }
        }
    }
}

/// Tells whoever looks for the cause of a failure.
#[expect(clippy::print_stderr, reason = "a failing test tells its story")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// Tells what happens, where `LACUS_TRACE` is set.
fn trace(text: impl FnOnce() -> String) {
    if std::env::var_os("LACUS_TRACE").is_some() {
        tell(&text());
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

async fn run(seed: u64, steps: u64) {
    let mut run = Run::begin(seed).await;
    for step in 0..steps {
        let stepped = std::panic::AssertUnwindSafe(run.step());
        if let Err(panic) = futures::FutureExt::catch_unwind(stepped).await {
            tell(&format!("LACUS_SEED={seed} fails at step {step}"));
            std::panic::resume_unwind(panic);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_several_writers_do() {
    let steps = number("LACUS_STEPS").unwrap_or(150);
    match number("LACUS_SEED") {
        Some(seed) => run(seed, steps).await,
        None => {
            for seed in 0..8 {
                run(seed, steps).await;
            }
        }
    }
}
