//! Deletion vectors: which rows of a file no longer count.
//!
//! The bytes are those of Delta's protocol: a magic number, then a 64-bit roaring bitmap in the
//! portable form. A small one stands inline in the log, a larger one in a file of its own. Nothing
//! here is private to Lacus: every reader of the feature understands it.

use bytes::Bytes;
use lacus_io::Store;
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::TableError;

/// The protocol's magic number of the portable bitmap array.
const MAGIC: u32 = 1_681_511_377;

/// A vector of at most this many bytes is kept inline: log entries stay small, and readers save a
/// request.
const MAX_INLINE_BYTES: usize = 2 << 10;

/// Where a deletion vector is, as `add` and `remove` actions say it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub storage_type: String,
    pub path_or_inline_dv: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    pub size_in_bytes: i32,
    pub cardinality: i64,
}

/// A vector made ready to be committed: the descriptor, and the file to put first, if any.
pub(crate) struct Encoded {
    pub descriptor: Descriptor,
    pub file: Option<(String, Bytes)>,
}

fn serialise(rows: &RoaringTreemap) -> Vec<u8> {
    let mut compact = rows.clone();
    compact.optimize();
    let mut bitmap = MAGIC.to_le_bytes().to_vec();
    compact.serialize_into(&mut bitmap).expect("writing to memory does not fail");
    bitmap
}

/// The vector inline, whatever its size.
pub(crate) fn encode_inline(rows: &RoaringTreemap) -> Descriptor {
    let mut bitmap = serialise(rows);
    let size_in_bytes = i32::try_from(bitmap.len()).unwrap_or(i32::MAX);
    // Base 85 works on groups of four bytes; readers ignore what follows the bitmap.
    bitmap.resize(bitmap.len().next_multiple_of(4), 0);
    Descriptor {
        storage_type: "i".into(),
        path_or_inline_dv: z85::encode(&bitmap),
        offset: None,
        size_in_bytes,
        cardinality: i64::try_from(rows.len()).unwrap_or(i64::MAX),
    }
}

/// Serialises `rows`. `name` is used when the vector needs a file.
pub(crate) fn encode(rows: &RoaringTreemap, name: Uuid) -> Encoded {
    let bitmap = serialise(rows);
    let mut descriptor = encode_inline(rows);
    if bitmap.len() <= MAX_INLINE_BYTES {
        return Encoded { descriptor, file: None };
    }
    descriptor.storage_type = "u".into();
    descriptor.path_or_inline_dv = z85::encode(name.as_bytes());
    descriptor.offset = Some(1);
    let mut file = vec![1u8];
    file.extend_from_slice(&(bitmap.len() as u32).to_be_bytes());
    file.extend_from_slice(&bitmap);
    file.extend_from_slice(&crc32fast::hash(&bitmap).to_be_bytes());
    Encoded { descriptor, file: Some((format!("deletion_vector_{name}.bin"), file.into())) }
}

/// Reads the vector a descriptor names.
pub(crate) async fn read(store: &Store, descriptor: &Descriptor) -> Result<RoaringTreemap, TableError> {
    let path = file_path(descriptor);
    let named = path.as_deref().unwrap_or(&descriptor.path_or_inline_dv);
    let bad = |what: &str| TableError::corrupt(named, format!("deletion vector: {what}"));
    let size = usize::try_from(descriptor.size_in_bytes).map_err(|_| bad("a negative size"))?;
    let bitmap: Bytes = match (descriptor.storage_type.as_str(), &path) {
        ("i", _) => {
            let mut bytes = z85::decode(&descriptor.path_or_inline_dv).map_err(|_| bad("not base 85"))?;
            if bytes.len() < size {
                return Err(bad("it is shorter than the log says"));
            }
            bytes.truncate(size);
            bytes.into()
        }
        ("u", Some(path)) => {
            let file = store.read_all(path).await.map_err(|e| match e.is_not_found() {
                true => bad("the file is gone"),
                false => TableError::from(e),
            })?;
            let start =
                usize::try_from(descriptor.offset.unwrap_or(0)).map_err(|_| bad("negative offset"))?;
            let head = file.get(start..start + 4).ok_or_else(|| bad("file too short"))?;
            let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if length != size {
                return Err(bad("its size is not what the log says"));
            }
            let body = start + 4..start + 4 + length;
            let tail = file.get(body.end..body.end + 4).ok_or_else(|| bad("file too short"))?;
            let bitmap = file.slice(body);
            if crc32fast::hash(&bitmap).to_be_bytes() != tail {
                return Err(bad("checksum does not match"));
            }
            bitmap
        }
        ("u", None) => return Err(bad("no file name")),
        (other, _) => return Err(bad(&format!("unknown storage type {other:?}"))),
    };
    if bitmap.get(..4) != Some(&MAGIC.to_le_bytes()[..]) {
        return Err(bad("unknown magic number"));
    }
    let rows = RoaringTreemap::deserialize_from(&bitmap[4..]).map_err(|e| bad(&e.to_string()))?;
    if i64::try_from(rows.len()) != Ok(descriptor.cardinality) {
        let what = format!("it has {} rows, the log says {}", rows.len(), descriptor.cardinality);
        return Err(bad(&what));
    }
    Ok(rows)
}

/// The file a descriptor names, relative to the table's root.
pub(crate) fn file_path(descriptor: &Descriptor) -> Option<String> {
    if descriptor.storage_type != "u" {
        return None;
    }
    let text = &descriptor.path_or_inline_dv;
    let split = text.len().checked_sub(20)?;
    let (prefix, encoded) = (text.get(..split)?, text.get(split..)?);
    let uuid = Uuid::from_slice(&z85::decode(encoded).ok()?).ok()?;
    Some(match prefix {
        "" => format!("deletion_vector_{uuid}.bin"),
        _ => format!("{prefix}/deletion_vector_{uuid}.bin"),
    })
}

/// A descriptor of the table at `from` as the table at `to` has to say it.
pub(crate) fn seen_from(descriptor: &Descriptor, from: &Store, to: &Store) -> Result<Descriptor, TableError> {
    let Some(path) = file_path(descriptor) else { return Ok(descriptor.clone()) };
    let path = to.path_to(&from.outer_path(&path)?);
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let text = &descriptor.path_or_inline_dv;
    let name = text.get(text.len().saturating_sub(20)..).unwrap_or_default();
    Ok(Descriptor { path_or_inline_dv: format!("{directory}{name}"), ..descriptor.clone() })
}

/// The descriptor of a copy of a vector's file at the table's root, and the name of that copy.
pub(crate) fn renamed(descriptor: &Descriptor, name: Uuid) -> (Descriptor, String) {
    let own = Descriptor { path_or_inline_dv: z85::encode(name.as_bytes()), ..descriptor.clone() };
    (own, format!("deletion_vector_{name}.bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(rows: RoaringTreemap, inline: bool) {
        let store = Store::open("memory://deletion-test", &Default::default()).unwrap();
        let encoded = encode(&rows, Uuid::new_v4());
        assert_eq!(encoded.file.is_none(), inline);
        if let Some((path, bytes)) = encoded.file {
            store.put_new(&path, bytes).await.unwrap();
        }
        assert_eq!(read(&store, &encoded.descriptor).await.unwrap(), rows);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn vectors_come_back_as_they_were() {
        check(RoaringTreemap::from_iter([3, 5, 1 << 40]), true).await;
        check((0..1_378_268).collect(), true).await;
        check((0..200_000).filter(|i| i % 3 != 0).collect(), false).await;
    }
}
