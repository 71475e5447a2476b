//! Where the user stands in each dataset: a branch, or a state that is only read.
//!
//! ```text
//! $XDG_STATE_HOME/lacus/checkouts.json    {"file:///home/ada/data/": {"branch": "dev"}, …}
//! ```
//!
//! It is the user's and not the dataset's: a checkout of mine moves nobody else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use lacus::Place;

use crate::failure::Failure;

/// All of them, in a file.
#[derive(Clone, Debug)]
pub(crate) struct Checkouts {
    /// None where there is no home.
    file: Option<PathBuf>,
}

type All = BTreeMap<String, Place>;

/// Where what the user did is remembered; nowhere if there is no home.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| Some(absolute(std::env::home_dir()?)?.join(".local/state")));
    state.map(|state| state.join("lacus"))
}

impl Checkouts {
    /// Those of the user who runs this.
    pub(crate) fn of_user() -> Checkouts {
        Checkouts { file: state_directory().map(|state| state.join("checkouts.json")) }
    }

    /// Where the user stands in the dataset at `url`: on main, unless they went elsewhere.
    pub(crate) fn get(&self, url: &str) -> Result<Place, Failure> {
        let all = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(all.get(url).cloned().unwrap_or_else(Place::main))
    }

    /// Goes elsewhere.
    pub(crate) fn set(&self, url: &str, position: Place) -> Result<(), Failure> {
        let Some(file) = &self.file else {
            return Err(Failure::invalid("there is no place to remember a checkout")
                .hint("set XDG_STATE_HOME or HOME, or name the branch with --branch"));
        };
        let directory = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(|e| Failure::file("make", directory, &e))?;
        // Another checkout at the same time must not be lost. The system lets go of the lock when the process ends.
        let lock_path = file.with_extension("lock");
        let lock = File::create(&lock_path).map_err(|e| Failure::file("open", &lock_path, &e))?;
        lock.lock().map_err(|e| Failure::file("lock", &lock_path, &e))?;
        let mut all = read(file)?;
        let before = match position == Place::main() {
            true => all.remove(url),
            false => all.insert(url.to_owned(), position.clone()),
        };
        if before.unwrap_or_else(Place::main) == position {
            return Ok(());
        }
        write(directory, file, &all).map_err(|e| Failure::file("write", file, &e))
    }

    /// A new dataset is on main, whatever was at its place before.
    pub(crate) fn forget(&self, url: &str) -> Result<(), Failure> {
        match self.get(url)? == Place::main() {
            true => Ok(()),
            false => self.set(url, Place::main()),
        }
    }
}

fn read(file: &Path) -> Result<All, Failure> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(All::new()),
        Err(e) => return Err(Failure::file("read", file, &e)),
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::invalid(format!("{}: this is no list of checkouts: {error}", file.display()))
            .hint("remove the file: every dataset is on main then")
    })
}

fn write(directory: &Path, file: &Path, all: &All) -> std::io::Result<()> {
    let mut whole = tempfile::NamedTempFile::new_in(directory)?;
    serde_json::to_writer_pretty(&mut whole, all)?;
    whole.write_all(b"\n")?;
    whole.persist(file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lacus::{CommitId, Pinned};

    use super::*;

    #[test]
    fn each_dataset_has_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a/b/checkouts.json");
        let checkouts = Checkouts { file: Some(file.clone()) };
        assert_eq!(checkouts.get("u").unwrap(), Place::on("main"));
        assert!(!file.exists());
        checkouts.set("u", Place::on("dev")).unwrap();
        let version = Place::main().at(Pinned::Version(3));
        checkouts.set("v", version.clone()).unwrap();
        let commit = Place::main().at(Pinned::Commit(CommitId::of(b"x")));
        checkouts.set("w", commit.clone()).unwrap();
        assert_eq!(checkouts.get("u").unwrap(), Place::on("dev"));
        assert_eq!(checkouts.get("v").unwrap(), version);
        assert_eq!(checkouts.get("w").unwrap(), commit);
        checkouts.forget("u").unwrap();
        assert_eq!(checkouts.get("u").unwrap(), Place::on("main"));
        fs::write(&file, "garbage").unwrap();
        let failure = checkouts.get("u").unwrap_err();
        assert!(failure.message().contains("checkouts.json"), "{failure:?}");
    }
}
