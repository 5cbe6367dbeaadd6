//! What becomes of a Tool: it is valid, or it asks for something that isn't there yet.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::tool::{Mode, ResultFormat, Tool, ToolSpec, ToolStatus};
use jiff::Timestamp;

use crate::condition::{Conditions, Truth};
use crate::decision::Decision;

/// Everything a Tool is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub tool: Tool,
    /// When it was observed.
    pub now: Timestamp,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<ToolStatus> {
    let generation = seen.tool.metadata.generation.unwrap_or_default();
    let present = seen.tool.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&present.conditions, generation, seen.now);
    let missing = not_implemented(&seen.tool.spec);
    if missing.is_empty() {
        conditions.set(ConditionType::Accepted, Truth::True, Reason::Accepted, "the tool is valid");
        conditions.ready(Reason::Accepted, "the tool can be run");
    } else {
        let message = format!("not implemented in this version: {}", missing.join(", "));
        conditions.set(ConditionType::Accepted, Truth::False, Reason::NotImplemented, message.clone());
        conditions.stalled(Reason::NotImplemented, message);
    }
    Decision::status(ToolStatus { observed_generation: generation, conditions: conditions.finish() })
}

/// The fields of a tool that this version doesn't carry out.
#[must_use]
pub fn not_implemented(spec: &ToolSpec) -> Vec<&'static str> {
    let set = [
        ("spec.inputSchema", spec.input_schema.is_some()),
        ("spec.resultFormat", spec.result_format == Some(ResultFormat::Json)),
        ("spec.install", spec.install.is_some()),
        ("spec.mode: Session", spec.mode == Some(Mode::Session)),
        ("spec.session", spec.session.is_some()),
    ];
    set.iter().filter(|(_, is_set)| *is_set).map(|(field, _)| *field).collect()
}
