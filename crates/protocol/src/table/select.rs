//! `$select`: which properties a client wants to see. A matter of writing only; the query is the same.

use tavola_model::{Property, StoredEntity};

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

    /// The properties to write: all in stored order, or the chosen ones by name, as the service projects them.
    pub fn chosen<'a>(&self, entity: &'a StoredEntity) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let chosen = self.names.as_ref().map(|_| {
            let mut list: Vec<_> =
                entity.properties.iter().filter(|property| self.wants(property.name)).collect();
            list.sort_by(|left, right| left.name.cmp(right.name));
            list
        });
        let all = chosen.is_none().then(|| entity.properties.iter()).into_iter().flatten();
        chosen.into_iter().flatten().chain(all)
    }

    /// Names asked for that the entity lacks, in the order asked: written as nulls.
    pub fn missing<'a>(&'a self, entity: &'a StoredEntity) -> impl Iterator<Item = &'a str> {
        let names = self.names.iter().flatten().map(String::as_str);
        names.filter(|name| {
            !matches!(*name, "PartitionKey" | "RowKey" | "Timestamp") && entity.properties.get(name).is_none()
        })
    }
}
