//! What is set for a whole service: its properties, and signatures that open parts of it to others.

use tavola_auth::{AccountSas, KeyLimit, ServiceSas, sign_account_sas, sign_service_sas};
use tavola_model::{DateTime, ServicePropertiesPatch, SignedIdentifier, StorageService};
use tavola_protocol::{account, table};

use crate::account::Account;
use crate::error::{Error, Result};
use crate::queue::QueueClient;
use crate::send::Call;
use crate::table::TableClient;

/// What a shared access signature of a table or a queue allows.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// use tavola_client::{Account, Permissions};
/// let table = Account::development()?.table("Employees");
/// let permissions = Permissions { letters: "r".into(), partitions: Some(("Sales".into(), "Sales".into())), ..Permissions::default() };
/// let sas = table.sign(&permissions)?;
/// assert!(sas.contains("sp=r") && sas.contains("spk=Sales") && sas.contains("sig="));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    /// Letters: `raud` for a table (read, add, update, delete), `raup` for a queue (read, add, update, process).
    pub letters: String,
    /// Valid from.
    pub start: Option<DateTime>,
    /// Valid until; required unless a policy says it.
    pub expiry: Option<DateTime>,
    /// A stored policy that says what is left out here.
    pub policy: Option<String>,
    /// Only these partitions of a table, the first and the last.
    pub partitions: Option<(String, String)>,
    /// An address or a range of addresses.
    pub ip: Option<String>,
    /// Refuse plain http.
    pub https_only: bool,
}

/// What a shared access signature of an account allows.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// use tavola_client::{Account, AccountPermissions};
/// let permissions = AccountPermissions { services: "tq".into(), resources: "sco".into(), letters: "rl".into(), ..AccountPermissions::default() };
/// assert!(Account::development()?.sign(&permissions)?.contains("ss=tq"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccountPermissions {
    /// Letters of services: `b`, `q`, `t`.
    pub services: String,
    /// Letters of resources: `s` services, `c` tables and queues, `o` entities and messages.
    pub resources: String,
    /// Letters: `rwdlacup`.
    pub letters: String,
    /// Valid from.
    pub start: Option<DateTime>,
    /// Valid until.
    pub expiry: Option<DateTime>,
    /// An address or a range of addresses.
    pub ip: Option<String>,
    /// Refuse plain http.
    pub https_only: bool,
}

fn protocol(https_only: bool) -> &'static str {
    if https_only { "https" } else { "" }
}

impl Account {
    /// Signs a shared access signature for the account: the text behind `?`. Needs an account key; sends nothing.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, AccountPermissions};
    /// let permissions = AccountPermissions::default();
    /// let told = Account::development()?.sign(&permissions);
    /// # let _ = told;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sign(&self, permissions: &AccountPermissions) -> Result<String> {
        let sas = AccountSas {
            services: &permissions.services,
            resource_types: &permissions.resources,
            permissions: &permissions.letters,
            start: permissions.start,
            expiry: permissions.expiry,
            ip: permissions.ip.as_deref().unwrap_or_default(),
            protocol: protocol(permissions.https_only),
            version: "",
        };
        Ok(sign_account_sas(self.key()?, &sas)?)
    }

    /// The properties of the table service: logging, metrics, CORS.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// println!("{:?}", account.table_service_properties().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn table_service_properties(&self) -> Result<ServicePropertiesPatch> {
        self.properties(StorageService::Table).await
    }

    /// The properties of the queue service.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// println!("{:?}", account.queue_service_properties().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn queue_service_properties(&self) -> Result<ServicePropertiesPatch> {
        self.properties(StorageService::Queue).await
    }

    /// Changes the properties of the table service; what is left out stays as it is.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// let properties = account.table_service_properties().await?;
    /// account.set_table_service_properties(&properties).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_table_service_properties(&self, properties: &ServicePropertiesPatch) -> Result<()> {
        self.set_properties(StorageService::Table, properties).await
    }

    /// Changes the properties of the queue service; what is left out stays as it is.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// let properties = account.queue_service_properties().await?;
    /// account.set_queue_service_properties(&properties).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_queue_service_properties(&self, properties: &ServicePropertiesPatch) -> Result<()> {
        self.set_properties(StorageService::Queue, properties).await
    }

    async fn properties(&self, service: StorageService) -> Result<ServicePropertiesPatch> {
        let request = account::get_service_properties();
        let call = Call { service, operation: "GetServiceProperties", request: &request, deadline: None };
        self.call(&call, account::service_properties_fetched).await.read()
    }

    async fn set_properties(
        &self,
        service: StorageService,
        properties: &ServicePropertiesPatch,
    ) -> Result<()> {
        let request = account::set_service_properties(properties);
        let call = Call { service, operation: "SetServiceProperties", request: &request, deadline: None };
        self.call(&call, account::service_properties_set).await.idempotent()
    }

    fn sign_resource(
        &self,
        service: StorageService,
        resource: &str,
        permissions: &Permissions,
    ) -> Result<String> {
        let bound = |of: fn(&(String, String)) -> &String| {
            permissions.partitions.as_ref().map(|range| (of(range).clone(), None))
        };
        let keys = KeyLimit { start: bound(|range| &range.0), end: bound(|range| &range.1) };
        let sas = ServiceSas {
            resource,
            permissions: &permissions.letters,
            start: permissions.start,
            expiry: permissions.expiry,
            ip: permissions.ip.as_deref().unwrap_or_default(),
            protocol: protocol(permissions.https_only),
            policy_id: permissions.policy.as_deref().unwrap_or_default(),
            keys,
            ..ServiceSas::default()
        };
        Ok(sign_service_sas(self.key()?, service, &sas)?)
    }
}

impl TableClient {
    /// Signs a shared access signature for the table: the text behind `?`. Needs an account key; sends nothing.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, Permissions};
    /// let permissions = Permissions { letters: "r".into(), ..Permissions::default() };
    /// let told = Account::development()?.table("Employees").sign(&permissions);
    /// # let _ = told;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sign(&self, permissions: &Permissions) -> Result<String> {
        self.account().sign_resource(StorageService::Table, self.name(), permissions)
    }

    /// The stored access policies.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// println!("{:?}", table.policies().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn policies(&self) -> Result<Vec<SignedIdentifier>> {
        let request = table::get_table_acl(self.checked_name()?);
        let call = Call {
            service: StorageService::Table,
            operation: "GetTableAcl",
            request: &request,
            deadline: None,
        };
        self.account().call(&call, table::table_acl_fetched).await.read()
    }

    /// Replaces all stored access policies; at most five.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// table.set_policies(&[]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_policies(&self, policies: &[SignedIdentifier]) -> Result<()> {
        let request = table::set_table_acl(self.checked_name()?, policies);
        let call = Call {
            service: StorageService::Table,
            operation: "SetTableAcl",
            request: &request,
            deadline: None,
        };
        self.account().call(&call, table::table_done).await.idempotent()
    }
}

impl QueueClient {
    /// Signs a shared access signature for the queue: the text behind `?`. Needs an account key; sends nothing.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, Permissions};
    /// let queue = Account::development()?.queue("orders");
    /// assert!(queue.sign(&Permissions { letters: "p".into(), ..Permissions::default() })?.contains("sp=p"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sign(&self, permissions: &Permissions) -> Result<String> {
        if permissions.partitions.is_some() {
            return Err(Error::Limit("a queue has no partitions"));
        }
        self.account().sign_resource(StorageService::Queue, self.name(), permissions)
    }
}
