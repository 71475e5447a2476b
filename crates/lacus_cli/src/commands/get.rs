//! `lacus get`: a tensor, or a slice of it, into a file, onto stdout or onto the screen.

mod file;
mod screen;

use lacus::layout::Header;
use lacus::table::{Table, TensorInfo};
use lacus::tensor::{Index, Selection};

use super::Context;
use crate::args::GetArgs;
use crate::failure::Failure;

/// A tensor that is wanted, and what of it.
struct Wanted {
    info: TensorInfo,
    indices: Vec<Index>,
    selection: Selection,
}

impl Wanted {
    fn new(table: &Table, name: &str, args: &GetArgs) -> Result<Wanted, Failure> {
        let info = table.tensor(name)?;
        let indices = args.slice.as_ref().map_or(vec![Index::Ellipsis], |slice| slice.0.clone());
        let selection = Selection::resolve(&info.header.shape, &indices).map_err(|error| {
            Failure::from(error).about(format!("tensor {name:?} of shape {}", info.header.shape))
        })?;
        Ok(Wanted { info, indices, selection })
    }

    fn name(&self) -> &str {
        &self.info.name
    }

    fn header(&self) -> &Header {
        &self.info.header
    }
}

pub(crate) async fn run(context: &Context, args: GetArgs) -> Result<(), Failure> {
    let table = context.open(&args.dataset.url, &args.version).await?;
    let wanted =
        args.names.iter().map(|name| Wanted::new(&table, name, &args)).collect::<Result<Vec<_>, _>>()?;
    match &args.output {
        None => screen::show(context, &table, &wanted, args.dense).await,
        Some(path) if path.as_os_str() == "-" => file::to_stdout(context, &table, &wanted).await,
        Some(path) => file::write(context, &table, &wanted, path, args.dense).await,
    }
}
