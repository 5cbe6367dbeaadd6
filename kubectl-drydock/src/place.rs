//! PLACE: where a command is to go, as a person names it.

use drydock_crds::reference::{InstanceKind, InstanceRef};

/// A place that is an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A workspace, and a path within it; routed.
    Workspace {
        /// Its name.
        name: String,
        /// The path; none for the root.
        path: Option<String>,
    },
    /// An instance; taken.
    Instance(InstanceRef),
}

/// Parses a place.
///
/// # Errors
/// One sentence: what is wrong with it, or that folders and URLs aren't places yet.
pub(crate) fn parse(text: &str) -> Result<Place, String> {
    let (kind, rest) = text.split_once('/').unwrap_or((text, ""));
    let named =
        |rest: &str| name(rest).map(str::to_owned).map_err(|why| format!("{text:?} names no object: {why}"));
    let instance = |kind, rest: &str| named(rest).map(|name| Place::Instance(InstanceRef { kind, name }));
    match kind {
        "ws" | "workspace" | "workspaces" => {
            let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
            Ok(Place::Workspace { name: named(name)?, path: Some(path.to_owned()).filter(|p| !p.is_empty()) })
        }
        "dc" | "devcontainerinstance" | "devcontainerinstances" => {
            instance(InstanceKind::DevcontainerInstance, rest)
        }
        "ctr" | "containerinstance" | "containerinstances" => instance(InstanceKind::ContainerInstance, rest),
        _ if is_url(text) => Err(format!(
            "{text:?} is a git URL, and URLs can't be named yet: create a Workspace with that source, then name it as ws/NAME[/PATH]"
        )),
        _ => Err(format!(
            "{text:?} is a local folder, and folders can't be named yet: name a workspace as ws/NAME[/PATH], or an instance as dc/NAME or ctr/NAME"
        )),
    }
}

fn is_url(text: &str) -> bool {
    let before_path = text.split('/').next().unwrap_or_default();
    text.contains("://") || (before_path.contains('@') && before_path.contains(':'))
}

/// Checks the name of an object (RFC 1123 label).
pub(crate) fn name(text: &str) -> Result<&str, String> {
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() {
        Err("the name is missing".to_owned())
    } else if text.len() > drydock_crds::MAX_NAME {
        Err(format!("the name is longer than {} characters", drydock_crds::MAX_NAME))
    } else if !text.chars().all(label) || text.starts_with('-') || text.ends_with('-') {
        Err("a name has lower-case letters, digits and '-', and neither begins nor ends with '-'".to_owned())
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(name: &str, path: Option<&str>) -> Place {
        Place::Workspace { name: name.to_owned(), path: path.map(str::to_owned) }
    }

    fn instance(kind: InstanceKind, name: &str) -> Place {
        Place::Instance(InstanceRef { kind, name: name.to_owned() })
    }

    #[test]
    fn places() {
        for (text, place) in [
            ("ws/shop", workspace("shop", None)),
            ("ws/shop/", workspace("shop", None)),
            ("ws/shop/services/api", workspace("shop", Some("services/api"))),
            ("ws/shop//x", workspace("shop", Some("/x"))),
            ("ws/shop/../x", workspace("shop", Some("../x"))),
            ("workspace/shop/a b", workspace("shop", Some("a b"))),
            ("dc/web", instance(InstanceKind::DevcontainerInstance, "web")),
            ("ctr/db", instance(InstanceKind::ContainerInstance, "db")),
        ] {
            assert_eq!(parse(text), Ok(place), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused_in_one_sentence() {
        for (text, part) in [
            (".", "local folder"),
            ("", "local folder"),
            ("./dc/x", "local folder"),
            ("services/web", "local folder"),
            ("/abs", "local folder"),
            ("dcx/web", "local folder"),
            ("https://git.example/x.git#main:services/api", "git URL"),
            ("git@git.example:team/x.git", "git URL"),
            ("ws/", "the name is missing"),
            ("ws", "the name is missing"),
            ("dc/Web", "lower-case"),
            ("dc/web/x", "lower-case"),
            ("ctr/-x", "lower-case"),
            ("ws/..", "lower-case"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
            assert!(!refused.contains('\n'), "{text}");
        }
        assert!(parse(&format!("dc/{}", "x".repeat(64))).unwrap_err().contains("longer than 63"));
    }
}
