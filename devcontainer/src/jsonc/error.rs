//! Why bytes aren't a document.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{MAX_BYTES, MAX_DEPTH};
use crate::diagnostic::{Diagnostic, Position, Reason, Severity};

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{kind} at {position}")]
pub struct JsoncError {
    /// What is wrong.
    pub kind: JsoncErrorKind,
    /// Where; the beginning of the file where it is the file as a whole.
    #[serde(flatten)]
    pub position: Position,
}

/// The kinds of what can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum JsoncErrorKind {
    /// More than [`MAX_BYTES`].
    #[error("the file has {bytes} bytes, the limit is {limit}", limit = MAX_BYTES)]
    TooLarge {
        /// The size of the file.
        bytes: usize,
    },
    /// Deeper than [`MAX_DEPTH`].
    #[error("arrays and objects lie in each other deeper than {limit}", limit = MAX_DEPTH)]
    TooDeep,
    /// UTF-16, with or without its mark.
    #[error("the file is UTF-16, expected UTF-8")]
    Utf16,
    /// Bytes that aren't UTF-8.
    #[error("the file isn't valid UTF-8")]
    NotUtf8,
    /// The character NUL, written or escaped.
    #[error("the character NUL isn't allowed")]
    Nul,
    /// Nothing but white space and comments.
    #[error("the file is empty, expected an object")]
    Empty,
    /// The document isn't an object.
    #[error("expected an object, found {found}")]
    NotAnObject {
        /// What it is, as a message calls it.
        found: String,
    },
    /// A line break in a string.
    #[error("a string isn't closed before the end of its line")]
    LineBreakInString,
    /// `\ud800` and the like without the other half.
    #[error("half of a surrogate pair in a string")]
    LoneSurrogate,
    /// A number that a 64 bit float can't hold.
    #[error("a number is out of range")]
    NumberOutOfRange,
    /// Anything else that isn't JSON with comments.
    #[error("{message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
}

impl JsoncError {
    /// The same as a diagnostic about `file`.
    #[must_use]
    pub fn diagnostic(&self, file: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            reason: self.kind.reason(),
            file: file.to_owned(),
            pointer: String::new(),
            position: Some(self.position),
            message: self.kind.to_string(),
            fix: self.kind.fix().to_owned(),
        }
    }
}

impl JsoncErrorKind {
    fn reason(&self) -> Reason {
        match self {
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::TooDeep => Reason::TooDeep,
            Self::Utf16 => Reason::Utf16,
            Self::NotUtf8 => Reason::NotUtf8,
            Self::Nul => Reason::NulCharacter,
            Self::Empty => Reason::Empty,
            Self::NotAnObject { .. } => Reason::NotAnObject,
            Self::LineBreakInString | Self::LoneSurrogate | Self::NumberOutOfRange | Self::Syntax { .. } => {
                Reason::Syntax
            }
        }
    }

    fn fix(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooDeep => "make the file smaller",
            Self::Utf16 | Self::NotUtf8 => "save the file as UTF-8",
            Self::Nul => "remove the character",
            Self::Empty | Self::NotAnObject { .. } => {
                "write { } with the properties in it, or remove the file"
            }
            Self::LineBreakInString => "close the string, or write \\n for a line break",
            Self::LoneSurrogate => "write both halves, or the character itself",
            Self::NumberOutOfRange => "write a smaller number",
            Self::Syntax { .. } => "correct the JSON at this place",
        }
    }
}
