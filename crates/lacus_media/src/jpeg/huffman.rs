//! Huffman codes of a JPEG, and the bits they are read from.
//!
//! A look at the next ten bits mostly gives a whole coefficient: how many zeros come before it, its value, and how many bits both
//! took. Longer ones are put together from the code and the bits behind it.

/// Bits that one look covers.
const LOOK: u32 = 10;
/// In an entry of a table: the code is known, the bits of the value are not within the look.
const CODE_ONLY: u32 = 0x80;
/// The run that ends a block: larger than any.
pub(super) const END_OF_BLOCK: u32 = 0x40;

/// The codes of one table.
pub(super) struct Codes {
    /// The segment it was made from (counts, then symbols), by which it is found again.
    made_from: Vec<u8>,
    is_ac: bool,
    /// By the next bits: `bits taken | run << 8 | value << 16`, or `bits of the code | CODE_ONLY | symbol << 8`, or 0 for long codes.
    look: Box<[u32; 1 << LOOK]>,
    /// Of each length: the first code behind those of this length, aligned to 16 bits.
    ends: [u32; 17],
    /// Of each length: the place of its first symbol, minus its first code.
    offsets: [i32; 17],
    symbols: Vec<u8>,
}

impl Codes {
    /// Reads a table from `counts` (16 of them) and the symbols behind. `None` for what is no prefix code.
    pub(super) fn new(segment: &[u8], is_ac: bool) -> Option<Codes> {
        let (counts, symbols) = segment.split_at_checked(16)?;
        let total: usize = counts.iter().map(|&count| usize::from(count)).sum();
        if total != symbols.len() || total > 256 {
            return None;
        }
        let mut codes = Codes {
            made_from: segment.to_vec(),
            is_ac,
            look: Box::new([0; 1 << LOOK]),
            ends: [0; 17],
            offsets: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = usize::from(counts[length as usize - 1]);
            codes.offsets[length as usize] = place as i32 - code as i32;
            if code + count as u32 > 1 << length {
                return None;
            }
            for &symbol in &symbols[place..place + count] {
                if length <= LOOK {
                    codes.fill(code << (LOOK - length), length, symbol);
                }
                code += 1;
            }
            place += count;
            codes.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Some(codes)
    }

    /// Whether it was made from this segment.
    pub(super) fn is_of(&self, segment: &[u8], is_ac: bool) -> bool {
        self.is_ac == is_ac && self.made_from == segment
    }

    /// Notes a code of `length` bits for all looks that begin with it.
    fn fill(&mut self, first: u32, length: u32, symbol: u8) {
        let rest = LOOK - length;
        let (run, size) = if self.is_ac {
            (u32::from(symbol >> 4), u32::from(symbol & 15))
        } else {
            (0, u32::from(symbol))
        };
        for behind in 0..1u32 << rest {
            let entry = if self.is_ac && size == 0 {
                // The end of the block, or sixteen zeros (fifteen, and a coefficient that is zero).
                length | if run == 15 { 15 } else { END_OF_BLOCK } << 8
            } else if size <= rest {
                let value = if size == 0 { 0 } else { extend(behind >> (rest - size), size) };
                (length + size) | run << 8 | (value as u32) << 16
            } else {
                length | CODE_ONLY | u32::from(symbol) << 8
            };
            self.look[(first + behind) as usize] = entry;
        }
    }
}

/// The value that `size` bits say: those that begin with 0 are negative.
#[inline(always)]
fn extend(bits: u32, size: u32) -> i32 {
    let below = (1i32 << size) - 1;
    let bits = bits as i32;
    if bits > below >> 1 { bits } else { bits - below }
}

/// Coded pixels, bit by bit. Stuffed zeros are left out; behind the end, or a marker, zeros come for ever and are counted.
///
/// Functions that are not inlined take and return it as a value: were it borrowed, the compiler would keep it in memory instead of in
/// registers, where each bit waits for the one before.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, the first at the top.
    buffer: u64,
    /// How many of them are valid.
    count: u32,
    /// How many of the last ones are made up.
    made_up: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0, buffer: 0, count: 0, made_up: 0 }
    }

    /// Whether bits were taken that the file does not have.
    pub(super) fn is_past_the_end(&self) -> bool {
        self.count < self.made_up
    }

    /// Makes at least 56 bits valid.
    #[inline(always)]
    fn refill(&mut self) {
        if let Some(next) = self.bytes.get(self.at..self.at + 8) {
            let word = u64::from_be_bytes(next.try_into().expect("eight bytes"));
            // Is there a byte of 0xff? Then its complement has a byte of zero.
            let has_ff = word & 0x8080_8080_8080_8080 & (!word).wrapping_sub(0x0101_0101_0101_0101) != 0;
            if !has_ff {
                self.buffer |= word >> self.count;
                self.at += ((63 - self.count) >> 3) as usize;
                self.count |= 56;
                return;
            }
        }
        *self = self.refilled_slowly();
    }

    #[cold]
    #[inline(never)]
    fn refilled_slowly(mut self) -> Bits<'a> {
        while self.count <= 56 {
            let byte = match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.made_up += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
        self
    }

    #[inline(always)]
    fn take(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count = self.count.wrapping_sub(bits);
    }

    /// Steps over the restart marker of this number. Whether it was there, with nothing but padding before it.
    pub(super) fn restart(&mut self, number: u8) -> bool {
        if self.is_past_the_end() || self.count - self.made_up >= 8 {
            return false;
        }
        let marker = [0xff, 0xd0 + number % 8];
        let is_there = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(&marker));
        *self = Bits { bytes: self.bytes, at: self.at + 2, buffer: 0, count: 0, made_up: 0 };
        is_there
    }

    /// A symbol whose code is longer than a look, or `None` if there is no such code.
    fn long_code(&mut self, codes: &Codes) -> Option<u32> {
        let next = (self.buffer >> 48) as u32;
        let length = (1..=16).find(|&length| next < codes.ends[length])?;
        let place = (next >> (16 - length)) as i32 + codes.offsets[length];
        let symbol = *codes.symbols.get(usize::try_from(place).ok()?)?;
        self.take(length as u32);
        Some(symbol.into())
    }

    /// The next run of zeros and the value behind it; for a table of differences the run is 0.
    #[inline(always)]
    pub(super) fn next(&mut self, codes: &Codes) -> Option<(u32, i32)> {
        // The longest code and the longest value take 32 bits.
        if self.count < 32 {
            self.refill();
        }
        let entry = codes.look[(self.buffer >> (64 - LOOK)) as usize & ((1 << LOOK) - 1)];
        if entry & 0xff != 0 && entry & CODE_ONLY == 0 {
            self.take(entry & 0x7f);
            return Some((entry >> 8 & 0xff, entry as i32 >> 16));
        }
        let (rest, found) = self.next_in_parts(codes, entry);
        *self = rest;
        found
    }

    #[inline(never)]
    fn next_in_parts(mut self, codes: &Codes, entry: u32) -> (Bits<'a>, Option<(u32, i32)>) {
        let found = self.take_in_parts(codes, entry);
        (self, found)
    }

    fn take_in_parts(&mut self, codes: &Codes, entry: u32) -> Option<(u32, i32)> {
        let symbol = if entry & CODE_ONLY != 0 {
            self.take(entry & 0x7f);
            entry >> 8 & 0xff
        } else {
            self.long_code(codes)?
        };
        let (run, size) = if codes.is_ac { (symbol >> 4, symbol & 15) } else { (0, symbol) };
        if size == 0 {
            let run = if !codes.is_ac || run == 15 { run } else { END_OF_BLOCK };
            return Some((run, 0));
        }
        if size > 15 {
            return None;
        }
        let value = extend((self.buffer >> (64 - size)) as u32, size);
        self.take(size);
        Some((run, value))
    }
}
