//! Lists of keys in blobs: the third location of index entities, for lists that are too large for an entity.
//!
//! A list is one block blob, a JSON array of both keys of each member. It is rewritten whole under its tag, so writers of
//! one value wait for each other; the settle engine makes it what its entities say after any crash.

use std::collections::BTreeSet;

use super::list_entity::List;
use crate::blob::ContainerClient;
use crate::entities::{CHANGED_TRIES_MAX, pause};
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::options::WriteOptions;

/// Bytes of a list: it is read and written whole.
const LIST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What the names of lists end with, so that no value makes a name that a service cannot hold.
const END: &str = "/list.json";

/// The blob of a list whose key begins so.
fn blob_name(key: &EntityKey) -> String {
    format!("{}{END}", key.partition)
}

/// Reads a list; one without members where there is no blob.
pub(super) async fn read_blob_list(container: &ContainerClient, key: EntityKey) -> Result<List> {
    let (etag, members) = match container.get_tagged(&blob_name(&key)).await? {
        Some((content, etag)) => {
            let pairs: Vec<(String, String)> = serde_json::from_slice(&content)
                .map_err(|_| Error::Unreadable("a list of keys is damaged".to_owned()))?;
            let members = pairs.into_iter().map(|(partition, row)| EntityKey { partition, row });
            (Some(etag), members.collect())
        }
        None => (None, BTreeSet::new()),
    };
    Ok(List { key, etag, members })
}

/// Every list of a container whose key begins with `prefix`.
pub(super) async fn read_blob_lists(
    container: &ContainerClient,
    prefix: &str,
    row: &str,
) -> Result<Vec<List>> {
    let mut lists = Vec::new();
    for name in container.list(prefix).await? {
        let Some(partition) = name.strip_suffix(END) else { continue };
        let key = EntityKey { partition: partition.to_owned(), row: row.to_owned() };
        lists.push(read_blob_list(container, key).await?);
    }
    Ok(lists)
}

/// Makes an entity be a member of a list, or not, whatever it was. A list without members goes away.
pub(super) async fn set_blob_member(
    container: &ContainerClient,
    key: &EntityKey,
    member: &EntityKey,
    is_wanted: bool,
    options: &WriteOptions,
) -> Result<()> {
    let name = blob_name(key);
    for attempt in 1..=CHANGED_TRIES_MAX {
        let mut list = read_blob_list(container, key.clone()).await?;
        let changed =
            if is_wanted { list.members.insert(member.clone()) } else { list.members.remove(member) };
        if !changed {
            return Ok(());
        }
        let written = match (&list.etag, list.members.is_empty()) {
            (Some(etag), true) => container.delete_tagged(&name, etag, options.deadline).await,
            (etag, _) => container.put_tagged(&name, pack(&list)?, etag.as_deref(), options.deadline).await,
        };
        match written {
            // Another changed it; or our own write took effect and its answer was lost, which the next look shows.
            Err(Error::Changed) => pause(attempt).await,
            told => return told,
        }
    }
    Err(Error::Changed)
}

fn pack(list: &List) -> Result<Vec<u8>> {
    let pairs: Vec<_> = list.members.iter().map(|member| (&member.partition, &member.row)).collect();
    let content = serde_json::to_vec(&pairs).map_err(|error| Error::Step(error.to_string()))?;
    if content.len() > LIST_BYTES_MAX {
        return Err(Error::Limit(
            "a list of keys in a blob has at most 16 MiB: use an index with one entity for each member",
        ));
    }
    Ok(content)
}
