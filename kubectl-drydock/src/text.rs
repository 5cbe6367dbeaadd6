//! Text from the cluster, made fit for a terminal.

/// The text without escape sequences and control characters; line ends and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_until_final(&mut chars),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            // Characters that turn the direction of what follows.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => out.push(c),
        }
    }
    out
}

/// [`clean`], on one line.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\t']).map(str::trim).filter(|w| !w.is_empty()).collect();
    clean(&words.join(" "))
}

fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => skip_until_final(chars),
        // A string (title, hyperlink): to BEL or ESC \.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        _ => {}
    }
}

fn skip_until_final(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    for c in chars.by_ref() {
        if ('\u{40}'..='\u{7e}').contains(&c) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_is_left() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m\tb\nc"), "ared\tb\nc");
        assert_eq!(clean("\u{1b}]0;title\u{7}x\u{1b}]8;;http://h\u{1b}\\y"), "xy");
        assert_eq!(clean("a\rb\u{8}c\u{9b}2Jd\u{202e}e\u{0}"), "abcde");
        assert_eq!(clean("\u{1b}"), "");
        assert_eq!(line(" a\n\n  b\tc "), "a b c");
    }
}
