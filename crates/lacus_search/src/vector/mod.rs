//! Search by vector: exact top-k, and inverted lists (IVF).
