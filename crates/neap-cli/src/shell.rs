//! Text that a POSIX shell reads back as one word.
//!
//! Invariant: `eval` of the result gives the text again. Pure. Called by `flags` and `run`.

/// `text` itself where no character of it is special, else in single quotes.
pub fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quote;
    use std::process::Command;

    #[test]
    fn a_shell_reads_every_word_back() {
        for text in ["", "plain-1.0/x", "two words", "it's", "$HOME `x` \"y\" \\", "é*?", "a\nb"] {
            let script = format!("printf %s {}", quote(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
        assert_eq!(quote("-L/usr/lib"), "-L/usr/lib");
    }
}
