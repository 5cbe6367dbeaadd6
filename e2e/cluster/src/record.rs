//! What is written down of a cluster, before it is made, so that any later run can use it and take it down.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::layout::{self, Layout};
use crate::options::{Options, Profile};
use crate::process::Identity;
use crate::{Error, Result};

/// How many clusters with nodes one machine holds: the third byte of their addresses.
const SLOTS: u8 = 64;

/// A cluster's parameters that outlive the run that made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) profile: Profile,
    pub(crate) nodes: u8,
    /// Sets the cluster's addresses and interface apart from those of its neighbours; none for the `api` profile.
    pub(crate) slot: Option<u8>,
    /// `https://…` of the API server.
    pub(crate) server: String,
    /// The run that ends the cluster when it ends; none for a cluster that is to stay.
    pub(crate) owner: Option<Identity>,
    /// Whether everything was ready once.
    pub(crate) ready: bool,
}

impl Record {
    pub(crate) fn load(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&fs::read(layout.record()).ok()?).ok()
    }

    pub(crate) fn save(&self, layout: &Layout) -> Result<()> {
        let path = layout.record();
        fs::create_dir_all(layout.root()).map_err(Error::file("make", layout.root()))?;
        let text = serde_json::to_vec_pretty(self).expect("a cluster record is plain data");
        let draft = path.with_extension("new");
        fs::write(&draft, text).map_err(Error::file("write", &draft))?;
        fs::rename(&draft, &path).map_err(Error::file("write", &path))
    }

    /// The record of a new cluster, saved: its slot is taken from then on.
    pub(crate) fn create(layout: &Layout, options: &Options, owned: bool) -> Result<Self> {
        let folder = layout::clusters()?;
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let path = folder.join("slots.lock");
        let lock = fs::File::create(&path).map_err(Error::file("make", &path))?;
        lock.lock().map_err(Error::file("lock", &path))?;
        let (slot, server) = match options.profile {
            Profile::Api => (None, format!("https://127.0.0.1:{}", free_port()?)),
            Profile::Node => {
                let slot = free_slot()?;
                (Some(slot), format!("https://{}:6443", node_address(slot, 1)))
            }
        };
        let owner = if owned { Identity::of(std::process::id().cast_signed()) } else { None };
        let record =
            Self { profile: options.profile, nodes: options.nodes, slot, server, owner, ready: false };
        record.save(layout)?;
        Ok(record)
    }

    /// Whether the run that was to end the cluster is gone without having done so.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| !owner.is_alive())
    }

    /// The slot of a cluster with nodes.
    pub(crate) fn slot(&self) -> Result<u8> {
        self.slot.ok_or_else(|| {
            Error::invalid("a cluster of profile `api` has no nodes; start one of profile `node`")
        })
    }
}

/// The host's end of a cluster's link.
pub(crate) fn host_address(slot: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, slot, 1)
}

/// The address of node 1 or 2.
pub(crate) fn node_address(slot: u8, node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, slot, if node == 1 { 2 } else { 130 })
}

/// A port of loopback that nobody listens on at this moment.
pub(crate) fn free_port() -> Result<u16> {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(Error::file("find a free port on", PathBuf::from("127.0.0.1")))
}

fn free_slot() -> Result<u8> {
    let taken: Vec<u8> = layout::cluster_names()?
        .iter()
        .filter_map(|name| Layout::new(name).ok())
        .filter_map(|layout| Record::load(&layout)?.slot)
        .collect();
    (0..SLOTS).find(|slot| !taken.contains(slot)).ok_or_else(|| {
        Error::invalid("64 clusters run; take one down with `drydock-cluster down --name NAME`")
    })
}
