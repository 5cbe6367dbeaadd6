//! The folders of a claim that Drydock makes: which there are, whose they are, and which of their parts belong to no
//! living object any more.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use drydock_protocol::checkout::{Living, Owner};

use super::failure::Failure;
use crate::install::{Folder, make_folder};

/// The checkout.
pub const TREE: &str = "tree";
/// The other folders.
const OTHERS: [&str; 4] = ["plans", "runs", "state", "snapshots"];
/// How many swept folders are named.
const NAMED: usize = 100;
/// Setgid: what is made in it has its group, so users who share the group share the tree.
const MODE: u32 = 0o2775;

/// What lets everybody pass through a folder.
const PASSAGE: u32 = 0o111;

/// Makes the folders that aren't there, and gives them their owner. The claim's own folder, which a provisioner may have closed to all
/// but root, is opened for passing through.
///
/// # Errors
/// `NoSpace`, `PermissionDenied`, or what is there is no folder.
pub fn make(root: &Path, owner: Owner) -> Result<(), Failure> {
    open(root).map_err(|error| Failure::io("the claim's folder", &error))?;
    for name in [TREE].iter().chain(&OTHERS) {
        let folder = Folder { uid: owner.uid, gid: owner.gid, mode: MODE, path: root.join(name) };
        make_folder(&folder).map_err(|error| Failure::io(&format!("folder {name}"), &error))?;
    }
    Ok(())
}

fn open(root: &Path) -> io::Result<()> {
    let mode = fs::metadata(root)?.permissions().mode();
    if mode & PASSAGE == PASSAGE {
        return Ok(());
    }
    fs::set_permissions(root, fs::Permissions::from_mode((mode & 0o7777) | PASSAGE))
}

/// Removes what belongs to no living object; what was removed, relative to the claim.
///
/// # Errors
/// A folder can't be listed or removed; those before it are gone.
pub fn sweep(root: &Path, living: &Living) -> Result<Vec<String>, Failure> {
    let mut swept = Vec::new();
    for (folder, uids) in
        [("plans", &living.plans), ("runs", &living.instances), ("state", &living.instances)]
    {
        let failed = |error: io::Error| Failure::io(&format!("sweeping {folder}"), &error);
        for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if uids.contains(&name) {
                continue;
            }
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            // Links are removed, never followed.
            if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }
                .map_err(failed)?;
            if swept.len() < NAMED {
                swept.push(format!("{folder}/{name}"));
            }
        }
    }
    swept.sort();
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_is_closed_to_all_but_root_is_opened_for_passing_through() {
        let claim = tempfile::tempdir().unwrap();
        fs::set_permissions(claim.path(), fs::Permissions::from_mode(0o750)).unwrap();
        make(claim.path(), Owner { uid: 1000, gid: 1000 }).unwrap();
        let mode = fs::metadata(claim.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o751);
    }

    #[test]
    fn only_what_belongs_to_nobody_is_swept() {
        let claim = tempfile::tempdir().unwrap();
        let root = claim.path();
        make(root, Owner { uid: 1000, gid: 1000 }).unwrap();
        for folder in ["plans/p1/ws", "plans/p2", "runs/i1", "runs/i2", "state/i2", "snapshots/s1", "tree/x"]
        {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("runs/link")).unwrap();
        let living = Living { plans: vec!["p1".into()], instances: vec!["i1".into()] };
        assert_eq!(sweep(root, &living).unwrap(), ["plans/p2", "runs/i2", "runs/link", "state/i2"]);
        assert!(outside.path().join("kept").exists() && root.join("plans/p1/ws").exists());
        assert!(root.join("snapshots/s1").exists() && root.join("tree/x").exists());
    }
}
