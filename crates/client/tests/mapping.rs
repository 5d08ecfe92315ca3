//! What the macros make of a type: keys, properties, filters, sets of types.
#![allow(clippy::unwrap_used, reason = "a test")]

use tavola_client::{
    Changes, DateTime, DynamicEntity, EdmRef, EdmValue, Entity, EntitySet, Error, Guid, KeyError, KeyParts,
    MapError, Property, Readable, Save, Stored, Values, Writable, filter,
};

#[derive(Clone, Debug, PartialEq, Property)]
enum Grade {
    Junior,
    #[property(rename = "Snr")]
    Senior,
    #[property(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    partition = "{department}",
    row = "empid_{id:06}",
    rename_all = "PascalCase",
    entity_type = "Employee"
)]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    #[entity(rename = "Surname")]
    last_name: String,
    age: i64,
    born: Option<DateTime>,
    email: Option<String>,
    grade: Option<Grade>,
    #[entity(json)]
    skills: Vec<String>,
    #[entity(json)]
    address: Option<(String, u16)>,
    #[entity(default)]
    visits: i32,
    #[entity(skip)]
    cached: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{employee}", row = "{at:desc}_{claim:esc}")]
struct Expense {
    employee: String,
    at: DateTime,
    claim: String,
    amount: f64,
    receipt: Option<Guid>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "Department", entity_type = "Department@2")]
struct Department {
    name: String,
    employee_count: i32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "note_{number:03}")]
struct Note {
    name: String,
    number: u8,
    text: String,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Row {
    Employee(Employee),
    Department(Department),
    #[entity_set(row_prefix = "note_")]
    Note(Note),
    #[entity_set(other)]
    Other(DynamicEntity),
}

#[derive(Debug, PartialEq, EntitySet)]
enum Closed {
    Department(Department),
}

fn don() -> Employee {
    Employee {
        department: "Sales".into(),
        id: 212,
        first_name: "Don".into(),
        last_name: "Hall".into(),
        age: 34,
        born: DateTime::parse("1992-03-04T05:06:07.1234567Z"),
        email: Some("donh@contoso.com".into()),
        grade: Some(Grade::Senior),
        skills: vec!["SQL".into()],
        address: None,
        visits: 0,
        cached: None,
    }
}

fn bag<T: Writable>(entity: &T) -> DynamicEntity {
    DynamicEntity::from_entity(entity).unwrap()
}

fn stored<T: Writable + Readable>(bag: &DynamicEntity) -> Stored<T> {
    let values: Values<'static> = bag.properties.clone().into_iter().collect();
    Stored::new(T::read(&bag.as_source()).unwrap(), "e".into(), None, bag.key.clone(), values.pack().unwrap())
}

#[test]
fn an_entity_reads_back_from_its_key_and_its_properties() {
    let sent = bag(&don());
    assert_eq!(sent.key, ("Sales", "empid_000212").into());
    let names: Vec<&str> = sent.properties.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["Age", "Born", "Email", "EntityType", "FirstName", "Grade", "Skills", "Surname", "Visits"]
    );
    assert_eq!(sent.get("Age"), Some(&EdmValue::Int64(34)));
    assert_eq!(sent.get("Grade"), Some(&EdmValue::from("Snr")));
    assert_eq!(sent.get("Skills"), Some(&EdmValue::from(r#"["SQL"]"#)));
    assert_eq!(Employee::read(&sent.as_source()).unwrap(), don());
}

#[test]
fn a_time_keeps_its_last_tick() {
    let sent = bag(&don());
    assert_eq!(
        sent.get("Born").map(|born| format!("{:?}", born.borrow())),
        Some(format!("{:?}", EdmRef::DateTime(don().born.unwrap())))
    );
    assert_eq!(
        Employee::read(&sent.as_source()).unwrap().born.unwrap().to_string(),
        "1992-03-04T05:06:07.1234567Z"
    );
}

#[test]
fn a_text_that_no_variant_has_goes_to_the_one_for_others() {
    let sent = bag(&don()).with("Grade", "Chief");
    assert_eq!(Employee::read(&sent.as_source()).unwrap().grade, Some(Grade::Other("Chief".into())));
}

#[test]
fn a_missing_property_is_told_by_name_and_a_default_is_not_missed() {
    let mut sent = bag(&don());
    sent.remove("Visits");
    sent.remove("Email");
    assert_eq!(Employee::read(&sent.as_source()).unwrap().visits, 0);
    sent.remove("Surname");
    let error = Employee::read(&sent.as_source()).unwrap_err();
    assert!(matches!(error, MapError::Missing { property: "Surname" }));
    sent.put("Surname", 5);
    let error = Employee::read(&sent.as_source()).unwrap_err();
    assert!(matches!(error, MapError::Type { property: "Surname", found: "Edm.Int32" }));
}

#[test]
fn a_key_of_another_shape_is_refused() {
    let mut sent = bag(&don());
    sent.key.row = "empid_212".into();
    assert!(matches!(
        Employee::read(&sent.as_source()),
        Err(MapError::Key { template: "empid_{id:06}", .. })
    ));
    let mut sent = bag(&Department { name: "Sales".into(), employee_count: 1 });
    sent.key.row = "department".into();
    assert!(matches!(Department::read(&sent.as_source()), Err(MapError::Key { .. })));
}

#[test]
fn a_copy_under_another_key_has_the_parts_as_properties() {
    let mut values = Values::new();
    let don = don();
    don.write(KeyParts::AsProperties, &mut values).unwrap();
    assert_eq!(values.get("Department"), Some(EdmRef::String("Sales")));
    assert_eq!(values.get("Id"), Some(EdmRef::Int64(212)));
    let mut copy = DynamicEntity::new(("name_Hall", "Sales_000212"));
    for (name, value) in values.named() {
        copy.put(name, EdmValue::from(value));
    }
    let source = copy.as_source().with_parts(KeyParts::AsProperties);
    assert_eq!(Employee::read(&source).unwrap(), don);
}

#[test]
fn the_key_of_parts_is_that_of_the_entity() {
    assert_eq!(Employee::key_of(("Sales", 212)).unwrap(), don().key().unwrap());
    assert_eq!(Department::key_of("Sales").unwrap(), ("Sales", "Department").into());
    assert_eq!(Employee::key_of(("Sales", 1_000_000)), Err(KeyError::Width(6)));
    assert_eq!(Employee::key_of(("a/b", 1)), Err(KeyError::Forbidden('/')));
}

#[test]
fn newest_comes_first_and_any_text_fits_an_escaped_part() {
    let expense = |at: &str, claim: &str| Expense {
        employee: "000212".into(),
        at: DateTime::parse(at).unwrap(),
        claim: claim.into(),
        amount: 0.1,
        receipt: Some(Guid([7; 16])),
    };
    let (old, new) = (expense("2026-11-15", "a/b_#^"), expense("2026-11-15T00:00:00.0000001Z", ""));
    assert!(new.key().unwrap().row < old.key().unwrap().row);
    for expense in [old, new] {
        assert_eq!(Expense::read(&bag(&expense).as_source()).unwrap(), expense);
    }
}

#[test]
fn a_set_picks_its_variant_by_type_or_by_row() {
    let note = Note { name: "Sales".into(), number: 7, text: "x".into() };
    let department = Department { name: "Sales".into(), employee_count: 3 };
    let stranger = DynamicEntity::new(("Sales", "x")).with("EntityType", "Department");
    for row in
        [Row::Employee(don()), Row::Department(department), Row::Note(note), Row::Other(stranger.clone())]
    {
        assert_eq!(Row::read(&bag(&row).as_source()).unwrap(), row);
    }
    let error = Closed::read(&stranger.as_source()).unwrap_err();
    assert!(matches!(error, MapError::EntityType { found } if found == "Department"));
}

#[test]
fn a_save_merges_what_differs_and_replaces_only_to_remove() {
    let mut employee: Stored<Employee> = stored(&bag(&don()).with("AddedByOthers", true));
    assert_eq!(employee.plan_save().unwrap(), Save::Nothing);
    employee.age = 35;
    let Save::Merge(sent) = employee.plan_save().unwrap() else { panic!("not a merge") };
    assert_eq!(sent.named(), [("Age", EdmRef::Int64(35))]);
    employee.email = None;
    let save = employee.plan_save().unwrap();
    let Save::Replace(sent) = &save else { panic!("not a replace") };
    assert_eq!(sent.get("AddedByOthers"), Some(EdmRef::Boolean(true)));
    assert_eq!(sent.get("Email"), None);
    assert_eq!(sent.get("Age"), Some(EdmRef::Int64(35)));
    employee.saved(&save, "f".into(), None).unwrap();
    assert_eq!((employee.plan_save().unwrap(), employee.etag.as_str()), (Save::Nothing, "f"));
}

#[test]
fn a_save_of_a_bag_removes_what_is_not_in_it() {
    let mut entity: Stored<DynamicEntity> = stored(&bag(&don()));
    entity.remove("Email");
    assert!(matches!(entity.plan_save().unwrap(), Save::Replace(sent) if sent.get("Email").is_none()));
}

#[test]
fn a_save_cannot_change_the_key() {
    let mut employee: Stored<Employee> = stored(&bag(&don()));
    employee.id = 213;
    assert!(matches!(employee.plan_save(), Err(Error::Limit(_))));
}

#[test]
fn changes_name_what_they_set() {
    let changes = Changes::<Employee>::new()
        .set(|e| e.age, 35)
        .set(|e| e.email, "a@b")
        .set(|e| e.grade, Grade::Junior)
        .set(|e| e.skills, vec!["Rust".to_owned()]);
    assert_eq!(
        changes.to_values().named(),
        [
            ("Age", EdmRef::Int64(35)),
            ("Email", EdmRef::String("a@b")),
            ("Grade", EdmRef::String("Junior")),
            ("Skills", EdmRef::String(r#"["Rust"]"#)),
        ]
    );
}

#[test]
fn filters_use_the_names_of_the_wire_and_the_types_of_the_fields() {
    let e = Employee::PROPERTIES;
    let filter =
        e.last_name.eq("O'Hara") & (e.age.lt(60) | e.grade.ne(Grade::Senior)) & !e.born.ge(DateTime::MIN);
    assert_eq!(
        filter.to_string(),
        "Surname eq 'O''Hara' and (Age lt 60L or Grade ne 'Snr') and not (Born ge datetime'0001-01-01T00:00:00Z')"
    );
    assert_eq!(e.row_key.ge("empid_").to_string(), "RowKey ge 'empid_'");
}

#[test]
fn a_text_filter_takes_values_as_literals() {
    let (age, name) = (30i64, "x' or '1' eq '1");
    let filter =
        filter!("(Age ge {age} or {name} eq Name) and not (Flag eq true) and Mark eq 5 and Pay gt {age + 1}");
    assert_eq!(
        tavola_client::Filter::<DynamicEntity>::to_string(&filter),
        "(Age ge 30L or Name eq 'x'' or ''1'' eq ''1') and not (Flag eq true) and Mark eq 5 and Pay gt 31L"
    );
}
