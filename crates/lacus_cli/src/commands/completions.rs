//! `lacus completions`: a script that completes commands in a shell.

use clap::CommandFactory;
use serde_json::json;

use super::Context;
use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, args: CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lacus", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    context.output.result(|| json!({"shell": args.shell.to_string(), "script": script}), || script.clone())
}
