//! The servers that are up, known to each other through the cluster.
//!
//! Each writes a row of its own every few seconds, which goes away by itself when it stops doing so. The rows are
//! written without conditions and promise nothing: a server may be listed and gone, or there and not listed yet.
//! What a row says is up to those who write and read it.

use std::sync::Arc;
use std::time::Duration;

use scylla::statement::prepared::PreparedStatement;
use tavola_engine::{Cause, EngineError};

use crate::engine::{ConnectError, Core, CqlEngine};
use crate::schema::MEMBER_TABLE;

/// How often a server should announce itself.
pub const ANNOUNCE_EVERY: Duration = Duration::from_secs(2);
/// Seconds that an announcement lasts: some may fail before a server is taken for gone.
const LISTED_SECONDS: i32 = 8;
/// All rows are in one partition, because they are read together.
const LIST: &str = "servers";

/// The list of servers.
pub struct Members {
    core: Arc<Core>,
    announce: PreparedStatement,
    withdraw: PreparedStatement,
    list: PreparedStatement,
}

/// A server in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, of which there is one row.
    pub name: String,
    /// What it says of itself.
    pub about: String,
}

impl CqlEngine {
    /// The list of servers, if the keyspace has one: those made by an earlier version get it by [`crate::init`].
    pub async fn members(&self) -> Result<Option<Members>, ConnectError> {
        let session = &self.core.store.session;
        let keyspace = session.get_keyspace();
        let keyspace = keyspace.as_ref().map(|keyspace| keyspace.as_str()).unwrap_or_default();
        let select = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let found = session.query_unpaged(select, (keyspace, MEMBER_TABLE)).await;
        let found = found.map_err(ConnectError::failed)?.into_rows_result().map_err(ConnectError::failed)?;
        if found.rows_num() == 0 {
            return Ok(None);
        }
        let prepare = async |text: &str| session.prepare(text).await.map_err(ConnectError::failed);
        Ok(Some(Members {
            announce: prepare("INSERT INTO member (list, name, about) VALUES (?, ?, ?) USING TTL ?").await?,
            withdraw: prepare("DELETE FROM member WHERE list = ? AND name = ?").await?,
            list: prepare("SELECT name, about FROM member WHERE list = ?").await?,
            core: self.core.clone(),
        }))
    }
}

impl Members {
    /// Puts a server on the list for a few seconds.
    pub async fn announce(&self, server: &Listed) -> Result<(), EngineError> {
        let values = (LIST, &server.name, &server.about, LISTED_SECONDS);
        let announced = self.core.store.session.execute_unpaged(&self.announce, values).await;
        announced.map(|_| ()).map_err(failed)
    }

    /// Takes a server off the list.
    pub async fn withdraw(&self, name: &str) -> Result<(), EngineError> {
        let withdrawn = self.core.store.session.execute_unpaged(&self.withdraw, (LIST, name)).await;
        withdrawn.map(|_| ()).map_err(failed)
    }

    /// The servers on the list.
    pub async fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let found = self.core.store.session.execute_unpaged(&self.list, (LIST,)).await;
        let found = found.map_err(failed)?.into_rows_result().map_err(failed)?;
        let rows = found.rows::<(String, Option<String>)>().map_err(failed)?;
        rows.map(|row| {
            let (name, about) = row.map_err(failed)?;
            Ok(Listed { name, about: about.unwrap_or_default() })
        })
        .collect()
    }
}

fn failed<E: Into<Cause>>(error: E) -> EngineError {
    EngineError::Failed { cause: error.into() }
}
