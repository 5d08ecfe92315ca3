//! What `#[entity(...)]` says, on a struct and on its fields.

use syn3::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Type, spanned::Spanned};

/// A struct and its attributes.
pub struct EntityStruct<'a> {
    pub input: &'a DeriveInput,
    pub partition: LitStr,
    pub row: LitStr,
    pub entity_type: Option<LitStr>,
    pub stamped: bool,
    pub indexes: Vec<Index>,
    pub fields: Vec<Field<'a>>,
}

/// A field that is stored, or skipped.
pub struct Field<'a> {
    pub ident: &'a Ident,
    pub ty: &'a Type,
    /// Its name on the wire.
    pub wire: String,
    pub json: bool,
    pub encrypt: bool,
    pub default: bool,
    pub skip: bool,
}

/// A secondary index.
pub struct Index {
    pub name: Ident,
    pub unique: bool,
    pub table: Option<LitStr>,
    pub partition: Option<LitStr>,
    pub row: LitStr,
}

/// How names of fields become names on the wire.
#[derive(Clone, Copy, Default)]
pub enum Case {
    #[default]
    AsIs,
    Pascal,
    Camel,
    Snake,
}

impl Case {
    pub fn parse(text: &LitStr) -> Result<Self> {
        match text.value().as_str() {
            "PascalCase" => Ok(Self::Pascal),
            "camelCase" => Ok(Self::Camel),
            "snake_case" => Ok(Self::Snake),
            _ => Err(Error::new(text.span(), "expected \"PascalCase\", \"camelCase\" or \"snake_case\"")),
        }
    }

    /// The name of a field (`first_name`) or of a variant (`FirstName`).
    pub fn apply(self, name: &str) -> String {
        let mut words: Vec<String> = Vec::new();
        for word in name.split('_').filter(|word| !word.is_empty()) {
            let mut current = String::new();
            for character in word.chars() {
                if character.is_uppercase() && current.chars().next_back().is_some_and(char::is_lowercase) {
                    words.push(std::mem::take(&mut current));
                }
                current.push(character);
            }
            words.push(current);
        }
        let lower = |word: &String| word.to_lowercase();
        match self {
            Self::AsIs => name.to_owned(),
            Self::Pascal => words.iter().map(|word| capitalized(word)).collect(),
            Self::Camel => {
                let (first, rest) =
                    words.split_first().map_or((String::new(), &[][..]), |(f, r)| (lower(f), r));
                first + &rest.iter().map(|word| capitalized(word)).collect::<String>()
            }
            Self::Snake => words.iter().map(lower).collect::<Vec<_>>().join("_"),
        }
    }
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.collect::<String>() + &characters.as_str().to_lowercase()
}

/// Names that every entity has, and that no field can take.
const SERVICE_NAMES: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// So many properties has an entity at most.
const FIELDS_MAX: usize = tavola_model::ENTITY_PROPERTIES_MAX;

/// Reads the struct and refuses what cannot be an entity.
pub fn read(input: &DeriveInput) -> Result<EntityStruct<'_>> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(name.span(), "an entity is a struct; an enum of entities is an `EntitySet`"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new(name.span(), "an entity has named fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "an entity has no parameters"));
    }
    let (mut partition, mut row, mut entity_type) = (None, None, None);
    let (mut case, mut stamped, mut indexes) = (Case::default(), false, Vec::new());
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("entity")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("partition") {
                partition = Some(meta.value()?.parse::<LitStr>()?);
            } else if meta.path.is_ident("row") {
                row = Some(meta.value()?.parse::<LitStr>()?);
            } else if meta.path.is_ident("entity_type") {
                entity_type = Some(meta.value()?.parse::<LitStr>()?);
            } else if meta.path.is_ident("rename_all") {
                case = Case::parse(&meta.value()?.parse::<LitStr>()?)?;
            } else if meta.path.is_ident("stamp") {
                stamped = true;
            } else if meta.path.is_ident("index") {
                indexes.push(read_index(&meta)?);
            } else {
                return Err(meta.error("expected partition, row, entity_type, rename_all, stamp or index"));
            }
            Ok(())
        })?;
    }
    let mut fields = Vec::new();
    for field in &named.named {
        let ident =
            field.ident.as_ref().ok_or_else(|| Error::new(field.span(), "an entity has named fields"))?;
        fields.push(read_field(field, ident, case)?);
    }
    check_names(&fields, entity_type.is_some(), stamped)?;
    let missing = |what: &str| Error::new(name.span(), format!("`#[entity({what} = \"...\")]` is missing"));
    Ok(EntityStruct {
        input,
        partition: partition.ok_or_else(|| missing("partition"))?,
        row: row.ok_or_else(|| missing("row"))?,
        entity_type,
        stamped,
        indexes,
        fields,
    })
}

fn read_index(meta: &syn3::meta::ParseNestedMeta<'_>) -> Result<Index> {
    let (mut name, mut unique, mut table, mut partition, mut row) = (None, false, None, None, None);
    meta.parse_nested_meta(|meta| {
        if meta.path.is_ident("unique") {
            unique = true;
        } else if meta.path.is_ident("table") {
            table = Some(meta.value()?.parse::<LitStr>()?);
        } else if meta.path.is_ident("partition") {
            partition = Some(meta.value()?.parse::<LitStr>()?);
        } else if meta.path.is_ident("row") {
            row = Some(meta.value()?.parse::<LitStr>()?);
        } else if let (Some(ident), None) = (meta.path.get_ident(), &name) {
            name = Some(ident.clone());
        } else {
            return Err(meta.error("expected unique, table, partition or row"));
        }
        Ok(())
    })?;
    let name = name.ok_or_else(|| meta.error("an index needs a name"))?;
    let row = row.ok_or_else(|| meta.error("an index needs a template: `row = \"...\"`"))?;
    if table.is_some() && partition.is_none() {
        return Err(Error::new(
            name.span(),
            "an index in another table needs a template: `partition = \"...\"`",
        ));
    }
    if let Some(table) = &table
        && tavola_model::TableName::parse(&table.value()).is_err()
    {
        return Err(Error::new(table.span(), "no table can have this name"));
    }
    Ok(Index { name, unique, table, partition, row })
}

fn read_field<'a>(field: &'a syn3::Field, ident: &'a Ident, case: Case) -> Result<Field<'a>> {
    let text = ident.to_string();
    let wire = case.apply(text.strip_prefix("r#").unwrap_or(&text));
    let mut parsed =
        Field { ident, ty: &field.ty, wire, json: false, encrypt: false, default: false, skip: false };
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("entity")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("rename") {
                parsed.wire = meta.value()?.parse::<LitStr>()?.value();
            } else if meta.path.is_ident("json") {
                parsed.json = true;
            } else if meta.path.is_ident("encrypt") {
                parsed.encrypt = true;
            } else if meta.path.is_ident("default") {
                parsed.default = true;
            } else if meta.path.is_ident("skip") {
                parsed.skip = true;
            } else {
                return Err(meta.error("expected rename, json, encrypt, default or skip"));
            }
            Ok(())
        })?;
    }
    if parsed.default && (parsed.json || parsed.encrypt) {
        return Err(Error::new(
            ident.span(),
            "`default` is for plain properties: make the field an `Option`",
        ));
    }
    Ok(parsed)
}

fn check_names(fields: &[Field<'_>], has_entity_type: bool, stamped: bool) -> Result<()> {
    let stored: Vec<&Field<'_>> = fields.iter().filter(|field| !field.skip).collect();
    for (index, field) in stored.iter().enumerate() {
        let wire = field.wire.as_str();
        let wrong = |message: String| Err(Error::new(field.ident.span(), message));
        if SERVICE_NAMES.contains(&wire) {
            return wrong(format!("every entity has a `{wire}` of its own: rename the field"));
        }
        if has_entity_type && wire == "EntityType" {
            return wrong("`EntityType` holds the `entity_type` of the struct: rename the field".into());
        }
        if stamped && wire == "WriteStamp" {
            return wrong("`WriteStamp` holds the `stamp` of each write: rename the field".into());
        }
        if tavola_model::validate_property_name(wire).is_err() {
            return wrong(format!("no property can have the name `{wire}`"));
        }
        if stored[..index].iter().any(|other| other.wire == wire) {
            return wrong(format!("two fields have the name `{wire}` on the wire"));
        }
    }
    if let Some(field) = stored.get(FIELDS_MAX) {
        return Err(Error::new(field.ident.span(), format!("an entity has at most {FIELDS_MAX} properties")));
    }
    Ok(())
}

/// The type inside an `Option`, as it is written.
pub fn strip_option(ty: &Type) -> Option<&Type> {
    let segment = last_segment(ty).filter(|segment| segment.ident == "Option")?;
    let syn3::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first() {
        Some(syn3::GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

/// Whether a type is written with one of these names.
pub fn is_named(ty: &Type, names: &[&str]) -> bool {
    last_segment(ty).is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

fn last_segment(ty: &Type) -> Option<&syn3::PathSegment> {
    if let Type::Path(path) = ty { path.path.segments.last() } else { None }
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn names_follow_the_case() {
        assert_eq!(Case::Pascal.apply("first_name"), "FirstName");
        assert_eq!(Case::Camel.apply("first_name"), "firstName");
        assert_eq!(Case::Snake.apply("FirstName"), "first_name");
        assert_eq!(Case::Pascal.apply("OnLeave"), "OnLeave");
        assert_eq!(Case::AsIs.apply("first_name"), "first_name");
    }
}
