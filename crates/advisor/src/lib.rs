//! What the recorded traffic says about the design of a table.
//!
//! [`Traffic`] and [`HeatMap`] take the access records in. [`findings`] reads the traffic by the rules of the table
//! design guide, [`cost`] prices it, [`HeatMap::view`] draws it.
//!
//! The rule: whatever is kept is bounded, whoever sends the requests; and a workload that follows the guide gives no
//! finding.

pub mod sketch;
#[cfg(test)]
mod testing;

mod cost;
mod facts;
mod finding;
mod findings;
mod heat;
mod shape;
mod table_size;
mod template;
mod traffic;
mod whatif;

pub use cost::{CostReport, PRICES_FILE, PriceTable, ShapeCost, TableCost, cost};
pub use facts::{SampleEntity, TableFact, TableFacts, gather};
pub use finding::{Example, Finding, Gain, GainKind, KeyPart, KeySample, Pattern, Proposal, Rule, Severity};
pub use findings::{findings, findings_priced, shown, shown_bytes};
pub use heat::{
    HeatCell, HeatColumn, HeatKey, HeatMap, HeatMark, HeatMetric, HeatPoint, HeatQuery, HeatRow, HeatView,
    MarkKind,
};
pub use shape::Shape;
pub use template::{Template, TemplateError};
pub use traffic::{
    Figures, PlanMix, QueueFigures, Second, Span, Summary, TableFigures, Traffic, TrafficSettings,
};
pub use whatif::{
    KeyProblem, PartitionShare, ShapeChange, Side, Sources, WhatIf, WhatIfError, WhatIfReport, what_if,
};
