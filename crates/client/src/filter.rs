//! Filters and projections, checked by the compiler.
//!
//! `#[derive(Entity)]` makes a struct with one [`Prop`] a property; a closure over it gives a [`Filter`] of that entity
//! type. Names cannot be misspelled, a value of another type does not compile, and no text of a caller can become part
//! of the query: literals are written by the query language's own writer, from a tree.
//!
//! Parts of the key are not in the struct. They are not stored as properties, so a filter on one would match nothing.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, Not};

use tavola_model::{Comparison, FilterBuilder, FilterNode, Operator, PropertyRef};

use crate::edm::{EdmValue, IntoLiteral, Property};
use crate::error::MapError;
use crate::key::successor;
use crate::source::Source;

/// A property of the entity type `E`, whose field is a `T`.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// let age = Employee::PROPERTIES.age;
/// assert_eq!((age.name(), age.lt(30).to_string().as_str()), ("age", "age lt 30"));
/// ```
pub struct Prop<E, T> {
    name: &'static str,
    types: PhantomData<fn() -> (E, T)>,
}

/// A property that is kept as JSON text: it can be read and set whole, not compared.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// use tavola_client::Changes;
/// let changes = Changes::<Employee>::new().set(|e| e.tags, vec![1]);
/// assert_eq!(changes.to_values().len(), 1);
/// ```
pub struct JsonProp<E, T> {
    name: &'static str,
    types: PhantomData<fn() -> (E, T)>,
}

/// An encrypted property: the service sees only bytes, so it can be neither compared nor merged.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// assert_eq!(Employee::PROPERTIES.pay.name(), "pay");
/// ```
pub struct Secret<E, T> {
    name: &'static str,
    types: PhantomData<fn() -> (E, T)>,
}

macro_rules! property_kinds {
    ($($kind:ident),*) => {$(
        impl<E, T> $kind<E, T> {
            /// For the derive macro.
            #[doc(hidden)]
            pub const fn new(name: &'static str) -> Self {
                Self { name, types: PhantomData }
            }

            /// Its name on the wire.
            ///
            /// ```
            /// # #[derive(Clone, tavola_client::Entity)]
            /// # #[entity(partition = "{a}", row = "r")]
            /// # struct One { a: String, age: i32 }
            /// use tavola_client::Entity;
            /// assert_eq!(One::PROPERTIES.age.name(), "age");
            /// ```
            pub fn name(self) -> &'static str {
                self.name
            }
        }
        impl<E, T> Clone for $kind<E, T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<E, T> Copy for $kind<E, T> {}
        impl<E, T> fmt::Debug for $kind<E, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($kind), "({})"), self.name)
            }
        }
    )*};
}
property_kinds!(Prop, JsonProp, Secret);

/// The six comparisons. A property that an entity does not have satisfies none of them.
#[allow(clippy::should_implement_trait, reason = "the words of the query language")]
impl<E, T: Property> Prop<E, T> {
    /// Equal.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.eq(30).to_string(), "age eq 30");
    /// ```
    pub fn eq(self, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        self.compare(Operator::Eq, literal)
    }
    /// Not equal.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.ne(30).to_string(), "age ne 30");
    /// ```
    pub fn ne(self, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        self.compare(Operator::Ne, literal)
    }
    /// Greater.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.gt(30).to_string(), "age gt 30");
    /// ```
    pub fn gt(self, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        self.compare(Operator::Gt, literal)
    }
    /// Greater or equal.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.ge(30).to_string(), "age ge 30");
    /// ```
    pub fn ge(self, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        self.compare(Operator::Ge, literal)
    }
    /// Less.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.lt(30).to_string(), "age lt 30");
    /// ```
    pub fn lt(self, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        self.compare(Operator::Lt, literal)
    }
    /// Less or equal.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.le(30).to_string(), "age le 30");
    /// ```
    pub fn le(self, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        self.compare(Operator::Le, literal)
    }

    fn compare(self, operator: Operator, literal: impl IntoLiteral<T::Literal>) -> Filter<E> {
        Filter::compare(self.name, operator, &literal.into_literal())
    }
}

impl<E, T: Property<Literal = String>> Prop<E, T> {
    /// The text begins with this prefix, as a range of two comparisons: the service has no such function.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// let filter = Employee::PROPERTIES.name.starts_with("Ha");
    /// assert_eq!(filter.to_string(), "name ge 'Ha' and name lt 'Hb'");
    /// ```
    pub fn starts_with(self, prefix: &str) -> Filter<E> {
        let from = self.ge(prefix);
        match successor(prefix) {
            Some(end) => from & self.lt(end),
            None => from,
        }
    }
}

/// Never: it exists for its message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an encrypted or JSON property cannot be compared in a filter",
    label = "the service does not see this value",
    note = "the service holds ciphertext or JSON text; read the entities and compare in the client, or keep what you search by in a property of its own"
)]
pub trait Comparable {}

macro_rules! incomparable {
    ($($kind:ident),*) => {$(
        /// Comparisons that do not compile, so that the compiler says why.
        #[doc(hidden)]
        #[allow(clippy::should_implement_trait, reason = "the words of the query language")]
        impl<E, T> $kind<E, T> {
            pub fn eq<V>(self, _: V) -> Filter<E> where Self: Comparable {
                unreachable!("no property of this kind is comparable")
            }
            pub fn ne<V>(self, literal: V) -> Filter<E> where Self: Comparable {
                self.eq(literal)
            }
            pub fn gt<V>(self, literal: V) -> Filter<E> where Self: Comparable {
                self.eq(literal)
            }
            pub fn ge<V>(self, literal: V) -> Filter<E> where Self: Comparable {
                self.eq(literal)
            }
            pub fn lt<V>(self, literal: V) -> Filter<E> where Self: Comparable {
                self.eq(literal)
            }
            pub fn le<V>(self, literal: V) -> Filter<E> where Self: Comparable {
                self.eq(literal)
            }
        }
    )*};
}
incomparable!(JsonProp, Secret);

/// A property that a merge can set to a `V`.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// use tavola_client::filter::Assign;
/// let (name, value) = Employee::PROPERTIES.age.assign(35);
/// assert_eq!((name, value.as_i64()), ("age", Some(35)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be set to `{V}` by a merge",
    label = "not a value that a merge can set here",
    note = "an encrypted property is written with its whole entity: read it, change it and save it",
    note = "`None` cannot be merged, because the service ignores nulls: read the entity, set the field to `None` and save it"
)]
pub trait Assign<E, V> {
    /// Name and value.
    fn assign(self, value: V) -> (&'static str, EdmValue);
}

impl<E, T: Property, V: IntoLiteral<T::Literal>> Assign<E, V> for Prop<E, T> {
    fn assign(self, value: V) -> (&'static str, EdmValue) {
        (self.name, value.into_literal())
    }
}

impl<E, T: serde::Serialize> Assign<E, T> for JsonProp<E, T> {
    fn assign(self, value: T) -> (&'static str, EdmValue) {
        (self.name, EdmValue::String(serde_json::to_string(&value).unwrap_or_default()))
    }
}

/// A `$filter` over entities of type `E`: a value that can be combined and looked at.
///
/// ```
/// use tavola_client::Entity;
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "{id:06}", rename_all = "PascalCase")]
/// struct Employee {
///     department: String,
///     id: u32,
///     age: i64,
///     last_name: String,
/// }
///
/// let e = Employee::PROPERTIES;
/// let filter = e.age.ge(30) & !(e.last_name.eq("O'Hara") | e.last_name.starts_with("A"));
/// assert_eq!(
///     filter.to_string(),
///     "Age ge 30L and not (LastName eq 'O''Hara' or LastName ge 'A' and LastName lt 'B')"
/// );
/// ```
pub struct Filter<E> {
    /// Operands before their operator; never empty.
    steps: Vec<Step>,
    entity: PhantomData<fn() -> E>,
}

#[derive(Clone, Debug)]
enum Step {
    Compare(Comparison),
    And,
    Or,
    Not,
}

impl<E> Filter<E> {
    /// A comparison of a property by name. Prefer the typed ones; `filter!` is made of this.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, EdmValue, Filter, Operator};
    /// let filter = Filter::<DynamicEntity>::compare("Age", Operator::Ge, &EdmValue::Int32(30));
    /// assert_eq!(filter.to_string(), "Age ge 30");
    /// ```
    pub fn compare(property: &str, operator: Operator, literal: &EdmValue) -> Self {
        let comparison = Comparison::new(PropertyRef::from_name(property), operator, literal.borrow());
        Self { steps: vec![Step::Compare(comparison)], entity: PhantomData }
    }

    /// Both hold; also `&`.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// let e = Employee::PROPERTIES;
    /// assert_eq!(e.age.ge(1).and(e.age.le(9)).to_string(), "age ge 1 and age le 9");
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.join(other, Step::And)
    }

    /// One holds; also `|`.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// let e = Employee::PROPERTIES;
    /// assert_eq!(e.age.lt(1).or(e.age.gt(9)).to_string(), "age lt 1 or age gt 9");
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.join(other, Step::Or)
    }

    fn join(mut self, other: Self, step: Step) -> Self {
        self.steps.extend(other.steps);
        self.steps.push(step);
        self
    }

    /// The tree that the service's own parser makes of the text.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(Employee::PROPERTIES.age.ge(1).to_tree().nodes().len(), 1);
    /// ```
    pub fn to_tree(&self) -> tavola_model::Filter {
        let mut builder = FilterBuilder::new();
        let mut operands = Vec::new();
        for step in &self.steps {
            let mut pop = || operands.pop().expect("operands come before their operator");
            let node = match step {
                Step::Compare(comparison) => FilterNode::Compare(comparison.clone()),
                Step::Not => FilterNode::Not(pop()),
                Step::And | Step::Or => {
                    let (right, left) = (pop(), pop());
                    if matches!(step, Step::And) {
                        FilterNode::And(left, right)
                    } else {
                        FilterNode::Or(left, right)
                    }
                }
            };
            operands.push(builder.add(node));
        }
        builder.finish()
    }

    /// The same filter, of another entity type. For queries over several types.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// use tavola_client::{DynamicEntity, Filter};
    /// let filter: Filter<DynamicEntity> = Employee::PROPERTIES.age.ge(1).cast();
    /// assert_eq!(filter.to_string(), "age ge 1");
    /// ```
    #[must_use]
    pub fn cast<F>(self) -> Filter<F> {
        Filter { steps: self.steps, entity: PhantomData }
    }
}

/// The text that is sent.
impl<E> fmt::Display for Filter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&tavola_odata::write_filter(&self.to_tree()))
    }
}

impl<E> fmt::Debug for Filter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({self})")
    }
}

impl<E> Clone for Filter<E> {
    fn clone(&self) -> Self {
        Self { steps: self.steps.clone(), entity: PhantomData }
    }
}

impl<E> BitAnd for Filter<E> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.and(other)
    }
}

impl<E> BitOr for Filter<E> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl<E> Not for Filter<E> {
    type Output = Self;
    fn not(mut self) -> Self {
        self.steps.push(Step::Not);
        self
    }
}

/// One property or a tuple of them: what `select` asks for, and what it gives.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// use tavola_client::filter::Columns;
/// let e = Employee::PROPERTIES;
/// let mut names = Vec::new();
/// (e.age, e.name).push_names(&mut names);
/// assert_eq!(names, ["age", "name"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection of `{E}`",
    label = "expected a property of `{E}`, or a tuple of up to twelve",
    note = "an encrypted property cannot be selected: read the whole entity"
)]
pub trait Columns<E>: Copy + Send + Sync + 'static {
    /// What one entity gives.
    type Out: Send + 'static;

    /// Appends the names to ask for.
    fn push_names(&self, names: &mut Vec<&'static str>);

    /// Reads one entity.
    fn read(&self, source: &Source<'_>) -> Result<Self::Out, MapError>;
}

impl<E: 'static, T: Property + Send + 'static> Columns<E> for Prop<E, T> {
    type Out = T;
    fn push_names(&self, names: &mut Vec<&'static str>) {
        names.push(self.name);
    }
    fn read(&self, source: &Source<'_>) -> Result<T, MapError> {
        source.property(self.name)
    }
}

impl<E: 'static, T: serde::de::DeserializeOwned + Send + 'static> Columns<E> for JsonProp<E, T> {
    type Out = T;
    fn push_names(&self, names: &mut Vec<&'static str>) {
        names.push(self.name);
    }
    fn read(&self, source: &Source<'_>) -> Result<T, MapError> {
        source.json(self.name)
    }
}

macro_rules! tuples {
    ($($($column:ident . $index:tt),+;)*) => {$(
        impl<E: 'static, $($column: Columns<E>),+> Columns<E> for ($($column,)+) {
            type Out = ($($column::Out,)+);
            fn push_names(&self, names: &mut Vec<&'static str>) {
                $(self.$index.push_names(names);)+
            }
            fn read(&self, source: &Source<'_>) -> Result<Self::Out, MapError> {
                Ok(($(self.$index.read(source)?,)+))
            }
        }
    )*};
}
tuples! {
    A.0;
    A.0, B.1;
    A.0, B.1, C.2;
    A.0, B.1, C.2, D.3;
    A.0, B.1, C.2, D.3, F.4;
    A.0, B.1, C.2, D.3, F.4, G.5;
    A.0, B.1, C.2, D.3, F.4, G.5, H.6;
    A.0, B.1, C.2, D.3, F.4, G.5, H.6, I.7;
    A.0, B.1, C.2, D.3, F.4, G.5, H.6, I.7, J.8;
    A.0, B.1, C.2, D.3, F.4, G.5, H.6, I.7, J.8, K.9;
    A.0, B.1, C.2, D.3, F.4, G.5, H.6, I.7, J.8, K.9, L.10;
    A.0, B.1, C.2, D.3, F.4, G.5, H.6, I.7, J.8, K.9, L.10, M.11;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::{DateTime, Guid};
    use proptest::prelude::*;

    struct Any;

    fn literal() -> impl Strategy<Value = EdmValue> {
        prop_oneof![
            "[a-b' é\u{1F600}%]{0,6}".prop_map(EdmValue::String),
            prop::collection::vec(any::<u8>(), 0..5).prop_map(EdmValue::Binary),
            any::<bool>().prop_map(EdmValue::Boolean),
            (0..=DateTime::MAX.ticks())
                .prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap())),
            any::<f64>().prop_filter("equals nothing", |number| !number.is_nan()).prop_map(EdmValue::Double),
            any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid(bytes))),
            any::<i32>().prop_map(EdmValue::Int32),
            any::<i64>().prop_map(EdmValue::Int64),
        ]
    }

    fn filter() -> impl Strategy<Value = Filter<Any>> {
        use Operator::{Eq, Ge, Gt, Le, Lt, Ne};
        let name =
            prop_oneof!["[A-Z][a-z0-9_]{0,5}", Just("PartitionKey".to_owned()), Just("RowKey".to_owned())];
        let operator = prop::sample::select(vec![Eq, Ne, Gt, Ge, Lt, Le]);
        let leaf = (name, operator, literal())
            .prop_map(|(name, operator, literal)| Filter::compare(&name, operator, &literal));
        leaf.prop_recursive(5, 24, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(left, right)| left & right),
                (inner.clone(), inner.clone()).prop_map(|(left, right)| left | right),
                inner.prop_map(|inner| !inner),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_text_parses_back_to_the_same_tree(filter in filter()) {
            let parsed = tavola_odata::parse_filter(&filter.to_string()).unwrap().unwrap();
            prop_assert_eq!(shape(&parsed), shape(&filter.to_tree()), "{}", filter);
        }
    }

    /// A tree without the numbers of its nodes, which depend on the order in which they were made.
    fn shape(filter: &tavola_model::Filter) -> String {
        let mut shapes: Vec<String> = Vec::new();
        for node in filter.nodes() {
            let shape = match node {
                FilterNode::Compare(comparison) => format!("{comparison:?}"),
                FilterNode::Constant(flag) => format!("{flag}"),
                FilterNode::And(left, right) => {
                    format!("and({}, {})", shapes[left.index()], shapes[right.index()])
                }
                FilterNode::Or(left, right) => {
                    format!("or({}, {})", shapes[left.index()], shapes[right.index()])
                }
                FilterNode::Not(inner) => format!("not({})", shapes[inner.index()]),
            };
            shapes.push(shape);
        }
        shapes.pop().unwrap()
    }

    #[test]
    fn text_of_a_caller_stays_a_literal() {
        let name: Prop<Any, String> = Prop::new("Name");
        let filter = name.eq("x' or '1' eq '1");
        assert_eq!(filter.to_string(), "Name eq 'x'' or ''1'' eq ''1'");
    }

    #[test]
    fn a_prefix_is_a_range() {
        let name: Prop<Any, Option<String>> = Prop::new("Name");
        assert_eq!(name.starts_with("ab").to_string(), "Name ge 'ab' and Name lt 'ac'");
        assert_eq!(name.starts_with("").to_string(), "Name ge ''");
    }
}
