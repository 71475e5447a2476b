//! Element types, by numpy's names.

use crate::error::TensorError;
use std::fmt;
use std::str::FromStr;

/// The type of a tensor's elements. All are little-endian in memory and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE half precision.
    F16,
    /// The upper half of an `F32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// A pair of `F32`: real, imaginary.
    C64,
    /// A pair of `F64`: real, imaginary.
    C128,
}

impl DType {
    /// Every dtype, in order.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// Bytes of one number inside an element: half of the element for complex types, else all of it.
    /// Byte shuffling and byte swapping work on this width.
    pub const fn component_bytes(self) -> usize {
        if self.is_complex() { self.size_bytes() / 2 } else { self.size_bytes() }
    }

    /// The name in numpy (and in ml_dtypes for `bfloat16`).
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    /// True for the real floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// True for signed and unsigned integers; `Bool` is not one.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            DType::I8
                | DType::I16
                | DType::I32
                | DType::I64
                | DType::U8
                | DType::U16
                | DType::U32
                | DType::U64
        )
    }

    /// True for pairs of floats.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = TensorError;

    fn from_str(name: &str) -> Result<DType, TensorError> {
        DType::ALL
            .into_iter()
            .find(|dtype| dtype.name() == name)
            .ok_or_else(|| TensorError::UnknownDType { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
            assert_eq!(dtype.to_string(), dtype.name());
        }
        let error = "float".parse::<DType>().unwrap_err();
        assert!(error.to_string().starts_with("unknown dtype 'float': expected one of bool, int8, "));
    }

    #[test]
    fn sizes_follow_the_names() {
        for dtype in DType::ALL {
            let digits: String = dtype.name().chars().filter(char::is_ascii_digit).collect();
            let bits = digits.parse().unwrap_or(8);
            assert_eq!(dtype.size_bytes() * 8, bits, "{dtype}");
            assert_eq!(dtype.component_bytes() * if dtype.is_complex() { 2 } else { 1 }, dtype.size_bytes());
            let classes = [dtype.is_float(), dtype.is_integer(), dtype.is_complex(), dtype == DType::Bool];
            assert_eq!(classes.into_iter().filter(|&class| class).count(), 1, "{dtype}");
        }
    }
}
