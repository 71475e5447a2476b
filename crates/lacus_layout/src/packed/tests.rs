use lacus_tensor::DType;
use pco::ChunkConfig;

use super::frame::Repeats;
use super::reader::{FRAME_NUMBERS, put_varints};
use super::*;

fn ints_round_trip(ints: &[u64]) -> usize {
    let mut packer = Packer::default();
    let mut shortest = usize::MAX;
    let plans = [
        Plan::plain(Effort::Small),
        Plan::Zstd(Repeats::Sought),
        Plan::Zstd(Repeats::Ignored),
        Plan::Varints(Repeats::Sought),
        Plan::Varints(Repeats::Ignored),
        Plan::for_ints(ints, Effort::Quick, &mut packer).unwrap(),
    ];
    for plan in plans {
        let mut bytes = Vec::new();
        packer.write_ints(ints, &plan, &mut bytes).unwrap();
        let mut reader = Reader::new(&bytes);
        let mut back = Vec::new();
        packer.read_ints(&mut reader, ints.len(), &mut back).unwrap();
        reader.finish().unwrap();
        assert_eq!(back, ints);
        shortest = shortest.min(bytes.len());
    }
    shortest
}

#[test]
fn ints_survive() {
    let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    assert_eq!(ints_round_trip(&[]), 0);
    assert_eq!(ints_round_trip(&[0]), 3);
    assert_eq!(ints_round_trip(&[300]), 4);
    ints_round_trip(&[u64::MAX, 0, 1]);
    for n in [2, 100, 511, 512, 5000, FRAME_NUMBERS as u64, FRAME_NUMBERS as u64 + 1, 200_000] {
        for shift in [0, 31, 32, 48, 60] {
            ints_round_trip(&(0..n).map(|i| noise(i) >> shift).collect::<Vec<_>>());
        }
        assert!(ints_round_trip(&vec![7; n as usize]) < 100);
    }
}

#[test]
fn values_survive_bit_for_bit() {
    let noise: Vec<u8> =
        (0u64..16 * 3000).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u8).collect();
    let mut specials = Vec::new();
    for bits in
        [0u64, 1 << 63, 0x7ff0 << 48, 0xfff0 << 48, 0x7ff0 << 48 | 1, 0xfff8 << 48 | 77, 1, 0x3ff0 << 48]
    {
        specials.extend(bits.to_le_bytes());
    }
    for bits in [0x7f80_0001u32, 0xffc0_1234, 0x8000_0000, 1, 0x3f80_0000, 0x4000_0000, 0x4040_0000] {
        specials.extend(bits.to_le_bytes());
    }
    specials.resize(specials.len() / 16 * 16, 0);
    let counts: Vec<u8> = (0..3000u32).flat_map(|i| (1.0 + (i % 7) as f32).to_le_bytes()).collect();
    let cents: Vec<u8> = (0..3000u32).flat_map(|i| ((i * 37 % 1999) as f64 / 100.0).to_le_bytes()).collect();
    let mut packer = Packer::default();
    for dtype in DType::ALL {
        for bytes in [&noise, &specials.repeat(200), &counts, &cents] {
            for plan in [
                Plan::plain(Effort::Small),
                Plan::Zstd(Repeats::Sought),
                Plan::Zstd(Repeats::Ignored),
                Plan::for_values(dtype, bytes, Effort::Quick, &mut packer).unwrap(),
            ] {
                let mut packed = Vec::new();
                packer.write_values(dtype, bytes, &plan, &mut packed).unwrap();
                let mut reader = Reader::new(&packed);
                let mut back = vec![0; bytes.len()];
                packer.read_values(&mut reader, dtype, &mut back).unwrap();
                reader.finish().unwrap();
                assert!(*bytes == back, "{dtype} {plan:?}");
            }
        }
    }
}

#[test]
fn lengths_are_read_as_written() {
    for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX] {
        let mut bytes = Vec::new();
        write_varint(value, &mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.varint().unwrap(), value);
        reader.finish().unwrap();
    }
    for bytes in [&[0x80][..], &[0xff; 10], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]] {
        assert!(Reader::new(bytes).varint().is_err(), "{bytes:?}");
    }
}

#[test]
fn many_varints_are_as_one_by_one() {
    let edges = (0..64).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    let values: Vec<u64> = edges.chain([u64::MAX]).cycle().take(5000).collect();
    let mut buffer = Vec::new();
    for n in [0, 1, 2, 192, 255, 256, 257, 5000, 3] {
        let mut expected = Vec::new();
        values[..n].iter().for_each(|value| write_varint(*value, &mut expected));
        let end = put_varints(&values[..n], &mut buffer);
        assert!(buffer[..end] == expected, "{n}");
    }
}

/// Every damaged array ends in numbers or in an error.
#[test]
fn damage_is_survived() {
    let ints: Vec<u64> =
        (0..700u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (40 + i % 20)).collect();
    let floats: Vec<u8> = (0..700).flat_map(|i| (f64::from(i * i % 977) / 100.0).to_le_bytes()).collect();
    let mut packer = Packer::default();
    let auto = Plan::Pco(ChunkConfig::default());
    let plans = [
        Plan::plain(Effort::Small),
        Plan::Zstd(Repeats::Sought),
        Plan::Varints(Repeats::Sought),
        Plan::Varints(Repeats::Ignored),
        auto,
    ];
    for plan in plans {
        let mut bytes = Vec::new();
        packer.write_ints(&ints, &plan, &mut bytes).unwrap();
        let split = bytes.len();
        packer.write_values(DType::F64, &floats, &plan, &mut bytes).unwrap();
        let mut read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let _ = packer.read_ints(&mut reader, ints.len(), &mut Vec::new());
            let mut reader = Reader::new(bytes.get(split..).unwrap_or_default());
            let _ = packer.read_values(&mut reader, DType::F64, &mut vec![0; floats.len()]);
        };
        for end in 0..bytes.len() {
            read(&bytes[..end]);
        }
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            read(&damaged);
        }
    }
}
