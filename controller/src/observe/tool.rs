//! Tools: nothing but the object itself.

use std::sync::Arc;

use domain::Decision;
use domain::tool::{Observed, decide};
use drydock_crds::{Tool, ToolStatus};
use drydock_domain as domain;

use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};

/// The kind.
pub struct Tools;

impl Kind for Tools {
    type Object = Tool;
    type Observed = Observed;
    type Status = ToolStatus;

    async fn observe(tool: Arc<Tool>, context: &Context) -> Result<Observed, Error> {
        Ok(Observed { tool: Arc::unwrap_or_clone(tool), now: context.now() })
    }

    fn decide(observed: &Observed) -> Decision<ToolStatus> {
        decide(observed)
    }

    fn status(object: &Tool) -> Option<&ToolStatus> {
        object.status.as_ref()
    }

    fn watches(_: &mut Watches<'_>) {}
}
