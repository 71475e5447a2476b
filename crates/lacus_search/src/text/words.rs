//! From a text to its words: the same for what is searched and for what is searched for.

use tantivy::tokenizer::{
    Language, LowerCaser, RemoveLongFilter, SimpleTokenizer, Stemmer, TextAnalyzer, TokenStream,
    WhitespaceTokenizer,
};

/// The tokenizer of a column that has no index, and of an index that names none.
pub const DEFAULT_TOKENIZER: &str = "simple";

/// Words of more bytes are left out, both of texts and of questions: they are data in disguise (base64, hashes), and tantivy has a
/// limit of its own.
const LONGEST_WORD_BYTES: usize = 255;

/// By the first part of `en_stem`.
const LANGUAGES: &[(&str, Language)] = &[
    ("ar", Language::Arabic),
    ("da", Language::Danish),
    ("de", Language::German),
    ("el", Language::Greek),
    ("en", Language::English),
    ("es", Language::Spanish),
    ("fi", Language::Finnish),
    ("fr", Language::French),
    ("hu", Language::Hungarian),
    ("it", Language::Italian),
    ("nl", Language::Dutch),
    ("no", Language::Norwegian),
    ("pt", Language::Portuguese),
    ("ro", Language::Romanian),
    ("ru", Language::Russian),
    ("sv", Language::Swedish),
    ("ta", Language::Tamil),
    ("tr", Language::Turkish),
];

/// The names of all tokenizers.
pub fn tokenizer_names() -> Vec<String> {
    let stems = LANGUAGES.iter().map(|(code, _)| format!("{code}_stem"));
    ["simple", "whitespace"].map(str::to_owned).into_iter().chain(stems).collect()
}

/// Cuts texts into words.
#[derive(Clone)]
pub(crate) struct Tokenizer {
    name: String,
    analyzer: TextAnalyzer,
}

impl Tokenizer {
    /// The tokenizer of a name; `None` if there is none.
    pub(crate) fn named(name: &str) -> Option<Tokenizer> {
        let long = || RemoveLongFilter::limit(LONGEST_WORD_BYTES + 1);
        let analyzer = match name {
            "simple" => {
                TextAnalyzer::builder(SimpleTokenizer::default()).filter(long()).filter(LowerCaser).build()
            }
            "whitespace" => TextAnalyzer::builder(WhitespaceTokenizer::default()).filter(long()).build(),
            other => {
                let code = other.strip_suffix("_stem")?;
                let (_, language) = LANGUAGES.iter().find(|(known, _)| *known == code)?;
                TextAnalyzer::builder(SimpleTokenizer::default())
                    .filter(long())
                    .filter(LowerCaser)
                    .filter(Stemmer::new(*language))
                    .build()
            }
        };
        Some(Tokenizer { name: name.to_owned(), analyzer })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `take` with each word and its place among the words of the text.
    pub(crate) fn each(&mut self, text: &str, mut take: impl FnMut(&str, u32)) {
        let mut stream = self.analyzer.token_stream(text);
        while stream.advance() {
            let token = stream.token();
            take(&token.text, u32::try_from(token.position).unwrap_or(u32::MAX));
        }
    }

    /// The words of a text with their places.
    pub(crate) fn words(&mut self, text: &str) -> Vec<(String, u32)> {
        let mut words = Vec::new();
        self.each(text, |word, place| words.push((word.to_owned(), place)));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_words() {
        let check = |name: &str, text: &str, expected: &[&str]| {
            let found = Tokenizer::named(name).unwrap().words(text);
            let found: Vec<&str> = found.iter().map(|(word, _)| word.as_str()).collect();
            assert_eq!(found, expected, "{name}: {text}");
        };
        check(
            "simple",
            "A black-and-white CAT, 2 dogs!",
            &["a", "black", "and", "white", "cat", "2", "dogs"],
        );
        check("simple", "Größe ÉTÉ 黒猫", &["größe", "été", "黒猫"]);
        check("simple", " \u{0}\u{feff}… ", &[]);
        check("simple", &format!("a {} b", "x".repeat(256)), &["a", "b"]);
        check("simple", &"x".repeat(255), &[&"x".repeat(255)]);
        check("whitespace", "A black-cat!", &["A", "black-cat!"]);
        check("en_stem", "Running cats", &["run", "cat"]);
        check("de_stem", "Katzen", &["katz"]);
        for name in tokenizer_names() {
            assert_eq!(Tokenizer::named(&name).unwrap().name(), name);
        }
        assert!(Tokenizer::named("klingon_stem").is_none() && Tokenizer::named("").is_none());
    }

    #[test]
    fn words_left_out_keep_their_place() {
        let long = "x".repeat(300);
        let found = Tokenizer::named("simple").unwrap().words(&format!("a {long} b"));
        assert_eq!(found, [("a".to_owned(), 0), ("b".to_owned(), 2)]);
    }
}
