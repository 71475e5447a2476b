//! `lacus loader-bench`: how fast this machine makes batches of a dataset, what limits it, and what would change that.

use std::time::{Duration, Instant};

use lacus::loader::{ColumnPlan, Loader, LoaderSpec, OnError, Settings, ShuffleWish, Stats};
use lacus::{Answer, Question, View};
use serde_json::{Value as Json, json};

use super::Context;
use super::query::opened;
use crate::args::{LoaderBenchArgs, ShuffleArg};
use crate::failure::Failure;
use crate::output::{Side, columns, number};

/// One measurement.
struct Measured {
    name: String,
    stats: Stats,
    /// How well it shuffles, compared with a full shuffle.
    quality: f64,
    samples: u64,
}

pub(crate) async fn run(context: &Context, args: LoaderBenchArgs) -> Result<(), Failure> {
    if !(args.seconds > 0.0 && args.seconds < 1e6) {
        return Err(Failure::invalid(format!("--seconds {}: a number above 0 is expected", args.seconds)));
    }
    let (_, asked) = opened(context, &args.dataset.url, &args.version).await?;
    let view = match (&args.query, &asked.dataset) {
        (Some(text), _) => match lacus::ask(&Question::new(text.clone()), &asked).await? {
            Answer::View(view) => view,
            _ => {
                let why = "the query answers with a table, and only rows of the dataset can be loaded";
                return Err(Failure::invalid(why).hint("start it with SELECT *, without GROUP BY"));
            }
        },
        (None, Some(view)) => view.clone(),
        (None, None) => return Err(Failure::invalid("there is no dataset")),
    };
    let mut all = vec![measured(&view, &args, args.shuffle).await?];
    for other in [ShuffleArg::None, ShuffleArg::Blocks, ShuffleArg::Full] {
        if other != args.shuffle {
            all.push(measured(&view, &args, other).await?);
        }
    }
    let advice = advice(&args, &all);
    context.output.result(|| told(&all, &advice), || shown(&all, &advice))
}

async fn measured(view: &View, args: &LoaderBenchArgs, shuffle: ShuffleArg) -> Result<Measured, Failure> {
    let names = match &args.columns {
        Some(names) => names.clone(),
        None => view.columns().into_iter().filter(|name| !view.computed().contains_key(name)).collect(),
    };
    let (name, wish) = match shuffle {
        ShuffleArg::None => ("in order".to_owned(), ShuffleWish::None),
        ShuffleArg::Blocks => {
            (format!("blocks of {}", size(args.block)), ShuffleWish::Blocks { bytes: args.block })
        }
        ShuffleArg::Full => ("fully shuffled".to_owned(), ShuffleWish::Full),
    };
    let settings = Settings {
        batch_size: args.batch_size,
        prefetch_bytes: args.prefetch,
        on_error: OnError::Skip,
        ..Settings::default()
    };
    let spec = LoaderSpec {
        views: vec![view.clone()],
        columns: names.iter().map(ColumnPlan::new).collect(),
        required: Vec::new(),
        shuffle: wish,
        draws: Default::default(),
        bucket_by: None,
        settings,
    };
    let loader = Loader::new(spec).await.map_err(lacus::Error::from)?;
    let quality = loader.quality(0).map_err(lacus::Error::from)?;
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    let loader = loader.with_new_stats();
    let mut epoch = 0;
    // Small datasets are gone through several times.
    while began.elapsed() < limit && loader.samples() > 0 {
        let mut batches = loader.batches(0, epoch, 0).map_err(lacus::Error::from)?;
        while began.elapsed() < limit && batches.next().await.map_err(lacus::Error::from)?.is_some() {}
        epoch += 1;
    }
    Ok(Measured { name, stats: loader.stats(), quality, samples: loader.samples() })
}

/// What to try, from what was measured.
fn advice(args: &LoaderBenchArgs, all: &[Measured]) -> Vec<String> {
    let Some(first) = all.first() else { return Vec::new() };
    let mut said = vec![first.stats.verdict.clone()];
    if first.stats.batches == 0 {
        return said;
    }
    if let Some(best) = all.iter().max_by(|a, b| a.stats.samples_per_sec.total_cmp(&b.stats.samples_per_sec))
        && best.stats.samples_per_sec > 1.2 * first.stats.samples_per_sec
    {
        let gain = best.stats.samples_per_sec / first.stats.samples_per_sec;
        said.push(format!("{} is {gain:.1} times as fast here", best.name));
    }
    if first.stats.fetch > 0.9 && first.stats.decode < 0.7 {
        said.push("reading is the limit: larger blocks (--block), more read ahead (--prefetch) or a copy nearby would help".into());
    }
    if first.quality < 0.95 && args.shuffle != ShuffleArg::None {
        let rows = number(first.samples);
        said.push(format!(
            "{rows} rows are shuffled with a quality of {:.2} of a full shuffle; larger blocks mix better",
            first.quality
        ));
    }
    if first.stats.failures > 0 {
        said.push(format!(
            "{} samples could not be loaded; the last: {}",
            number(first.stats.failures),
            first.stats.failed.last().map_or("", String::as_str)
        ));
    }
    said
}

fn told(all: &[Measured], advice: &[String]) -> Json {
    let one = |m: &Measured| {
        let s = &m.stats;
        json!({
            "shuffle": m.name, "samples_per_second": s.samples_per_sec, "batches": s.batches, "samples": s.samples,
            "stored_bytes_per_second": s.stored_bytes_per_sec, "decoded_bytes_per_second": s.decoded_bytes_per_sec,
            "fetch": s.fetch, "decode": s.decode, "wait": s.wait, "quality": m.quality, "failures": s.failures,
            "verdict": s.verdict,
        })
    };
    json!({"measured": all.iter().map(one).collect::<Vec<_>>(), "advice": advice})
}

fn shown(all: &[Measured], advice: &[String]) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut rows = vec![
        ["", "samples/s", "read/s", "decoded/s", "reading", "decoding", "shuffle quality"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for m in all {
        let s = &m.stats;
        rows.push(vec![
            m.name.clone(),
            number(s.samples_per_sec as u64),
            size(s.stored_bytes_per_sec as u64),
            size(s.decoded_bytes_per_sec as u64),
            percent(s.fetch),
            percent(s.decode),
            format!("{:.3}", m.quality),
        ]);
    }
    let sides = [Side::Left, Side::Right, Side::Right, Side::Right, Side::Right, Side::Right, Side::Right];
    let mut text = columns(&sides, &rows);
    advice.iter().for_each(|line| text.push_str(&format!("- {line}\n")));
    text
}

fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
