//! A new file that appears whole or not at all.
//!
//! Bytes go to a temporary file beside the target, are synced, and get the target's name in one rename.
//! When something fails the temporary file is removed, and what was at the target before stays.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Fault;
use crate::format::Packing;

/// The file a writer fills.
pub(crate) type Out = BufWriter<File>;

/// Writes a file by `fill`.
pub(crate) fn save(path: &Path, fill: impl FnOnce(&mut Out) -> Result<(), Fault>) -> Result<(), Fault> {
    let (file, partial) = Partial::beside(path)?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    fill(&mut out)?;
    let file = out.into_inner().map_err(|error| Fault::io("write")(error.into_error()))?;
    file.sync_all().map_err(Fault::io("write"))?;
    drop(file);
    partial.rename_to(path)
}

/// Runs `fill` over the compressing side of `out`.
pub(crate) fn packed(
    out: &mut Out,
    packing: Packing,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Fault>,
) -> Result<(), Fault> {
    match packing {
        Packing::Plain => fill(out),
        Packing::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            fill(&mut encoder)?;
            encoder.finish().map(drop).map_err(Fault::io("write"))
        }
        Packing::Zstd => {
            let mut encoder =
                zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(Fault::io("write"))?;
            encoder.include_checksum(true).map_err(Fault::io("write"))?;
            fill(&mut encoder)?;
            encoder.finish().map(drop).map_err(Fault::io("write"))
        }
    }
}

/// The temporary file; removed when dropped.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn beside(target: &Path) -> Result<(File, Partial), Fault> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            // The target's own name is left out: it may already be as long as names can be.
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".lacus-{}-{number}.partial", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((file, Partial { path })),
                // Left behind by a process that was killed and had this id before.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Fault::io("create")(error)),
            }
        }
    }

    fn rename_to(self, target: &Path) -> Result<(), Fault> {
        fs::rename(&self.path, target).map_err(Fault::io("rename"))?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // The error that led here is reported; a second one about cleaning up would hide it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a.npy");
        save(&target, |out| out.write_all(b"old").map_err(Fault::io("write"))).unwrap();
        let fault = save(&target, |out| {
            out.write_all(b"half").map_err(Fault::io("write"))?;
            Err(Fault::malformed("no"))
        });
        assert!(fault.is_err());
        assert_eq!(fs::read(&target).unwrap(), b"old");
        save(&target, |out| out.write_all(b"new").map_err(Fault::io("write"))).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("none/a.npy");
        let error = save(&target, |_| Ok(())).unwrap_err().in_file(&target);
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::NotFound);
    }
}
