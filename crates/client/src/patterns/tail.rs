//! Log tail: the newest entities of a partition, by keys that sort newest first.
//!
//! A row template that begins with `{at:desc}` puts the newest entity first, so the newest `n` are the first `n` rows:
//! one request, however long the partition is. Nothing is eventual and nothing needs repair.

use crate::entity::{Entity, Stored};
use crate::error::Result;
use crate::scope::In;
use crate::table::TableClient;

/// An entity type whose rows sort newest first. Made by `#[derive(Entity)]` where the row begins with a `:desc` part.
///
/// ```
/// use tavola_client::patterns::tail::NewestFirst;
/// use tavola_client::{DateTime, Entity};
///
/// #[derive(Entity)]
/// #[entity(partition = "{who}", row = "exp_{at:desc}_{id}")]
/// struct Expense {
///     who: String,
///     at: DateTime,
///     id: String,
/// }
/// assert_eq!(Expense::PREFIX, "exp_");
/// ```
#[diagnostic::on_unimplemented(
    message = "the rows of `{Self}` do not sort newest first",
    label = "its row template does not begin with a `:desc` part",
    note = "begin it so: `row = \"{{at:desc}}_{{id}}\"`, where `at` is a DateTime"
)]
pub trait NewestFirst: Entity {
    /// The text before the part.
    const PREFIX: &'static str;
}

impl TableClient {
    /// The newest `count` entities of a partition, newest first.
    ///
    /// One request; more only if `count` is over a thousand or the server answers in short pages.
    ///
    /// ```no_run
    /// use tavola_client::{DateTime, Entity, TableClient};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{employee}", row = "{at:desc}_{claim}")]
    /// struct Expense {
    ///     employee: String,
    ///     at: DateTime,
    ///     claim: String,
    ///     amount: f64,
    /// }
    ///
    /// # async fn example(table: TableClient) -> tavola_client::Result<()> {
    /// for expense in table.latest::<Expense>("000123", 10).await? {
    ///     println!("{} {}", expense.at, expense.amount);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn latest<E: NewestFirst>(&self, partition: &str, count: usize) -> Result<Vec<Stored<E>>> {
        let scope = In::partition(partition).rows_with_prefix(E::PREFIX);
        self.query::<E>(scope).take(count).collect().await
    }
}
