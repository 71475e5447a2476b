//! The same loops, compiled for the vectors of this machine.

/// A loop that the compiler can vectorise. `run` and all it calls must be `#[inline(always)]`, else they are compiled for the
/// baseline.
pub(crate) trait Loop {
    /// What comes out.
    type Output;
    /// Runs it.
    fn run(self) -> Self::Output;
}

/// Whether this machine has AVX2 and what came with it. The answer is cached by the standard library.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

/// Runs a loop with vectors of 32 bytes where the machine has them.
#[inline]
pub(crate) fn vectorise<L: Loop>(body: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the machine has them.
        return unsafe { with_avx2(body) };
    }
    body.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn with_avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}
