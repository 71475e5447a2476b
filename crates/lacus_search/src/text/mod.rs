//! Search by text: BM25, by an index or by reading.
//!
//! ```text
//! question ─tokenizer→ words ┐
//! segments of tantivy ─────────┼→ counts ─BM25→ ids and scores
//! texts that none covers ──────┘
//! ```

mod words;
mod wanted;
mod bm25;
mod look;
mod pack;
mod blocks;
mod segment;
mod cover;
mod store;
mod texts;
mod search;
mod index;

pub use index::{TextIndex, create_text_index, drop_text_index, text_index, text_indexes, update_text_index};
pub use search::{TextScores, text_scores};
pub use words::{DEFAULT_TOKENIZER, tokenizer_names};
