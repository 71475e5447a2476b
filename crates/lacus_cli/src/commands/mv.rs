//! `lacus mv`: renames a tensor or a column.

use lacus::table::ErrorKind;
use serde_json::json;

use super::Context;
use crate::args::MvArgs;
use crate::failure::Failure;

pub(crate) async fn run(context: &Context, args: MvArgs) -> Result<(), Failure> {
    let MvArgs { dataset, from, to } = args;
    let mut table = context.open_to_write(&dataset.url).await?;
    if from != to && table.contains(&to) {
        let taken = Failure::new(ErrorKind::Conflict, format!("there is a tensor {to:?} already"));
        return Err(taken.hint("`lacus rm` removes it"));
    }
    let bar = context.output.bar("mv");
    let options = context.write_options(false, &bar);
    let version = match table.is_column(&from) && from != to {
        true => table.rename_column(&from, &to, &options).await?,
        false => table.rename(&from, &to, &options).await?,
    };
    drop(bar);
    context.output.done(
        || json!({"version": version, "from": from, "to": to}),
        || format!("renamed {from} to {to}, version {version}"),
    )
}
