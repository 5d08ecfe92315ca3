//! One table of one account, and the table itself: create, delete, is it there.

use std::sync::Arc;

use tavola_model::{StorageService, TableName};
use tavola_protocol::table::{self, TablesQuery};
use tavola_protocol::{AnswerCode, Refusal};

use crate::account::Account;
use crate::error::{Error, Result};
use crate::send::{Call, Told};

/// One table of one account. Cheap to clone.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// let table = tavola_client::Account::development()?.table("Employees");
/// assert_eq!(table.name(), "Employees");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TableClient {
    account: Account,
    name: Arc<str>,
    /// `None` if the name breaks a rule: then every call is refused before it is sent.
    checked: Option<Arc<TableName>>,
}

/// Whether a table or a queue was made by the call or was there.
///
/// ```no_run
/// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
/// if table.create().await? == tavola_client::Creation::Existed {
///     println!("it was there");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It is new.
    Created,
    /// It was there.
    Existed,
}

impl Account {
    /// A table. Nothing is sent; a name that the service does not accept is refused by the first call.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let table = tavola_client::Account::development()?.table("Employees");
    /// # let _ = table;
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(&self, name: &str) -> TableClient {
        let checked = TableName::parse(name).ok().map(Arc::new);
        TableClient { account: self.clone(), name: name.into(), checked }
    }

    /// The names of all tables, by name; `prefix` keeps those that begin with it. One request for a thousand tables.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// for name in account.tables(Some("Logins")).await? {
    ///     println!("{name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tables(&self, prefix: Option<&str>) -> Result<Vec<String>> {
        let filter = prefix.filter(|prefix| !prefix.is_empty()).map(|prefix| {
            let quoted = prefix.replace('\'', "''");
            // Names are letters and digits, so this is behind every name with the prefix.
            format!("TableName ge '{quoted}' and TableName lt '{quoted}{{'")
        });
        let mut names = Vec::new();
        let mut from = None;
        loop {
            let query = TablesQuery { filter: filter.as_deref(), top: None, from: from.as_ref() };
            let request = table::query_tables(&query);
            let call = Call {
                service: StorageService::Table,
                operation: "QueryTables",
                request: &request,
                deadline: None,
            };
            let page = self.call(&call, table::tables_queried).await.read()?;
            names.extend(page.names);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(names),
            }
        }
    }
}

impl TableClient {
    /// The name it was made with.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// assert_eq!(tavola_client::Account::development()?.table("Employees").name(), "Employees");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account it is of.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let table = tavola_client::Account::development()?.table("Employees");
    /// assert_eq!(table.account().table("Departments").name(), "Departments");
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn checked_name(&self) -> Result<&TableName> {
        let refusal = || Error::Invalid(format!("the name of the table is not valid (name={})", self.name));
        self.checked.as_deref().ok_or_else(refusal)
    }

    /// Makes the table. One request; a table that is there is no error.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// account.table("Employees").create().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self) -> Result<Creation> {
        let request = table::create_table(self.checked_name()?);
        let call = Call {
            service: StorageService::Table,
            operation: "CreateTable",
            request: &request,
            deadline: None,
        };
        let tried = self.account.call(&call, table::table_created).await;
        match tried.told {
            Told::Refused(refusal) if has_code(&refusal, "TableAlreadyExists") => {
                // After a lost answer it was most likely this call that made it.
                Ok(if tried.lost { Creation::Created } else { Creation::Existed })
            }
            _ => tried.idempotent().map(|()| Creation::Created),
        }
    }

    /// Removes the table with all its entities. One request; a table that is not there is no error.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// account.table("Employees").delete_table().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_table(&self) -> Result<()> {
        let request = table::delete_table(self.checked_name()?);
        let call = Call {
            service: StorageService::Table,
            operation: "DeleteTable",
            request: &request,
            deadline: None,
        };
        let tried = self.account.call(&call, table::table_done).await;
        match tried.told {
            Told::Refused(refusal) if refusal.status.as_u16() == 404 => Ok(()),
            _ => tried.idempotent(),
        }
    }
}

/// Whether a refusal has this code.
pub(crate) fn has_code(refusal: &Refusal, code: &str) -> bool {
    refusal.code.as_ref().map(AnswerCode::as_str) == Some(code)
}
