//! Transforms of pictures and sound, fused with decoding; a function of (seed, epoch, sample) alone.
