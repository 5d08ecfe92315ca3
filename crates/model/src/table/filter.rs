//! A `$filter` as a tree in a list: every node comes after its children, the root is last.
//!
//! The list form lets the planner and the evaluator walk a filter with a loop, so a deeply nested filter
//! costs memory in proportion to its text and never stack.

use crate::{EdmType, EdmValue};

/// Place of a node in its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(usize);

impl NodeId {
    /// Index into [`Filter::nodes`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// A parsed filter; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    nodes: Vec<FilterNode>,
}

/// One step of a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterNode {
    /// Property, operator, literal.
    Compare(Comparison),
    /// Always this value (a literal `true` or `false`).
    Constant(bool),
    /// Both hold.
    And(NodeId, NodeId),
    /// One holds.
    Or(NodeId, NodeId),
    /// The other does not hold.
    Not(NodeId),
}

/// A property compared with a literal. `'x' eq Name` is kept as `Name eq 'x'`, `5 lt Age` as `Age gt 5`.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What is compared.
    pub property: PropertyRef,
    /// How.
    pub operator: Operator,
    literal_type: EdmType,
    /// The literal in its packed form, so that a comparison owns its bytes.
    literal: OwnedLiteral,
}

#[derive(Clone, Debug, PartialEq)]
enum OwnedLiteral {
    Fixed(EdmValue<'static>),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl Comparison {
    /// A comparison that owns a copy of the literal.
    pub fn new(property: PropertyRef, operator: Operator, literal: EdmValue<'_>) -> Self {
        let literal_type = literal.edm_type();
        let literal = match literal {
            EdmValue::Binary(bytes) => OwnedLiteral::Bytes(bytes.into()),
            EdmValue::String(text) => OwnedLiteral::Text(text.into()),
            EdmValue::Boolean(flag) => OwnedLiteral::Fixed(EdmValue::Boolean(flag)),
            EdmValue::DateTime(time) => OwnedLiteral::Fixed(EdmValue::DateTime(time)),
            EdmValue::Double(number) => OwnedLiteral::Fixed(EdmValue::Double(number)),
            EdmValue::Guid(guid) => OwnedLiteral::Fixed(EdmValue::Guid(guid)),
            EdmValue::Int32(number) => OwnedLiteral::Fixed(EdmValue::Int32(number)),
            EdmValue::Int64(number) => OwnedLiteral::Fixed(EdmValue::Int64(number)),
        };
        Self { property, operator, literal_type, literal }
    }

    /// The literal.
    pub fn literal(&self) -> EdmValue<'_> {
        match &self.literal {
            OwnedLiteral::Fixed(value) => *value,
            OwnedLiteral::Text(text) => EdmValue::String(text),
            OwnedLiteral::Bytes(bytes) => EdmValue::Binary(bytes),
        }
    }

    /// The type of the literal.
    pub fn literal_type(&self) -> EdmType {
        self.literal_type
    }
}

/// A property a filter can name. The keys and Timestamp are apart because the planner seeks by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyRef {
    /// The PartitionKey.
    PartitionKey,
    /// The RowKey.
    RowKey,
    /// The Timestamp.
    Timestamp,
    /// Any other.
    Named(Box<str>),
}

impl PropertyRef {
    /// The property of this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "PartitionKey" => Self::PartitionKey,
            "RowKey" => Self::RowKey,
            "Timestamp" => Self::Timestamp,
            other => Self::Named(other.into()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::PartitionKey => "PartitionKey",
            Self::RowKey => "RowKey",
            Self::Timestamp => "Timestamp",
            Self::Named(name) => name,
        }
    }
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the query language")]
pub enum Operator {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Operator {
    /// The operator that says the same with the operands swapped.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Eq => Self::Eq,
            Self::Ne => Self::Ne,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
        }
    }

    /// Does `ordering` of property to literal satisfy the operator?
    pub fn admits(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => ordering.is_eq(),
            Self::Ne => ordering.is_ne(),
            Self::Gt => ordering.is_gt(),
            Self::Ge => ordering.is_ge(),
            Self::Lt => ordering.is_lt(),
            Self::Le => ordering.is_le(),
        }
    }

    /// Its word in the query language.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Gt => "gt",
            Self::Ge => "ge",
            Self::Lt => "lt",
            Self::Le => "le",
        }
    }
}

impl Filter {
    /// The nodes, children before parents; the last is the root.
    pub fn nodes(&self) -> &[FilterNode] {
        &self.nodes
    }
}

/// Builds a filter from the leaves up.
#[derive(Debug, Default)]
pub struct FilterBuilder {
    nodes: Vec<FilterNode>,
}

impl FilterBuilder {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node whose children were added before.
    pub fn add(&mut self, node: FilterNode) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    /// The filter whose root is the node added last.
    pub fn finish(self) -> Filter {
        assert!(!self.nodes.is_empty(), "a filter has at least one node");
        Filter { nodes: self.nodes }
    }
}
