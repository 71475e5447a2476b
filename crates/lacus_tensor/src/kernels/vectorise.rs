//! One loop, compiled for the vectors of several machines; which one runs is decided when the program does.
//!
//! Wider vectors never change a result: no operation is contracted or reordered by the compiler.

/// The vectors of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// What every machine of this architecture has.
    Baseline,
    /// 32 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The widest vectors of this machine. The answer is cached by the standard library.
#[inline]
pub(crate) fn vectors() -> Vectors {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Vectors::Avx512;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Vectors::Avx2;
        }
    }
    Vectors::Baseline
}

/// The same in a word. Products of floats are rounded in another order with others.
pub fn vectors_of_this_machine() -> &'static str {
    match vectors() {
        Vectors::Baseline => "baseline",
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => "avx2",
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => "avx512",
    }
}

/// A loop that the compiler can vectorise. `run` and all it calls must be `#[inline(always)]` or small enough to be
/// inlined, else they are compiled for the baseline.
pub(crate) trait Loop {
    /// What comes out.
    type Output;
    /// Runs it.
    fn run(self) -> Self::Output;
}

/// Runs a loop with the widest vectors of this machine.
#[inline]
pub(crate) fn vectorise<L: Loop>(body: L) -> L::Output {
    match vectors() {
        Vectors::Baseline => body.run(),
        // SAFETY: the machine has these.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { avx2(body) },
        // SAFETY: the machine has these.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { avx512(body) },
    }
}

/// Runs a loop with vectors of 32 bytes at most. Blocks of products over (min, +), written for 64 bytes, made 4.7 GFLOP/s with
/// two threads, and 46 like this; what the compiler did with the wide ones was not looked into.
#[inline]
pub(crate) fn vectorise_narrowly<L: Loop>(body: L) -> L::Output {
    match vectors() {
        Vectors::Baseline => body.run(),
        // SAFETY: the machine has these, and those with wider ones have them, too.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 | Vectors::Avx512 => unsafe { avx2(body) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// Asks for memory that will be read soon. Nothing happens if there is none.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which may point anywhere.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
