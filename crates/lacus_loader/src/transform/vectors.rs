//! The same loops, compiled for the vectors of this machine.

/// A loop that the compiler can vectorise. `run` and all it calls must be `#[inline(always)]`, else they are compiled for the
/// baseline.
pub(super) trait Loop {
    /// Runs it.
    fn run(self);
}

/// Runs a loop with vectors of 32 bytes where the machine has them. Wider vectors never change a result.
#[inline]
pub(super) fn vectorise(body: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has them.
        return unsafe { with_avx2(body) };
    }
    body.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(body: impl Loop) {
    body.run();
}
