//! Where each part of a document stands.
//!
//! A tree beside the value, not a map of whole pointers: long keys above many leaves would make that larger than any bound.

use std::collections::BTreeMap;

use crate::diagnostic::Position;

/// The places of a document's parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Positions {
    text: String,
    line_starts: Vec<usize>,
    root: Node,
}

/// One value: where its key and itself begin (byte offsets), and its parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) children: Children,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Children {
    None,
    Elements(Vec<Node>),
    Members(BTreeMap<Box<str>, Node>),
}

impl Positions {
    pub(super) fn new(text: &str, root: Node) -> Self {
        Self { text: text.to_owned(), line_starts: line_starts(text), root }
    }

    pub(super) fn value(&self, pointer: &str) -> Position {
        self.at(self.find(pointer).0.value)
    }

    pub(super) fn key(&self, pointer: &str) -> Position {
        let (node, whole) = self.find(pointer);
        self.at(if whole { node.key } else { node.value })
    }

    fn at(&self, offset: usize) -> Position {
        locate(&self.text, &self.line_starts, offset)
    }

    /// The node at the pointer and `true`, or its nearest ancestor and `false`.
    fn find(&self, pointer: &str) -> (&Node, bool) {
        let mut node = &self.root;
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let child = match &node.children {
                Children::None => None,
                Children::Elements(elements) => {
                    token.parse().ok().and_then(|index: usize| elements.get(index))
                }
                Children::Members(members) => members.get(token.as_str()),
            };
            match child {
                Some(child) => node = child,
                None => return (node, false),
            }
        }
        (node, true)
    }
}

/// The place of a byte offset in a text.
pub(super) fn position_in(text: &str, offset: usize) -> Position {
    locate(text, &line_starts(text), offset)
}

fn locate(text: &str, line_starts: &[usize], offset: usize) -> Position {
    let line = line_starts.partition_point(|start| *start <= offset).max(1);
    let start = line_starts.get(line - 1).copied().unwrap_or(0);
    let column = text.get(start..offset).map_or(0, |before| before.chars().count());
    Position { line: saturate(line), column: saturate(column + 1) }
}

fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends_line = |(index, byte): (usize, &u8)| match byte {
        b'\n' => Some(index + 1),
        b'\r' if bytes.get(index + 1) != Some(&b'\n') => Some(index + 1),
        _ => None,
    };
    std::iter::once(0).chain(bytes.iter().enumerate().filter_map(ends_line)).collect()
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
