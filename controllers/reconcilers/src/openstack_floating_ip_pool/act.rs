//! Effects of the steps of a pool, each recorded in the observed state.

use std::sync::Arc;

use apiserver_types::{
    Condition, ConditionStatus, ContractVersionedObjectReference, IPAddress, IPAddressClaim,
    IPAddressNameReference, IPAddressSpec, OpenStackFloatingIPPool,
};
use controllers_infrastructure::{Cloud, FailedStep, FloatingIp, NewFloatingIp, OPENSTACK_ERROR, TaggedKind};
use controllers_runtime::{JOURNAL_ANNOTATION, OwnershipTag, ReconcileError, now};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::decide::{Claim, HeldAddress, Member, Observed, RESERVATION, Step};
use super::{ADDRESS_FINALIZER, KIND, claims, observe};
use crate::resource_events::deletion_error;
use crate::{lost_calls, names};

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub api: &'a Api<OpenStackFloatingIPPool>,
    pub client: &'a Client,
    pub cloud: &'a Arc<dyn Cloud>,
    pub tag: &'a OwnershipTag,
    pub namespace: &'a str,
}

/// Event of an effect: reason and message.
type EventText = Option<(&'static str, String)>;

impl Actor<'_> {
    /// Makes one effect.
    pub(super) async fn act(
        &self,
        step: Step,
        pool: &mut OpenStackFloatingIPPool,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        match step {
            Step::Release { object, ip, delete } => {
                // A claim that is still there gets another address.
                if strike(observed, &object) {
                    self.write_journal(pool, observed).await?;
                }
                self.release(observed, &object, ip, delete).await
            }
            Step::Delete(ip) => {
                self.delete(&ip).await?;
                observed.members.retain(|member| member.ip.id != ip.id);
                Ok(Some(("DeletedFloatingIP", format!("deleted floating IP {}", ip.address))))
            }
            Step::Unreserve(uid) => {
                observed.journal.strike(RESERVATION, &uid);
                self.write_journal(pool, observed).await.map(|()| None)
            }
            Step::Reserve { uid, address } => {
                self.take_over(observed, &address).await?;
                observed.journal.learn(RESERVATION, &uid, &address);
                self.write_journal(pool, observed).await.map(|()| None)
            }
            Step::CreateAddress { claim, address } => self.create(pool, observed, &claim, address).await,
            Step::Refer(claim) => self.refer(observed, &claim).await,
            Step::Allocate => self.allocate(pool, observed).await,
            Step::Tag(ip) => {
                self.change_tags(observed, &ip, &self.tag.tags(None), &[]).await?;
                Ok(None)
            }
            Step::Untag { ip, tags } => {
                self.change_tags(observed, &ip, &[], &tags).await?;
                let message =
                    format!("removed the tags of the pool from {}, which the spec names", ip.address);
                Ok(Some(("FloatingIPUntagged", message)))
            }
            Step::Nothing => Ok(None),
        }
    }

    async fn release(
        &self,
        observed: &mut Observed,
        object: &str,
        ip: Option<FloatingIp>,
        delete: bool,
    ) -> Result<EventText, ReconcileError> {
        if let Some(ip) = &ip {
            if ip.port_id.is_some() {
                self.cloud.associate_floating_ip(&ip.id, None).await?;
            }
            if delete {
                self.delete(ip).await?;
                observed.members.retain(|member| member.ip.id != ip.id);
            }
            let mut members = observed.members.iter_mut();
            if let Some(member) = members.find(|member| member.ip.id == ip.id) {
                member.ip.port_id = None;
            }
        }
        let addresses: Api<IPAddress> = Api::namespaced(self.client.clone(), self.namespace);
        if let Some(address) = addresses.get_opt(object).await? {
            crate::finalizers::remove(&addresses, &address, ADDRESS_FINALIZER).await?;
        }
        observed.addresses.retain(|held| held.name != object);
        let text = ip.map_or_else(|| object.to_owned(), |ip| ip.address);
        Ok(Some(("AddressReleased", format!("released floating IP {text}"))))
    }

    async fn delete(&self, ip: &FloatingIp) -> Result<(), ReconcileError> {
        match self.cloud.delete_floating_ip(&ip.id).await {
            Err(error) if !error.is_not_found() => {
                Err(deletion_error(names::FLOATING_IP, &ip.address, error.into()))
            }
            _ => Ok(()),
        }
    }

    /// Allocates a floating IP. The description makes it one of the pool, also if the response is lost.
    async fn allocate(
        &self,
        pool: &mut OpenStackFloatingIPPool,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let attempt = format!("allocate floating IP {} of the pool", observed.members.len() + 1);
        observed.lost_calls.check(&attempt, Timestamp::now())?;
        let network_id = observed.network.as_ref().map(|network| network.id.clone()).unwrap_or_default();
        let new =
            NewFloatingIp { network_id, description: self.tag.description(), ..NewFloatingIp::default() };
        let made = self.cloud.create_floating_ip(&new).await;
        let made = observed.lost_calls.note(&attempt, made.map_err(ReconcileError::from), Timestamp::now());
        self.write_lost_calls(pool, observed).await?;
        let failure = FailedStep::new(OPENSTACK_ERROR, "FailedCreateFloatingIP");
        let ip = made.map_err(|error| error.during(|| attempt).of_step(Some(failure)))?;
        let message = format!("allocated floating IP {}", ip.address);
        observed.members.push(Member { lacks_tag: true, ip, ..Member::default() });
        Ok(Some(("CreatedFloatingIP", message)))
    }

    /// Adds and removes tags of a floating IP. A cloud without tags has no effect; then the description says whose it is.
    async fn change_tags(
        &self,
        observed: &mut Observed,
        ip: &FloatingIp,
        added: &[String],
        removed: &[String],
    ) -> Result<(), ReconcileError> {
        self.cloud.change_tags(TaggedKind::FloatingIp, &ip.id, added, removed).await?;
        for member in observed.members.iter_mut().filter(|member| member.ip.id == ip.id) {
            member.lacks_tag = false;
            member.pool_tags.clear();
            member.ip.tags.retain(|tag| !removed.contains(tag));
            member.ip.tags.extend_from_slice(added);
        }
        Ok(())
    }

    /// Tags a floating IP of upstream's pool, so that no other pool of that name takes it.
    async fn take_over(&self, observed: &mut Observed, address: &str) -> Result<(), ReconcileError> {
        let mut members = observed.members.iter_mut().filter(|member| !member.given);
        let Some(member) = members.find(|member| member.ip.address == address) else { return Ok(()) };
        if !self.tag.is_on(&member.ip.tags, &member.ip.description) {
            let tags = self.tag.tags(Some(&member.ip.tags));
            self.cloud.set_tags(TaggedKind::FloatingIp, &member.ip.id, &tags).await?;
            member.ip.tags = tags;
        }
        Ok(())
    }

    /// Creates the IPAddress of a claim. One of this name that another claim has is an error.
    async fn create(
        &self,
        pool: &OpenStackFloatingIPPool,
        observed: &mut Observed,
        claim: &Claim,
        address: String,
    ) -> Result<EventText, ReconcileError> {
        let addresses: Api<IPAddress> = Api::namespaced(self.client.clone(), self.namespace);
        let made = addresses.create(&PostParams::default(), &ip_address(pool, claim, &address)).await?;
        let message = format!("floating IP {address} is allocated to claim {}", claim.name);
        observed.addresses.push(HeldAddress {
            name: made.name_any(),
            claim: claim.name.clone(),
            address,
            releasing: false,
        });
        Ok(Some(("AddressAllocated", message)))
    }

    async fn refer(&self, observed: &mut Observed, claim: &Claim) -> Result<EventText, ReconcileError> {
        let ready = Condition::new("Ready", ConditionStatus::True, "Allocated", "", now());
        claims::write(self.client, self.namespace, &claim.name, ready).await?;
        let mut claims = observed.claims.iter_mut();
        if let Some(known) = claims.find(|known| known.uid == claim.uid) {
            known.has_address = true;
        }
        Ok(None)
    }

    /// Writes into the claims without an address that the pool has none left.
    pub(super) async fn report_claims(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let waiting = observed.claims.iter().filter(|claim| claim.waits());
        observed.unserved = waiting.map(|claim| claim.name.clone()).collect();
        for name in &observed.unserved {
            let message = "the pool has no address left. Raise its spec.maxIPs, or delete another claim";
            let exhausted = claims::not_ready("PoolExhausted", message);
            claims::write(self.client, self.namespace, name, exhausted).await?;
        }
        Ok(())
    }

    /// Writes the create calls whose answers were lost if they differ from the stored ones.
    pub(super) async fn write_lost_calls(
        &self,
        pool: &mut OpenStackFloatingIPPool,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        if pool.annotations().get(lost_calls::ANNOTATION) == observed.lost_calls.text().as_ref() {
            return Ok(());
        }
        self.write_journal(pool, observed).await
    }

    async fn write_journal(
        &self,
        pool: &mut OpenStackFloatingIPPool,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let change = json!({"metadata": {
            "resourceVersion": pool.resource_version(),
            "annotations": {
                JOURNAL_ANNOTATION: observed.journal.text(),
                lost_calls::ANNOTATION: observed.lost_calls.text(),
            },
        }});
        *pool = self.api.patch(&pool.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

/// Removes the reservation of an IPAddress's address. Returns true if there was one.
fn strike(observed: &mut Observed, object: &str) -> bool {
    let address = observed.addresses.iter().find(|held| held.name == object).map(|held| held.address.clone());
    let entries = observed.journal.entries().iter();
    let mut reservations = entries.filter(|entry| entry.kind == RESERVATION && entry.id.is_some());
    let uid = reservations.find(|entry| entry.id == address).map(|entry| entry.name.clone());
    uid.is_some_and(|uid| {
        observed.journal.strike(RESERVATION, &uid);
        true
    })
}

/// Returns the IPAddress of a claim.
fn ip_address(pool: &OpenStackFloatingIPPool, claim: &Claim, address: &str) -> IPAddress {
    let reference = ContractVersionedObjectReference {
        api_group: OpenStackFloatingIPPool::group(&()).into_owned(),
        kind: KIND.to_owned(),
        name: pool.name_any(),
    };
    let spec = IPAddressSpec {
        address: address.to_owned(),
        claim_ref: IPAddressNameReference { name: claim.name.clone() },
        pool_ref: reference,
        // The address alone, in both families.
        prefix: if address.contains(':') { 128 } else { 32 },
        gateway: None,
    };
    let mut object = IPAddress::new(&claim.name, spec);
    object.metadata.namespace = pool.namespace();
    object.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.to_owned()]);
    object.metadata.owner_references = Some(vec![OwnerReference {
        api_version: IPAddressClaim::api_version(&()).into_owned(),
        kind: IPAddressClaim::kind(&()).into_owned(),
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    object
}

/// Returns true if a claim is one of a pool.
pub(super) fn is_of(claim: &IPAddressClaim, pool: &OpenStackFloatingIPPool) -> bool {
    observe::names(&claim.spec.pool_ref, &pool.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_2_the_prefix_of_an_address_is_that_of_the_address_alone() {
        let pool =
            OpenStackFloatingIPPool::new("pool", apiserver_types::OpenStackFloatingIPPoolSpec::default());
        let claim = Claim { name: "m".to_owned(), uid: "u".to_owned(), ..Claim::default() };
        assert_eq!(ip_address(&pool, &claim, "192.0.2.1").spec.prefix, 32);
        let object = ip_address(&pool, &claim, "2001:db8::1");
        assert_eq!((object.spec.prefix, object.spec.pool_ref.kind.as_str()), (128, KIND));
        assert_eq!(object.finalizers(), [ADDRESS_FINALIZER]);
    }
}
