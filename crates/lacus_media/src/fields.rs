//! Numbers at places in foreign bytes: `None` where the bytes end too early.

macro_rules! reader {
    ($($name:ident: $type:ident $from:ident;)*) => {$(
        pub(crate) fn $name(bytes: &[u8], at: usize) -> Option<$type> {
            let end = at.checked_add(size_of::<$type>())?;
            Some($type::$from(bytes.get(at..end)?.try_into().expect("the range has this length")))
        }
    )*};
}

reader! {
    u16_be: u16 from_be_bytes;
    u16_le: u16 from_le_bytes;
    i32_be: i32 from_be_bytes;
    i32_le: i32 from_le_bytes;
    u32_be: u32 from_be_bytes;
    u32_le: u32 from_le_bytes;
    u64_be: u64 from_be_bytes;
}

/// Three bytes, least significant first.
pub(crate) fn u24_le(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(3)?)?;
    Some(u32::from_le_bytes([part[0], part[1], part[2], 0]))
}

/// `len` bytes at a place.
pub(crate) fn part(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

/// Reverses the bytes of each 16-bit number in place: big-endian files, little-endian tensors.
pub(crate) fn swap_u16(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_past_the_end_are_none() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(u16_be(&bytes, 2), Some(0x0304));
        assert_eq!(u16_le(&bytes, 2), Some(0x0403));
        assert_eq!(u24_le(&bytes, 1), Some(0x0004_0302));
        assert_eq!(u32_be(&bytes, 1), None);
        assert_eq!(u32_be(&bytes, usize::MAX), None);
        assert_eq!(part(&bytes, 1, usize::MAX), None);
    }

    #[test]
    fn swapping_twice_changes_nothing() {
        let mut bytes = [1, 2, 3, 4, 5];
        swap_u16(&mut bytes);
        assert_eq!(bytes, [2, 1, 4, 3, 5]);
        swap_u16(&mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5]);
    }
}
