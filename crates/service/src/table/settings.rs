//! Changing the settings of one of an account's services.

use std::sync::Arc;

use tavola_engine::{Change, Decision, SpaceId, StoredRow, Transacted};
use tavola_model::{AccountName, ServiceError, ServiceProperties, ServicePropertiesPatch, StorageService};

use super::catalog::{Catalog, account_partition, decode_stored_settings, settings_row};
use super::record::encode_settings;
use super::tables::to_its_end;
use crate::failure::from_engine;

impl Catalog {
    /// Puts the given settings in place; the others stay as they are.
    pub async fn set_service_properties(
        self: &Arc<Self>,
        account: &AccountName,
        service: StorageService,
        patch: ServicePropertiesPatch,
    ) -> Result<(), ServiceError> {
        let (catalog, account) = (self.clone(), account.clone());
        to_its_end(async move { catalog.patch_settings(&account, service, &patch).await }).await
    }

    async fn patch_settings(
        &self,
        account: &AccountName,
        service: StorageService,
        patch: &ServicePropertiesPatch,
    ) -> Result<(), ServiceError> {
        let mut refusal = None;
        let mut decide = |_, rows: &[Option<StoredRow>]| {
            let stored = match &rows[0] {
                Some(row) => decode_stored_settings(&row.body),
                None => Ok(ServiceProperties::default()),
            };
            match stored {
                Ok(settings) => {
                    let body = encode_settings(&settings.patched(patch.clone())).into();
                    Decision::Apply(vec![Change::Put { place: 0, body }])
                }
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            }
        };
        let row = settings_row(service);
        let done =
            self.engine.transact(SpaceId::CATALOG, account_partition(account), &[&row], &mut decide).await;
        self.cache.forget_settings(account, service);
        match done.map_err(from_engine)? {
            Transacted::Applied(_) => Ok(()),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }
}
