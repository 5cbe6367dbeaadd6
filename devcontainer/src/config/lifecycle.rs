//! Lifecycle commands in their three forms.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};

/// The commands in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LifecycleHook {
    /// On the host, before anything else.
    InitializeCommand,
    /// Once, when the container is made.
    OnCreateCommand,
    /// When the container is made, and again for new content.
    UpdateContentCommand,
    /// Once, after the container was made.
    PostCreateCommand,
    /// At each start.
    PostStartCommand,
    /// At each attach.
    PostAttachCommand,
}

/// What to run for a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LifecycleCommand {
    /// One command.
    One(Command),
    /// All at once, in the order written; the hook ends when all have ended.
    Parallel(Vec<NamedCommand>),
}

/// One command of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedCommand {
    /// The user's name for it.
    pub name: String,
    /// The command.
    pub command: Command,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// A line for `/bin/sh -c`.
    Shell(String),
    /// A program and its arguments, without a shell.
    Exec(Vec<String>),
}

impl LifecycleHook {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::InitializeCommand,
        Self::OnCreateCommand,
        Self::UpdateContentCommand,
        Self::PostCreateCommand,
        Self::PostStartCommand,
        Self::PostAttachCommand,
    ];

    /// The property's name.
    #[must_use]
    pub fn property(self) -> &'static str {
        match self {
            Self::InitializeCommand => "initializeCommand",
            Self::OnCreateCommand => "onCreateCommand",
            Self::UpdateContentCommand => "updateContentCommand",
            Self::PostCreateCommand => "postCreateCommand",
            Self::PostStartCommand => "postStartCommand",
            Self::PostAttachCommand => "postAttachCommand",
        }
    }
}

/// The commands that are there. An empty string, array or object is nothing to run.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) -> IndexMap<LifecycleHook, LifecycleCommand> {
    let mut commands = IndexMap::new();
    for hook in LifecycleHook::ALL {
        if let Some(command) = root.member(hook.property()).and_then(|node| lifecycle_command(reader, &node))
        {
            commands.insert(hook, command);
        }
    }
    commands
}

/// Any hook but the last, as the specification says.
pub(super) fn wait_for(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<LifecycleHook> {
    let node = root.member("waitFor")?;
    let text = reader.string_of(&node)?;
    let allowed = &LifecycleHook::ALL[..5];
    let hook = allowed.iter().find(|hook| hook.property() == text).copied();
    if hook.is_none() {
        let names: Vec<&str> = allowed.iter().map(|hook| hook.property()).collect();
        let message = format!("{} isn't a value of waitFor", quote(&text));
        reader.error(Reason::InvalidValue, &node, message, format!("write one of {}", names.join(", ")));
    }
    hook
}

fn lifecycle_command(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<LifecycleCommand> {
    if !node.value.is_object() {
        return command(reader, node, "a string, an array of strings or an object")
            .map(LifecycleCommand::One);
    }
    let mut commands = Vec::new();
    for (name, member) in node.members() {
        if let Some(command) = command(reader, &member, "a string or an array of strings") {
            commands.push(NamedCommand { name: name.to_owned(), command });
        }
    }
    (!commands.is_empty()).then_some(LifecycleCommand::Parallel(commands))
}

fn command(reader: &mut Reader<'_>, node: &Node<'_>, expected: &str) -> Option<Command> {
    match node.value {
        Value::String(line) => (!line.is_empty()).then(|| Command::Shell(line.clone())),
        Value::Array(_) => {
            let arguments = reader.strings_of(node, expected);
            (!arguments.is_empty()).then_some(Command::Exec(arguments))
        }
        Value::Null => None,
        _ => {
            reader.wrong_type(node, expected);
            None
        }
    }
}
