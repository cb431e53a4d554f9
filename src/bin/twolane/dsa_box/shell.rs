//! How is a text written so that a shell takes it for one word? Pure.

use std::borrow::Cow;

/// The text itself where that is safe, else in single quotes.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    // Within quotes nothing has a meaning but the quote: it is left for, written, and quotes begin anew.
    format!("'{}'", text.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_whatever_is_in_it() {
        for (text, want) in [
            ("/tmp/t-1_a.b", "/tmp/t-1_a.b"),
            ("", "''"),
            ("/a b", "'/a b'"),
            ("it's", r"'it'\''s'"),
            ("$(id)", "'$(id)'"),
            ("a;b", "'a;b'"),
            ("~", "'~'"),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(quoted(text), want);
        }
    }
}
