//! Short names of kinds, and near misses of names.

/// The short name of a kind, as people and `kubectl` write it.
pub(crate) fn short(kind: &str) -> &str {
    match kind {
        "Workspace" => "ws",
        "DevcontainerInstance" => "dc",
        "ContainerInstance" => "ctr",
        "ExecutionEnvironment" => "xenv",
        "Project" => "proj",
        "Plan" => "plan",
        "Tool" => "tool",
        "ToolRun" => "trun",
        other => other,
    }
}

/// The name that is nearest to what was written, if it is near: at most two changes, and fewer than half of it.
pub(crate) fn near<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 2.min(written.chars().count() / 2);
    names
        .map(|name| (distance(written, name), name))
        .filter(|(changes, name)| {
            *changes <= limit || (written.len() >= 3 && name.ends_with(&format!("-{written}")))
        })
        .min()
        .map(|(_, name)| name)
}

/// How many characters have to be added, taken away or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses() {
        let names = ["shop", "shop-services-api", "docs"];
        for (written, found) in [
            ("shpo", Some("shop")),
            ("shop1", Some("shop")),
            ("api", Some("shop-services-api")),
            ("x", None),
            ("elsewhere", None),
            ("shop-service-api", Some("shop-services-api")),
        ] {
            assert_eq!(near(written, names.into_iter()), found, "{written}");
        }
    }
}
