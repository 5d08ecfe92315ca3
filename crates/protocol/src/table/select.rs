//! `$select`: which properties a client wants to see. A matter of writing only; the query is the same.

use tavola_model::{StoredEntity, StoredProperty};

/// The names asked for and the text they were asked with, which the context URL repeats.
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// `None` for all; no name twice.
    pub names: Option<Vec<String>>,
    /// The text of the option, if it was given.
    pub text: Option<String>,
}

impl Select {
    /// Whether a property is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|wanted| wanted == name))
    }

    /// Gives the properties to write: all in stored order, or the chosen ones by name, as the service projects them.
    pub fn each_chosen<'a>(&self, entity: &'a StoredEntity, mut write: impl FnMut(StoredProperty<'a>)) {
        let Some(names) = &self.names else { return entity.properties.stored().for_each(write) };
        let is_wanted =
            |property: &StoredProperty<'_>| names.iter().any(|name| name.as_bytes() == property.name);
        let mut chosen: Vec<_> = entity.properties.stored().filter(is_wanted).collect();
        chosen.sort_by_key(|property| property.name);
        chosen.into_iter().for_each(&mut write);
    }

    /// Names asked for that the entity lacks, in the order asked: written as nulls.
    pub fn missing<'a>(&'a self, entity: &'a StoredEntity) -> impl Iterator<Item = &'a str> {
        let names = self.names.iter().flatten().map(String::as_str);
        names.filter(|name| {
            !matches!(*name, "PartitionKey" | "RowKey" | "Timestamp") && entity.properties.get(name).is_none()
        })
    }
}
