//! The `lacus` command.
//!
//! ```text
//! words ─args→ plain values ─commands/<verb>→ calls of the library ─output→ stdout, stderr
//! ```

mod failure;
mod output;
mod stop;

mod args;
mod checkouts;
mod numbers;
mod parameters;
mod place;
mod preview;
mod prompt;
mod shown;
mod statements;
mod stream;

mod commands;

use std::panic::{AssertUnwindSafe, PanicHookInfo};

use clap::Parser;
use clap::error::ErrorKind as ClapKind;
use lacus::table::ErrorKind;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::Output;

fn main() {
    std::process::exit(match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) => refuse(&error),
    });
}

fn run(cli: Cli) -> i32 {
    let output = Output { json: cli.global.json, quiet: cli.global.quiet };
    std::panic::set_hook(Box::new(move |panic| output.fail(&bug(panic))));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(ErrorKind::Unavailable, format!("start threads: {error}"));
            output.fail(&failure);
            return failure.exit_code();
        }
    };
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(commands::run(cli))));
    // A thread may still wait for a file or a server that nobody needs any more. It ends with the process;
    // shutting the runtime down under it would make it complain.
    std::mem::forget(runtime);
    match ended {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => {
            output.fail(&failure);
            failure.exit_code()
        }
        // The hook has told it.
        Err(_) => ErrorKind::Internal.exit_code(),
    }
}

/// A panic anywhere is a bug of ours.
fn bug(panic: &PanicHookInfo<'_>) -> Failure {
    let what = panic.payload_as_str().unwrap_or("unknown");
    let place = panic.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
    Failure::new(ErrorKind::Internal, format!("internal error: {what}{place}"))
        .hint("this is a bug in lacus; please report it with the command that led to it")
}

/// Words that make no command; also where `--help` and `--version` end up.
fn refuse(error: &clap::Error) -> i32 {
    let asked = matches!(error.kind(), ClapKind::DisplayHelp | ClapKind::DisplayVersion);
    if asked || error.kind() == ClapKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return if asked { 0 } else { ErrorKind::Invalid.exit_code() };
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text.split("\n\nFor more information").next().unwrap_or(text).trim_end();
    let json = std::env::args_os().any(|arg| arg == "--json");
    // Programs get the sentence, people also the usage below it.
    let text = if json { text.split("\n\n").next().unwrap_or(text) } else { text };
    let failure = Failure::invalid(text).hint("--help shows how it is used");
    Output { json, quiet: false }.fail(&failure);
    failure.exit_code()
}
