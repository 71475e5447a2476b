//! `lacus explain`: how a tensor program would be computed, without any data.

use std::io::Read;

use lacus::algebra::{ExplainOptions, Objective, explain_program, parse_shapes};

use super::Context;
use crate::args::{ExplainArgs, Goal};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, args: ExplainArgs) -> Result<(), Failure> {
    let text = read_program(&args.program)?;
    let shapes = match &args.shapes {
        Some(text) => {
            parse_shapes(text).map_err(|e| Failure::new(e.kind(), e.to_string()).about("--shapes"))?
        }
        None => Default::default(),
    };
    let defaults = ExplainOptions::default();
    let options = ExplainOptions {
        shapes,
        sites: args.sites,
        block: args.block,
        objective: match args.objective {
            Goal::Moved => Objective::Moved,
            Goal::Time => Objective::Time,
        },
        memory_bytes: args.memory,
        rounds: args.rounds.unwrap_or(defaults.rounds),
        ..defaults
    };
    // Errors show the place in the text, and the text is the file's.
    let explained = lacus::io::blocking(|| explain_program(&text, &options));
    let explanation = explained.map_err(|e| Failure::new(e.kind(), e.to_string()).about(&args.program))?;
    let shown = || if args.dot { explanation.to_dot() } else { explanation.to_text() };
    context.output.result(|| explanation.to_json(), shown)
}

/// The text of a program; `-` is standard input.
pub(super) fn read_program(path: &str) -> Result<String, Failure> {
    let failed = |e: std::io::Error| Failure::file("read", std::path::Path::new(path), &e);
    if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Bytes: a number, or one with a unit (`2GiB`, `500MB`).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "kib" | "k" => 1024.0,
        "mib" | "m" => 1024f64.powi(2),
        "gib" | "g" => 1024f64.powi(3),
        "tib" | "t" => 1024f64.powi(4),
        other => return Err(format!("unit {other:?} is not known; use B, kB, MB, GB, KiB, MiB, GiB")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no number of bytes"))?;
    let bytes = number * factor;
    match (1.0..1e18).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(format!("{text:?} is too little or too much")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("1.5 kB"), Ok(1500));
        assert_eq!(parse_bytes("77"), Ok(77));
        for bad in ["", "x", "1 parsec", "0", "-3"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
