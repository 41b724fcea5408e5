//! How many columns of a line count: all but what stands in string literals, which are not broken
//! for a limit.
//!
//! Invariant: a quote in a comment opens nothing, and in scripts a string ends with its line at the
//! latest, so that a mistake about one line is none about the next. Pure. Called by `size`.

/// What a source file is written in, as far as strings and comments go.
#[derive(Clone, Copy, PartialEq)]
pub enum Language {
    Rust,
    /// C, C++ and D.
    C,
    /// Shell and Python.
    Script,
}

impl Language {
    pub fn of(path: &str) -> Language {
        match path.rsplit('.').next().unwrap_or_default() {
            "rs" => Language::Rust,
            "sh" | "py" => Language::Script,
            _ => Language::C,
        }
    }
}

#[derive(Clone, PartialEq)]
enum State {
    Code,
    /// Up to this mark.
    Text {
        end: String,
        has_escapes: bool,
    },
    /// To the end of the line.
    Comment,
    /// So many `/*` deep.
    Block(usize),
}

/// The columns of each line that count. Table rows in comments count nothing: `| … |`.
pub fn counted(text: &str, language: Language) -> Vec<usize> {
    let mut state = State::Code;
    text.lines().map(|line| counted_line(line, language, &mut state)).collect()
}

fn counted_line(line: &str, language: Language, state: &mut State) -> usize {
    let mut count = 0;
    let mut rest = line;
    let mut before = ' ';
    let mut is_comment = !matches!(state, State::Code | State::Text { .. });
    while let Some(first) = rest.chars().next() {
        let (length, counts) = step(rest, before, language, state);
        is_comment |= matches!(state, State::Comment | State::Block(_));
        count += if counts { rest[..length].chars().count() } else { 0 };
        before = rest[..length].chars().last().unwrap_or(first);
        rest = &rest[length..];
    }
    if matches!(state, State::Comment) || language == Language::Script {
        *state = State::Code;
    }
    let words = line.trim_start().trim_start_matches(['/', '!', '*', '#']).trim();
    if is_comment && words.starts_with('|') && words.ends_with('|') { 0 } else { count }
}

/// Reads on from the beginning of `rest`: how many bytes, and whether they count.
fn step(rest: &str, before: char, language: Language, state: &mut State) -> (usize, bool) {
    let one = rest.chars().next().map_or(0, char::len_utf8);
    match state {
        State::Comment => (rest.len(), true),
        State::Block(depth) => {
            if rest.starts_with("*/") {
                *depth -= 1;
                if *depth == 0 {
                    *state = State::Code;
                }
                return (2, true);
            }
            let nests = language == Language::Rust && rest.starts_with("/*");
            *depth += usize::from(nests);
            (if nests { 2 } else { one }, true)
        }
        State::Text { end, has_escapes } => {
            if *has_escapes && rest.starts_with('\\') {
                return (one + rest[one..].chars().next().map_or(0, char::len_utf8), false);
            }
            if rest.starts_with(end.as_str()) {
                let length = end.len();
                *state = State::Code;
                return (length, true);
            }
            (one, false)
        }
        State::Code => {
            let (length, next) = open(rest, before, language);
            *state = next;
            (length, true)
        }
    }
}

/// What begins at the beginning of `rest`, which is code, and how long its mark is.
fn open(rest: &str, before: char, language: Language) -> (usize, State) {
    let text = |end: &str, has_escapes| State::Text { end: end.to_owned(), has_escapes };
    let one = rest.chars().next().map_or(0, char::len_utf8);
    if language == Language::Script {
        return match rest.as_bytes()[0] {
            b'#' if before.is_whitespace() => (one, State::Comment),
            b'\\' => (one + rest[one..].chars().next().map_or(0, char::len_utf8), State::Code),
            b'"' => (1, text("\"", true)),
            b'\'' => (1, text("'", false)),
            _ => (one, State::Code),
        };
    }
    if rest.starts_with("//") {
        return (2, State::Comment);
    }
    if rest.starts_with("/*") {
        return (2, State::Block(1));
    }
    if language == Language::Rust && !before.is_alphanumeric() && before != '_' {
        let raw = rest.trim_start_matches(['b', 'c']);
        if let Some(hashes) = raw.strip_prefix('r') {
            let after = hashes.trim_start_matches('#');
            if after.starts_with('"') {
                let end = format!("\"{}", &hashes[..hashes.len() - after.len()]);
                return (rest.len() - after.len() + 1, text(&end, false));
            }
        }
    }
    match rest.as_bytes()[0] {
        b'"' => (1, text("\"", true)),
        b'`' if language == Language::C => (1, text("`", false)),
        b'\'' => (character(rest).unwrap_or(1), State::Code),
        _ => (one, State::Code),
    }
}

/// The length of the character literal at the beginning of `rest`; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    if first == '\\' {
        let escaped = inner[1..].chars().next()?.len_utf8();
        return inner[1 + escaped..].find('\'').map(|end| 1 + 1 + escaped + end + 1);
    }
    let length = first.len_utf8();
    inner[length..].starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_quotes_does_not_count() {
        use Language::*;
        for (text, language, wanted) in [
            ("let a = b;", Rust, 10),
            ("f(\"twelve\\\"\");", Rust, 6),
            ("f(r#\"a \" b\"#, x);", Rust, 12),
            ("// \"words\" count", Rust, 16),
            ("/* it's */ \"x\"", C, 13),
            ("let c = '\"'; d", Rust, 14),
            ("let c = '\\''; d", Rust, 15),
            ("fn f<'a>(x: &'a str) { \"abc\" }", Rust, 27),
            ("printf(\"%s\", \"//\");", C, 15),
            ("auto s = `abc\\`; x", C, 14),
            ("echo 'words' \"more\" # it's \"so\"", Script, 22),
            ("echo \\\" a", Script, 9),
            ("über", Rust, 4),
        ] {
            assert_eq!(counted(text, language), [wanted], "{text}");
        }
    }

    #[test]
    fn strings_and_comments_go_on_over_lines_where_the_language_lets_them() {
        assert_eq!(counted("f(\"ab\n  cd\", e);\ng", Language::Rust), [3, 6, 1]);
        assert_eq!(counted("/* it's\n \"so\" */ \"a\"", Language::C), [7, 11]);
        assert_eq!(counted("/* a /* b */\n c */ \"d\"", Language::Rust), [12, 8]);
        assert_eq!(counted("echo 'a\nb 'c", Language::Script), [6, 3]);
    }

    #[test]
    fn rows_of_tables_do_not_count() {
        let text = "//! | a | b |\n/// | c |\n// a | b\n| x |\n";
        assert_eq!(counted(text, Language::Rust), [0, 0, 8, 5]);
        assert_eq!(counted("/*\n * | a |\n */\n# | b |", Language::C), [2, 0, 3, 7]);
    }
}
