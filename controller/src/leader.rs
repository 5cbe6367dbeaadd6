//! Which of several controllers works: the holder of a Lease, as client-go elects (15 s, 10 s, 2 s).
//!
//! Whether another's lease has expired is judged by the local monotonic clock alone, from the moment its record was last seen to change:
//! clocks are never compared. The fencing epoch is the Lease's resourceVersion at the acquisition, which rises even when the Lease is
//! made anew. Split brain is harmless all the same: agents refuse a lower epoch, and status writes carry versions.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The Lease's name.
pub const NAME: &str = "drydock-controller";
/// A lease whose record hasn't changed for this long is free.
const DURATION: Duration = Duration::from_secs(15);
/// A leader that couldn't renew for this long stops.
const RENEW: Duration = Duration::from_secs(10);
/// Between two tries.
const RETRY: Duration = Duration::from_secs(2);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(4);

/// A candidate.
pub struct Elector {
    leases: Api<Lease>,
    identity: String,
    seen: Option<Seen>,
}

/// The record as it was seen last, and since when.
struct Seen {
    version: String,
    since: Instant,
}

/// The lease is ours.
pub struct Leadership {
    leases: Api<Lease>,
    lease: Lease,
    renewed: Instant,
}

#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("the lease couldn't be read or written")]
    Api(#[from] kube::Error),
    #[error("the lease: no answer in time")]
    Deadline,
    #[error("the lease is another's")]
    Lost,
}

impl Elector {
    /// A candidate; `identity` must be no other process's.
    pub fn new(client: Client, namespace: &str, identity: String) -> Self {
        Self { leases: Api::namespaced(client, namespace), identity, seen: None }
    }

    /// Waits until this candidate leads.
    pub async fn acquire(mut self) -> Leadership {
        loop {
            match self.attempt().await {
                Ok(Some(lease)) => {
                    return Leadership { leases: self.leases, lease, renewed: Instant::now() };
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(error = crate::reconcile::chain(&error), "no try for the lease"),
            }
            sleep(RETRY.mul_f64(0.9 + 0.2 * crate::reconcile::jitter())).await;
        }
    }

    async fn attempt(&mut self) -> Result<Option<Lease>, LeaseError> {
        let Some(mut lease) = bounded(self.leases.get_opt(NAME)).await? else {
            let lease = self.first();
            return taken(bounded(self.leases.create(&PostParams::default(), &lease)).await);
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let spec = lease.spec.get_or_insert_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity && !self.has_expired(&version) {
            return Ok(None);
        }
        if holder != self.identity {
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
        }
        let now = MicroTime(Timestamp::now());
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        taken(bounded(self.leases.replace(NAME, &PostParams::default(), &lease)).await)
    }

    /// Whether the record has stayed as it is for the length of a lease, seen from here.
    fn has_expired(&mut self, version: &str) -> bool {
        match &self.seen {
            Some(seen) if seen.version == version => seen.since.elapsed() >= DURATION,
            _ => {
                self.seen = Some(Seen { version: version.to_owned(), since: Instant::now() });
                false
            }
        }
    }

    fn first(&self) -> Lease {
        let now = MicroTime(Timestamp::now());
        Lease {
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                lease_transitions: Some(0),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }
}

impl Leadership {
    /// The fencing epoch: higher than that of any earlier leader.
    pub fn epoch(&self) -> u64 {
        let version = self.lease.metadata.resource_version.as_deref();
        version.and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    /// Renews until the lease is lost (answers `false`) or `stop` is cancelled (gives it back and answers `true`).
    pub async fn hold(mut self, stop: CancellationToken) -> bool {
        loop {
            tokio::select! {
                () = sleep(RETRY) => {}
                () = stop.cancelled() => {
                    self.release().await;
                    return true;
                }
            }
            let left = RENEW.saturating_sub(self.renewed.elapsed());
            match timeout(left, self.renew()).await {
                Ok(Ok(())) => self.renewed = Instant::now(),
                Ok(Err(LeaseError::Lost)) => return false,
                Ok(Err(error)) => {
                    tracing::warn!(error = crate::reconcile::chain(&error), "the lease wasn't renewed");
                }
                Err(_) => {}
            }
            if self.renewed.elapsed() >= RENEW {
                return false;
            }
        }
    }

    async fn renew(&mut self) -> Result<(), LeaseError> {
        let holder = |lease: &Lease| lease.spec.as_ref().and_then(|s| s.holder_identity.clone());
        let mut next = self.lease.clone();
        next.spec.get_or_insert_default().renew_time = Some(MicroTime(Timestamp::now()));
        match bounded(self.leases.replace(NAME, &PostParams::default(), &next)).await {
            Ok(lease) => self.lease = lease,
            Err(LeaseError::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                // Written by us and not heard of, touched by somebody, or another's.
                let there = bounded(self.leases.get_opt(NAME)).await?.ok_or(LeaseError::Lost)?;
                if holder(&there) != holder(&self.lease) {
                    return Err(LeaseError::Lost);
                }
                self.lease = there;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Gives the lease back, so that another leads at once.
    async fn release(mut self) {
        let spec = self.lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        match bounded(self.leases.replace(NAME, &PostParams::default(), &self.lease)).await {
            Ok(_) => tracing::info!("the lease is given back"),
            Err(error) => {
                tracing::warn!(
                    error = crate::reconcile::chain(&error),
                    "the lease wasn't given back: it expires"
                );
            }
        }
    }
}

/// Whether a write made the lease ours; a conflict says that another was quicker.
fn taken(answer: Result<Lease, LeaseError>) -> Result<Option<Lease>, LeaseError> {
    match answer {
        Ok(lease) => Ok(Some(lease)),
        Err(LeaseError::Api(kube::Error::Api(status))) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    let answer = timeout(REQUEST, call).await.map_err(|_| LeaseError::Deadline)?;
    answer.map_err(LeaseError::Api)
}
