//! Writes the definitions, one file a kind, into the folders given as arguments.

use std::path::Path;
use std::process::ExitCode;

use drydock_crds::{GROUP, definitions, schema};

fn main() -> ExitCode {
    match std::env::args()
        .skip(1)
        .try_for_each(|folder| write_to(Path::new(&folder)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crdgen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write_to(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    for crd in definitions()? {
        let text = schema::to_yaml(&crd)?;
        std::fs::write(
            folder.join(format!("{GROUP}_{}.yaml", crd.spec.names.plural)),
            text,
        )?;
    }
    Ok(())
}
