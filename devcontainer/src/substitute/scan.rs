//! Where the variables of a text are, as the reference tool's pattern `\$\{(.*?)\}` finds them: a `.` there is no line terminator.

/// A piece of a text; all pieces together are the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Variable {
        /// From `${` to `}`.
        written: &'a str,
        name: &'a str,
        /// What follows the first `:`.
        arguments: Option<&'a str>,
    },
}

/// The pieces in order. Time is linear in the text.
pub(super) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = next(rest);
        rest = after;
        Some(part)
    })
}

fn next(text: &str) -> (Part<'_>, &str) {
    let mut from = 0;
    while let Some(start) = text[from..].find("${").map(|at| from + at) {
        let inside = start + 2;
        let end = text[inside..].find(['}', '\n', '\r', '\u{2028}', '\u{2029}']).map(|at| inside + at);
        match end {
            Some(end) if text[end..].starts_with('}') => {
                if start > 0 {
                    return (Part::Text(&text[..start]), &text[start..]);
                }
                let (name, arguments) = match text[inside..end].split_once(':') {
                    Some((name, arguments)) => (name, Some(arguments)),
                    None => (&text[inside..end], None),
                };
                return (Part::Variable { written: &text[..=end], name, arguments }, &text[end + 1..]);
            }
            Some(line_end) => from = line_end,
            None => break,
        }
    }
    (Part::Text(text), "")
}
