//! The cluster as the caller reaches it: kubeconfig, context, namespace, and whom to act as.

use std::time::Duration;

use drydock_crds::{Workspace, reference::InstanceKind};
use k8s_openapi::NamespaceResourceScope;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

use crate::cli::Global;
use crate::failure::{Asked, Failure, chain, within};
use crate::kinds;

/// A client, and the namespace that is worked in.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The client.
    pub(crate) client: Client,
    /// The namespace.
    pub(crate) namespace: String,
    /// Longest wait for one answer; zero: none.
    pub(crate) request_timeout: Duration,
}

impl Connection {
    /// Reads the kubeconfig; asks nothing of the cluster yet.
    pub(crate) async fn new(global: &Global) -> Result<Self, Failure> {
        let mut config = config(global).await.map_err(|why| {
            Failure::new("NoCluster", "no cluster to talk to")
                .why(why)
                .then("check --kubeconfig, --context and $KUBECONFIG")
        })?;
        config.connect_timeout = Some(Duration::from_secs(10));
        if global.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&global.impersonate);
        }
        if !global.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(global.impersonate_groups.clone());
        }
        let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)
            .map_err(|error| Failure::new("NoCluster", "no cluster to talk to").why(chain(&error)))?;
        Ok(Self { client, namespace, request_timeout: global.request_timeout })
    }

    /// The objects of a kind in the namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Bounds a call.
    pub(crate) async fn call<K, T>(
        &self,
        verb: &str,
        name: Option<&str>,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure>
    where
        K: Resource<DynamicType = ()>,
    {
        let asked = Asked {
            verb,
            group: &K::group(&()),
            resource: &K::plural(&()),
            name,
            namespace: &self.namespace,
        };
        within(self.request_timeout, &asked, call).await
    }

    /// One object. What isn't there is a failure that suggests a near miss.
    pub(crate) async fn get<K>(&self, name: &str) -> Result<K, Failure>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api = self.api::<K>();
        let found = self.call::<K, _>("get", Some(name), api.get_opt(name)).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        let object = format!("{}/{name}", kinds::short(&K::kind(&())));
        let mut failure =
            Failure::new("NotFound", format!("{object} isn't there, in namespace {}", self.namespace))
                .object(object);
        if let Ok(others) = self
            .call::<K, _>("list", None, api.list_metadata(&kube::api::ListParams::default().limit(500)))
            .await
        {
            let names = others.items.iter().filter_map(|o| o.metadata.name.as_deref());
            if let Some(near) = kinds::near(name, names) {
                failure = failure.then(format!("did you mean {}/{near}?", kinds::short(&K::kind(&()))));
            }
        }
        Err(failure)
    }

    /// All objects of a kind in the namespace.
    pub(crate) async fn list<K>(&self) -> Result<Vec<K>, Failure>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let mut all = Vec::new();
        let mut params = kube::api::ListParams::default().limit(500);
        loop {
            let page = self.call::<K, _>("list", None, self.api::<K>().list(&params)).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// The workspace of an instance, where it is of one.
    pub(crate) async fn workspace_of(
        &self,
        kind: InstanceKind,
        name: &str,
    ) -> Result<Option<String>, Failure> {
        match kind {
            InstanceKind::ContainerInstance => Ok(None),
            InstanceKind::DevcontainerInstance => {
                let instance: drydock_crds::DevcontainerInstance = self.get(name).await?;
                Ok(Some(instance.spec.workspace_ref.name))
            }
        }
    }

    /// A workspace.
    pub(crate) async fn workspace(&self, name: &str) -> Result<Workspace, Failure> {
        self.get(name).await
    }
}

async fn config(global: &Global) -> Result<Config, String> {
    let options = KubeConfigOptions { context: global.context.clone(), ..KubeConfigOptions::default() };
    let from = |kubeconfig| async {
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| chain(&e))
    };
    match &global.kubeconfig {
        Some(file) => from(Kubeconfig::read_from(file).map_err(|e| chain(&e))?).await,
        None if global.context.is_some() => from(Kubeconfig::read().map_err(|e| chain(&e))?).await,
        None => Config::infer().await.map_err(|e| chain(&e)),
    }
}
