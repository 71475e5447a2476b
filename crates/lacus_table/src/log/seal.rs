//! Checksums that small objects carry of themselves.
//!
//! ```text
//! {"commitInfo":{…,"lacus":{"crc32c":"1f0c5a2b",…}}}
//! {"add":{…}}                           the CRC-32C of all these bytes, with the eight digits as zeros
//! ```
//!
//! JSON that was changed is often still JSON: one digit more or less, and a table has other rows. So log entries, refs,
//! tags and marks say what their bytes were when they were written. Objects without a checksum are older, or another
//! program's, and are read as they are.

use lacus_layout::crc32c;

/// The key under which an object carries its checksum.
pub const SEAL_KEY: &str = "crc32c";

/// What stands there until the checksum is known, and while it is computed.
pub const BLANK_SEAL: &str = "00000000";

/// What is in front of the digits. Inside a text, quotes have a backslash, so that this is never part of one.
const LEAD: &[u8] = b"\"crc32c\":\"";

/// What a checksum says of the bytes that carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// There is none.
    Absent,
    /// The bytes are those that were written.
    Whole,
    /// They are not.
    Broken,
}

/// Puts the checksum of a JSON text in the place of its [`BLANK_SEAL`]; a text without one stays as it is.
pub fn seal(mut text: Vec<u8>) -> Vec<u8> {
    if let Some(at) = digits(&text).filter(|at| text[*at..].starts_with(BLANK_SEAL.as_bytes())) {
        let crc = format!("{:08x}", crc32c(&text));
        text[at..at + crc.len()].copy_from_slice(crc.as_bytes());
    }
    text
}

/// Whether bytes are those that were sealed.
pub fn look_at_seal(bytes: &[u8]) -> Seal {
    let Some(at) = digits(bytes) else { return Seal::Absent };
    let end = at + BLANK_SEAL.len();
    let Some(stored) = bytes.get(at..end) else { return Seal::Broken };
    let mut blank = bytes.to_vec();
    blank[at..end].copy_from_slice(BLANK_SEAL.as_bytes());
    match stored == format!("{:08x}", crc32c(&blank)).as_bytes() {
        true => Seal::Whole,
        false => Seal::Broken,
    }
}

fn digits(bytes: &[u8]) -> Option<usize> {
    bytes.windows(LEAD.len()).position(|window| window == LEAD).map(|at| at + LEAD.len())
}

/// A number with its checksum, for objects that are nothing else.
pub(crate) fn sealed_number(number: u64) -> String {
    // In front, so that what is cut off is never taken for a number without a checksum.
    format!("crc32c:{:08x} {number}", crc32c(number.to_string().as_bytes()))
}

/// The number that an object is, with or without a checksum; `None` if it is damaged.
pub(crate) fn parse_number(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let Some((crc, number)) = text.split_once(' ') else { return text.parse().ok() };
    let expected = format!("crc32c:{:08x}", crc32c(number.as_bytes()));
    (crc == expected).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_breaks_a_seal() {
        let message = r#"a message with \"crc32c\":\"00000000\" in it"#;
        let text =
            format!("{{\"message\":\"{message}\",\"crc32c\":\"00000000\"}}\n{{\"add\":{{\"size\":123}}}}\n");
        let sealed = seal(text.clone().into_bytes());
        assert_eq!(look_at_seal(&sealed), Seal::Whole);
        assert_eq!(look_at_seal(b"{\"add\":{}}"), Seal::Absent);
        let lead = text.find("\"crc32c\":\"0").unwrap();
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            // A key that is no longer the key hides the checksum, and nothing else was changed then.
            let is_hidden = (lead..lead + LEAD.len()).contains(&at);
            let expected = if is_hidden { Seal::Absent } else { Seal::Broken };
            assert_eq!(look_at_seal(&damaged), expected, "{at}");
        }
        for length in lead + LEAD.len()..sealed.len() {
            assert_eq!(look_at_seal(&sealed[..length]), Seal::Broken, "{length}");
        }
    }

    #[test]
    fn numbers_come_back_or_not_at_all() {
        for number in [0, 7, 1024, u64::MAX] {
            let text = sealed_number(number);
            assert_eq!(parse_number(text.as_bytes()), Some(number));
            assert_eq!(parse_number(number.to_string().as_bytes()), Some(number), "as it was written before");
            for at in 0..text.len() {
                let mut damaged = text.clone().into_bytes();
                damaged[at] ^= 1;
                assert_eq!(parse_number(&damaged), None, "{text}: {at}");
                assert_eq!(parse_number(&text.as_bytes()[..at]), None, "{text}: {at}");
            }
        }
        assert_eq!((parse_number(b""), parse_number(b"\0\0")), (None, None));
    }
}
