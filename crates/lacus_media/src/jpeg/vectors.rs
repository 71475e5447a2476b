//! The same loops, compiled for the vectors of this machine.
#![cfg(target_arch = "x86_64")]

/// A loop that the compiler can vectorise. `run` and all it calls must be `#[inline(always)]`, else they are compiled for the
/// baseline.
pub(super) trait Loop {
    /// What comes out.
    type Output;
    /// Runs it.
    fn run(self) -> Self::Output;
}

/// Whether this machine has AVX2 and what came with it. The answer is cached by the standard library.
#[inline]
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

/// Runs a loop with vectors of 32 bytes. Panics on machines that do not have them.
#[inline]
pub(super) fn vectorise<L: Loop>(body: L) -> L::Output {
    assert!(has_avx2(), "asked before");
    // SAFETY: the machine has them.
    unsafe { with_avx2(body) }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn with_avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}
