//! The chart's copy of a definition: the same text, switched and kept by values.

use super::Result;

const LABELS: &str = "  labels:
    {{- include \"drydock.labels\" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
";

/// The template of the definition whose YAML is `text`.
///
/// # Errors
/// When the text could be taken for a template itself, or has another shape than expected.
pub(crate) fn template(text: &str) -> Result<String> {
    if text.contains("{{") {
        return Err("a definition holds '{{', which Helm would take for its own".into());
    }
    let (head, spec) = text
        .split_once("\nspec:\n")
        .filter(|(head, _)| head.contains("\nmetadata:\n  name: ") && !head.contains("labels:"))
        .ok_or("a definition doesn't begin with metadata.name and spec")?;
    Ok(format!(
        "{{{{- if .Values.crds.enabled }}}}\n{head}\n{LABELS}spec:\n{}\n{{{{- end }}}}\n",
        spec.trim_end()
    ))
}
