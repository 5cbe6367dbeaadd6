//! The committed files are what the types say.

use std::path::Path;

use drydock_crds::{GROUP, definitions, schema};

#[test]
fn the_committed_definitions_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for crd in definitions().unwrap() {
        let name = format!("{GROUP}_{}.yaml", crd.spec.names.plural);
        let committed = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(
            committed == schema::to_yaml(&crd).unwrap(),
            "{name} differs from the types: run `make generate`"
        );
    }
}

#[test]
fn kubectl_apply_of_the_folder_finds_the_nine_definitions_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)))
        .collect();
    found.sort();
    let mut expected: Vec<String> =
        definitions().unwrap().iter().map(|crd| format!("{GROUP}_{}.yaml", crd.spec.names.plural)).collect();
    expected.sort();
    assert_eq!(found, expected);
}
